"""Shuffle quality by window, as a plot: `python benches/plot_shuffle.py [FILE]`.

200 shards of 500 rows, a class to every ten shards, batches of 64; Gristmill's orders by
`gm.global_order`, Grain's by running its Interleave and WindowShuffle over row numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grain
import numpy as np
import plots

import gristmill as gm

N_SHARDS, ROWS, BATCH, STREAMS, SEED = 200, 500, 64, 16, 1
WINDOWS = [64, 256, 1024, 4096, 16_384]


def score(shard: np.ndarray, row: np.ndarray) -> float:
    labels = shard // 10
    return gm.ShuffleQuality.of(shard, row, batch_rows=BATCH, labels=labels).score


def ours(shuffle: gm.Shuffle) -> float:
    order = gm.global_order([ROWS] * N_SHARDS, shuffle=shuffle)
    return score(order.shard, order.row)


def grains(window: int) -> float:
    shards = grain.MapDataset.range(N_SHARDS).shuffle(seed=SEED)
    sources = shards.map(
        lambda s: grain.MapDataset.range(s * ROWS, (s + 1) * ROWS).to_iter_dataset(
            grain.ReadOptions(num_threads=0)
        )
    )
    mixed = grain.experimental.InterleaveIterDataset(
        sources, cycle_length=STREAMS, iter_buffer_size=64
    )
    ds = grain.experimental.WindowShuffleIterDataset(mixed, window_size=window, seed=SEED)
    rows = np.fromiter(ds, np.int64)
    return score(rows // ROWS, rows % ROWS)


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/shuffle-quality.svg")
    whole = ours(gm.Shuffle(SEED))
    curves = {
        "global": [whole] * len(WINDOWS),
        "windowed": [ours(gm.Shuffle(SEED, window=w, streams=STREAMS)) for w in WINDOWS],
        "Interleave + WindowShuffle": [grains(w) for w in WINDOWS],
    }
    for name, values in curves.items():
        print(name.ljust(28), " ".join(f"{value:.3f}" for value in values))
    plots.curves(target, WINDOWS, curves)


if __name__ == "__main__":
    main()
