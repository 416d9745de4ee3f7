"""`rows`, `split`, filters and exclusions: which rows take part, on all hosts, in all epochs."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from rounds import rounds
from signals import RATE, encode, synthetic

import oracle

COUNTS = (11, 0, 9, 20)  # of `numbered`
ALL = [(s, r) for s, n in enumerate(COUNTS) for r in range(n)]
SHARES = {"train": 0.6, "valid": 0.25, "test": 0.15}


def dataset(paths: Any, **options: Any) -> gm.ArrowIterDataset:
    named = {"audio": None, "columns": ["count"], "with_row_id": True, **options}
    return gm.ArrowIterDataset(paths, **named)


def ids(element: dict[str, Any]) -> list[tuple[int, int]]:
    shard, row = np.atleast_1d(element["shard"]), np.atleast_1d(element["row"])
    return list(zip(shard.tolist(), row.tolist(), strict=True))


def order(ds: gm.ArrowIterDataset) -> list[tuple[int, int]]:
    delivered = [row for element in ds for row in ids(element)]
    found = gm.global_order(ds)
    assert delivered == list(zip(found.shard.tolist(), found.row.tolist(), strict=True))
    return delivered


SHUFFLES = st.sampled_from(
    [None, gm.Shuffle(3), gm.Shuffle(4, window=7, streams=2), gm.Shuffle(5, window=4, streams=3)]
)


@settings(max_examples=rounds(60), deadline=None)
@given(
    rows=st.lists(st.integers(0, 39), min_size=1, max_size=60),
    exclude=st.lists(st.sampled_from(ALL), max_size=4),
    shuffle=SHUFFLES,
)
def test_a_list_of_rows(
    numbered: list[Path], rows: list[int], exclude: list[Any], shuffle: gm.Shuffle | None
) -> None:
    if all(ALL[row] in exclude for row in rows):
        return
    ds = dataset(numbered, rows=rows, exclude=exclude, shuffle=shuffle, epochs=2)
    job = oracle.Job(
        numbered,
        rows=tuple(rows),
        exclude=tuple(exclude),
        seed=shuffle and shuffle.seed,
        window=shuffle and shuffle.window,
        streams=shuffle.streams if shuffle else 1,
    )
    assert order(ds) == oracle.row_ids(job, 0) + oracle.row_ids(job, 1)
    assert ds.rows_per_epoch() == len(oracle.row_ids(job, 0))


@settings(max_examples=rounds(40), deadline=None)
@given(mask=st.lists(st.booleans(), min_size=40, max_size=40).filter(any), shuffle=SHUFFLES)
def test_a_mask_is_its_rows(
    numbered: list[Path], mask: list[bool], shuffle: gm.Shuffle | None
) -> None:
    rows = np.flatnonzero(mask)
    by_mask = order(dataset(numbered, rows=mask, shuffle=shuffle))
    assert by_mask == order(dataset(numbered, rows=rows, shuffle=shuffle))
    # As if the others were excluded, in the state too.
    gone = [row for row, keep in zip(ALL, mask, strict=True) if not keep]
    assert by_mask == order(dataset(numbered, exclude=gone, shuffle=shuffle))
    states = []
    for options in ({"rows": mask}, {"rows": rows}, {"exclude": gone}):
        it = iter(dataset(numbered, shuffle=shuffle, **options))
        next(it)
        states.append(it.get_state())
    assert states[0] == states[1] == states[2]


CHOICES: dict[str, dict[str, Any]] = {
    "mask": {"rows": np.arange(40) % 3 != 1},
    "list": {"rows": [5, 39, 5, 0, 17, 22, 17, 5, 30]},
    "filters": {"filters": [("count", ">", 4), ("good", "==", False)]},
    "split": {"split": gm.Split("train", SHARES)},
    "all": {
        "rows": np.arange(40) != 7,
        "filters": [("count", ">", 2)],
        "split": gm.Split("train", SHARES, by="name"),
        "exclude": [(0, 8), (3, 3)],
    },
    "weighted": {"sampling": gm.Weighted(np.arange(40) % 5)},
    "balanced": {"sampling": gm.Balanced("label", draws=23), "filters": [("count", "<", 20)]},
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(
    "shuffle", [None, gm.Shuffle(9), gm.Shuffle(9, window=6, streams=4)], ids=str
)
def test_hosts_and_restores(numbered: list[Path], choice: str, shuffle: gm.Shuffle | None) -> None:
    options = {**CHOICES[choice], "shuffle": shuffle, "epochs": 2}
    if "sampling" in options and shuffle is not None and shuffle.window is not None:
        with pytest.raises(ValueError, match=r"within windows: write shuffle=gm.Shuffle"):
            dataset(numbered, **options)
        return
    whole = order(dataset(numbered, **options))
    for hosts in (1, 2, 3, 4, 8)[:: rounds(1, 2)]:
        parts = []
        for host in range(hosts):
            shard_options = grain.sharding.ShardOptions(host, hosts)
            parts.append(order_of_host(dataset(numbered, shard_options=shard_options, **options)))
        merged = [part[k] for k in range(len(parts[0])) for part in parts if k < len(part)]
        assert merged == whole
    it = iter(dataset(numbered, **options))
    states = [json.loads(json.dumps(it.get_state()))]
    for _ in whole:
        next(it)
        states.append(json.loads(json.dumps(it.get_state())))
    assert all(len(json.dumps(state)) < 500 for state in states)
    for position, state in list(enumerate(states))[:: rounds(1, 3)]:
        again = iter(dataset(numbered, **options))
        again.set_state(state)
        assert [row for element in again for row in ids(element)] == whole[position:]


def order_of_host(ds: gm.ArrowIterDataset) -> list[tuple[int, int]]:
    return [row for element in ds for row in ids(element)]


def test_a_state_of_other_rows_is_refused(numbered: list[Path]) -> None:
    it = iter(dataset(numbered, rows=np.arange(40) < 20, shuffle=gm.Shuffle(1)))
    next(it)
    for other in (
        {"rows": np.arange(40) >= 20},
        {"rows": list(range(19, -1, -1))},
        {"filters": [("count", "<", 10)]},
    ):
        again = iter(dataset(numbered, shuffle=gm.Shuffle(1), **other))
        again.set_state(it.get_state())
        with pytest.raises(ValueError, match="the state belongs to another data set"):
            next(again)


def test_crops_of_repeated_rows_differ(same_rate: list[Path]) -> None:
    rows = (3, 9, 3, 3, 20, 9)
    job = oracle.Job(same_rate, seconds=0.2, seed=4, rows=rows)
    audio = gm.Audio("audio", crop=gm.RandomCrop(0.2))
    ds = gm.ArrowIterDataset(
        same_rate, audio=audio, rows=rows, shuffle=gm.Shuffle(4), with_row_id=True
    )
    got, expected = list(ds), list(oracle.load(job))
    assert len(got) == len(expected) == 6
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours["shard"], ours["row"]) == (theirs["shard"], theirs["row"])
        assert np.abs(ours["audio"] - theirs["audio"]).max() < 1e-3
    own = [e["audio"].tobytes() for e in got if (e["shard"], e["row"]) == (0, 3)]
    assert len(own) == len(set(own)) == 3


def test_repeats_that_are_left_out_are_none(same_rate: list[Path]) -> None:
    """Crops are those of rows that come once: what counts is the rows that are left."""
    audio = gm.Audio("audio", crop=gm.RandomCrop(0.2))
    options: dict[str, Any] = {"audio": audio, "shuffle": gm.Shuffle(4), "columns": ["audio"]}
    rows = [3, 2, 3, 4]
    left = gm.ArrowIterDataset(same_rate, rows=rows, exclude=[(0, 3)], **options)
    once = gm.ArrowIterDataset(same_rate, rows=[2, 4], **options)
    np.testing.assert_equal(list(left), list(once))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": [True] * 7}, "rows= is a mask of 7 values, but there are 40 rows"),
        ({"rows": [3, 40]}, "rows= names row 40, but there are 40 rows"),
        ({"rows": []}, "rows= leaves none of the 40 rows"),
        ({"rows": np.zeros(40, bool)}, "rows= leaves none"),
        ({"rows": [1], "exclude": [(0, 1)]}, "exclude=, rows= together leave none"),
        (
            {"filters": [("count", ">", 1000)], "split": gm.Split("train", SHARES)},
            "filters=, split= together leave none",
        ),
    ],
)
def test_rows_that_do_not_fit(numbered: list[Path], options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        next(iter(dataset(numbered, **options)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("all", "rows is a mask or row numbers, not 'all'"),
        (3, "rows is a mask or row numbers"),
        ([0.5], "rows is a mask or row numbers"),
        ([True, 2], "rows is a mask or row numbers, and not both"),
        ([[1, 2]], "rows is a mask or row numbers"),
        ([[1], [2, 3]], "rows is a mask or row numbers"),
        ([4, -1], "rows has -1, and row numbers count from 0"),
    ],
)
def test_rows_that_are_none(rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gm.ArrowIterDataset("x.arrow", rows=rows)


def test_answers_are_kept_and_not_trusted(tmp_path: Path, numbered: list[Path]) -> None:
    paths = [tmp_path / path.name for path in numbered]
    for path, copy in zip(numbered, paths, strict=True):
        copy.write_bytes(path.read_bytes())
        os.utime(copy, (1e9, 1e9))
    read = gm.ReadOptions(index_dir=tmp_path / "index")
    options = {"filters": [("count", ">", 9)], "read": read}
    expected = [row for k, row in enumerate(ALL) if k - 3 > 9]
    assert order(dataset(paths, **options)) == expected
    (answer,) = (tmp_path / "index").glob("rows-*.gmrows")
    whole = answer.read_bytes()
    for damaged in (b"", whole[:-1], whole[:40], whole[:-3] + b"\1" + whole[-2:], b"x" * 400):
        answer.write_bytes(damaged)
        assert order(dataset(paths, **options)) == expected
        assert answer.read_bytes() == whole
    # Of other rows it is another answer, and of changed shards.
    assert order(dataset(paths, **{**options, "filters": [("count", ">", 20)]})) == expected[11:]
    shards.write(paths[3], [shards.row(50, None)] * 20)
    os.utime(paths[3], (1e9 + 5, 1e9))
    changed = expected[:-20] + [(3, r) for r in range(20)]
    assert order(dataset(paths, **options)) == changed
    # It is used: the columns are not read again, though they are zeros now.
    for path in paths:
        status = path.stat()
        path.write_bytes(bytes(status.st_size))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert dataset(paths, **options).rows_per_epoch() == len(changed)
    with pytest.raises(ValueError, match="filters= leaves none"):
        dataset(paths, **{**options, "filters": [("count", ">", 8)]}).rows_per_epoch()


# Splits.


def keys_of(paths: list[Path]) -> list[Any]:
    return [name for path in paths for name in oracle.read_table(path)["name"].to_pylist()]


@pytest.mark.parametrize("by", [None, "name", "count", "level", "good", "label"])
def test_splits_are_by_hash(numbered: list[Path], by: str | None) -> None:
    ends = np.cumsum([0.6, 0.25, 0.15]).tolist()
    expected: dict[str, list[tuple[int, int]]] = {name: [] for name in SHARES}
    for s, path in enumerate(numbered):
        table = oracle.read_table(path)
        for r in range(table.num_rows):
            key = (path.name, r) if by is None else table[by][r].as_py()
            u = oracle.split_hash(5, key) / 2**64
            expected[next(n for n, end in zip(SHARES, ends, strict=True) if u < end)].append((s, r))
    for name, rows in expected.items():
        ds = dataset(numbered, split=gm.Split(name, SHARES, by=by, seed=5))
        if rows:
            assert order(ds) == rows
        else:
            with pytest.raises(ValueError, match="split= leaves none of the 40 rows"):
                order(ds)


def write_numbered(folder: Path, names: list[str], n: int = 90) -> dict[str, Path]:
    folder.mkdir()
    data = encode(synthetic(0.001, RATE), RATE, "wav16")
    made = {}
    for k, name in enumerate(names):
        rows = [{**shards.row(10_000 * k + i, data), "name": f"{k}-{i // 3}"} for i in range(n)]
        made[name] = shards.write(folder / name, rows)
    return made


def parts_of(paths: list[Path], by: str | None) -> dict[int, str]:
    """The part of each row, by its own number."""
    found = {}
    for name in SHARES:
        ds = gm.ArrowIterDataset(
            paths, columns=["count"], audio=None, split=gm.Split(name, SHARES, by=by, seed=2)
        )
        for element in ds:
            assert found.setdefault(int(element["count"]), name) == name
    return found


@pytest.mark.parametrize("by", [None, "name"])
def test_shards_come_and_go_and_no_row_moves(tmp_path: Path, by: str | None) -> None:
    made = write_numbered(tmp_path / "a", ["p.arrow", "q.arrow", "r.arrow", "s.arrow"])
    whole = parts_of(list(made.values()), by)
    assert len(whole) == 360
    assert set(whole.values()) == set(SHARES)
    for names in (["p.arrow"], ["s.arrow", "q.arrow"], ["r.arrow", "p.arrow", "q.arrow"]):
        part = parts_of([made[name] for name in names], by)
        assert len(part) == 90 * len(names)
        assert part.items() <= whole.items()
    moved = shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert parts_of(sorted(moved.iterdir()), by) == whole
    renamed = moved / "p.arrow"
    renamed = renamed.rename(moved / "zz.arrow")
    after = parts_of(sorted(moved.iterdir()), by)
    assert (after == whole) == (by is not None)


def test_a_key_is_in_one_part(tmp_path: Path) -> None:
    paths = list(write_numbered(tmp_path / "keys", ["p.arrow", "q.arrow"]).values())
    parts = parts_of(paths, "name")
    keys = {}
    for path in paths:
        table = oracle.read_table(path)
        for count, name in zip(table["count"].to_pylist(), table["name"].to_pylist(), strict=True):
            assert keys.setdefault(name, parts[count]) == parts[count]


def test_shares_are_about_right(tmp_path: Path) -> None:
    paths = list(write_numbered(tmp_path / "many", ["p.arrow", "q.arrow"], 2000).values())
    parts = list(parts_of(paths, None).values())
    for name, share in SHARES.items():
        deviation = (parts.count(name) - share * 4000) / (4000 * share * (1 - share)) ** 0.5
        assert abs(deviation) < 4


def test_no_row_of_valid_is_ever_in_train(numbered: list[Path]) -> None:
    shares = {"train": 0.7, "valid": 0.3}
    for shuffle in (gm.Shuffle(2), gm.Shuffle(2, window=5, streams=2)):
        seen = {}
        for name in shares:
            split = gm.Split(name, shares, by="count")
            ds = dataset(numbered, split=split, shuffle=shuffle, epochs=20, batch_size=8)
            seen[name] = [row for batch in ds for row in ids(batch)]
            assert len(seen[name]) == 20 * ds.rows_per_epoch()
        assert not set(seen["train"]) & set(seen["valid"])
        assert set(seen["train"]) | set(seen["valid"]) == set(ALL)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gm.Split("dev", {"train": 1.0}), "name is one of 'train', not 'dev'"),
        (lambda: gm.Split("train", {"train": 0.9}), "add up to 0.9, and together are 1"),
        (lambda: gm.Split("a", {"a": 1.2, "b": -0.2}), "the share of 'a' is a number above 0"),
        (lambda: gm.Split("a", {}), "shares is a mapping"),
        (lambda: gm.Split("a", [0.9, 0.1]), "shares is a mapping"),  # type: ignore[arg-type]
        (lambda: gm.Split("a", {"a": 1}, by=3), "by is a string"),  # type: ignore[arg-type]
        (lambda: gm.Split("a", {"a": 1}, seed=-1), "seed is an integer"),
        (
            lambda: gm.ArrowIterDataset("x", split="train"),  # type: ignore[arg-type]
            "split is Split or None",
        ),
    ],
)
def test_splits_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_set_slice_warns_where_rows_leak(numbered: list[Path]) -> None:
    for shuffle, epochs, cut in (
        (gm.Shuffle(1), None, slice(0, 30)),
        (gm.Shuffle(1), 2, slice(30, None)),
    ):
        with pytest.warns(UserWarning, match=r"to hold rows out, write split=gm.Split"):
            dataset(numbered, shuffle=shuffle, epochs=epochs).set_slice(cut)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fixed = gm.Shuffle(1, reshuffle_each_epoch=False)
        dataset(numbered, epochs=None).set_slice(slice(0, 30))
        dataset(numbered, shuffle=fixed, epochs=None).set_slice(slice(0, 30))
        dataset(numbered, shuffle=gm.Shuffle(1)).set_slice(slice(0, 30))
        dataset(numbered, shuffle=gm.Shuffle(1), epochs=None).set_slice(slice(1, None, 4))


def test_shuffle_quality_follows(numbered: list[Path]) -> None:
    ds = dataset(numbered, rows=np.arange(40) % 2 == 0, shuffle=gm.Shuffle(1))
    assert gm.shuffle_quality(ds, label="label", batch_rows=4).n_rows == 20
    ds = dataset(numbered, sampling=gm.Balanced("label", draws=60), shuffle=gm.Shuffle(1))
    assert gm.shuffle_quality(ds, label="label", batch_rows=4).n_rows == 60


def test_the_shape_of_elements_does_not_depend_on_which_rows(numbered: list[Path]) -> None:
    expected = dataset(numbered, batch_size=2, epochs=None)._element_spec
    for options in (
        {"rows": np.ones(40, bool)},
        {"rows": [35, 3]},
        {"filters": [("count", ">", 30)]},
        {"sampling": gm.Weighted(np.ones(40))},
    ):
        assert dataset(numbered, batch_size=2, epochs=None, **options)._element_spec == expected


def test_a_null_moves_no_row_to_another_split(tmp_path: Path) -> None:
    keys = [*range(200), -3, 2**53]
    parts = {}
    for name, values in (("ints", keys), ("floats", [*map(float, keys), None])):
        path = tmp_path / f"{name}.parquet"
        kind = pa.int64() if name == "ints" else pa.float64()
        pq.write_table(pa.table({"key": pa.array(values, kind)}), path)
        split = gm.Split("valid", {"train": 0.7, "valid": 0.3}, by="key")
        ds = gm.ArrowIterDataset(path, audio=None, split=split)
        parts[name] = {int(e["key"]) for e in ds if e["key"] is not None}
    assert parts["ints"] == parts["floats"]
    assert 0 < len(parts["ints"]) < len(keys)
