"""Rows by index, in Grain's MapDataset and DataLoader.

    python examples/random_access.py [--workers N] [SHARD ...]

Without shards it makes a few small ones. See docs/random-access.md.
"""

import argparse
import tempfile
from pathlib import Path

import grain
from absl import flags

import gristmill as gm
from gristmill.tools.demo.data import write_shards
from gristmill.tools.demo.sound import Recipe

AUDIO = gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=5, seed=1))


def map_dataset(source: gm.ArrowDataSource, epochs: int) -> grain.IterDataset:
    """Each epoch with an order and crops of its own."""
    each = [grain.MapDataset.source(source.at_epoch(k)).shuffle(seed=k) for k in range(epochs)]
    ds = grain.MapDataset.concatenate(each).batch(8)
    return ds.to_iter_dataset(grain.ReadOptions(num_threads=16, prefetch_buffer_size=32))


def data_loader(paths: list[str], epochs: int, workers: int) -> grain.DataLoader:
    """Encoded rows, and crops that Grain draws: others in each epoch."""
    source = gm.ArrowDataSource(paths, columns=["audio", "label"], audio=None)
    return grain.DataLoader(
        data_source=source,
        sampler=grain.samplers.IndexSampler(len(source), num_epochs=epochs, shuffle=True, seed=1),
        operations=[gm.DecodeAudio(AUDIO), grain.transforms.Batch(8)],
        worker_count=workers,
    )


def main() -> None:
    """Prints what two epochs of each hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", nargs="*")
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    # Grain 0.2 reads an absl flag where it starts workers, which must have been parsed by then.
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    with tempfile.TemporaryDirectory() as folder:
        paths = args.shards or [
            str(path)
            for path in write_shards(
                Path(folder), n_rows=24, rows_per_shard=4, recipe=Recipe(duration_s=(5, 15))
            )
        ]
        source = gm.ArrowDataSource(paths, columns=["audio", "label"], audio=AUDIO)
        print(f"{len(source)} rows, the last of {source[-1]['audio'].shape}")
        for name, batches in [
            ("MapDataset", map_dataset(source, epochs=2)),
            ("DataLoader", data_loader(paths, epochs=2, workers=args.workers)),
        ]:
            for number, batch in enumerate(batches, start=1):
                print(f"{name} batch {number}: {batch['audio'].shape} {batch['label']}")


if __name__ == "__main__":
    main()
