"""`filters`: the rows that pyarrow keeps by the same conditions."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.parquet import filters_to_expression

import gristmill as gm
from rounds import rounds

TZ = dt.timezone(dt.timedelta(hours=2))
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - a column without a time zone
CLASSES = ["wren", "crow", "owl"]
INFO = {"info": {"features": {"species": {"names": CLASSES, "_type": "ClassLabel"}}}}
SCHEMA = pa.schema(
    {
        "n": pa.int32(),
        "big": pa.int64(),
        "x": pa.float64(),
        "y": pa.float32(),
        "name": pa.string(),
        "long": pa.large_string(),
        "code": pa.dictionary(pa.int8(), pa.string()),
        "raw": pa.binary(),
        "good": pa.bool_(),
        "when": pa.timestamp("us"),
        "there": pa.timestamp("ms", "UTC"),
        "day": pa.date32(),
        "took": pa.duration("s"),
        "at": pa.time64("us"),
        "species": pa.int64(),
        "place": pa.struct({"lat": pa.float64(), "site": pa.string()}),
        "tags": pa.list_(pa.int32()),
        "audio": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
    },
    metadata={"huggingface": json.dumps(INFO)},
)
NAMES = ["", "a", "b", "rec 1", "\N{BIRD}"]


def make(rng: np.random.Generator, n: int) -> pa.Table:
    def some(values: list[Any]) -> list[Any]:
        picks = rng.integers(0, len(values) + 1, n)
        return [None if k == len(values) else values[k] for k in picks]

    floats = [0.0, -0.0, 0.1, -2.5, 3.0, math.inf, math.nan]
    names = some(NAMES)
    columns = {
        "n": some(list(range(-3, 4))),
        "big": some([0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
        "x": some(floats),
        "y": some(floats),
        "name": names,
        "long": some(NAMES),
        "code": some(NAMES),
        "raw": some([b"", b"\0", b"ab"]),
        "good": some([True, False]),
        "when": some([START + dt.timedelta(days=k, microseconds=k) for k in range(4)]),
        "there": some([START.replace(tzinfo=TZ) + dt.timedelta(hours=k) for k in range(4)]),
        "day": some([START.date() + dt.timedelta(days=k) for k in range(4)]),
        "took": some([dt.timedelta(seconds=k) for k in range(-1, 3)]),
        "at": some([dt.time(k, 30) for k in range(4)]),
        "species": some([0, 1, 2]),
        "place": [
            None if k % 7 == 0 else {"lat": x, "site": name}
            for k, (x, name) in enumerate(zip(some(floats), names, strict=True))
        ],
        "tags": [[k, 1] for k in range(n)],
        "audio": [{"bytes": b"x" * 50, "path": name} for name in names],
    }
    return pa.table([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


@pytest.fixture(scope="module")
def table_and_paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, list[Path]]:
    folder = tmp_path_factory.mktemp("filters")
    rng = np.random.default_rng(5)
    tables, paths = [], []
    for k, n in enumerate((90, 0, 1, 60)):
        table = make(rng, n)
        path = folder / f"part-{k}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as writer:
            for batch in table.to_batches(max_chunksize=17):
                writer.write_batch(batch)
        os.utime(path, (1e9, 1e9))  # old enough that answers are kept
        tables.append(table)
        paths.append(path)
    return pa.concat_tables(tables), paths


def kept(paths: list[Path], filters: Any, **options: Any) -> list[int]:
    ds = gm.ArrowIterDataset(paths, columns=["n"], audio=None, filters=filters, **options)
    order = gm.global_order(ds)
    assert ds.rows_per_epoch() == len(order.row)
    starts = np.array([0, 90, 90, 91])
    return (starts[order.shard] + order.row).tolist()


def by_pyarrow(table: pa.Table, filters: Any) -> list[int]:
    table = table.append_column("ordinal", pa.array(range(len(table))))
    return table.filter(filters_to_expression(filters))["ordinal"].to_pylist()


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-5, 5),
    "big": st.sampled_from([0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1]),
    "x": st.sampled_from([0.0, -0.0, 0.1, -2.5, 3.0, 7.5, math.inf]),
    "y": st.sampled_from([0.0, 3.0, -2.5, math.inf, 1.25]),
    "name": st.sampled_from([*NAMES, "zz"]),
    "long": st.sampled_from([*NAMES, "zz"]),
    "code": st.sampled_from([*NAMES, "zz"]),
    "raw": st.sampled_from([b"", b"\0", b"ab", b"zz"]),
    "good": st.booleans(),
    "when": st.integers(0, 4).map(lambda k: START + dt.timedelta(days=k, microseconds=k)),
    "there": st.integers(0, 4).map(
        lambda k: START.replace(tzinfo=dt.UTC) + dt.timedelta(hours=k - 2)
    ),
    "day": st.integers(0, 4).map(lambda k: START.date() + dt.timedelta(days=k)),
    "took": st.integers(-2, 3).map(lambda k: dt.timedelta(seconds=k)),
    "at": st.integers(0, 4).map(lambda k: dt.time(k, 30)),
    "species": st.integers(0, 3),
}
COMPARE = st.sampled_from(["==", "=", "!=", "<", "<=", ">", ">="])


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, str, Any]:
    column = draw(st.sampled_from(sorted(VALUES)))
    if draw(st.booleans()):
        operator = draw(COMPARE)
        # pyarrow has no order of booleans that users mean, and none of dictionaries.
        if column in {"good", "code"} and operator not in {"==", "=", "!="}:
            operator = "=="
        return column, operator, draw(VALUES[column])
    # For `in`, pyarrow tells 0 from -0, and Python does not.
    one = VALUES[column].filter(lambda value: value != 0.0 or column not in {"x", "y"})
    values = draw(st.lists(one, min_size=1, max_size=4))
    return column, draw(st.sampled_from(["in", "not in"])), values


FILTERS = st.lists(st.lists(conditions(), min_size=1, max_size=3), min_size=1, max_size=3)


@settings(max_examples=rounds(150), deadline=None)
@given(filters=FILTERS)
def test_the_rows_are_pyarrows(
    table_and_paths: tuple[pa.Table, list[Path]], filters: list[Any]
) -> None:
    table, paths = table_and_paths
    expected = by_pyarrow(table, filters)
    if not expected:
        with pytest.raises(ValueError, match=r"filters= leaves none of the 151 rows"):
            kept(paths, filters)
        return
    assert kept(paths, filters) == expected
    # From the answer that was kept, and without one.
    assert kept(paths, filters) == expected
    assert kept(paths, filters, read=gm.ReadOptions(index_dir=None)) == expected
    if len(filters) == 1:
        assert kept(paths, filters[0]) == expected


def plain(table: pa.Table, column: str) -> list[Any]:
    return table[column].to_pylist()


def test_nulls_are_asked_for(table_and_paths: tuple[pa.Table, list[Path]]) -> None:
    table, paths = table_and_paths
    for column in ("n", "name", "code", "x", "when"):
        nulls = [k for k, value in enumerate(plain(table, column)) if value is None]
        others = sorted(set(range(151)) - set(nulls))
        assert kept(paths, [(column, "==", None)]) == nulls
        assert kept(paths, [(column, "!=", None)]) == others
        assert kept(paths, [(column, "in", [None])]) == nulls
        assert kept(paths, [(column, "not in", [None])]) == others


def test_classes_by_name(table_and_paths: tuple[pa.Table, list[Path]]) -> None:
    _, paths = table_and_paths
    for named, numbered in (
        (("species", "==", "crow"), ("species", "==", 1)),
        (("species", "!=", "owl"), ("species", "!=", 2)),
        (("species", "in", {"wren", "owl"}), ("species", "in", [0, 2])),
        (("species", "not in", ["wren", 2]), ("species", "not in", (0, 2))),
    ):
        assert kept(paths, [named]) == kept(paths, [numbered])


def test_fields_of_structs(table_and_paths: tuple[pa.Table, list[Path]]) -> None:
    table, paths = table_and_paths
    places = plain(table, "place")
    expected = [k for k, p in enumerate(places) if p and p["lat"] is not None and p["lat"] > 0]
    assert kept(paths, [("place.lat", ">", 0)]) == expected
    named = [k for k, name in enumerate(plain(table, "name")) if name == "rec 1"]
    assert kept(paths, [("audio.path", "==", "rec 1")]) == named


def test_numbers_of_other_types(table_and_paths: tuple[pa.Table, list[Path]]) -> None:
    table, paths = table_and_paths
    n, x, y = (plain(table, column) for column in ("n", "x", "y"))
    assert kept(paths, [("n", ">", 0.5)]) == [k for k, v in enumerate(n) if v and v > 0.5]
    assert kept(paths, [("x", "==", 3)]) == [k for k, v in enumerate(x) if v == 3]
    assert kept(paths, [("n", "in", [1.0, 2.5])]) == [k for k, v in enumerate(n) if v == 1]
    # As NumPy compares: 0.1 stands for the float32 that is nearest.
    near = [k for k, v in enumerate(y) if v is not None and np.float32(v) == np.float32(0.1)]
    assert near
    assert kept(paths, [("y", "==", 0.1)]) == near
    assert kept(paths, [("y", "in", [0.1, np.float32(0.1)])]) == near
    exact = [k for k, v in enumerate(plain(table, "big")) if v == 2**53 + 1]
    assert kept(paths, [("big", "==", 2**53 + 1)]) == exact


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ("n", "filters is a list of conditions"),
        (("n", "==", 1), r"write filters=\[\('n', '==', 1\)\]"),
        ([("n", "==")], r"a condition is \(column, operator, value\)"),
        ([("n", "~", 1)], "filters compares by '~': write one of '=='"),
        ([("n", "in", 3)], r"write a list, \(\"n\", \"in\", \[3\]\)"),
        ([("name", "in", "abc")], "write a list"),
        ([[(3, "==", 1)]], "filters has 3 for the name of a column"),
        ([[]], "in the place of a list of conditions"),
        ([("n", "==", [1])], "of type list"),
        ([("n", "==", 2**70)], "at most 64 bits"),
    ],
)
def test_filters_that_are_none(filters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gm.ArrowIterDataset("x.arrow", filters=filters)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ([("speces", "==", 1)], r"filters= names this column, .* write one of: n, big"),
        (
            [("n", "==", "many")],
            'filters= has "many" for this column of type Int32: write a number',
        ),
        ([("name", ">", 3)], "filters= has 3 for this column of type Utf8: write a string"),
        ([("good", "==", 1)], "write True or False"),
        ([("species", "==", "tit")], 'names the class "tit", which is none of its 3: "wren"'),
        ([("species", "<", "crow")], "classes have no order"),
        ([("n", "<", None)], 'compares this column by "<" with None'),
        ([("tags", "==", 1)], "filters= cannot use this column of type List"),
        ([("place", "==", 1)], "filters= cannot use this column of type Struct"),
        ([("there", "==", START)], "write a datetime with a time zone"),
        ([("when", "==", START.replace(tzinfo=dt.UTC))], "without a time zone"),
    ],
)
def test_filters_that_do_not_fit(
    table_and_paths: tuple[pa.Table, list[Path]], filters: Any, message: str
) -> None:
    _, paths = table_and_paths
    with pytest.raises(gm.SchemaError, match=message) as raised:
        next(iter(gm.ArrowIterDataset(paths, audio=None, filters=filters)))
    assert raised.value.column == filters[0][0]


def test_times_beyond_64_bits_of_nanoseconds_and_below_microseconds(tmp_path: Path) -> None:
    days = np.array(["1970-01-01", "2026-01-01", "3000-01-01"], "datetime64[s]")
    table = pa.table(
        {
            "ordinal": [0, 1, 2],
            "day": days,
            "ns": pa.array([1_000, 1_001, 2_000], pa.timestamp("ns")),
            "took": pa.array([1_000, 1_001, 2_000], pa.duration("ns")),
        }
    )
    path = tmp_path / "times.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)

    def rows(*condition: Any) -> list[int]:
        ds = gm.ArrowIterDataset(path, columns=["ordinal"], audio=None, filters=[condition])
        return [int(row["ordinal"]) for row in ds]

    for unit in ("Y", "M", "D", "s", "2W"):
        assert rows("day", ">=", np.datetime64("2600-01-01").astype(f"datetime64[{unit}]")) == [2]
        assert rows("day", "<", np.datetime64("2600-01-01").astype(f"datetime64[{unit}]")) == [0, 1]
    assert rows("day", "==", np.datetime64("3000-01-01")) == [2]
    for time in (pd.Timestamp(1_001), np.datetime64(1_001, "ns")):
        assert (rows("ns", "==", time), rows("ns", ">", time)) == ([1], [2])
    for time in (pd.Timedelta(1_001), np.timedelta64(1_001, "ns")):
        assert (rows("took", "==", time), rows("took", ">", time)) == ([1], [2])
    for time in (np.timedelta64(4), np.timedelta64(4, "Y"), np.timedelta64(4, "ps")):
        with pytest.raises(ValueError, match="has no length in nanoseconds"):
            rows("took", "==", time)
