"""The same data on any number of hosts and workers."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import grain
import pytest

import gristmill as gm
from gristmill.dataset import options_of
from gristmill.partition import Partition

ORDERS: dict[str, gm.Shuffle | None] = {
    "none": None,
    "global": gm.Shuffle(3),
    "windowed": gm.Shuffle(3, window=12, streams=8),
}
Row = tuple[int, int]


def host(paths: list[Path], index: int, count: int, **options: Any) -> gm.ArrowIterDataset:
    sharding = grain.sharding.ShardOptions(
        index, count, drop_remainder=options.pop("even_hosts", False)
    )
    return gm.ArrowIterDataset(
        paths, audio=None, columns=["count"], with_row_id=True, shard_options=sharding, **options
    )


def rows_of(element: dict[str, Any]) -> list[Row]:
    if element["shard"].ndim == 0:
        return [(int(element["shard"]), int(element["row"]))]
    return list(zip(element["shard"].tolist(), element["row"].tolist(), strict=True))


def stream(paths: list[Path], **options: Any) -> list[Row]:
    """The order of all hosts together."""
    order = gm.global_order(host(paths, 0, 1, **options))
    return list(zip(order.shard.tolist(), order.row.tolist(), strict=True))


def steps(iterators: list[Any], n: int | None = None) -> list[list[Row]]:
    """What the hosts deliver together, step by step."""
    turns = itertools.zip_longest(*iterators)
    elements = [[e for e in turn if e is not None] for turn in itertools.islice(turns, n)]
    return [sorted(row for e in turn for row in rows_of(e)) for turn in elements]


def batches(rows: list[Row], size: int) -> list[list[Row]]:
    return [sorted(rows[i : i + size]) for i in range(0, len(rows), size)]


every_order = pytest.mark.parametrize("order", ORDERS)


@every_order
@pytest.mark.parametrize("n_hosts", [1, 2, 3, 4, 6, 8, 12, 24])
def test_the_global_batch_is_the_same(numbered: list[Path], order: str, n_hosts: int) -> None:
    options = {"shuffle": ORDERS[order], "epochs": 3}
    iterators = [
        iter(host(numbered, k, n_hosts, batch_size=24 // n_hosts, **options))
        for k in range(n_hosts)
    ]
    assert steps(iterators) == batches(stream(numbered, **options), 24)


@every_order
@pytest.mark.parametrize("after", [0, 1, 2, 4, 5])
@pytest.mark.parametrize("n_hosts", [1, 2, 3, 8])
def test_four_hosts_go_on_as_others(
    numbered: list[Path], order: str, after: int, n_hosts: int
) -> None:
    options = {"shuffle": ORDERS[order], "epochs": 3, "exclude": [(0, 4)]}
    whole = batches(stream(numbered, **options), 24)
    four = [iter(host(numbered, k, 4, batch_size=6, **options)) for k in range(4)]
    assert steps(four, after) == whole[:after]
    states = [json.dumps({**it.get_state(), "hosts": 4}) for it in four]
    assert len(set(states)) == 1
    others = [
        iter(host(numbered, k, n_hosts, batch_size=24 // n_hosts, **options))
        for k in range(n_hosts)
    ]
    for it in others:
        it.set_state(json.loads(states[0]))
    assert steps(others) == whole[after:]
    # And from there to yet another number of hosts, in the middle of the rest.
    for it in others:
        it.set_state(json.loads(states[0]))
    assert steps(others, 1) == whole[after : after + 1]
    last = [iter(host(numbered, k, 6, batch_size=4, **options)) for k in range(6)]
    for it in last:
        it.set_state(others[0].get_state())
    assert steps(last) == whole[after + 1 :]


def test_a_place_that_the_hosts_do_not_divide(numbered: list[Path]) -> None:
    """Three hosts of batches of 5 stop at a multiple of 15; four go on from there all the same."""
    options = {"shuffle": gm.Shuffle(3), "epochs": 2}
    whole = stream(numbered, **options)
    three = [iter(host(numbered, k, 3, batch_size=5, **options)) for k in range(3)]
    assert steps(three, 1) == [sorted(whole[:15])]
    four = [iter(host(numbered, k, 4, batch_size=2, **options)) for k in range(4)]
    for it in four:
        it.set_state(three[1].get_state())
    assert steps(four, 4) == batches(whole[15:], 8)[:4]
    assert {it.get_state()["next_index"] for it in four} == {47 - 40}
    assert grain.experimental.get_next_index(four[3]) == 6


@pytest.mark.parametrize("n_hosts", [2, 3, 4, 7])
@pytest.mark.parametrize("even", ["rows", "batches"])
def test_hosts_end_together(numbered: list[Path], n_hosts: int, even: str) -> None:
    options: dict[str, Any] = {"shuffle": gm.Shuffle(3), "epochs": 3, "batch_size": 2}
    options |= {"even_hosts": True} if even == "rows" else {"drop_remainder": True}
    parts = [
        [row for e in host(numbered, k, n_hosts, **options) for row in rows_of(e)]
        for k in range(n_hosts)
    ]
    n = 120 // n_hosts
    assert {len(part) for part in parts} == {n if even == "rows" else n // 2 * 2}
    whole = stream(numbered, shuffle=gm.Shuffle(3), epochs=3)
    assert set(map(tuple, parts)) == {
        tuple(whole[k::n_hosts][: len(parts[0])]) for k in range(n_hosts)
    }


def test_windowed_hosts_read_their_own_streams(numbered: list[Path]) -> None:
    shuffle = gm.Shuffle(1, window=4, streams=4)
    whole = stream(numbered, shuffle=shuffle)
    for k in range(2):
        mine = [row for e in host(numbered, k, 2, shuffle=shuffle) for row in rows_of(e)]
        assert mine == whole[k::2]
        assert set(mine) == {row for s in (k, k + 2) for row in whole[s::4]}


def test_hosts_without_end(numbered: list[Path]) -> None:
    options = {"shuffle": gm.Shuffle(8), "epochs": None}
    iterators = [iter(host(numbered, k, 3, batch_size=3, **options)) for k in range(3)]
    order = gm.global_order(host(numbered, 0, 1, **options), 0, 9 * 30)
    rows = list(zip(order.shard.tolist(), order.row.tolist(), strict=True))
    assert steps(iterators, 30) == batches(rows, 9)


def test_jax_tells_the_host(numbered: list[Path]) -> None:
    ds = gm.ArrowIterDataset(numbered, shard_options=grain.sharding.ShardByJaxProcess())
    assert options_of(ds).batches.partition == Partition()


def test_more_hosts_than_rows(numbered: list[Path]) -> None:
    parts = [list(host(numbered[2:3], k, 12)) for k in range(12)]
    assert [len(part) for part in parts] == [1] * 9 + [0] * 3


@pytest.mark.parametrize("n_workers", [2, 3, 5])
def test_workers_of_hosts(numbered: list[Path], n_workers: int) -> None:
    """Taken in turns, the workers of a host give its rows in order, over all epochs."""
    options = {"shuffle": gm.Shuffle(3), "epochs": 3}
    whole = stream(numbered, **options)
    for k in range(2):
        workers = []
        for w in range(n_workers):
            ds = host(numbered, k, 2, **options)
            ds.set_slice(slice(w, None, n_workers))
            workers.append(ds)
        turns = itertools.zip_longest(*workers)
        rows = [row for turn in turns for e in turn if e is not None for row in rows_of(e)]
        assert rows == whole[k::2]


def sliced(paths: list[Path], *slices: tuple[slice, bool], **options: Any) -> Any:
    ds = gm.ArrowIterDataset(paths, audio=None, columns=["count"], with_row_id=True, **options)
    for sl, sequential in slices:
        ds.set_slice(sl, sequential)
    return ds


@pytest.mark.filterwarnings("ignore:set_slice:UserWarning")  # positions are what is tested
@pytest.mark.parametrize(
    "slices",
    [
        [(slice(0, 2), True)],
        [(slice(5, 31), False), (slice(1, None, 2), False)],
        [(slice(1, None, 3), False), (slice(2, 9), False)],
        [(slice(None, None, -1), False)],
        [(slice(1, None, 2), True), (slice(0, None, 2), False)],
        [(slice(3, None), False)],
    ],
    ids=str,
)
def test_slices_of_epochs(numbered: list[Path], slices: list[tuple[slice, bool]]) -> None:
    whole = stream(numbered, shuffle=gm.Shuffle(3), epochs=2)
    expected = [whole[:40], whole[40:]]
    for sl, sequential in slices:
        if sequential and sl.stop is None:
            block = 40 // sl.step
            sl = slice(sl.start * block, (sl.start + 1) * block)  # noqa: PLW2901
        expected = [epoch[sl] for epoch in expected]
    got = [
        row
        for e in sliced(numbered, *slices, shuffle=gm.Shuffle(3), epochs=2)
        for row in rows_of(e)
    ]
    assert got == expected[0] + expected[1]


def saved(ds: Any, n: int = 3) -> dict[str, Any]:
    it = iter(ds)
    for _ in range(n):
        next(it)
    state = it.get_state()
    it.close()
    return state


def refused(ds: Any, state: dict[str, Any], word: str) -> None:
    it = iter(ds)
    it.set_state(state)
    assert it.get_state() == state
    with pytest.raises(ValueError, match=word):
        next(it)


def test_another_block_is_another_slice(numbered: list[Path]) -> None:
    first = sliced(numbered, (slice(0, None, 2), True))
    state = saved(first)
    refused(sliced(numbered, (slice(1, None, 2), True)), state, "another block")
    refused(sliced(numbered), state, "another block")
    refused(sliced(numbered, (slice(0, 10), False)), saved(sliced(numbered)), "another slice")


def test_other_workers_are_refused(numbered: list[Path]) -> None:
    state = saved(sliced(numbered, (slice(0, None, 2), False)))
    refused(sliced(numbered), state, "2 workers")
    refused(sliced(numbered, (slice(0, None, 3), False)), state, "2 workers")
    ds = host(numbered, 0, 2)
    ds.set_slice(slice(0, None, 2))
    refused(ds, state, "1 hosts, each with 2")


def test_row_counts_have_no_host() -> None:
    with pytest.raises(ValueError, match="data set's own"):
        gm.global_order(gm.ArrowIterDataset("x.arrow"), epochs=3)


def test_the_order_of_this_host(numbered: list[Path]) -> None:
    ds = host(numbered, 1, 3, shuffle=gm.Shuffle(1), epochs=2, exclude=[(0, 0)])
    order = gm.global_order(ds, of_this_host=True)
    mine = [row for e in ds for row in rows_of(e)]
    assert list(zip(order.shard.tolist(), order.row.tolist(), strict=True)) == mine
    everything = gm.global_order(ds)
    assert list(zip(everything.shard[1::3], everything.row[1::3], strict=True)) == mine


@pytest.mark.parametrize(("before", "after"), [(4, 2), (1, 4), (2, 1)])
def test_what_grains_elastic_iterator_gives(numbered: list[Path], before: int, after: int) -> None:
    """It takes no `IterDataset`; over a `MapDataset` of our order it gives the same batches."""

    def elastic(index: int, count: int) -> Any:
        sharding = grain.sharding.ShardOptions(index, count)
        rows = grain.MapDataset.source(stream(numbered, shuffle=gm.Shuffle(3)))
        return grain.experimental.ElasticIterator(rows, 8, sharding)

    def ours(index: int, count: int) -> Any:
        options = {"shuffle": gm.Shuffle(3), "batch_size": 8 // count}
        return iter(host(numbered, index, count, **options))

    def rows_in(element: Any) -> list[Row]:
        if isinstance(element, dict):
            return rows_of(element)
        shard, row = element
        return list(zip(shard.tolist(), row.tolist(), strict=True))

    delivered = []
    for make in (elastic, ours):
        hosts = [make(k, before) for k in range(before)]
        batches = [[rows_in(next(it)) for it in hosts] for _ in range(3)]
        state = hosts[0].get_state()
        for it in hosts:
            it.close()
        hosts = [make(k, after) for k in range(after)]
        for it in hosts:
            it.set_state(state)
        batches += [[rows_in(next(it)) for it in hosts] for _ in range(2)]
        for it in hosts:
            it.close()
        delivered.append(batches)
    assert delivered[0] == delivered[1]
    with pytest.raises(TypeError, match="has no elements by index"):
        next(
            grain.experimental.ElasticIterator(host(numbered, 0, 1), 8, grain.sharding.NoSharding())
        )
