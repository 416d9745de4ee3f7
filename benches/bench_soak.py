"""Ten minutes of crops with restarts: memory, threads and descriptors stay what they are.

An endless, shuffled crop job that is stopped, restored from its own state and gone on with, every
few seconds. Each half minute after the first minute is looked at. Memory is the median of what was
resident after each batch of it: from one batch to the next it goes up and down with the rows that
are under way.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from pathlib import Path
from typing import Any

import material
import processes
import pytest

import gristmill as gm

RESTART_EVERY = 40


def count(kind: str) -> int:
    return len(list(Path(f"/proc/self/{kind}").iterdir()))


def soak(paths: list[Path], warm_s: float, every_s: float, n_looks: int) -> dict[str, Any]:
    dataset = gm.ArrowIterDataset(
        paths,
        audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=5)),
        shuffle=gm.Shuffle(1),
        batch_size=16,
        epochs=None,
        read=gm.ReadOptions(memory_budget="256MiB", num_threads=2),
    )
    it, n_batches, looks = iter(dataset), 0, []

    def run(seconds: float) -> list[int]:
        nonlocal it, n_batches
        resident, until = [], time.monotonic() + seconds
        while time.monotonic() < until or not resident:
            next(it)
            n_batches += 1
            resident.append(processes.resident())
            if n_batches % RESTART_EVERY == 0:
                state = json.loads(json.dumps(it.get_state()))
                it.close()
                it = iter(dataset)
                it.set_state(state)
                next(it)
        return resident

    run(warm_s)
    began, n_warm = time.monotonic(), n_batches
    for _ in range(n_looks):
        resident = run(every_s)
        gc.collect()
        looks.append((statistics.median(resident), count("task"), count("fd")))
    took = (time.monotonic() - began) / (16 * (n_batches - n_warm))
    it.close()
    memory, threads, descriptors = zip(*looks, strict=True)
    return {
        "seconds": took,
        "memory, MiB": statistics.median(memory) / processes.MIB,
        "memory, most / least": max(memory) / min(memory),
        "more threads than before": max(threads) - min(threads),
        "more descriptors than before": max(descriptors) - min(descriptors),
    }


LIMITS = {
    "memory, most / least": {"at_most": 1.02},
    "more threads than before": {"at_most": 0},
    "more descriptors than before": {"at_most": 0},
}


@pytest.mark.parametrize("job", ["with restarts"])
def test_soak(turns: Any, fresh: Any, size: Any, data: Path, job: str) -> None:
    n_recordings, longest = size((40, 180.0), (40, 180.0), (6, 11.0))
    paths = material.vorbis_shards(data, n_recordings, "half 44.1 kHz", longest)
    times = size((60.0, 30.0, 18), (20.0, 10.0, 4), (0.0, 0.1, 2))
    turns(lambda _: lambda _: fresh(soak, paths, *times), rounds=1, limits=LIMITS)
