"""Bad rows by each policy, beside a naive loader: what comes instead, and what does not move."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grain
import numpy as np
import pytest

import bad_shards
import gristmill as gm
from bad_shards import AUDIO, Bad, Expected, expected

SHUFFLES = {
    "none": None,
    "global": gm.Shuffle(3),
    "windowed": gm.Shuffle(3, window=12, streams=2),
}
POLICIES = ("substitute", "mask", "skip")
every_policy = pytest.mark.parametrize("policy", POLICIES)
every_shuffle = pytest.mark.parametrize("order", SHUFFLES)


@pytest.fixture(scope="module")
def with_share(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Bad]:
    made: dict[float, Bad] = {}

    def of(share: float) -> Bad:
        if share not in made:
            folder = tmp_path_factory.mktemp("bad")
            compression = {"form": "file"} if share == 0.5 else {}
            made[share] = bad_shards.make(folder, share, **compression)
        return made[share]

    return of


def dataset(bad: Bad, policy: str, **options: Any) -> gm.ArrowIterDataset:
    options = {"audio": AUDIO, "columns": ["audio", "count"], "with_row_id": True, **options}
    return gm.ArrowIterDataset(bad.paths, on_error=policy, **options)


def rows_of(elements: Any, policy: str) -> list[tuple[Any, ...]]:
    """`(shard, row, count, audio, valid)` of each row, whatever the elements."""
    found = []
    for element in elements:
        assert ("valid" in element) == (policy == "mask")
        columns = [np.atleast_1d(element[name]) for name in ("shard", "row", "count")]
        audio = np.atleast_2d(element["audio"])
        valid = np.atleast_1d(element.get("valid", np.ones(len(audio), bool)))
        assert valid.dtype == bool
        assert len({len(column) for column in (*columns, audio, valid)}) == 1
        found += zip(*(c.tolist() for c in columns), map(bytes, audio), valid.tolist(), strict=True)
    return found


def as_rows(bad: Bad, places: list[Expected]) -> list[tuple[Any, ...]]:
    """The same of what is expected; `count` is the row's own number less 3."""
    return [(*p.row, bad.number(p.row) - 3, p.audio.tobytes(), p.valid) for p in places if p.row]


def told(it: gm.ArrowIterator, bad: Bad) -> list[tuple[int, int]]:
    names = [str(path) for path in bad.paths]
    return [(names.index(row.shard), row.row) for row in it.bad_rows()]


def met(places: list[Expected]) -> list[tuple[int, int]]:
    """The bad rows as an iterator tells them: each once, the latest last."""
    once: dict[tuple[int, int], None] = {}
    for row in itertools.chain.from_iterable(p.bad for p in places):
        once.pop(row, None)
        once[row] = None
    return list(once)


@every_policy
@every_shuffle
@pytest.mark.parametrize("share", [0, 0.01, 0.5])
@pytest.mark.parametrize("batch_size", [None, 8])
def test_it_equals_the_naive_loader(
    with_share: Callable[[float], Bad],
    policy: str,
    order: str,
    share: float,
    batch_size: int | None,
) -> None:
    bad, shuffle = with_share(share), SHUFFLES[order]
    ds = dataset(bad, policy, shuffle=shuffle, batch_size=batch_size, epochs=2)
    it = iter(ds)
    elements = list(it)
    places = expected(bad, policy, shuffle) + expected(bad, policy, shuffle, epoch=1)
    assert rows_of(elements, policy) == as_rows(bad, places)
    assert told(it, bad) == met(places)
    assert it.stats().bad_rows == sum(bool(p.bad) for p in places)
    for row, place in zip(it.bad_rows(), met(places), strict=True):
        name, number, path, reason, size, n_rows = bad.bad_row(place)
        assert row == replace(row, row=number, path=path, reason=reason, shard_rows=n_rows)
        assert (row.shard.endswith(name), row.bytes) == (True, size)
        assert f"row {number}" in row.message
        assert name in row.message
    if batch_size is not None:
        # Each batch is as long as its part of the stream has rows.
        parts = [places[i : i + batch_size] for i in range(0, len(places), batch_size)]
        sizes = [sum(p.row is not None for p in part) for part in parts]
        assert [len(element["audio"]) for element in elements] == [n for n in sizes if n]
        assert policy == "skip" or set(sizes) == {batch_size}


@every_policy
@every_shuffle
def test_threads_change_nothing(
    with_share: Callable[[float], Bad], policy: str, order: str
) -> None:
    results = []
    for n_threads, budget in ((1, "2GiB"), (2, "1MB"), (5, "200kB"), (5, "2GiB")):
        read = gm.ReadOptions(num_threads=n_threads, memory_budget=budget)
        bad = with_share(0.5)
        it = iter(dataset(bad, policy, shuffle=SHUFFLES[order], batch_size=8, read=read))
        results.append((rows_of(it, policy), told(it, bad), it.get_state()))
    assert all(result == results[0] for result in results)


@every_policy
@every_shuffle
def test_hosts_together_deliver_what_one_does(
    with_share: Callable[[float], Bad], policy: str, order: str
) -> None:
    bad, options = with_share(0.5), {"shuffle": SHUFFLES[order], "epochs": 2}
    one = iter(dataset(bad, policy, batch_size=12, **options))
    parts = [grain.sharding.ShardOptions(k, 2) for k in range(2)]
    hosts = [iter(dataset(bad, policy, batch_size=6, shard_options=p, **options)) for p in parts]
    if policy == "skip":
        # Rows are the same, steps need not be.
        found = [row for it in hosts for row in rows_of(it, policy)]
        assert sorted(found) == sorted(rows_of(one, policy))
        return
    n_steps = 0
    for batch, *others in zip(one, *hosts, strict=True):
        assert all(other["audio"].shape == (6, bad_shards.N_CROP) for other in others)
        turns = zip(*(rows_of([other], policy) for other in others), strict=True)
        assert list(itertools.chain.from_iterable(turns)) == rows_of([batch], policy)
        n_steps += 1
    assert n_steps == 20
    assert {*told(hosts[0], bad), *told(hosts[1], bad)} == set(told(one, bad))
    assert told(hosts[0], bad) != told(hosts[1], bad)


@every_policy
@every_shuffle
@pytest.mark.parametrize("batch_size", [None, 8])
def test_it_resumes_anywhere(
    with_share: Callable[[float], Bad], policy: str, order: str, batch_size: int | None
) -> None:
    bad = with_share(0.5)
    ds = dataset(bad, policy, shuffle=SHUFFLES[order], batch_size=batch_size, epochs=2)
    it = iter(ds)
    states, elements = [it.get_state()], []
    for element in it:
        elements += rows_of([element], policy)
        states.append((len(elements), it.get_state()))
    for done, state in [(0, states[0]), *states[1 :: len(states) // 7], states[-1]]:
        again = iter(ds)
        again.set_state(json.loads(json.dumps(state)))
        assert rows_of(again, policy) == elements[done:]


def test_the_policy_is_no_part_of_the_state(with_share: Callable[[float], Bad]) -> None:
    """A run that a bad row has stopped goes on by another policy."""
    bad = with_share(0.5)
    stopped = iter(dataset(bad, "raise", shuffle=gm.Shuffle(3), batch_size=None))
    places = expected(bad, "substitute", gm.Shuffle(3))
    n = next(i for i, place in enumerate(places) if place.bad)
    first = rows_of(itertools.islice(stopped, n), "raise")
    with pytest.raises((gm.DecodeError, gm.LimitError)) as caught:
        next(stopped)
    assert caught.value.row == places[n].bad[0][1]
    goes_on = iter(dataset(bad, "substitute", shuffle=gm.Shuffle(3)))
    goes_on.set_state(stopped.get_state())
    assert first + rows_of(goes_on, "substitute") == as_rows(bad, places)


@every_shuffle
def test_all_rows_bad(with_share: Callable[[float], Bad], order: str) -> None:
    bad, shuffle = with_share(1.0), SHUFFLES[order]
    it = iter(dataset(bad, "substitute", shuffle=shuffle, batch_size=8))
    with pytest.raises((gm.DecodeError, gm.LimitError), match="32 rows tried") as caught:
        next(it)
    assert caught.value.reason == "no_substitute"
    first = expected(bad, "mask", shuffle)[0]
    assert caught.value.row == first.bad[0][1]
    masked = list(dataset(bad, "mask", shuffle=shuffle, batch_size=8))
    assert len(masked) == 15
    assert not any(batch["valid"].any() or batch["audio"].any() for batch in masked)
    skipped = iter(dataset(bad, "skip", shuffle=shuffle, batch_size=8))
    with pytest.raises(gm.NoUsableRowsError, match="not one of 120 rows"):
        next(skipped)
    assert len(skipped.bad_rows()) == 120
    assert skipped.stats().rows == 0


@every_policy
@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("most", [3, 0, 0.01])
def test_many_bad_rows_stop_early(
    with_share: Callable[[float], Bad], policy: str, share: float, most: float
) -> None:
    if policy == "substitute" and share == 1.0:
        return  # that stops by itself
    bad = with_share(share)
    ds = dataset(bad, policy, shuffle=gm.Shuffle(3), max_bad_rows=most)
    it = iter(ds)
    places = expected(bad, policy, gm.Shuffle(3))
    seen: set[Any] = set()
    n_bad = 0
    for place in places:
        seen |= set(place.bad)
        n_bad += bool(place.bad)
        if len(seen) > most if isinstance(most, int) else n_bad > most * 120:
            break
        if place.row is not None:
            assert rows_of([next(it)], policy) == as_rows(bad, [place])
    state = it.get_state()
    for _ in range(2):  # asking again changes nothing
        with pytest.raises(gm.LimitError, match=r"max_bad_rows=") as caught:
            next(it)
        assert caught.value.limit == "max_bad_rows"
        assert set(told(it, bad)) >= seen
    assert it.get_state()["next_index"] >= state["next_index"]
    assert n_bad <= 4


def test_few_bad_rows_do_not_stop(with_share: Callable[[float], Bad]) -> None:
    for most in (60, 0.6, 1.0):
        it = iter(dataset(with_share(0.5), "mask", max_bad_rows=most, epochs=5))
        assert len(list(it)) == 600
        assert it.stats().bad_rows == 300


def test_excluded_rows_are_no_substitutes(with_share: Callable[[float], Bad]) -> None:
    bad = with_share(0.5)
    good = [(s, r) for s in (0, 2, 3) for r in range(33) if (s, r) not in bad.reasons]
    exclude = tuple(good[::2])
    for shuffle in SHUFFLES.values():
        rows = rows_of(dataset(bad, "substitute", shuffle=shuffle, exclude=exclude), "substitute")
        places = expected(bad, "substitute", shuffle, exclude=exclude)
        assert rows == as_rows(bad, places)
        assert not set(exclude) & {place.row for place in places}


def test_substitutes_keep_to_a_slice(with_share: Callable[[float], Bad]) -> None:
    """Rows that a slice leaves out may be those of a test set."""
    bad = with_share(0.5)
    ds = dataset(bad, "substitute", shuffle=gm.Shuffle(3, reshuffle_each_epoch=False), epochs=3)
    ds.set_slice(slice(0, 60))
    inside = {place.row for place in expected(bad, "mask", gm.Shuffle(3))[:60]}
    rows = rows_of(ds, "substitute")
    assert len(rows) == 180
    assert {row[:2] for row in rows} <= inside - set(bad.reasons)


def test_workers_see_what_one_process_does(with_share: Callable[[float], Bad]) -> None:
    bad = with_share(0.5)
    whole = rows_of(dataset(bad, "substitute", shuffle=gm.Shuffle(3)), "substitute")
    parts = []
    for k in range(3):
        ds = dataset(bad, "substitute", shuffle=gm.Shuffle(3))
        ds.set_slice(slice(k, None, 3))
        parts.append(rows_of(ds, "substitute"))
    turns = itertools.chain.from_iterable(itertools.zip_longest(*parts))
    assert [row for row in turns if row is not None] == whole
