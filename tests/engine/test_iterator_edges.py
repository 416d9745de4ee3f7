"""Calls at odd moments: close while starting, interrupts after delivery, states of odd types."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

import gristmill as gm
from gristmill import _core
from probes import n_threads, settles


def source(paths: list[Path], **options: Any) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(paths, columns=["count"], audio=None, **options)


def counts(elements: Any) -> list[int]:
    return [int(value) for element in elements for value in np.atleast_1d(element["count"])]


LATER = {"version": 1, "epoch": 1, "next_index": 0, "hosts": 1, "stride": 1, "fingerprint": "any"}


@pytest.mark.parametrize("call", ["next", "start_prefetch"])
def test_close_while_the_threads_start(
    numbered: list[Path], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    it = iter(source(numbered, epochs=None))
    real, threads = _core.Pipeline, n_threads()

    def started(*options: Any) -> Any:
        it.close()  # as another thread may, at this very moment
        return real(*options)

    monkeypatch.setattr(_core, "Pipeline", started)
    with pytest.raises(ValueError, match="closed"):
        next(it) if call == "next" else it.start_prefetch()
    assert settles(n_threads, threads)


def test_an_interrupt_after_delivery_loses_nothing(
    numbered: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = iter(source(numbered))
    first = counts([next(it)])
    with monkeypatch.context() as patch:
        patch.setattr(type(it._position), "after", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(it)
    assert first + counts(it) == list(range(-3, 37))


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_next_index_starts_nothing_after_close(
    numbered: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def starts(*_: object) -> None:
        pytest.fail("a closed iterator starts threads")

    it = iter(source(numbered, epochs=2))
    it.set_state(LATER)
    it.close()
    monkeypatch.setattr(_core, "Pipeline", starts)
    with pytest.raises(ValueError, match="closed"):
        grain.experimental.get_next_index(it)


def test_next_index_of_what_does_not_open(tmp_path: Path) -> None:
    (tmp_path / "bad.arrow").write_bytes(b"junk")
    it = iter(gm.ArrowIterDataset(tmp_path / "bad.arrow"))
    it.set_state(LATER)
    with pytest.raises(ValueError, match="could not be opened"):
        grain.experimental.get_next_index(it)
    with pytest.raises(gm.CorruptShardError):
        next(it)


def test_states_of_numpy_integers(numbered: list[Path]) -> None:
    it = iter(source(numbered))
    expected = counts([next(it) for _ in range(5)])
    state = {"version": 1, "epoch": np.int64(0), "next_index": np.int64(4), "hosts": 1}
    it.set_state({**state, "stride": np.int32(1), "fingerprint": it.get_state()["fingerprint"]})
    assert all(type(value) in (int, str) for value in it.get_state().values())
    assert counts([next(it)]) == expected[4:]
    assert all(type(value) in (int, str) for value in it.get_state().values())


def pickled(it: Any) -> Any:
    return pickle.loads(pickle.dumps(it))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_goes_on_by_itself(numbered: list[Path], copied: Any) -> None:
    it = iter(source(numbered))
    expected = counts(list(iter(source(numbered))))
    assert counts([next(it) for _ in range(3)]) == expected[:3]
    other = copied(it)
    assert other.get_state() == it.get_state()
    assert counts([next(other) for _ in range(4)]) == expected[3:7]
    other.close()
    assert counts(list(it)) == expected[3:]
    assert list(copied(it)) == []


@pytest.mark.parametrize("count", [2**64, -1, 1.0, None])
def test_states_of_no_counts(numbered: list[Path], count: object) -> None:
    it = iter(source(numbered))
    it.set_state({**LATER, "epoch": count})
    with pytest.raises(ValueError, match="epoch"):
        next(it)


def test_exclusions_may_be_paths(numbered: list[Path]) -> None:
    assert len(counts(source(numbered, exclude=[(numbered[0], 3)]))) == 39


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_index_of_the_end_is_the_end(numbered: list[Path], epochs: int) -> None:
    it = iter(source(numbered, batch_size=7, epochs=epochs))
    n_batches = len(list(it))
    assert grain.experimental.get_next_index(it) == n_batches
    grain.experimental.set_next_index(it, n_batches)
    assert list(it) == []
    grain.experimental.set_next_index(it, n_batches - 1)
    assert len(list(it)) == 1
    grain.experimental.set_next_index(it, n_batches + 1)
    with pytest.raises(ValueError, match="past the end"):
        next(it)
