"""Reading without decoding, from page-cached local shards.

Rows of audio, as `bytes` and as arrays, beside loops of `pread`; token rows beside `to_pylist`,
Grain's Parquet source and copying memory, and shuffled beside a memory map; what a first row reads
and an opening takes.

Rates are those of a stream that runs. The first pass over the data, which opens it and writes to
memory that nobody has written to yet, is told apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import readers

import gristmill as gm

N_SHARDS = 185
PASSES = 5

JOBS = {
    "rows as bytes": ("audio, bytes", "pread into bytes"),
    "rows of 8 KiB as bytes": ("audio, bytes", "pread of small rows"),
    "rows as arrays": ("audio, arrays", "pread into 64 buffers", "pread into one buffer"),
    "token rows": ("tokens", "to_pylist", "Grain Parquet", "copying", "reading"),
    "token rows as one array": ("tokens, one array", "copying", "reading"),
    "token rows, shuffled": ("tokens, shuffled", "memory map, shuffled"),
}
"""Gristmill's job stands first; what the others take at least, in units of that:"""
MARKS = {
    "pread into bytes": 0.8,
    "pread into 64 buffers": 0.8,
    "pread into one buffer": 0.8,
    "to_pylist": 20.0,
    "Grain Parquet": 20.0,
    "copying": 0.5,
}


@pytest.fixture(scope="module")
def shards(data: Path, size: Any) -> Callable[[str], list[Path]]:
    def make(group: str) -> list[Path]:
        if group.startswith("rows of 8 KiB"):
            n_rows = size(64_000, 16_000, 400)
            return [readers.audio_shard(data, n_rows, 100, row_bytes=readers.SMALL_BYTES)]
        if group.startswith("rows"):
            return [readers.audio_shard(data, size(1_000, 300, 4), 100)]
        return readers.token_shards(data, size(60_000, 20_000, 2_000))

    return make


@pytest.mark.parametrize(
    ("group", "job"), [(group, job) for group, jobs in JOBS.items() for job in jobs]
)
def test_rate(turns: Any, fresh: Any, size: Any, shards: Any, group: str, job: str) -> None:
    paths, n_passes = shards(group), size(PASSES, PASSES, 1)

    def prepare(name: str) -> Any:
        fresh(readers.check, name, paths)
        return lambda _: fresh(readers.measure, name, paths, n_passes)

    turns(prepare, rounds=size(5, 3, 1), than=JOBS[group][0], at_least=MARKS.get(job))


def first_row(path: Path) -> int:
    """Bytes read, beyond the row's own, for one row out of the middle of a fresh shard."""
    read = gm.ReadOptions(index_dir=None)
    n_rows = readers.rows_of(path)
    others = [(0, i) for i in range(n_rows) if i != n_rows // 2]
    it = iter(gm.ArrowIterDataset(path, audio=None, exclude=others, read=read))
    row = next(it)
    assert row["label"] == n_rows // 2
    n_bytes = it.stats().storage.bytes
    it.close()
    return n_bytes - len(row["audio"]["bytes"])


def opening(paths: list[Path], sidecars: Path) -> float:
    """Seconds until the first label of shards with sidecars is there."""
    read = gm.ReadOptions(index_dir=sidecars)
    ds = gm.ArrowIterDataset(paths, audio=None, columns=["label"], shuffle=gm.Shuffle(1), read=read)
    begin = time.perf_counter()
    it = iter(ds)
    next(it)
    took = time.perf_counter() - begin
    it.close()
    return took


@pytest.mark.parametrize("job", [f"{N_SHARDS} shards of 700 MB"])
def test_opening(
    turns: Any, fresh: Any, size: Any, figure: Any, data: Path, tmp_path: Path, job: str
) -> None:
    shard = readers.audio_shard(data, size(500, 500, 4), 100, sparse=True)
    paths = [tmp_path / f"{k:03}.arrow" for k in range(size(N_SHARDS, N_SHARDS, 4))]
    for path in paths:
        path.symlink_to(shard)

    def prepare(_: str) -> Any:
        opening(paths, tmp_path / "sidecars")  # writes them
        return lambda _: fresh(opening, paths, tmp_path / "sidecars")

    turns(prepare, rounds=size(5, 3, 1))
    figure("s to open", min(took["seconds"] for took in turns.times[job]), at_most=0.2)
    figure("bytes beside the first row", fresh(first_row, shard), at_most=1e6)
