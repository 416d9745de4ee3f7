"""Grain's elastic iterator over a bare source: saved on 4 hosts, restored on 2 and on 8."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import grain
import pytest

import gristmill as gm
from gristmill import _grain
from gristmill.elastic import FEWEST_SHARDS
from test_hosts import ORDERS, batches, rows_of, stream


class Elastic(Protocol):
    def __next__(self) -> Any: ...
    def get_shard_states(self) -> dict[int, Any]: ...
    def set_shard_states(self, states: dict[int, Any]) -> None: ...


class StandIn:
    """What Grain 0.2.19 asks of a source, by its public repository; 0.2.18 has nothing of it."""

    def __init__(
        self,
        dataset: gm.ArrowIterDataset,
        global_batch_size: int,
        shard_options: grain.sharding.ShardOptions,
    ) -> None:
        self._index, self._count = shard_options.shard_index, shard_options.shard_count
        self._dataset: Any = copy.deepcopy(dataset)
        self._dataset.set_slice(slice(self._index, None, self._count))
        if global_batch_size:
            self._dataset = self._dataset.batch(global_batch_size // self._count)
        self._start()

    def _start(self) -> None:
        self._iterator = iter(self._dataset)
        source: Any = self._iterator
        while not hasattr(source, "get_shard_states"):
            (source,) = source._parents
        self._source = source

    def __next__(self) -> Any:
        return next(self._iterator)

    def get_shard_states(self) -> dict[int, Any]:
        states = self._source.get_shard_states()
        return {k * self._count + self._index: state for k, state in enumerate(states)}

    def set_shard_states(self, states: dict[int, Any]) -> None:
        self._start()
        self._source.set_shard_states([state for _, state in sorted(states.items())])


def grains_own(
    dataset: gm.ArrowIterDataset, batch: int, options: grain.sharding.ShardOptions
) -> Elastic:
    """Grain's own, where it takes a source."""
    try:
        made: Any = grain.experimental.ElasticIterator(dataset, batch, options)
        taken = hasattr(made, "get_shard_states")
    except (TypeError, ValueError, AttributeError):
        taken = False
    if not taken:
        pytest.skip("ElasticIterator of this version of Grain takes no IterDataset: 0.2.19 does")
    return made


KINDS = {"stand-in": StandIn, "grain": grains_own}
every_kind = pytest.mark.parametrize("kind", KINDS)


def hosts(kind: str, dataset: gm.ArrowIterDataset, batch: int, count: int) -> list[Elastic]:
    options = [grain.sharding.ShardOptions(k, count) for k in range(count)]
    return [KINDS[kind](dataset, batch, one) for one in options]


def save(folder: Path, iterators: list[Elastic]) -> None:
    folder.mkdir()
    for iterator in iterators:
        for shard, state in iterator.get_shard_states().items():
            path = folder / f"{shard}.json"
            assert not path.exists()
            path.write_text(json.dumps(state))
            assert path.stat().st_size < 500


def restore(folder: Path, iterators: list[Elastic]) -> None:
    for index, iterator in enumerate(iterators):
        states: dict[int, Any] = {}
        while (path := folder / f"{index + len(states) * len(iterators)}.json").exists():
            states[int(path.stem)] = json.loads(path.read_text())
        iterator.set_shard_states(states)


def turn(iterators: list[Elastic]) -> list[tuple[int, int]]:
    """What all hosts deliver in one step."""
    return sorted(row for iterator in iterators for row in rows_of(next(iterator)))


def rest(iterators: list[Elastic]) -> Iterator[tuple[int, int]]:
    for iterator in iterators:
        while (element := next(iterator, None)) is not None:
            yield from rows_of(element)


def dataset_of(paths: list[Path], **options: Any) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(paths, audio=None, columns=["count"], with_row_id=True, **options)


@every_kind
@pytest.mark.parametrize("order", ORDERS)
def test_four_two_eight_hosts(same_rate: list[Path], tmp_path: Path, kind: str, order: str) -> None:
    options: dict[str, Any] = {"shuffle": ORDERS[order], "epochs": 3}
    dataset = dataset_of(same_rate, **options)
    expected = stream(same_rate, **options)
    wanted = batches(expected, 8)
    found: list[list[tuple[int, int]]] = []
    previous: Path | None = None
    for number, (count, steps) in enumerate([(4, 2), (2, 2), (8, 1), (1, 1), (8, 1)]):
        iterators = hosts(kind, dataset, 8, count)
        if previous is not None:
            restore(previous, iterators)
        found += [turn(iterators) for _ in range(steps)]
        previous = tmp_path / str(number)
        save(previous, iterators)
    # Seven batches of eight, across the end of the first epoch; then all that is left, once.
    assert found == wanted[: len(found)]
    iterators = hosts(kind, dataset, 8, 2)
    restore(previous, iterators)
    left = sorted(rest(iterators))
    assert left == sorted(expected[8 * len(found) :])
    assert len(left) > 0


@every_kind
def test_native_batches_and_odd_numbers_of_hosts(
    same_rate: list[Path], tmp_path: Path, kind: str
) -> None:
    options: dict[str, Any] = {"shuffle": gm.Shuffle(5), "epochs": 4}
    expected = stream(same_rate, **options)
    position = 0
    previous: Path | None = None
    for number, (count, size) in enumerate([(3, 2), (5, 3), (2, 1), (7, 2)]):
        iterators = hosts(kind, dataset_of(same_rate, batch_size=size, **options), 0, count)
        if previous is not None:
            restore(previous, iterators)
        for _ in range(2):
            assert turn(iterators) == sorted(expected[position : position + count * size])
            position += count * size
        previous = tmp_path / str(number)
        save(previous, iterators)


@every_kind
def test_at_the_start_and_at_the_end(same_rate: list[Path], tmp_path: Path, kind: str) -> None:
    dataset = dataset_of(same_rate, epochs=1)
    whole = sorted(stream(same_rate, epochs=1))
    iterators = hosts(kind, dataset, 8, 4)
    save(tmp_path / "start", iterators)
    assert sorted(rest(iterators)) == whole
    save(tmp_path / "end", iterators)
    again = hosts(kind, dataset, 8, 2)
    restore(tmp_path / "start", again)
    assert sorted(rest(again)) == whole
    ended = hosts(kind, dataset, 8, 8)
    restore(tmp_path / "end", ended)
    assert not list(rest(ended))


def test_more_hosts_than_there_were(same_rate: list[Path], tmp_path: Path) -> None:
    dataset = dataset_of(same_rate, epochs=None)
    iterators = hosts("stand-in", dataset, 0, 40)
    assert turn(iterators)
    save(tmp_path / "40", iterators)
    assert len(list((tmp_path / "40").iterdir())) == 80
    assert FEWEST_SHARDS == 64
    restore(tmp_path / "40", hosts("stand-in", dataset, 0, 80))
    with pytest.raises(ValueError, match=r"no shard state for this host.*twice as many"):
        restore(tmp_path / "40", hosts("stand-in", dataset, 0, 81))


def test_hosts_out_of_step_are_refused(same_rate: list[Path], tmp_path: Path) -> None:
    dataset = dataset_of(same_rate)
    iterators = hosts("stand-in", dataset, 4, 2)
    turn(iterators)
    next(iterators[1])
    save(tmp_path / "2", iterators)
    with pytest.raises(ValueError, match="not in step when they were saved, after row 4 of epoch"):
        restore(tmp_path / "2", hosts("stand-in", dataset, 4, 1))


def test_states_that_are_none(same_rate: list[Path]) -> None:
    it = iter(dataset_of(same_rate))
    for wrong in ([3], ["state"], [{"exhausted": 0}], [{"state": None}]):
        with pytest.raises(ValueError, match="a shard state is a dictionary with a state in it"):
            it.set_shard_states(wrong)
    for wrong in (None, [], "ab", {"state": {}}):
        with pytest.raises(ValueError, match="there is no shard state for this host"):
            it.set_shard_states(wrong)
    # What is in it is checked by the next `next`, as after `set_state`.
    it.set_shard_states([{"exhausted": 0, "state": {"version": 99}}])
    with pytest.raises(ValueError, match="no state of version 1"):
        next(it)
    other = iter(dataset_of(same_rate, shuffle=gm.Shuffle(9)))
    next(other)
    it.set_shard_states(other.get_shard_states())
    with pytest.raises(ValueError, match="the state belongs to another"):
        next(it)


def test_it_is_what_grain_looks_for(same_rate: list[Path]) -> None:
    """By its protocol, whose place differs between versions."""
    from grain._src.python.dataset import dataset as grain_dataset
    from grain._src.python.dataset.transformations import prefetch

    name = "SupportsSlicedStateManagement"
    protocol: Any = getattr(grain_dataset, name, None) or getattr(prefetch, name)
    assert isinstance(iter(dataset_of(same_rate)), protocol)


def test_statistics_that_are_switched_off_are_not_called(same_rate: list[Path]) -> None:
    """Whatever their class: that of Grain 0.2.19 is not the default one."""
    from grain._src.python.dataset import stats

    class Disabled(stats._DefaultStats):
        def __init__(self) -> None:
            self._is_output = False

        def record_self_time(self, offset_ns: int = 0) -> Any:
            raise AssertionError("it is called")

        def record_output_spec(self, element: Any) -> Any:
            raise AssertionError("it is called")

    it = iter(dataset_of(same_rate))
    vars(it)["_stats"] = Disabled()
    assert next(it)
    it.close()


def test_statistics_that_record_are_called(same_rate: list[Path]) -> None:
    from grain._src.python.dataset import stats

    kinds = (stats._VisualizationStats, stats._ExecutionStats, stats._MPPrefetchExecutionStats)
    assert all(issubclass(kind, _grain.RECORDING_STATS) for kind in kinds)
    assert not issubclass(stats._DefaultStats, _grain.RECORDING_STATS)
