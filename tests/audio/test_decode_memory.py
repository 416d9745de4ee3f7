"""The memory of what `gm.decode` returns: reused once it is dropped, and never before."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import pytest

import gristmill as gm
import probes
from signals import encode, synthetic

RATE, SECONDS = 32_000, 8
WHOLE = synthetic(SECONDS, RATE, 2, seed=3)
DATA = encode(WHOLE, RATE, "wavf32")
MIB = 1 << 20


def crop(start: int, n: int) -> np.ndarray:
    return gm.decode(DATA, channels="keep", start=start / RATE, seconds=n / RATE)


def test_what_is_held_is_never_written_again() -> None:
    rng = np.random.default_rng(4)
    held: list[tuple[int, int, np.ndarray]] = []
    for _ in range(400):
        n = int(rng.integers(10_000, 100_000))
        start = int(rng.integers(0, SECONDS * RATE - n))
        held.append((start, n, crop(start, n)))
        if len(held) > 20:
            del held[int(rng.integers(len(held)))]
    for start, n, frames in held:
        np.testing.assert_array_equal(frames, WHOLE[start : start + n].T)


@pytest.mark.parametrize("pad", ["zero", "repeat"])
def test_what_was_there_before_never_shows(pad: Any) -> None:
    short = WHOLE[: 2 * RATE]
    row = {"audio": encode(short, RATE, "wavf32")}
    transform = gm.DecodeAudio(gm.Audio(channels="keep", crop=gm.StartCrop(5), pad=pad))
    for _ in range(8):
        frames = transform.map(dict(row))["audio"]
        rest = np.zeros((3 * RATE, 2)) if pad == "zero" else WHOLE[np.arange(3 * RATE) % (2 * RATE)]
        np.testing.assert_array_equal(frames.T, np.concatenate([short, rest]))
        frames[:] = 7  # what the next one finds


RETURNS = """
import gristmill as gm
def resident():
    with open("/proc/self/status") as f:
        return next(1024 * int(line.split()[1]) for line in f if line.startswith("VmRSS"))
data = open(sys.argv[1], "rb").read()
gm.decode(data, channels="keep")
before = resident()
held = [gm.decode(data, channels="keep") for _ in range(100)]
most = resident() - before
del held
print(most, resident() - before)
"""


def test_no_more_than_some_of_it_is_kept(tmp_path: Any) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(DATA)
    most, left = map(int, probes.run(RETURNS, path).split())
    n_bytes = 100 * WHOLE.size * 4
    assert most >= 0.9 * n_bytes, f"{most / MIB:.0f} MiB"
    assert left <= 36 * MIB, f"{left / MIB:.0f} MiB of {most / MIB:.0f}"


def _in_a_child(frames: np.ndarray, queue: Any) -> None:
    before = frames.copy()
    for _ in range(20):
        crop(0, 50_000)[:] = 7
    queue.put(bool(np.array_equal(frames, before) and crop(0, 9).any()))


def test_a_forked_child_has_memory_of_its_own() -> None:
    frames = crop(0, 50_000)
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    child = fork.Process(target=_in_a_child, args=(frames, queue))
    child.start()
    assert queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(frames, WHOLE[:50_000].T)
