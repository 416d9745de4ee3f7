"""Several callers of one iterator: each element goes to one of them, and none is lost."""

from __future__ import annotations

import asyncio
import functools
import operator
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm


def rows(paths: list[Path], **options: Any) -> gm.ArrowIterator:
    return iter(gm.ArrowIterDataset(paths, columns=["count"], audio=None, **options))


@pytest.fixture
def _often() -> Any:
    """Threads take turns of Python as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_often")
def test_threads_get_each_row_once(numbered: list[Path]) -> None:
    it = rows(numbered, epochs=10)
    got: list[list[int]] = [[] for _ in range(4)]

    def take(into: list[int]) -> None:
        into.extend(int(element["count"]) for element in it)

    threads = [threading.Thread(target=take, args=(into,)) for into in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(functools.reduce(operator.iadd, got, [])) == sorted(list(range(-3, 37)) * 10)


def test_to_thread_gets_another_batch_each_time(numbered: list[Path]) -> None:
    it = rows(numbered, batch_size=10)

    async def batches() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(next, it) for _ in range(4)))

    got = [int(count) for batch in asyncio.run(batches()) for count in batch["count"]]
    assert sorted(got) == list(range(-3, 37))


def test_a_call_inside_a_call_is_refused_and_loses_nothing(numbered: list[Path]) -> None:
    it = rows(numbered)
    inside: list[BaseException] = []

    def profile(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "_advance" and not inside:
            sys.setprofile(None)
            for call in (it.__next__, it.start_prefetch, lambda: it.set_state(it.get_state())):
                with pytest.raises(ValueError, match="already executing") as error:
                    call()
                inside.append(error.value)

    sys.setprofile(profile)
    got = [int(next(it)["count"])]
    sys.setprofile(None)
    assert len(inside) == 3
    got += [int(element["count"]) for element in it]
    assert got == list(range(-3, 37))


def test_an_error_that_is_kept_holds_no_turn(numbered: list[Path]) -> None:
    it = rows(numbered, epochs=1)
    list(it)
    with pytest.raises(StopIteration) as kept:
        next(it)
    other = threading.Thread(target=lambda: next(it, None))
    other.start()
    other.join(10)
    assert not other.is_alive()
    assert kept is not None


def test_ctrl_c_ends_the_wait_for_a_turn(numbered: list[Path]) -> None:
    it = rows(numbered)
    turn = it._turns
    is_taken, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with turn.take():
            is_taken.set()
            may_end.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    is_taken.wait()
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(it)
    assert time.monotonic() - begin < 30
    may_end.set()
    other.join()
    assert [int(element["count"]) for element in it] == list(range(-3, 37))
