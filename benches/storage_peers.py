"""Batches of encoded recordings from slow storage, by Gristmill and by what people use today."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import grain
import numpy as np
import peers
import pyarrow as pa

import gristmill as gm

BATCH, BANDWIDTH, DEMAND = 16, 200e6, 0.7
STEP_BYTES = BATCH * 500_000

Batches = Generator[tuple[list[int], int], None, None]
"""Batches by their labels and bytes."""


def gristmill(paths: list[Path], index_dir: Path | None, waits: list[float]) -> Batches:
    read = gm.ReadOptions(index_dir=index_dir)
    it = iter(
        gm.ArrowIterDataset(
            paths, audio=None, batch_size=BATCH, shuffle=gm.Shuffle(1), epochs=None, read=read
        )
    )
    with contextlib.closing(it):
        for batch in it:
            waits[:] = [it.stats().stages.consumer.waiting_seconds]
            yield batch["label"].tolist(), sum(map(len, batch["audio"]["bytes"]))


class Rows(grain.DatasetIterator):
    """The rows of a shard, a record batch at a time."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._rows = self._read(path)

    @staticmethod
    def _read(path: str) -> Iterator[dict[str, Any]]:
        with pa.OSFile(path) as source:
            for record_batch in pa.ipc.open_stream(source):
                yield from record_batch.to_pylist()

    def __next__(self) -> dict[str, Any]:
        return next(self._rows)

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass


class Shard(grain.IterDataset):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def __iter__(self) -> Rows:
        return Rows(self.path)


def interleaved(paths: list[Path], _: Path | None, __: list[float]) -> Batches:
    """What `datasets` streaming and most loaders do: a record batch at a time, shards in turn."""
    ds = grain.MapDataset.source(list(map(str, paths))).shuffle(seed=1).map(Shard)
    ds = grain.experimental.InterleaveIterDataset(ds, cycle_length=4)
    ds = grain.experimental.WindowShuffleIterDataset(ds, window_size=100, seed=1)
    ds = ds.batch(BATCH, batch_fn=list)
    ds = grain.experimental.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=4)
    for rows in ds:
        yield [row["label"] for row in rows], sum(len(row["audio"]["bytes"]) for row in rows)


class Copied(peers.MappedRows):
    def __getitem__(self, index: int) -> dict[str, Any]:
        row = super().__getitem__(index)
        return {"data": row["data"].to_pybytes(), "label": row["label"]}


def mapped(paths: list[Path], _: Path | None, __: list[float]) -> Batches:
    ds = grain.MapDataset.source(Copied(paths)).shuffle(seed=1)
    read = grain.ReadOptions(num_threads=16, prefetch_buffer_size=64)
    for rows in ds.to_iter_dataset(read).batch(BATCH, batch_fn=list):
        yield [row["label"] for row in rows], sum(len(row["data"]) for row in rows)


def alone(_: list[Path], __: Path | None, ___: list[float]) -> Batches:
    """Copies of rows that are in memory: what the machine makes of the loop without any storage."""
    rng = np.random.default_rng(1)
    data = memoryview(rng.bytes(8_000_000))
    for start in itertools.count(step=BATCH):
        rows = [bytes(data[: int(n)]) for n in rng.integers(200_000, 800_000, BATCH)]
        yield list(range(start, start + BATCH)), sum(map(len, rows))


STEPS: dict[str, Callable[[list[Path], Path | None, list[float]], Batches]] = {
    "gristmill": gristmill,
    "gristmill, no sidecars": gristmill,
    "Grain Interleave, record batches": interleaved,
    "memory map": mapped,
    "the loop alone": alone,
    "gristmill, full demand": gristmill,
}


def steps(name: str, mount: Path, index_dir: Path, n_steps: int) -> dict[str, Any]:
    """Times of the steps, each with its wait and its computing; that of the first batch apart."""
    paths, waits = sorted(mount.glob("*.arrow")), [0.0]
    compute = 0.0 if name.endswith("full demand") else STEP_BYTES / (BANDWIDTH * DEMAND)
    begin = time.perf_counter()
    batches = STEPS[name](paths, None if name.endswith("no sidecars") else index_dir, waits)
    seen, first_bytes = next(batches)
    first, n_bytes, took = time.perf_counter() - begin, 0, []
    last = time.perf_counter()
    for labels, n in itertools.islice(batches, n_steps):
        time.sleep(compute)
        now = time.perf_counter()
        took.append(now - last)
        last = now
        seen += labels
        n_bytes += n
    batches.close()
    assert len(set(seen)) == len(seen), "rows came twice"
    sizes = {"first_bytes": first_bytes, "n_bytes": n_bytes, "waited": waits[0]}
    return {"first": first, "steps": took, **sizes}


def small_rows(name: str, mount: Path, index_dir: Path) -> dict[str, float]:
    """Seconds for all rows, in batches of 64 or whole record batches; each is checked."""
    paths = sorted(mount.glob("*.arrow"))
    begin = time.perf_counter()
    first, seen, n_bytes = 0.0, [], 0
    for labels, rows in SMALL_ROWS[name](paths, index_dir):
        first = first or time.perf_counter() - begin
        assert labels == [int.from_bytes(row[:8], "little") for row in rows]
        seen += labels
        n_bytes += sum(map(len, rows))
    seconds = time.perf_counter() - begin
    assert sorted(seen) == list(range(len(seen))), "rows are missing"
    assert (seen == sorted(seen)) == (name != "windowed shuffle")
    return {"seconds": seconds, "first": first, "rows": len(seen), "bytes": n_bytes}


def in_batches(paths: list[Path], index_dir: Path, shuffle: gm.Shuffle | None) -> Iterator[Any]:
    read = gm.ReadOptions(index_dir=index_dir)
    for batch in gm.ArrowIterDataset(paths, audio=None, batch_size=64, shuffle=shuffle, read=read):
        yield batch["label"].tolist(), batch["audio"]["bytes"]


def pyarrow_rows(paths: list[Path], _: Path) -> Iterator[Any]:
    for path in paths:
        with pa.OSFile(str(path)) as source:
            for batch in pa.ipc.open_stream(source):
                rows = batch.to_pylist()
                yield [row["label"] for row in rows], [row["audio"]["bytes"] for row in rows]


SMALL_ROWS: dict[str, Callable[[list[Path], Path], Iterator[Any]]] = {
    "file order": lambda paths, index_dir: in_batches(paths, index_dir, None),
    "windowed shuffle": lambda paths, index_dir: in_batches(
        paths, index_dir, gm.Shuffle(1, window=4_000, streams=8)
    ),
    "pyarrow, file order": pyarrow_rows,
}
