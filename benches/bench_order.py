"""The price of order, of states and of resuming.

What a first batch costs depends on the record batches that its rows lie in. An epoch's windows
begin with blocks that are cut short by drawn lengths, so that where rows are small, and read by the
record batch, a fresh start has less to read than a restore in the middle. So that is measured for a
seed and a step that have as much to read as that seed's first, which is like against like, and for
others, which is what users will see.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain
import material
import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm

N_SHARDS, ROWS, CHUNK, BATCH = 20, 500, 100, 64
WINDOW, STREAMS, STEP = 1000, 4, 60
ORDERS = {
    "file order": None,
    "global": gm.Shuffle(1),
    "windowed": gm.Shuffle(1, window=100_000, streams=64),
}


@pytest.mark.parametrize("job", ORDERS)
def test_position(turns: Any, figure: Any, size: Any, job: str) -> None:
    """CPU time of a position, of 10^9 rows in 10,000 shards."""
    n, counts = size(1_000_000, 100_000, 1_000), [100_000] * 10_000

    def prepare(name: str) -> Any:
        def take(k: int) -> float:
            start = time.thread_time()
            gm.global_order(counts, 10**8, 10**8 + k, shuffle=ORDERS[name])
            return time.thread_time() - start

        return lambda _: (take(n) - take(1)) / n

    turns(prepare, rounds=5)
    figure("us a position", 1e6 * min(took["seconds"] for took in turns.times[job]), at_most=1.0)


@functools.cache
def shards(folder: Path, n_bytes: int, n_shards: int) -> list[Path]:
    """Shards whose first column has values of so many bytes; large ones are encoded audio."""
    rng = np.random.default_rng(1)

    def batch(start: int) -> pa.RecordBatch:
        rows = [rng.bytes(n_bytes) for _ in range(CHUNK)]
        if n_bytes > 10_000:
            return material.audio_batch(rows, start)
        return pa.record_batch({"data": rows, "label": range(start, start + CHUNK)})

    return [
        material.once(
            folder / f"order-{n_bytes}-{s:03}.arrow",
            lambda part: material.write_stream(part, map(batch, range(0, ROWS, CHUNK))),
        )
        for s in range(n_shards)
    ]


class Rows(grain.IterDataset[bytes]):
    """One shard for Grain's Interleave, its rows read in sequence by pyarrow."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def __iter__(self) -> grain.DatasetIterator[bytes]:
        with pa.OSFile(str(self.path)) as source:
            column = pa.ipc.open_stream(source).read_all()["data"]
        rows = grain.MapDataset.range(len(column)).map(lambda i: column[i].as_py())
        return iter(rows.to_iter_dataset(grain.ReadOptions(num_threads=0)))


def grains(paths: list[Path]) -> grain.IterDataset[Any]:
    sources = grain.MapDataset.source(paths).map(Rows)
    mixed = grain.experimental.InterleaveIterDataset(sources, cycle_length=4)
    shuffled = grain.experimental.WindowShuffleIterDataset(mixed, window_size=WINDOW, seed=1)
    return shuffled.batch(BATCH)


def ours(paths: list[Path], shuffle: gm.Shuffle) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(paths, shuffle=shuffle, batch_size=BATCH, audio=None)


def windowed(seed: int) -> gm.Shuffle:
    return gm.Shuffle(seed, window=WINDOW, streams=STREAMS)


@pytest.fixture
def small(data: Path, size: Any) -> list[Path]:
    return shards(data, 4_096, size(N_SHARDS, N_SHARDS, 2))


@pytest.mark.parametrize("job", ["global", "windowed", "Interleave + WindowShuffle"])
def test_get_state(turns: Any, figure: Any, size: Any, small: list[Path], job: str) -> None:
    def prepare(name: str) -> Any:
        made: dict[str, Callable[[], Any]] = {
            "global": lambda: ours(small, gm.Shuffle(1)),
            "windowed": lambda: ours(small, windowed(1)),
        }
        it = iter(made.get(name, lambda: grains(small))())
        next(it)
        assert it.get_state() == it.get_state()
        n = size(2_000, 2_000, 2)

        def call(_: int) -> float:
            start = time.perf_counter()
            for _ in range(n):
                it.get_state()
            return (time.perf_counter() - start) / n

        return call

    turns(prepare, rounds=5)
    if job in ("global", "windowed"):
        # The fastest: whatever else the machine does only adds.
        took = min(took["seconds"] for took in turns.times[job])
        figure("us for get_state", 1e6 * took, at_most=2.0)


@functools.cache
def alike() -> tuple[int, int]:
    """The seed, and the step, that has about as much to read as that seed's first."""

    def record_batches(seed: int, step: int) -> np.ndarray:
        """How many a step's rows lie in; and those of what is read ahead with them."""
        start, ahead = step * BATCH, gm.ReadOptions().prefetch_batches
        end = start + (1 + ahead) * BATCH
        order = gm.global_order([ROWS] * N_SHARDS, start, end, shuffle=windowed(seed))
        places = list(zip(order.shard.tolist(), (order.row // CHUNK).tolist(), strict=True))
        return np.array([len(set(places[:BATCH])), len(set(places))])

    def differs(seed: int, step: int) -> int:
        return int(np.abs(record_batches(seed, step) - record_batches(seed, 0)).sum())

    return min(itertools.product(range(64), range(30, 90)), key=lambda it: differs(*it))


ORDERS_RESUMED = ["global", "windowed, as much to read", *(f"windowed, {s}" for s in (1, 2, 3, 4))]


@pytest.mark.parametrize(
    ("rows", "order"),
    [(rows, order) for rows in ("64 KiB audio", "4 KiB rows") for order in ORDERS_RESUMED]
    + [("4 KiB rows", "Interleave + WindowShuffle")],
)
@pytest.mark.parametrize("job", ["fresh", "restored"])
def test_first_batch(
    turns: Any, size: Any, data: Path, small: list[Path], rows: str, order: str, job: str
) -> None:
    step = STEP
    if order.startswith("windowed, as"):
        seed, step = size(alike, alike, lambda: (1, STEP))()
    elif order.startswith("windowed"):
        seed = int(order[-1])
    paths = small if rows == "4 KiB rows" else shards(data, 65_536, len(small))
    if order == "global":
        ds: Any = ours(paths, gm.Shuffle(1))
    else:
        ds = ours(paths, windowed(seed)) if order.startswith("windowed") else grains(paths)

    def prepare(name: str) -> Any:
        it = iter(ds)
        for _ in range(size(step, step, 2) if name == "restored" else 0):
            next(it)
        state, expected = it.get_state(), next(it)
        it.set_state(state)
        np.testing.assert_equal(next(it), expected)
        it.close()
        return lambda _: first_batch(ds, state if name == "restored" else None)

    turns(prepare, rounds=size(21, 7, 1), than="fresh", at_most=1.2)


def first_batch(ds: Any, state: Any) -> float:
    start = time.perf_counter()
    it = iter(ds)
    if state is not None:
        it.set_state(state)
    next(it)
    took = time.perf_counter() - start
    it.close()
    return took
