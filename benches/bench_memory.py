"""Peak memory above what the process held once everything was loaded.

Crops of 5 s from WAV rows of 1.5 MB, 100 to a record batch, shuffled, in batches of 64. Then
without decoding: record batches of 1.4 GB, blobs in compressed record batches, many small columns,
and strings with lists of them. Pages of a memory map count as the peer's memory here; the kernel
can take them back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import memory_shards
import peers
import processes
import pyarrow as pa
import pytest
import readers

import gristmill as gm

MIB = processes.MIB
ALLOWED = 1.1
BUDGETS = (128, 256, 512, 1024)  # MiB
SMALL_BUDGETS = (64, 128)  # MiB


def batch_by_batch(paths: list[Path]) -> Iterator[int]:
    """What a loop over pyarrow's record batches holds: one of them, as Python objects."""
    for path in paths:
        with pa.OSFile(str(path)) as source:
            for record_batch in pa.ipc.open_stream(source):
                yield len(record_batch.to_pylist())


def crops(name: str, of: peers.Crops) -> dict[str, float]:
    """Two passes of the crop job, or one of pyarrow."""
    n_rows = len(peers.MappedRows(of.paths))
    before, begin, seen = processes.forget_peak(), time.perf_counter(), 0
    if name == "pyarrow, to_pylist":
        seen = sum(batch_by_batch(of.paths))
    else:
        budget = name.removeprefix("gristmill, ").replace(" ", "")
        batches = (
            peers.seek(of, 4)
            if name.startswith("memory map")
            else iter(peers.dataset(of, epochs=None, read=gm.ReadOptions(memory_budget=budget)))
        )
        while seen < 2 * n_rows:
            seen += len(next(batches)["audio"])
        getattr(batches, "close", lambda: None)()
    took = time.perf_counter() - begin
    assert seen >= n_rows, seen
    peak = processes.resident("VmHWM") - before
    return {"seconds": took / seen, "peak, MiB": peak / MIB}


CROP_JOBS = [f"gristmill, {budget} MiB" for budget in BUDGETS]
CROP_JOBS += ["memory map, seek, 4 threads", "pyarrow, to_pylist"]


@pytest.mark.parametrize("job", CROP_JOBS)
def test_crops(turns: Any, fresh: Any, size: Any, figure: Any, data: Path, job: str) -> None:
    shard = memory_shards.heavy(data, *size((5, 100), (2, 100), (2, 4)))
    of = peers.Crops([shard], size(64, 64, 4))
    turns(lambda name: lambda _: fresh(crops, name, of), rounds=1)
    if job.startswith("gristmill"):
        budget = int(job.split()[1])
        peak = turns.times[job][0]["peak, MiB"]
        figure("peak / budget", peak / budget, at_most=ALLOWED)


@dataclass(frozen=True)
class Shuffled:
    """A shuffle without decoding, of which the loop holds a batch at a time."""

    path: Path
    batch_size: int
    n_batches: int
    budget: int
    on_top: float = 0.0
    """MiB that may come on top: what a compressed body grows to, only reading tells."""


def shuffled(of: Shuffled) -> dict[str, float]:
    read = gm.ReadOptions(memory_budget=of.budget * MIB, num_threads=2)
    ds = gm.ArrowIterDataset(
        of.path, audio=None, batch_size=of.batch_size, shuffle=gm.Shuffle(1), epochs=None, read=read
    )
    batches = iter(ds)
    before, begin = processes.forget_peak(), time.perf_counter()
    for _ in range(of.n_batches):
        batch = next(batches)
        assert len(batch["label"]) == of.batch_size
        if "text" in batch:
            assert all(map(str.startswith, batch["text"], map("{:06}".format, batch["label"])))
    took = time.perf_counter() - begin
    peak = processes.resident("VmHWM") - before
    batches.close()
    return {"seconds": took / (of.n_batches * of.batch_size), "peak, MiB": peak / MIB}


def material(name: str, data: Path, budget: int, size: Any) -> Shuffled:
    if name == "record batches of 1.4 GB":
        n_rows = size(1_000, 1_000, 4)
        path = readers.audio_shard(data, n_rows, 1_000, sparse=True)
        return Shuffled(path, min(16, n_rows), size(62, 62, 1), budget)
    n_batches = size({}, {}, {"n_batches": 1})
    if name == "compressed":
        path = memory_shards.compressed(data, **n_batches)
        return Shuffled(path, 16, size(60, 60, 1), budget, on_top=33.4)
    if name == "columns":
        path = memory_shards.columns(data, **n_batches)
        return Shuffled(path, 64, size(24, 24, 1), budget)
    path = memory_shards.objects(data, **n_batches)
    return Shuffled(path, 2_048, size(50, 50, 1), budget)


@pytest.mark.parametrize(
    "job",
    ["record batches of 1.4 GB, 512 MiB"]
    + [f"{name}, {n} MiB" for name in ("compressed", "columns", "objects") for n in SMALL_BUDGETS],
)
def test_shuffled(turns: Any, fresh: Any, size: Any, figure: Any, data: Path, job: str) -> None:
    def find(job: str) -> Shuffled:
        name, budget = job.split(", ")
        return material(name, data, int(budget.split()[0]), size)

    turns(lambda job: lambda _: fresh(shuffled, find(job)), rounds=1)
    of, peak = find(job), turns.times[job][0]["peak, MiB"]
    figure("peak / allowed", peak / (ALLOWED * of.budget + of.on_top), at_most=1.0)
