"""The crop job beside its peers, and on more threads.

Random crops of 5 s at 32 kHz mono from Ogg Vorbis recordings of 10 to 180 s, shuffled, in batches
of 64, page-cached. The peers are in `peers.py`; each measurement is a fresh process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import material
import peers
import pytest

MARKS = {
    "32 kHz": {"whole file": 20, "seek": 6, "bare loop": 0.95},
    "half 44.1 kHz": {"whole file": 20, "seek": 4, "bare loop": 0.95},
}
"""How many times as long as Gristmill each takes at least, by the rates of the recordings."""
COMPOSED = {"Interleave of a source a shard": 0.75, "ArrowDataSource in a MapDataset": 0.9}
"""What a pipeline of Grain's delivers at least, as a part of what the source alone does."""
SPEEDUPS = {2: 1.9, 16: 13.0}
CORES = len(os.sched_getaffinity(0))
THREADS = [n for n in (1, 2, 4, 8, 16) if n <= CORES]
SEEK_THREADS = (2, 4, 8, 16)


@pytest.fixture(scope="module")
def crops(data: Path, size: Any) -> Callable[[str], peers.Crops]:
    n_recordings, longest, batch_size = size((150, 180.0, 64), (24, 180.0, 64), (6, 11.0, 2))
    return lambda rates: peers.Crops(
        material.vorbis_shards(data, n_recordings, rates, longest), batch_size
    )


@pytest.mark.parametrize("job", peers.PEERS)
@pytest.mark.parametrize("rates", MARKS)
def test_crop_job(turns: Any, fresh: Any, size: Any, crops: Any, rates: str, job: str) -> None:
    of, seconds = crops(rates), size(8.0, 2.0, 0.0)

    def prepare(name: str) -> Any:
        n_threads = {"whole file": 1}.get(name, CORES)
        if name == "gristmill":
            fresh(peers.check, of)
        if name == "seek":
            tried = {
                n: fresh(peers.measure, name, of, n, seconds / 2)["seconds"]
                for n in size(SEEK_THREADS, SEEK_THREADS, (2,))
            }
            n_threads = min(tried, key=tried.__getitem__)
        return lambda _: fresh(peers.measure, name, of, n_threads, seconds)

    turns(prepare, rounds=size(5, 2, 1), than="gristmill", at_least=MARKS[rates].get(job))


@pytest.mark.parametrize("job", peers.COMPOSED)
def test_compositions(turns: Any, fresh: Any, size: Any, data: Path, job: str) -> None:
    n_recordings, longest, batch_size = size((200, 76.0, 64), (100, 76.0, 64), (12, 11.0, 2))
    paths = material.vorbis_shards(data, n_recordings, "32 kHz", longest, 4)
    of, seconds = peers.Crops(paths, batch_size), size(8.0, 4.0, 0.0)

    def prepare(name: str) -> Any:
        return lambda _: fresh(peers.measure, name, of, CORES, seconds)

    mark = 1 / COMPOSED[job] if job in COMPOSED else None
    turns(prepare, rounds=size(5, 3, 1), than="gristmill", at_most=mark)


@pytest.mark.parametrize(
    "job", [f"{who}, {n}" for who in ("gristmill", "bare loop") for n in THREADS]
)
def test_threads(turns: Any, fresh: Any, size: Any, crops: Any, job: str) -> None:
    """The bare loop shows what the machine leaves of a second thread."""
    of, seconds = crops("half 44.1 kHz"), size(6.0, 3.0, 0.0)

    def prepare(name: str) -> Any:
        who, n_threads = name.split(", ")
        return lambda _: fresh(peers.measure, who, of, int(n_threads), seconds)

    who, n_threads = job.split(", ")
    mark = 1 / SPEEDUPS[n] if who == "gristmill" and (n := int(n_threads)) in SPEEDUPS else None
    turns(prepare, rounds=size(9, 3, 1), than=f"{who}, 1", at_most=mark)
