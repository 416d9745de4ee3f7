"""Ctrl-C at any moment inside `next`, once or twice: nothing is lost, nothing comes twice."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import gristmill as gm
import probes
from gristmill import _core

# An interrupt inside a finalizer goes no further, as ever.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Interrupt:
    """Raises at the `n`-th moment at which a signal would be answered.

    These are where functions begin, and after native calls; those of the caller are left out.
    The garbage collector rests meanwhile: what it finalizes is not of these moments, and where
    `profile` raises in it, CPython 3.11 goes on to call the method that it has just freed.
    """

    def __init__(self, n: int) -> None:
        self.left = n
        self.is_raised = False

    def __enter__(self) -> Self:
        self.caller = sys._getframe(1)
        gc.disable()
        sys.setprofile(self.profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_return") or frame is self.caller:
            return
        if frame.f_code is Interrupt.__exit__.__code__:
            return
        self.left -= 1
        if self.left < 0:
            self.is_raised = True
            raise KeyboardInterrupt


class Interrupted:
    """A native pipeline whose `next` is interrupted while it waits."""

    def __init__(self, *options: Any) -> None:
        self.real = PIPELINE(*options)

    def next(self) -> None:
        self.real.close()
        raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


PIPELINE = _core.Pipeline


def numbers(elements: Any) -> list[int]:
    return [int(element["count"]) for element in elements]


def rows(paths: list[Path], **options: Any) -> gm.ArrowIterator:
    return iter(gm.ArrowIterDataset(paths, columns=["count"], audio=None, **options))


@pytest.mark.parametrize("n_before", [0, 3, 40])
def test_an_interrupt_at_any_moment(numbered: list[Path], n_before: int) -> None:
    n, is_raised = 0, True
    while is_raised:
        it = rows(numbered)
        got = numbers(next(it) for _ in range(n_before))
        with Interrupt(n) as interrupt:
            try:  # noqa: SIM105 - it must not strike in `suppress`
                got.append(int(next(it)["count"]))
            except (KeyboardInterrupt, StopIteration):
                pass
        is_raised = interrupt.is_raised
        assert it.get_state()["next_index"] % 40 == len(got) % 40
        got += numbers(it)
        assert got == list(range(-3, 37)), f"moment {n}"
        n += 1
    assert n > 10


@pytest.mark.parametrize("n_before", [0, 3])
def test_an_interrupt_and_another_at_any_moment_after(
    numbered: list[Path], n_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, is_raised = 0, True
    before = rows(numbered)
    for _ in range(n_before):
        next(before)
    while is_raised:
        it = rows(numbered)
        it.set_state(before.get_state())
        with monkeypatch.context() as patch:
            patch.setattr(_core, "Pipeline", Interrupted)
            with Interrupt(n) as interrupt:
                try:  # noqa: SIM105 - it must not strike in `suppress`
                    next(it)
                except KeyboardInterrupt:
                    pass
        is_raised = interrupt.is_raised
        assert numbers(it) == list(range(n_before - 3, 37)), f"moment {n}"
        n += 1
    assert n > 10


def test_an_interrupt_in_set_state(numbered: list[Path]) -> None:
    """The iterator is then where it was, or where it was sent."""
    n, is_raised = 0, True
    while is_raised:
        it = rows(numbered)
        early = it.get_state()
        for _ in range(5):
            next(it)
        with Interrupt(n) as interrupt:
            try:  # noqa: SIM105 - it must not strike in `suppress`
                it.set_state(early)
            except KeyboardInterrupt:
                pass
        is_raised = interrupt.is_raised
        index = it.get_state()["next_index"]
        assert index in (0, 5)
        assert numbers(it) == list(range(index - 3, 37)), f"moment {n}"
        n += 1
    assert n > 3


PAIRS = """
import os, random, signal, threading, time
import gristmill as gm

def inside(frame):
    while frame is not None:
        if "gristmill" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False

def handler(signum, frame):
    # What strikes in the loop below is the loop's own, and no business of the iterator.
    if inside(frame):
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, handler)
ds = gm.ArrowIterDataset(
    sys.argv[1], audio=gm.Audio(sample_rate=8_000, crop=gm.StartCrop(20.0)), epochs=None,
    columns=["audio", "count"], batch_size=2,
    read=gm.ReadOptions(num_threads=1, prefetch_batches=1))
done = threading.Event()

def send():
    draw = random.Random(1)
    for _ in range(60):
        time.sleep(draw.uniform(0.0, 0.04))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.003)
        os.kill(os.getpid(), signal.SIGINT)
    done.set()

it = iter(ds)
counts, n_interrupted = [], 0
thread = threading.Thread(target=send)
thread.start()
while not done.is_set():
    try:
        counts += next(it)["count"].tolist()
    except KeyboardInterrupt:
        n_interrupted += 1
thread.join()
counts += next(it)["count"].tolist()
it.close()
assert counts == [k % 40 - 3 for k in range(len(counts))], counts
print(n_interrupted > 0)
"""


def test_pairs_of_signals(slow: Path) -> None:
    assert probes.run(PAIRS, slow) == "True\n"
