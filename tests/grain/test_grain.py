"""The contract of a Grain source, member by member."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import grain
import numpy as np
import pytest

import gristmill as gm
import probes
from signals import RATE

AUDIO = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(0.01))


def source(paths: Any, **options: Any) -> gm.ArrowIterDataset:
    given = {"audio": AUDIO, "columns": ["audio", "count"], "shuffle": gm.Shuffle(1), **options}
    return gm.ArrowIterDataset(paths, **given)


def test_types(numbered: list[Path]) -> None:
    ds = source(numbered)
    assert isinstance(ds, grain.IterDataset)
    assert isinstance(iter(ds), grain.DatasetIterator)
    assert "ArrowIterDataset" in str(ds)


def test_nothing_is_touched_before_the_first_element() -> None:
    # In a process of its own: here, threads and files of earlier tests may still go.
    assert_in_a_new_process(
        """
threads, descriptors = probes.n_threads(), probes.n_descriptors()
iterators = []
for path in paths:
    ds = source(path, batch_size=4)
    ds.set_slice(slice(0, None, 2))
    it = iter(ds)
    state = it.get_state()
    it.set_state(state)
    assert it.get_state() == state
    copy.deepcopy(ds)
    cloudpickle.dumps(ds)
    iterators.append(it)
assert (probes.n_threads(), probes.n_descriptors()) == (threads, descriptors)
for it in iterators:
    try:
        next(it)
    except FileNotFoundError as error:
        assert "/nowhere" in str(error)
    else:
        raise AssertionError("a shard that is not there")
    it.close()
print("ended")
""",
        *("/nowhere/a.arrow", "/nowhere/*.arrow", "/nowhere"),
    )


def test_no_thread_before_the_first_element(numbered: list[Path]) -> None:
    assert_in_a_new_process(
        """
before = probes.n_threads()
iterators = [iter(source(paths)) for _ in range(8)]
states = [it.get_state() for it in iterators]
for it, state in zip(iterators, states, strict=True):
    it.set_state(state)
assert probes.n_threads() == before
next(iterators[0])
assert probes.n_threads() > before
print("ended")
""",
        *numbered,
    )


def assert_in_a_new_process(code: str, *paths: object) -> None:
    imports = "import copy, cloudpickle, gristmill, probes\nfrom test_grain import source\n"
    head = imports + "paths = sys.argv[1:]\n"
    assert probes.run(head + code, *paths) == "ended\n"


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
@pytest.mark.parametrize("sliced", [False, True])
def test_pickles_and_copies_are_the_same_data_set(
    numbered: list[Path], dumps: Any, sliced: bool
) -> None:
    ds = source(numbered, exclude=[(0, 1)], batch_size=3, with_row_id=True)
    if sliced:
        ds.set_slice(slice(1, None, 2))
    expected = list(ds)
    np.testing.assert_equal(list(pickle.loads(dumps(ds))), expected)
    np.testing.assert_equal(list(copy.deepcopy(ds)), expected)


def test_a_slice_is_of_the_copy_only(numbered: list[Path]) -> None:
    ds = source(numbered)
    whole = list(ds)
    part = copy.deepcopy(ds)
    part.set_slice(slice(0, None, 2))
    assert len(list(part)) == 20
    np.testing.assert_equal(list(ds), whole)


def test_slices_compose(numbered: list[Path]) -> None:
    """As elastic hosts and then worker processes do: each slice is taken of the one before."""

    def counts(*slices: slice) -> list[int]:
        ds = source(numbered)
        for part in slices:
            ds.set_slice(part)
        return sorted(int(element["count"]) for element in ds)

    halves = [counts(slice(i, None, 2)) for i in range(2)]
    assert sorted(halves[0] + halves[1]) == counts()
    for i, half in enumerate(halves):
        thirds = [counts(slice(i, None, 2), slice(k, None, 3)) for k in range(3)]
        assert sorted([*thirds[0], *thirds[1], *thirds[2]]) == half


def test_an_empty_slice_yields_nothing(numbered: list[Path]) -> None:
    ds = source(numbered[2])  # 9 rows
    ds.set_slice(slice(10, None, 12))
    assert list(ds) == []


def test_the_state_before_the_first_element_fits_every_slice(numbered: list[Path]) -> None:
    """Grain hands the state of the whole at its start to the slices of the workers."""
    start = iter(source(numbered)).get_state()
    ds = source(numbered)
    ds.set_slice(slice(1, None, 3))
    expected = list(ds)
    it = iter(ds)
    it.set_state(start)
    np.testing.assert_equal(list(it), expected)


@pytest.mark.parametrize("batch_size", [None, 7])
def test_next_index_both_ways(numbered: list[Path], batch_size: int | None) -> None:
    ds = source(numbered, batch_size=batch_size, epochs=2)
    elements = list(ds)
    it = iter(ds)
    for k in range(4):
        assert grain.experimental.get_next_index(it) == k
        next(it)
    for k in (7, 0, 11):
        grain.experimental.set_next_index(it, k)
        assert grain.experimental.get_next_index(it) == k
        np.testing.assert_equal(next(it), elements[k])


def test_next_index_of_hosts_that_are_padded(numbered: list[Path]) -> None:
    """All hosts end in step, also one whose last batch has no row of the data."""
    for host in range(2):
        options = grain.sharding.ShardOptions(host, 2)
        ds = source(numbered[2], batch_size=1, remainder="pad", shard_options=options)
        it = iter(ds)
        n = len(list(it))
        assert n == 5  # of 9 rows
        assert grain.experimental.get_next_index(it) == n
        again = iter(ds)
        grain.experimental.set_next_index(again, n)
        assert list(again) == []


def test_element_spec(numbered: list[Path]) -> None:
    spec = grain.experimental.get_element_spec(source(numbered))
    assert set(spec) == {"audio", "count"}
    assert (spec["audio"].shape, np.dtype(spec["audio"].dtype)) == ((320,), np.float32)
    assert (spec["count"].shape, np.dtype(spec["count"].dtype)) == ((), np.int32)
    batches = source(numbered, batch_size=4, epochs=None, drop_remainder=True)
    spec = grain.experimental.get_element_spec(batches)
    assert (spec["audio"].shape, spec["count"].shape) == ((4, 320), (4,))
    spec = grain.experimental.get_element_spec(source(numbered).batch(5, drop_remainder=True))
    assert spec["audio"].shape == (5, 320)


def test_start_prefetch_is_idempotent(numbered: list[Path]) -> None:
    expected = list(source(numbered))
    it = iter(source(numbered))
    it.start_prefetch()
    it.start_prefetch()
    first = next(it)
    it.start_prefetch()
    np.testing.assert_equal([first, *it], expected)
    it.start_prefetch()
    assert list(it) == []


def test_close_is_idempotent_and_final(numbered: list[Path]) -> None:
    it = iter(source(numbered))
    next(it)
    for _ in range(3):
        it.close()
        with pytest.raises(ValueError, match="closed"):
            next(it)
    fresh = iter(source(numbered))
    fresh.close()
    with pytest.raises(ValueError, match="closed"):
        next(fresh)


def test_the_end_stays_the_end(numbered: list[Path]) -> None:
    it = iter(source(numbered[2]))
    assert len(list(it)) == 9
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(it)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_buffers_are_never_reused(numbered: list[Path], batch_size: int | None) -> None:
    """Grain's windows and prefetchers keep references to elements."""
    ds = source(numbered, batch_size=batch_size, epochs=3)
    expected = [element["audio"].copy() for element in ds]
    kept = []
    for element in ds:
        kept.append(element["audio"].copy())
        element["audio"][...] = np.nan
    np.testing.assert_equal(kept, expected)
    elements = list(ds)
    elements[0]["audio"][...] = 1.0
    np.testing.assert_equal([e["audio"] for e in elements[1:]], expected[1:])


def test_an_array_outlives_its_iterator(numbered: list[Path]) -> None:
    it = iter(source(numbered, batch_size=8))
    batch = next(it)["audio"]
    before = batch.copy()
    it.close()
    del it
    for _ in source(numbered, batch_size=8):
        pass
    np.testing.assert_array_equal(batch, before)


def test_a_data_set_serves_any_number_of_iterators(numbered: list[Path]) -> None:
    ds = source(numbered)
    iterators = [iter(ds) for _ in range(5)]
    for elements in zip(*iterators, strict=True):
        for element in elements[1:]:
            np.testing.assert_equal(element, elements[0])
