"""A scan beside the bare decode loop.

The loop decodes the same rows from memory, on as many threads, and does nothing else: no reading,
no order, no report. It comes in two kinds: `decode`, as a user would write it, whose samples take
memory, and `check`, the very calls of a scan.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import material
import processes
import pyarrow as pa
import pytest

import gristmill as gm
from gristmill import _core

MARK = 0.9


def rows_in_memory(paths: list[Path]) -> list[bytes]:
    tables = [pa.ipc.open_stream(path).read_all() for path in paths]
    return [row["bytes"] for table in tables for row in table["audio"].to_pylist()]


def bare(look: Callable[[bytes], object], rows: list[bytes], n_threads: int) -> None:
    """Each thread takes the next row that is left."""
    left, lock = iter(rows), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                data = next(left, None)
            if data is None:
                return
            look(data)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(name: str, paths: list[Path], n_threads: int, seconds: float) -> dict[str, float]:
    """Seconds a row, over whole passes for at least so long."""
    rows, limits = rows_in_memory(paths) if name != "scan" else [], gm.Limits()

    def scan() -> int:
        found = gm.scan(paths, read=gm.ReadOptions(num_threads=n_threads))
        assert found.is_clean
        return found.rows

    def loop() -> int:
        look: Callable[[bytes], object] = {
            "decode": gm.decode,
            "check": lambda data: _core.check(data, decode=True, limits=limits),
        }[name]
        bare(look, rows, n_threads)
        return len(rows)

    once = scan if name == "scan" else loop
    once()  # page cache, tables, sidecars
    n_rows, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds or n_rows == 0:
        n_rows += once()
    peak = processes.peak_rss() / processes.MIB
    return {"seconds": took / n_rows, "peak memory, MiB": peak}


@pytest.mark.parametrize("job", ["scan", "decode", "check"])
def test_scan(turns: Any, fresh: Any, size: Any, data: Path, job: str) -> None:
    n_recordings, longest = size((150, 180.0), (24, 180.0), (6, 11.0))
    paths = material.vorbis_shards(data, n_recordings, "half 44.1 kHz", longest)
    cores, seconds = len(os.sched_getaffinity(0)), size(6.0, 2.0, 0.0)
    turns(
        lambda name: lambda _: fresh(measure, name, paths, cores, seconds),
        rounds=size(5, 2, 1),
        than="scan",
        at_least=MARK,
    )
