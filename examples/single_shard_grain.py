"""One source a shard, mixed by Grain: for pipelines that Grain composes.

    python examples/single_shard_grain.py [--workers N] [SHARD ...]

Without shards it makes a few small ones. See docs/guide.md, "Grain pipelines".
"""

import argparse
import tempfile
from pathlib import Path

import grain
import numpy as np
from absl import flags

import gristmill as gm
from gristmill.tools.demo.data import write_shards
from gristmill.tools.demo.sound import Recipe


def make_source(path: str, rng: np.random.Generator) -> gm.ArrowIterDataset:
    """Opens nothing yet. Each pass over a shard draws crops of its own."""
    seed = int(rng.integers(2**32))
    return gm.ArrowIterDataset(
        path,
        columns=["audio", "label"],
        audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=5, seed=seed)),
        shuffle=gm.Shuffle(seed),
    )


def pipeline(paths: list[str], epochs: int, workers: int) -> grain.IterDataset:
    """Shards in a new order each epoch, four open at a time, rows mixed in a window."""
    ds = grain.MapDataset.source(paths).seed(42).shuffle().repeat(epochs).random_map(make_source)
    ds = grain.experimental.InterleaveIterDataset(ds, cycle_length=4)
    ds = grain.experimental.WindowShuffleIterDataset(ds, window_size=16, seed=1)
    ds = ds.batch(8, drop_remainder=True)
    if workers:
        # Grain 0.2 reads an absl flag in mp_prefetch, which must have been parsed by then.
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()
        ds = ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return ds


def main() -> None:
    """Prints what two epochs hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", nargs="*")
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = args.shards or [
            str(path)
            for path in write_shards(
                Path(folder), n_rows=24, rows_per_shard=4, recipe=Recipe(duration_s=(5, 15))
            )
        ]
        ds = pipeline(paths, epochs=2, workers=args.workers)
        for number, batch in enumerate(ds, start=1):
            print(f"batch {number}: {batch['audio'].shape} {batch['label']}")


if __name__ == "__main__":
    main()
