"""What is asked of slow storage, and when: the first batch before anything else."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards
from slow_storage import SlowStorage, why_not

pytestmark = pytest.mark.skipif(
    why_not() is not None, reason=f"no FUSE file system can be mounted: {why_not()}"
)

N_SHARDS, N_ROWS, BATCH = 5, 24, 8
SHUFFLE = gm.Shuffle(1)
PAGE = 4096


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five shards of 24 rows of 150 to 300 KB of noise, of which no two are alike."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for k in range(N_SHARDS):
        rng = np.random.default_rng([7, k])
        rows = [rng.bytes(int(rng.integers(150_000, 300_000))) for _ in range(N_ROWS)]
        shards.write_audio(folder / f"{k}.arrow", rows, batch_rows=12)
    return folder


def places(folder: Path) -> dict[bytes, tuple[str, int, int]]:
    """Where each row's bytes lie, by its first 64 of them: file, start and end."""
    found = {}
    for path in folder.glob("*.arrow"):
        written = path.read_bytes()
        ds = gm.ArrowIterDataset(path, audio=None, columns=["audio"])
        for row in ds:
            data = bytes(row["audio"]["bytes"])
            start = written.index(data)
            found[data[:64]] = (path.name, start, start + len(data))
    return found


def first_batch(
    folder: Path,
    tmp_path: Path,
    n_requests: int,
    latency: float = 0.003,
    *,
    batch_size: int = BATCH,
    shuffle: gm.Shuffle = SHUFFLE,
) -> tuple[dict[str, Any], list[list[Any]]]:
    """The first batch of a shuffle, with sidecars, and what was asked for until some time after."""
    read = gm.ReadOptions(num_threads=2, num_requests=n_requests, index_dir=tmp_path / "sidecars")
    at, old = tmp_path / "mount", time.time() - 60
    for path in folder.glob("*.arrow"):
        os.utime(path, (old, old))
    for _ in range(2):
        slow = SlowStorage(folder, latency=latency, bandwidth=100e6, at=at)
        with slow as mount:
            ds = gm.ArrowIterDataset(
                mount, audio=None, batch_size=batch_size, shuffle=shuffle, read=read
            )
            it = iter(ds)
            batch = next(it)
            next(it)
            trace = slow.send(trace=True)
            it.close()
    return batch, trace


@pytest.mark.parametrize("n_requests", [1, 4, 16])
def test_nothing_is_read_ahead_before_the_first_batch_is_asked_for(
    folder: Path, tmp_path: Path, n_requests: int
) -> None:
    rows = places(folder)
    batch, trace = first_batch(folder, tmp_path, n_requests)
    wanted = [rows[bytes(data[:64])] for data in batch["audio"]["bytes"]]
    reads = [
        (Path(path).name, offset, offset + n)
        for _, _, what, path, offset, n in trace
        if what == "read"
    ]

    def of(row: tuple[str, int, int]) -> list[int]:
        """The requests that bring more of this row than pages that it shares with others."""
        name, start, end = row
        brought = [
            (k, min(end, r[2]) - max(start, r[1])) for k, r in enumerate(reads) if r[0] == name
        ]
        return [k for k, n_bytes in brought if n_bytes > 2 * PAGE]

    # The last row of the first batch, by when it is first asked for.
    asked = max(of(row)[0] for row in wanted)
    mine = {k for row in wanted for k in of(row)}
    later = [k for row in rows.values() if row not in wanted for k in of(row) if k not in mine]
    assert len(later) > 0
    assert asked < min(later)


def test_a_shard_is_looked_at_once_and_opened_once(folder: Path, tmp_path: Path) -> None:
    # So slow that what goes on beside it on a busy machine does not.
    _, trace = first_batch(folder, tmp_path, 4, latency=0.2)
    for k in range(N_SHARDS):
        asked = [what for _, _, what, path, _, _ in trace if Path(path).name == f"{k}.arrow"]
        assert asked.count("lookup") == 1
        assert asked.count("open") == 1
        assert set(asked) == {"lookup", "open", "read"}
    # Files are opened beside each other, and before the first batch is there.
    opened = sorted(asked for asked, _, what, *_ in trace if what == "open")
    done = min(done for _, done, what, *_ in trace if what == "open")
    assert opened[1] < done


def test_the_record_batches_of_a_window_are_asked_for_side_by_side(tmp_path: Path) -> None:
    folder, latency = tmp_path / "shards", 0.4
    folder.mkdir()
    rng, n_bytes, n_rows = np.random.default_rng(0), 1024, 250
    for k in range(4):
        values = pa.array([rng.bytes(n_bytes) for _ in range(4 * n_rows)], pa.binary())
        table = pa.table({"data": values})
        with (
            pa.OSFile(str(folder / f"{k}.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as writer,
        ):
            writer.write_table(table, max_chunksize=n_rows)
    shuffle = gm.Shuffle(2, window=2000, streams=4)
    _, trace = first_batch(folder, tmp_path, 8, latency, batch_size=64, shuffle=shuffle)
    tables: dict[tuple[str, int], float] = {}
    for asked, _, what, path, offset, _ in trace:
        if what == "read":
            tables.setdefault((path, offset // (n_rows * n_bytes)), asked)
    begun = sorted(tables.values())
    assert len(begun) >= 6
    # One after the other they would be a round trip apart.
    assert begun[5] < begun[0] + latency


BATCH_ROWS, ROW_BYTES, BATCHES = 512, 8 << 10, 4


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """Record batches of 4 MiB, of 512 lists each."""
    folder = tmp_path / "tokens"
    folder.mkdir()
    n_rows = BATCHES * BATCH_ROWS
    offsets = np.arange(n_rows + 1, dtype=np.int32) * (ROW_BYTES // 4)
    lists = pa.ListArray.from_arrays(offsets, np.zeros(n_rows * ROW_BYTES // 4, np.int32))
    table, path = pa.table({"tokens": lists}), folder / "tokens.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    return path


def wait_for_one_of(slow: SlowStorage, *numbers: int) -> None:
    """Waits until one of these record batches is asked for."""
    starts = [number * BATCH_ROWS * ROW_BYTES for number in numbers]
    # Neither headers nor what the kernel reads ahead of the one before.
    inside = [range(start + (1 << 20), start + (2 << 20)) for start in starts]
    until = time.monotonic() + 30
    while not any(offset in part for *_, offset, _ in slow.send(trace=True) for part in inside):
        assert time.monotonic() < until, f"none of the record batches {numbers} is asked for"
        time.sleep(0.01)


def test_in_file_order_idle_readers_load_the_next_record_batch(tokens: Path) -> None:
    slow = SlowStorage(tokens.parent, latency=0.001)
    with slow as mount:
        read = gm.ReadOptions(num_threads=1, prefetch_batches=1)
        it = iter(gm.ArrowIterDataset(mount / tokens.name, batch_size=8, read=read))
        next(it)
        wait_for_one_of(slow, 1)
        it.close()


@pytest.mark.parametrize("prefetch_batches", [1, 2, 4])
def test_loads_ahead_hold_up_no_batch_that_is_there(tokens: Path, prefetch_batches: int) -> None:
    slow = SlowStorage(tokens.parent, latency=0.001)
    with slow as mount:
        read = gm.ReadOptions(num_threads=2, prefetch_batches=prefetch_batches)
        it = iter(gm.ArrowIterDataset(mount / tokens.name, batch_size=64, read=read))
        next(it)
        slow.send(hold=True)
        # All of the first record batch, which is there.
        for _ in range(BATCH_ROWS // 64 - 1):
            next(it)
        # Two readers load these two, and while the kernel waits it may ask for one of them only.
        wait_for_one_of(slow, 2, 3)
        slow.send(hold=False)
        assert sum(len(batch["tokens"]) for batch in it) == (BATCHES - 1) * BATCH_ROWS
