"""The windowed order: every row once, read forward only, the same for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards

import oracle


def delivered(paths: Any, **options: Any) -> list[tuple[int, int]]:
    ds = gm.ArrowIterDataset(
        paths, audio=None, columns=["count"], with_row_id=True, batch_size=7, **options
    )
    return [row for b in ds for row in zip(b["shard"].tolist(), b["row"].tolist(), strict=True)]


def numbers(counts: list[int], order: gm.GlobalOrder) -> list[int]:
    starts = np.cumsum([0, *counts])
    return (starts[order.shard] + order.row).tolist()


@pytest.mark.parametrize("streams", [1, 3, 16, 64])
@pytest.mark.parametrize("window", [1, 6, 20, 1000])
def test_each_epoch_is_that_of_the_oracle(numbered: list[Path], window: int, streams: int) -> None:
    gone = ((0, 0), (2, 4), (2, 5))
    shuffle = gm.Shuffle(5, window=window, streams=streams)
    rows = delivered(numbered, shuffle=shuffle, epochs=3, exclude=gone)
    job = oracle.Job(numbered, seed=5, exclude=gone, window=window, streams=streams)
    for epoch in range(3):
        got = rows[epoch * 37 : (epoch + 1) * 37]
        assert got == oracle.row_ids(job, epoch)
        assert sorted(got) == sorted(oracle.row_ids(oracle.Job(numbered, exclude=gone), 0))


# Version 1 of the order. These numbers never change; a new order is a new version.
GOLDEN = {
    (6, 2): [0, 8, 1, 11, 3, 12, 2, 10, 4, 15, 6, 13, 7, 14, 5, 9],
    (5, 3): [0, 6, 13, 2, 8, 12, 1, 7, 14, 4, 11, 15, 3, 10, 9, 5],
    (100, 1): [11, 14, 13, 9, 1, 6, 12, 8, 4, 15, 10, 3, 5, 7, 0, 2],
}


@pytest.mark.parametrize(("window", "streams"), GOLDEN)
def test_golden_orders(window: int, streams: int) -> None:
    counts = [4, 0, 5, 1, 6]
    shuffle = gm.Shuffle(42, window=window, streams=streams)
    order = gm.global_order(counts, 16, shuffle=shuffle, epochs=2)
    assert numbers(counts, order) == GOLDEN[window, streams]
    assert oracle.windowed(counts, 42, 1, window, streams) == GOLDEN[window, streams]
    assert order.epoch.tolist() == [1] * 16


@pytest.mark.parametrize(
    "counts",
    [[], [0], [0, 0, 0], [1], [1] * 50, [0, 1, 0, 1], [1, 100, 1], [7] * 13],
    ids=lambda counts: f"{len(counts)} shards, {sum(counts)} rows",
)
@pytest.mark.parametrize(("window", "streams"), [(1, 1), (10, 4), (8, 100)])
def test_odd_shards(counts: list[int], window: int, streams: int) -> None:
    shuffle = gm.Shuffle(1, window=window, streams=streams)
    order = gm.global_order(counts, shuffle=shuffle, epochs=2)
    expected = [row for e in (0, 1) for row in oracle.windowed(counts, 1, e, window, streams)]
    assert numbers(counts, order) == expected


def test_ten_thousand_shards() -> None:
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 8, 10_000).tolist()
    shuffle = gm.Shuffle(9, window=512, streams=32)
    order = gm.global_order(counts, shuffle=shuffle)
    assert numbers(counts, order) == oracle.windowed(counts, 9, 0, 512, 32)


@pytest.mark.parametrize("window", [None, 100_000])
def test_a_thousand_million_rows(window: int | None) -> None:
    """Any position is at hand, and what lies between costs nothing."""
    counts, n = [100_000] * 10_000, 10**9
    shuffle = gm.Shuffle(2, window=window, streams=64)
    start = 3 * n - 50_000
    there = gm.global_order(counts, start, start + 100_000, shuffle=shuffle, epochs=None)
    assert there.epoch.tolist() == [2] * 50_000 + [3] * 50_000
    for half in (slice(50_000), slice(50_000, None)):
        assert len(set(numbers(counts, gm.GlobalOrder(*(x[half] for x in there))))) == 50_000
    back = gm.global_order(counts, start + 99_999, start - 1, -1, shuffle=shuffle, epochs=None)
    np.testing.assert_array_equal(np.flip(back, axis=1), there)


@pytest.mark.parametrize("window", [None, 8])
def test_one_order_for_every_epoch(numbered: list[Path], window: int | None) -> None:
    shuffle = gm.Shuffle(4, window=window, reshuffle_each_epoch=False)
    rows = delivered(numbered, shuffle=shuffle, epochs=3)
    first = delivered(numbered, shuffle=gm.Shuffle(4, window=window))
    assert rows == first * 3


def test_small_rows_are_read_once(tmp_path: Path) -> None:
    """Streams read forward: over an epoch, little more than the shards' own bytes."""
    schema = pa.schema({"text": pa.list_(pa.int32(), 256)})
    paths = []
    for s in range(8):
        rows = [{"text": [s * 1000 + r] * 256} for r in range(400)]
        path = tmp_path / f"{s}.arrow"
        paths.append(shards.write(path, rows, batch_rows=50, of=schema))
    n_bytes = sum(path.stat().st_size for path in paths)

    def n_read(shuffle: gm.Shuffle) -> int:
        read = gm.ReadOptions(num_threads=2, memory_budget="3MB")
        ds = gm.ArrowIterDataset(paths, shuffle=shuffle, batch_size=32, epochs=2, read=read)
        it = iter(ds)
        for _ in range(100):
            next(it)
        pipeline = it._pipeline
        assert pipeline is not None
        read_bytes = pipeline.reads().bytes
        it.close()
        return read_bytes

    assert n_read(gm.Shuffle(1, window=128, streams=4)) < 1.35 * n_bytes
    assert n_read(gm.Shuffle(1)) > 3 * n_bytes


@pytest.mark.parametrize("bad", [{"window": 0}, {"window": -1}, {"streams": 0}, {"window": 2**63}])
def test_bad_windows(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        gm.Shuffle(1, **bad)


@pytest.mark.parametrize(
    ("bounds", "word"),
    [((0, 5, 0), "step"), ((-1, 5, 1), "from 0 to"), ((0, None, 1), "stop")],
)
def test_bad_positions(bounds: tuple[Any, ...], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        gm.global_order([3], *bounds, epochs=None)


@pytest.mark.parametrize(
    "bounds",
    [(0,), (3, 9), (3, 40), (30, 40), (0, None, 3), (11, None, -2), (20, None, -3), (9, 2, -2)],
)
def test_positions_are_those_of_a_range(bounds: tuple[Any, ...]) -> None:
    counts = [4, 3, 5]
    whole = numbers(counts, gm.global_order(counts, shuffle=gm.Shuffle(1)))
    start, stop, step = (*bounds, None, None)[:3]
    wanted = range(12)[slice(start, stop, step)]
    if step is not None and step < 0 and start > 11:  # a range would begin at its end
        wanted = [i for i in range(start, -1, step) if i < 12]
    got = gm.global_order(counts, *bounds, shuffle=gm.Shuffle(1))
    assert numbers(counts, got) == [whole[i] for i in wanted]
