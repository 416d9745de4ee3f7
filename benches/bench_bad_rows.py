"""What bad rows cost, in CPU time of all threads.

Crops of 2 s from Ogg Vorbis recordings of 10 s, shuffled, in batches of 32; of the rows none, one
in a hundred, or one in ten is cut in half or no recording at all.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import material
import pytest

import gristmill as gm

RATE = 32_000
SHARES = {"none bad": 0, "1 % bad": 100, "10 % bad": 10}
"""Every how many-th row is bad."""
# A substituted row is read twice and decoded once more at most; the others cost less than a row.
MARK = 1 / 0.95


def shard(data: Path, n_rows: int, every: int) -> Path:
    path = data / f"bad-{n_rows}-{every}.arrow"
    if path.exists():
        return path
    good = [
        material.encode(material.field_like(10, RATE, 1, seed), RATE, "OGG", "VORBIS")
        for seed in range(min(20, n_rows // 8))
    ]
    rows = [good[i % len(good)] for i in range(n_rows)]
    for k, i in enumerate(range(every - 1, n_rows, every) if every else ()):
        rows[i] = rows[i][: len(rows[i]) // 2] if k % 2 else b"no recording"
    return material.audio_shard(path, rows, 100)


def cpu_seconds(path: Path, policy: Any, n_rows: int, n_bad: int) -> float:
    """What a row of the stream takes."""
    logging.getLogger("gristmill").setLevel(logging.ERROR)
    audio = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(2))
    it = iter(
        gm.ArrowIterDataset(
            path, audio=audio, shuffle=gm.Shuffle(1), batch_size=32, on_error=policy
        )
    )
    next(it)
    began = time.process_time()
    n_found = sum(len(batch["label"]) for batch in it)
    took = time.process_time() - began
    assert it.stats().bad_rows == n_bad
    assert n_found + 32 >= n_rows - n_bad * (policy == "skip")
    it.close()
    return took / n_rows


@pytest.mark.parametrize("policy", ["substitute", "mask", "skip"])
@pytest.mark.parametrize("job", SHARES)
def test_bad_rows(turns: Any, fresh: Any, size: Any, data: Path, policy: str, job: str) -> None:
    n_rows = size(2_000, 1_000, 40)

    def prepare(name: str) -> Any:
        every = SHARES[name]
        path, n_bad = shard(data, n_rows, every), n_rows // every if every else 0
        return lambda _: fresh(cpu_seconds, path, policy, n_rows, n_bad)

    turns(prepare, rounds=size(12, 5, 1), than="none bad", at_most=MARK)
