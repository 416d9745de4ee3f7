"""States: a handful of integers, from which the rest comes again exactly."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm

AUDIO = gm.Audio(crop=gm.RandomCrop(0.01))
VARIANTS: dict[str, dict[str, Any]] = {
    "rows": {},
    "shuffled rows": {"shuffle": gm.Shuffle(4), "epochs": 2},
    "batches": {"shuffle": gm.Shuffle(4), "epochs": 3, "batch_size": 7},
    "full batches": {"shuffle": gm.Shuffle(4), "batch_size": 7, "drop_remainder": True},
    "excluded": {"batch_size": 4, "exclude": [(0, 3), (3, 0)], "epochs": 2},
}
COLUMNS = ["audio", "count", "name"]


def source(paths: list[Path], variant: str, **options: Any) -> gm.ArrowIterDataset:
    options = {"audio": AUDIO, "columns": COLUMNS, **VARIANTS[variant], **options}
    return gm.ArrowIterDataset(paths, **options)


def through_json(state: Any) -> Any:
    return json.loads(json.dumps(state))


def walk(ds: Any) -> tuple[list[Any], list[Any]]:
    """All elements, and the state before each of them and at the end."""
    it, states, elements = iter(ds), [], []
    states.append(it.get_state())
    for element in it:
        elements.append(element)
        states.append(it.get_state())
    return elements, states


# As version 1 of the format wrote them: after three elements, the fingerprint, and which of 40
# rows come next.
FINGERPRINTS: dict[str, tuple[dict[str, Any], int, str, list[int]]] = {
    "rows": (
        {},
        3,
        (
            "4-40-8e8a4e6a7d0be58c-80fc82120cc45b28-0000000000000000-cd7ee134a155ef88-"
            "e220a8397b1dcdaf-729ce26eff72123f"
        ),
        [0],
    ),
    "windowed": (
        {"shuffle": gm.Shuffle(4, window=8, streams=2), "epochs": 3, "batch_size": 7},
        21,
        (
            "4-40-8e8a4e6a7d0be58c-80fc82120cc45b28-0000000000000000-68ba1586c93fc08c-"
            "c164bb7b2b9b3e3a-729ce26eff72123f"
        ),
        [-3, 18, -1, 19, 0, 22, 1],
    ),
    "excluded": (
        {"shuffle": gm.Shuffle(4), "batch_size": 4, "exclude": [(0, 3), (3, 0)], "epochs": 2},
        12,
        (
            "4-38-8e8a4e6a7d0be58c-80fc82120cc45b28-cd30f6386659d727-7313471b64e43197-"
            "c164bb7b2b9b3e3a-355363ff32dd66e8"
        ),
        [28, -2, 35, 7],
    ),
    "drawn": (
        {"sampling": gm.Weighted(np.arange(40.0), draws=50, seed=2), "batch_size": 6},
        18,
        (
            "4-40-8e8a4e6a7d0be58c-80fc82120cc45b28-0000000000000000-5cc6fc1374a3af58-"
            "e220a8397b1dcdaf-627058685f573722"
        ),
        [23, 24, 30, 26, 28, 28],
    ),
}


@pytest.mark.parametrize("variant", FINGERPRINTS)
def test_states_of_version_1_load(numbered: list[Path], variant: str) -> None:
    """Golden: a state that was written once is read for ever."""
    options, index, fingerprint, counts = FINGERPRINTS[variant]
    state = {"version": 1, "epoch": 0, "next_index": index, "hosts": 1, "stride": 1}
    it = iter(gm.ArrowIterDataset(numbered, audio=AUDIO, columns=COLUMNS, **options))
    it.set_state({**state, "fingerprint": fingerprint})
    assert np.atleast_1d(next(it)["count"]).tolist() == counts
    assert it.get_state()["fingerprint"] == fingerprint


every_variant = pytest.mark.parametrize("variant", VARIANTS)


@every_variant
def test_resume_at_every_position(numbered: list[Path], variant: str) -> None:
    ds = source(numbered, variant)
    elements, states = walk(ds)
    for k, state in enumerate(states):
        it = iter(ds)
        it.set_state(through_json(state))
        assert it.get_state() == state
        np.testing.assert_equal(list(it), elements[k:])
        assert it.get_state() == states[-1]


@every_variant
def test_save_restore_save_restore(numbered: list[Path], variant: str) -> None:
    ds = source(numbered, variant)
    elements, states = walk(ds)
    for first, steps in itertools.product(range(0, len(elements), 5), (0, 1, 3)):
        once = iter(ds)
        once.set_state(through_json(states[first]))
        for _ in itertools.islice(once, steps):
            pass
        at = min(first + steps, len(elements))
        assert once.get_state() == states[at]
        twice = iter(ds)
        twice.set_state(through_json(once.get_state()))
        np.testing.assert_equal(list(twice), elements[at:])


@every_variant
def test_states_are_small_plain_and_of_one_structure(numbered: list[Path], variant: str) -> None:
    _, states = walk(source(numbered, variant))
    for state in states:
        assert through_json(state) == state
        assert len(json.dumps(state)) < 500
        assert [(k, type(v)) for k, v in state.items()] == [
            ("version", int),
            ("epoch", int),
            ("next_index", int),
            ("hosts", int),
            ("stride", int),
            ("fingerprint", str),
        ]
    assert len({json.dumps(state) for state in states}) == len(states)


def test_the_state_stands_still_between_elements(numbered: list[Path]) -> None:
    """Rows that were read ahead are not in the state: it advances at `__next__`."""
    it = iter(source(numbered, "batches"))
    first = it.get_state()
    it.start_prefetch()
    assert it.get_state()["next_index"] == first["next_index"]
    next(it)
    after = it.get_state()
    assert after != first
    assert it.get_state() == after
    assert it.get_state() is not it.get_state()
    it.close()
    assert it.get_state() == after


def test_states_are_copied_in_both_directions(numbered: list[Path]) -> None:
    it = iter(source(numbered, "batches"))
    next(it)
    state = it.get_state()
    kept = copy.deepcopy(state)
    it.set_state(state)
    next(it)
    assert state == kept
    state["next_index"] = 10**6
    assert it.get_state()["next_index"] < 10**6


def test_rewind_of_an_exhausted_iterator(numbered: list[Path]) -> None:
    ds = source(numbered, "shuffled rows")
    it = iter(ds)
    start = it.get_state()
    elements = list(it)
    for _ in range(2):
        it.set_state(start)
        np.testing.assert_equal(list(it), elements)
        with pytest.raises(StopIteration):
            next(it)


def test_jumping_about_in_one_iterator(numbered: list[Path]) -> None:
    ds = source(numbered, "batches")
    elements, states = walk(ds)
    it = iter(ds)
    for k in (3, 0, len(elements) - 1, 5, 5, 1):
        it.set_state(states[k])
        np.testing.assert_equal(next(it), elements[k])


def test_two_iterators_know_nothing_of_each_other(numbered: list[Path]) -> None:
    ds = source(numbered, "batches")
    elements, _ = walk(ds)
    first, second = iter(ds), iter(ds)
    next(first)
    next(first)
    np.testing.assert_equal(next(second), elements[0])
    np.testing.assert_equal(next(first), elements[2])


@pytest.mark.parametrize(
    "other",
    [
        {"shuffle": gm.Shuffle(5)},
        {"shuffle": None},
        {"exclude": [(0, 0)]},
    ],
    ids=["seed", "no shuffle", "exclude"],
)
def test_a_state_of_other_options_is_refused_late(
    numbered: list[Path], other: dict[str, Any]
) -> None:
    it = iter(source(numbered, "batches"))
    next(it)
    state = it.get_state()
    stranger = iter(source(numbered, "batches", **other))
    stranger.set_state(state)
    assert stranger.get_state() == state
    with pytest.raises(ValueError, match="state"):
        next(stranger)
    stranger.set_state(iter(source(numbered, "batches", **other)).get_state())
    assert len(next(stranger)["count"]) == 7


def test_a_state_of_other_shards_is_refused_late(numbered: list[Path]) -> None:
    it = iter(source(numbered, "batches"))
    next(it)
    stranger = iter(source(numbered[:3], "batches"))
    stranger.set_state(it.get_state())
    with pytest.raises(ValueError, match="state"):
        next(stranger)


@pytest.mark.parametrize(
    "broken", [{"version": 10**6}, {"next_index": -1}, {"epoch": -1}, {"fingerprint": 3}]
)
def test_a_broken_state_is_refused_late(numbered: list[Path], broken: dict[str, Any]) -> None:
    it = iter(source(numbered, "rows"))
    next(it)
    it.set_state({**it.get_state(), **broken})
    with pytest.raises(ValueError, match="state"):
        next(it)


def test_speed_options_may_change_between_save_and_restore(numbered: list[Path]) -> None:
    elements, states = walk(source(numbered, "batches"))
    for threads, prefetch in ((1, 1), (5, 9)):
        read = gm.ReadOptions(num_threads=threads, prefetch_batches=prefetch)
        it = iter(source(numbered, "batches", read=read))
        it.set_state(states[4])
        np.testing.assert_equal(list(it), elements[4:])


def test_shards_may_move(numbered: list[Path], tmp_path: Path) -> None:
    elements, states = walk(source(numbered, "batches"))
    moved = [tmp_path / path.name for path in numbered]
    for old, new in zip(numbered, moved, strict=True):
        new.write_bytes(old.read_bytes())
    it = iter(source(moved, "batches"))
    it.set_state(states[2])
    np.testing.assert_equal(list(it), elements[2:])
