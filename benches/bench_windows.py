"""Evaluation windows beside bare loops over the same recordings.

Windows of 10 s at 32 kHz mono from Ogg Vorbis recordings of 10 to 180 s, in file order, in batches
of 16, page-cached. The loops have all bytes in memory, and do nothing but decode on as many
threads: `windows` each window by a call of its own, as `gm.Windows` does, and `whole` each
recording once, which is the least that there is to decode. Each measurement is a fresh process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import material
import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm

RATE, SECONDS, BATCH = 32_000, 10, 16
MARKS = {"windows": 0.95}
"""How many times as long as Gristmill each takes at least."""


def recordings(paths: list[Path]) -> list[bytes]:
    tables = [pa.ipc.open_stream(path).read_all() for path in paths]
    return [audio["bytes"] for table in tables for audio in table["audio"].to_pylist()]


def dataset(paths: list[Path], n_threads: int, epochs: int | None = 1) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(
        paths,
        columns=["audio"],
        audio=gm.Audio(sample_rate=RATE, crop=gm.Windows(SECONDS)),
        batch_size=BATCH,
        epochs=epochs,
        with_crop=True,
        read=gm.ReadOptions(num_threads=n_threads),
    )


def n_windows(recording: bytes) -> int:
    info = gm.probe(recording)
    n_frames = -(-info.frames * RATE // info.sample_rate)
    return -(-n_frames // (SECONDS * RATE))


def window(recording: bytes, number: int) -> np.ndarray:
    return gm.decode(recording, sample_rate=RATE, start=SECONDS * number, seconds=SECONDS)


def check(paths: list[Path]) -> None:
    """Every window once, each equal to the bare decode."""
    listed = ((data, k) for data in recordings(paths) for k in range(n_windows(data)))
    for batch in dataset(paths, 2):
        for audio, n_frames in zip(batch["audio"], batch["crop_frames"], strict=True):
            assert audio[:n_frames].tobytes() == window(*next(listed)).tobytes()
    assert next(listed, None) is None


def gristmill(paths: list[Path], n_threads: int) -> Iterator[int]:
    for batch in dataset(paths, n_threads, epochs=None):
        yield len(batch["audio"])


def loop(paths: list[Path], n_threads: int, *, by_window: bool) -> Iterator[int]:
    rows = [(data, n_windows(data)) for data in recordings(paths)]
    jobs = [(data, k) for data, n in rows for k in range(n)] if by_window else rows

    def decode(job: tuple[bytes, int]) -> int:
        if by_window:
            return int(len(window(*job)) > 0)
        gm.decode(job[0], sample_rate=RATE)
        return job[1]

    with ThreadPoolExecutor(n_threads) as pool:
        while True:
            for first in range(0, len(jobs), BATCH):
                yield sum(pool.map(decode, jobs[first : first + BATCH]))


def measure(name: str, paths: list[Path], n_threads: int, passes: int) -> dict[str, float]:
    """Seconds a window, and CPU time of it, over so many passes after the first batch."""
    jobs = {
        "gristmill": lambda: gristmill(paths, n_threads),
        "windows": lambda: loop(paths, n_threads, by_window=True),
        "whole": lambda: loop(paths, n_threads, by_window=False),
    }
    total = passes * dataset(paths, n_threads).rows_per_epoch()
    batches = jobs[name]()
    next(batches)
    began, cpu, n = time.perf_counter(), time.process_time(), 0
    while n < total:
        n += next(batches)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {"seconds": took / n, "CPU ms a window": 1e3 * cpu / n}


@pytest.mark.parametrize("job", ["gristmill", "windows", "whole"])
def test_windows(turns: Any, fresh: Any, size: Any, data: Path, job: str) -> None:
    n_recordings, longest = size((150, 180.0), (24, 180.0), (6, 31.0))
    paths = material.vorbis_shards(data, n_recordings, "32 kHz", longest)
    cores = len(os.sched_getaffinity(0))

    def prepare(name: str) -> Any:
        if name == "gristmill":
            fresh(check, paths)
        return lambda _: fresh(measure, name, paths, cores, size(2, 3, 1))

    turns(prepare, rounds=size(7, 3, 1), than="gristmill", at_least=MARKS.get(job))
