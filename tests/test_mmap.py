"""Shards read through memory maps hold what they hold otherwise, and leave nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import probes
import shards

N_ROWS = 240


def mapped_files(folder: Path) -> list[str]:
    return [
        line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards: blobs of up to 300 kB, lists that stay in the file, and a compressed one."""
    rng = np.random.default_rng(5)
    for k, codec in enumerate([None, None, "lz4"]):
        rows: list[bytes | None] = [
            rng.bytes(int(n)) for n in rng.integers(0, 300_000, N_ROWS // 3)
        ]
        rows[7] = None
        audio = pa.StructArray.from_arrays([pa.array(rows, pa.binary())], names=["bytes"])
        lengths = rng.integers(4_000, 9_000, len(rows))
        values = rng.integers(0, 1 << 30, lengths.sum(), np.int32)
        offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
        tokens = pa.ListArray.from_arrays(offsets, values)
        table = pa.table({"audio": audio, "tokens": tokens})
        schema = table.schema.with_metadata(shards.schema().metadata)
        options = pa.ipc.IpcWriteOptions(compression=codec)
        path = str(tmp_path / f"{k}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, schema, options=options) as out:
            out.write_table(table.cast(schema), max_chunksize=33)
    return tmp_path


def rows_of(folder: Path, mmap: bool, **options: Any) -> list[Any]:
    read = gm.ReadOptions(mmap=mmap, **options.pop("read", {}))
    ds = gm.ArrowIterDataset(folder, audio=None, read=read, with_row_id=True, **options)
    rows: list[Any] = []
    for batch in ds:
        audio = batch.get("audio", [])
        ids = zip(np.atleast_1d(batch["shard"]), np.atleast_1d(batch["row"]), strict=True)
        rows.append(([*map(tuple, ids)], [*np.atleast_1d(audio)], batch["tokens"]))
    return rows


def same(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a[:2] == b[:2]
        flat = [np.concatenate(np.atleast_1d(x[2]).tolist() or [[]]).tolist() for x in (a, b)]
        assert flat[0] == flat[1]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 16},
        {"batch_size": 16, "columns": ["tokens"]},
        {"batch_size": 7, "columns": ["tokens"], "shuffle": gm.Shuffle(3), "epochs": 2},
        {"batch_size": 16, "shuffle": gm.Shuffle(3), "read": {"memory_budget": "16MiB"}},
        {"batch_size": 16, "read": {"page_cache": False}},
    ],
    ids=["file order", "lists in the file", "shuffled lists", "small budget", "no page cache"],
)
def test_it_reads_the_same(folder: Path, options: dict[str, Any]) -> None:
    mapped = rows_of(folder, mmap=True, **options)
    same(mapped, rows_of(folder, mmap=False, **options))
    assert sum(len(rows[0]) for rows in mapped) == N_ROWS * options.get("epochs", 1)


def test_maps_are_made_and_end_with_the_iterator(folder: Path) -> None:
    it = iter(gm.ArrowIterDataset(folder, audio=None, read=gm.ReadOptions(mmap=True)))
    next(it)
    assert mapped_files(folder)
    it.close()
    assert not mapped_files(folder)


def test_what_was_read_does_not_stay_resident(folder: Path) -> None:
    """The budget bounds memory, and pages of a map count as a process's own."""
    script = """
import gristmill as gm
from pathlib import Path

rows = 0
read = gm.ReadOptions(mmap=True, num_requests=1)
for row in gm.ArrowIterDataset(sys.argv[1], audio=None, read=read):
    rows += 1
    text = Path("/proc/self/smaps").read_text()
    of = [part for part in text.split("VmFlags") if sys.argv[1] in part]
    pages = [int(line.split()[1]) for part in of for line in part.splitlines() if "Rss:" in line]
    assert max(pages) < 5_000, pages  # kB: a request, which is 4 MiB at most; a shard has 13 MB
print(rows)
"""
    assert int(probes.run(script, folder)) == N_ROWS


def await_idle_readers(it: gm.ArrowIterator) -> None:
    """Returns when the look-ahead is full and nothing has been read for a while."""
    before = -1
    while True:
        stats = it.stats()
        queues, requests = stats.queues, stats.storage.requests
        if queues.ready_batches == queues.open_batches and requests == before:
            return
        before = requests
        time.sleep(0.1)


def cut(path: Path) -> None:
    os.truncate(path, 200_000)


def touch(path: Path) -> None:
    os.utime(path)


@pytest.mark.parametrize("change", [cut, touch], ids=["cut short", "changed"])
def test_a_file_that_changes_is_refused(folder: Path, change: Callable[[Path], None]) -> None:
    read = gm.ReadOptions(mmap=True, prefetch_batches=1, num_threads=1)
    it = iter(gm.ArrowIterDataset(folder / "0.arrow", audio=None, read=read))
    next(it)
    # A cut in the middle of a copy ends the process, as docs/reading.md says.
    await_idle_readers(it)
    change(folder / "0.arrow")
    with pytest.raises(gm.CorruptShardError, match=r"shortened|replaced or changed"):
        for _ in it:
            pass
    assert not mapped_files(folder)


def test_a_forked_child_maps_for_itself(folder: Path) -> None:
    script = """
import os, warnings
import gristmill as gm

warnings.simplefilter("ignore")  # about forking with threads, which is the point
it = iter(gm.ArrowIterDataset(sys.argv[1], audio=None, read=gm.ReadOptions(mmap=True)))
first = next(it)
child = os.fork()
rest = [len(row["tokens"]) for row in it]
if child == 0:
    os._exit(len(rest) % 251)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(rest) % 251
print(len(rest))
"""
    assert int(probes.run(script, folder)) == N_ROWS - 1
