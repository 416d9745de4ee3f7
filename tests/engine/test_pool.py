"""The decode threads of a process: shared by its iterators, evenly, and no more than asked for."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
import probes
from probes import n_descriptors, n_threads, settles
from rounds import rounds
from signals import RATE

CPUS = len(os.sched_getaffinity(0))

COUNTS = """
import gristmill as gm
from probes import decode_threads, settles
paths = sys.argv[2:]
def start(**read):
    source = gm.ArrowIterDataset(paths, audio=gm.Audio(), epochs=None, read=gm.ReadOptions(**read))
    it = iter(source)
    next(it)
    return it
n = {"default": None, "one": 1, "more": 5}[sys.argv[1]]
iterators = [start(num_threads=n) for _ in range(3)]
print(decode_threads())
for it in iterators:
    it.close()
print(settles(decode_threads, 0))
"""


@pytest.mark.parametrize(
    ("asked", "most"), [("default", CPUS), ("one", min(3, CPUS)), ("more", max(5, CPUS))]
)
def test_iterators_share_their_threads(same_rate: list[Path], asked: str, most: int) -> None:
    while_running, all_ended = probes.run(COUNTS, asked, *same_rate).split()
    assert 1 <= int(while_running) <= most
    assert all_ended == "True"


def costly(paths: list[Path], **options: Any) -> gm.ArrowIterator:
    """An iterator that decodes and resamples all the time, whoever takes its elements."""
    audio = gm.Audio(sample_rate=RATE + 1, resampler="best", crop=options.pop("crop", None))
    read = gm.ReadOptions(prefetch_batches=100_000, memory_budget="4GiB", **options)
    return iter(gm.ArrowIterDataset(paths, audio=audio, columns=["audio"], epochs=None, read=read))


def decoded(iterators: tuple[gm.ArrowIterator, gm.ArrowIterator]) -> list[np.ndarray]:
    """Of each, rows and seconds of decode threads."""
    stages = [it.stats().stages for it in iterators]
    return [
        np.array([s.decode.count, s.decode.busy_seconds + s.resample.busy_seconds]) for s in stages
    ]


@pytest.mark.parametrize("kind", ["alike", "short and long rows"])
def test_two_iterators_get_on_side_by_side(same_rate: list[Path], kind: str) -> None:
    """Both have as much of the threads' time, however long their rows are.

    A share by rows would give the short ones an eighth of the time. Rows are not compared: where
    other programs run, one of two rows alike may take three times as long.
    """
    crop = None if kind == "alike" else gm.RandomCrop(0.05)
    pair = (costly(same_rate), costly(same_rate, crop=crop))
    try:
        for it in pair:
            next(it)  # both are open
        before = decoded(pair)
        slow, _ = before
        while slow[0] < before[0][0] + rounds(240, 90):
            slow, _ = decoded(pair)
        first, second = (after - then for after, then in zip(decoded(pair), before, strict=True))
        assert 0.5 <= first[1] / second[1] <= 2.0, (first, second)
        for it in pair:
            stats = it.stats()
            assert stats.decoders.elsewhere_seconds > 0.1 * stats.decoders.alive_seconds
            parts = stats.stages.decode.busy_seconds + stats.stages.decode.waiting_seconds
            parts += stats.stages.resample.busy_seconds + stats.stages.assemble.busy_seconds
            parts += stats.decoders.elsewhere_seconds
            assert parts == pytest.approx(stats.decoders.alive_seconds, rel=0.02, abs=5e-3)
    finally:
        for it in pair:
            it.close()


def test_an_iterator_alone_has_all_threads(same_rate: list[Path]) -> None:
    other = costly(same_rate)
    next(other)
    other.close()
    with_nobody = costly(same_rate)
    for _ in range(50):
        next(with_nobody)
    assert with_nobody.stats().decoders.elsewhere_seconds == 0
    with_nobody.close()


def test_what_comes_out_does_not_depend_on_the_others(same_rate: list[Path]) -> None:
    """Iterators of unlike jobs, side by side and each alone; one is closed on the way."""
    jobs = [
        gm.ArrowIterDataset(
            same_rate,
            audio=gm.Audio(sample_rate=rate, crop=gm.RandomCrop(0.3)),
            columns=["audio", "count"],
            shuffle=gm.Shuffle(seed),
            batch_size=3,
            epochs=2,
        )
        for seed, rate in ((1, 32_000), (2, 22_050), (3, 8_000))
    ]
    alone = [list(job) for job in jobs]
    threads, descriptors = n_threads(), n_descriptors()
    disturber = costly(same_rate, num_threads=3)
    disturber.start_prefetch()
    iterators = [iter(job) for job in jobs]
    together: list[list[Any]] = [[] for _ in jobs]
    for k in range(len(alone[0])):
        for it, into in zip(iterators, together, strict=True):
            into.append(next(it))
        if k == 5:
            disturber.close()
    np.testing.assert_equal(together, alone)
    for it in iterators:
        it.close()
    assert settles(n_threads, threads)
    assert settles(n_descriptors, descriptors)


def test_consumers_on_threads_of_their_own_come_and_go(same_rate: list[Path]) -> None:
    threads = n_threads()
    found: list[int] = []

    def consume(seed: int) -> None:
        for _ in range(8):
            source = gm.ArrowIterDataset(
                same_rate, audio=None, columns=["count"], shuffle=gm.Shuffle(seed), batch_size=5
            )
            it = iter(source)
            found.append(sum(len(batch["count"]) for batch in it))
            it.close()

    consumers = [threading.Thread(target=consume, args=(seed,)) for seed in range(4)]
    for thread in consumers:
        thread.start()
    for thread in consumers:
        thread.join()
    assert found == [25] * 32
    assert settles(n_threads, threads)


CLOSE_WHILE_OTHERS_WORK = """
import gristmill as gm, threading, time
from probes import decode_threads, settles
audio = gm.Audio(sample_rate=8_000, resampler="best")
options = dict(audio=audio, batch_size=8, read=gm.ReadOptions(num_threads=1))
with_turn, waits = (iter(gm.ArrowIterDataset(sys.argv[1], **options)) for _ in range(2))
with_turn.start_prefetch()
while with_turn.stats().stages.decode.busy_seconds == 0:
    time.sleep(0.01)
threading.Timer(0.5, waits.close).start()
begin = time.monotonic()
try:
    next(waits)
except ValueError as e:
    assert "closed" in str(e), e
print(time.monotonic() - begin)
assert decode_threads() == 1
begin = time.monotonic()
with_turn.close()
print(time.monotonic() - begin)
assert settles(decode_threads, 0)
"""


def test_closing_while_waiting_for_a_turn(slow: Path) -> None:
    """On one CPU one thread serves both, and rows take it long."""
    code = "import os, sys\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    waited, closed = map(float, probes.run(code + CLOSE_WHILE_OTHERS_WORK, slow).split())
    assert waited < 3.0  # half a second of it is asked for
    assert closed < 3.0


FORKS = """
import os, signal, warnings
warnings.simplefilter("ignore")  # about forking with threads, which is the point
import gristmill as gm
from probes import decode_threads, settles
def source(**options):
    return gm.ArrowIterDataset(sys.argv[1:], audio=gm.Audio(sample_rate=8_000), **options)
busy = [iter(source(epochs=None)) for _ in range(2)]
for it in busy:
    next(it)
for _ in range(8):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        inherited = decode_threads()
        here = [iter(source()) for _ in range(2)]
        counts = [sum(1 for _ in it) for it in here]
        next(busy[0])
        ours = decode_threads()
        busy[0].close()
        good = inherited == 0 and counts == [25, 25] and 1 <= ours <= len(os.sched_getaffinity(0))
        os._exit(0 if good and settles(decode_threads, 0) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for it in busy:
        next(it)
print(decode_threads() <= len(os.sched_getaffinity(0)))
"""


def test_forked_children_have_a_pool_of_their_own(same_rate: list[Path]) -> None:
    assert probes.run(FORKS, *same_rate) == "True\n"
