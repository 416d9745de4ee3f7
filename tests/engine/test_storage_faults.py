"""Storage that fails, through a file system that does: right rows, or an error that says where."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
import shards
from slow_storage import SlowStorage, why_not

pytestmark = pytest.mark.skipif(
    why_not() is not None, reason=f"no FUSE file system can be mounted: {why_not()}"
)

N_ROWS = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards of 30 encoded rows of 40 KB and more."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for k in range(2):
        rows = [shards.row(i, bytes([i + k]) * (40_000 + i)) for i in range(N_ROWS)]
        shards.write(folder / f"{k}.arrow", rows, batch_rows=10)
    return folder


def batches(path: Path, **read: Any) -> gm.ArrowIterDataset:
    options = gm.ReadOptions(num_threads=2, index_dir=None, **read)
    return gm.ArrowIterDataset(path, audio=None, batch_size=5, read=options)


def check(rows: Iterator[dict[str, Any]]) -> None:
    """Every row, in order, and byte for byte."""
    found = [bytes(data) for batch in rows for data in batch["audio"]["bytes"]]
    assert found == [bytes([i + k]) * (40_000 + i) for k in range(2) for i in range(N_ROWS)]


def test_faults_that_pass_leave_no_trace(folder: Path) -> None:
    storage = SlowStorage(folder)
    with storage as mount:
        for fault in ({"fail": errno.EIO, "times": 3}, {"fail": errno.ESTALE, "times": 2}):
            it = iter(batches(mount))
            first = next(it)
            storage.send(**fault)
            rest = list(it)
            check(iter([first, *rest]))


def test_faults_that_stay_name_shard_byte_and_cause(folder: Path) -> None:
    storage = SlowStorage(folder)
    with storage as mount:
        storage.send(fail=errno.EIO, times=1000)
        with pytest.raises(OSError, match="at byte") as caught:
            next(iter(batches(mount, retries=1)))
        assert caught.value.errno == errno.EIO
        assert Path(str(caught.value.filename)).parent == mount


def test_a_mount_that_vanishes_is_an_error_and_no_hang(folder: Path) -> None:
    storage = SlowStorage(folder)
    with storage as mount:
        it = iter(batches(mount, retries=1, prefetch_batches=1))
        next(it)
        storage.kill()
        with pytest.raises(OSError) as caught:
            list(it)
        assert caught.value.errno in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)


def test_close_ends_the_wait_for_a_retry(folder: Path) -> None:
    storage = SlowStorage(folder)
    with storage as mount:
        storage.send(fail=errno.EIO, times=100_000)
        it = iter(batches(mount, retries=1000))
        it.start_prefetch()

        def wait() -> None:
            with pytest.raises(ValueError, match="closed"):
                next(it)

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.5)
        it.close()
        waiting.join(timeout=60)
        assert not waiting.is_alive()


def test_a_shard_that_is_overwritten_in_place_is_refused(folder: Path) -> None:
    it = iter(batches(folder, prefetch_batches=1))
    next(it)
    for path in folder.iterdir():
        data = path.read_bytes()
        with path.open("r+b") as f:
            f.write(data[: len(data) // 2])
        later = path.stat().st_mtime_ns + 10**9
        os.utime(path, ns=(later, later))
    with pytest.raises(gm.CorruptShardError, match=r"replaced or changed.*written again") as caught:
        list(it)
    assert Path(str(caught.value.shard)).parent == folder


def test_a_shard_that_is_still_being_written_is_named(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "0.arrow").read_bytes()
    for n_bytes in (20, len(whole) // 2, len(whole) - 100):
        path = tmp_path / "growing.arrow"
        path.write_bytes(whole[:n_bytes])
        with pytest.raises(gm.CorruptShardError, match="still being written") as caught:
            next(iter(batches(path)))
        assert caught.value.shard == str(path)
