"""Packs a folder of recordings into shards, and takes batches of crops from them.

python examples/pack_folder.py --source recordings/ --shards shards/

Without a folder of recordings at `--source`, a small one is made there.
"""

import argparse
from pathlib import Path

import numpy as np
import soundfile as sf

import gristmill as gm

RATE_HZ = 32_000


def make_recordings(folder: Path) -> None:
    """Writes recordings of two classes, a subfolder each, and one that is cut off."""
    rng = np.random.default_rng(0)
    for species, pitch_hz in (("wren", 4_000), ("owl", 400)):
        (folder / species).mkdir(parents=True)
        for number in range(8):
            t = np.arange(round(rng.uniform(2, 6) * RATE_HZ)) / RATE_HZ
            song = 0.3 * np.sin(2 * np.pi * pitch_hz * t) + 0.01 * rng.standard_normal(len(t))
            sf.write(folder / species / f"{number}.flac", song, RATE_HZ)
    whole = (folder / "owl" / "0.flac").read_bytes()
    (folder / "owl" / "cut.flac").write_bytes(whole[: len(whole) // 2])


def main() -> None:
    """Packs, and iterates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=Path, default=Path("recordings"))
    parser.add_argument("--shards", type=Path, default=Path("shards"))
    args = parser.parse_args()
    if not args.source.exists():
        make_recordings(args.source)

    report = gm.pack(args.source, args.shards, shard_size="1MB")
    print(report)

    classes = report.features["label"]["names"]
    dataset = gm.ArrowIterDataset(
        args.shards,
        audio=gm.Audio(sample_rate=RATE_HZ, crop=gm.RandomCrop(seconds=1)),
        shuffle=gm.Shuffle(seed=1),
        batch_size=8,
        epochs=1,
    )
    for batch in dataset:
        print(batch["audio"].shape, [classes[label] for label in batch["label"]])


if __name__ == "__main__":
    main()
