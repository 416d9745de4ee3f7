"""Shuffle quality by window, as a plot: `python benches/plot_shuffle.py [FILE]`.

200 shards of 500 rows, a class to every ten shards, batches of 64; Gristmill's orders by
`gm.global_order`, Grain's by running its Interleave and WindowShuffle over row numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grain
import numpy as np

import gristmill as gm

N_SHARDS, ROWS, BATCH, STREAMS, SEED = 200, 500, 64, 16, 1
WINDOWS = [64, 256, 1024, 4096, 16_384]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 60, 20, 200, 50
COLOURS = {"global": "#1b6e3c", "windowed": "#2459a6", "Interleave + WindowShuffle": "#b3561b"}


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


def svg(curves: dict[str, list[float]]) -> str:
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(k: int) -> float:
        return LEFT + k * inner_width / (len(WINDOWS) - 1)

    def y(value: float) -> float:
        return TOP + (1 - value) * inner_height

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}h{inner_width}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for k, window in enumerate(WINDOWS):
        parts.append(f'<text x="{x(k):.1f}" y="{HEIGHT - 30}" text-anchor="middle">{window}</text>')
    middle = LEFT + inner_width / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">rows in window</text>')
    parts.append(
        f'<text x="14" y="{TOP + inner_height / 2}" transform="rotate(-90 14 '
        f'{TOP + inner_height / 2})" text-anchor="middle">score (1 is ideal)</text>'
    )
    for name, values in curves.items():
        colour = COLOURS[name]
        points = " ".join(f"{x(k):.1f},{y(value):.1f}" for k, value in enumerate(values))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        end = y(values[-1]) + 4
        parts.append(
            f'<text x="{x(len(values) - 1) + 8:.1f}" y="{end:.1f}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


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
    target.write_text(svg(curves), encoding="utf-8")


if __name__ == "__main__":
    main()
