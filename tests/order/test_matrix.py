"""Orders, hosts, threads, batches, workers and epochs, all against the order function.

Each host is an iterator of its own here, as it is a process of its own there. Worker processes
take seconds to start: of their combinations only those in `WORKERS` run, which have each number of
workers, each order, one host and several, and batches that do and do not divide the rows.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import grain
import pytest
from absl import flags
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gristmill as gm
from rounds import rounds

ORDERS: dict[str, gm.Shuffle | None] = {
    "none": None,
    "global": gm.Shuffle(11),
    "windowed": gm.Shuffle(11, window=9, streams=4),
}
EPOCHS = 4
Row = tuple[int, int]
every_order = pytest.mark.parametrize("order", ORDERS)


def source(
    paths: list[Path], shuffle: gm.Shuffle | None, k: int = 0, n: int = 1, **options: Any
) -> gm.ArrowIterDataset:
    given = {"epochs": EPOCHS, "shard_options": grain.sharding.ShardOptions(k, n), **options}
    return gm.ArrowIterDataset(
        paths, audio=None, columns=["count"], with_row_id=True, shuffle=shuffle, **given
    )


def rows_of(element: dict[str, Any]) -> list[Row]:
    return list(zip(element["shard"].tolist(), element["row"].tolist(), strict=True))


def whole(paths: list[Path], shuffle: gm.Shuffle | None, epochs: int = EPOCHS) -> list[Row]:
    order = gm.global_order(source(paths, shuffle, epochs=epochs))
    return list(zip(order.shard.tolist(), order.row.tolist(), strict=True))


def batched(rows: list[Row], size: int) -> list[list[Row]]:
    return [rows[i : i + size] for i in range(0, len(rows), size)]


@pytest.mark.parametrize("n_hosts", [1, 2, 3, 4, 8])
@every_order
def test_every_row_in_its_place(numbered: list[Path], order: str, n_hosts: int) -> None:
    shuffle = ORDERS[order]
    stream = whole(numbered, shuffle)
    for epoch in range(EPOCHS):
        assert len(set(stream[epoch * 40 : (epoch + 1) * 40])) == 40
    for threads, batch_size in itertools.product((1, 2, 5), (1, 7, 64)):
        read = gm.ReadOptions(num_threads=threads)
        for k in range(n_hosts):
            ds = source(numbered, shuffle, k, n_hosts, batch_size=batch_size, read=read)
            assert [rows_of(e) for e in ds] == batched(stream[k::n_hosts], batch_size)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("n_hosts", [1, 2, 3])
@every_order
def test_a_checkpoint_at_every_step(
    numbered: list[Path], order: str, n_hosts: int, batch_size: int
) -> None:
    """Each state, through JSON, restored, saved after one step more, and restored again."""
    paths = [numbered[2]]  # 9 rows
    k = n_hosts - 1
    ds = source(paths, ORDERS[order], k, n_hosts, batch_size=batch_size)
    expected = batched(whole(paths, ORDERS[order])[k::n_hosts], batch_size)
    it = iter(ds)
    states = [json.dumps(it.get_state())]
    for rows in expected:
        assert rows_of(next(it)) == rows
        states.append(json.dumps(it.get_state()))
    assert next(it, None) is None
    for i, state in enumerate(states):
        once = iter(ds)
        once.set_state(json.loads(state))
        assert [rows_of(e) for e in itertools.islice(once, 1)] == expected[i : i + 1]
        saved = json.dumps(once.get_state())
        if i + 1 < len(states):
            assert saved == states[i + 1]
        twice = iter(ds)
        twice.set_state(json.loads(saved))
        assert [rows_of(e) for e in twice] == expected[i + 1 :]
        once.close()


@pytest.fixture(scope="module")
def parsed_flags() -> None:
    flags.FLAGS.mark_as_parsed()


# (order, host, hosts, workers, batch size)
WORKERS = [
    pytest.param("global", 0, 1, 3, 1, marks=pytest.mark.gate),
    ("windowed", 1, 2, 2, 7),
    pytest.param("none", 2, 3, 1, 64, marks=pytest.mark.gate),
]


@pytest.mark.parametrize(("order", "k", "n_hosts", "n_workers", "batch_size"), WORKERS)
def test_worker_processes(
    numbered: list[Path],
    parsed_flags: None,
    order: str,
    k: int,
    n_hosts: int,
    n_workers: int,
    batch_size: int,
) -> None:
    ds = source(numbered, ORDERS[order], k, n_hosts, batch_size=batch_size)
    it = iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=n_workers)))
    mine = whole(numbered, ORDERS[order])[k::n_hosts]
    parts = [batched(mine[w::n_workers], batch_size) for w in range(n_workers)]
    turns = itertools.zip_longest(*parts)
    expected = [batch for turn in turns for batch in turn if batch is not None]
    states, got = [json.dumps(it.get_state())], []
    for element in it:
        got.append(rows_of(element))
        states.append(json.dumps(it.get_state()))
    assert got == expected
    middle = len(states) // 2
    it.set_state(json.loads(states[middle]))
    assert [rows_of(e) for e in it] == expected[middle:]


@pytest.mark.parametrize("n_threads", [2, 3, 50])
def test_worker_threads(numbered: list[Path], n_threads: int) -> None:
    """More of them than batches, and than shards, too."""
    ds = source(numbered, ORDERS["windowed"], batch_size=7)
    threads = grain.experimental.multithread_prefetch(ds, num_threads=n_threads, buffer_size=1)
    stream = whole(numbered, ORDERS["windowed"])
    parts = [batched(stream[w::n_threads], 7) for w in range(n_threads)]
    turns = itertools.zip_longest(*parts)
    assert [rows_of(e) for e in threads] == [b for turn in turns for b in turn if b is not None]


@pytest.mark.parametrize("n_steps", range(1, 8))
@pytest.mark.parametrize("batch_size", [1, 3])
def test_other_hosts_have_equally_many_steps(
    numbered: list[Path], n_steps: int, batch_size: int
) -> None:
    """Also where the new hosts' batches do not divide the place, as they do not count from 0."""
    run = {"batch_size": batch_size, "drop_remainder": True}
    before = [iter(source(numbered, ORDERS["global"], k, 2, **run)) for k in range(2)]
    delivered = [row for _ in range(n_steps) for it in before for row in rows_of(next(it))]
    state = json.dumps(before[0].get_state())
    after = [iter(source(numbered, ORDERS["global"], k, 5, **run)) for k in range(5)]
    for it in after:
        it.set_state(json.loads(state))
    steps = [[rows_of(element) for element in it] for it in after]
    stream = whole(numbered, ORDERS["global"])
    n_left = (len(stream) - len(delivered)) // (5 * batch_size)
    assert [len(mine) for mine in steps] == [n_left] * 5
    got = sorted(row for mine in steps for batch in mine for row in batch)
    assert got == sorted(stream[len(delivered) : len(delivered) + 5 * batch_size * n_left])


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    seed, window = draw(st.integers(0, 2**64 - 1)), draw(st.none() | st.integers(1, 60))
    shuffle = gm.Shuffle(
        seed, window, draw(st.integers(1, 50)), reshuffle_each_epoch=draw(st.booleans())
    )
    return {
        "shuffle": draw(st.sampled_from([None, shuffle])),
        "epochs": draw(st.integers(1, 4)),
        "batch_size": draw(st.integers(1, 50)),
        "exclude": [(0, row) for row in draw(st.sets(st.integers(0, 10)))],
        "drop_remainder": draw(st.booleans()),
    }


@settings(max_examples=rounds(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(run=runs(), hosts=st.lists(st.integers(1, 5), min_size=1, max_size=4), data=st.data())
def test_any_hosts_one_after_the_other(
    numbered: list[Path], run: dict[str, Any], hosts: list[int], data: st.DataObject
) -> None:
    """A run that stops now and then and goes on, each time on another number of hosts."""
    run = dict(run)
    shuffle, batch_size = run.pop("shuffle"), run.pop("batch_size")
    order = gm.global_order(source(numbered, shuffle, **{**run, "drop_remainder": False}))
    stream = list(zip(order.shard.tolist(), order.row.tolist(), strict=True))
    position, state = 0, None
    for n in hosts:
        iterators = [
            iter(source(numbered, shuffle, k, n, batch_size=batch_size, **run)) for k in range(n)
        ]
        if state is not None:
            for it in iterators:
                it.set_state(json.loads(state))
        for _ in range(data.draw(st.integers(0, 6))):
            turn = [rows_of(e) for e in (next(it, None) for it in iterators) if e is not None]
            rows = [row for part in turn for row in part]
            n_rows = min(n * batch_size, len(stream) - position)
            if run["drop_remainder"] and n_rows < n * batch_size:
                assert rows == []
                break
            assert sorted(rows) == sorted(stream[position : position + n_rows])
            position += n_rows
        states = {json.dumps(it.get_state()) for it in iterators}
        assert len(states) == 1
        state = states.pop()
        for it in iterators:
            it.close()
