"""Shards of other schemas: columns are joined by name, as pyarrow joins tables."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from gristmill.tools.inspect import inspect
from gristmill.tools.inspection import page_of
from rounds import rounds
from signals import RATE, encode, synthetic


def write(path: Path, table: pa.Table, rows_at_a_time: int = 3) -> Path:
    return shards.write_table(path, table, rows_at_a_time)


def plain(value: Any) -> Any:
    """A row's value as pyarrow's `to_pylist` has it."""
    if isinstance(value, dict):
        return {name: plain(child) for name, child in value.items()}
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    return value.item() if isinstance(value, np.generic) else value


def rows_of(dataset: gm.ArrowIterDataset) -> list[dict[str, Any]]:
    return [plain(row) for row in dataset]


def decoded(table: pa.Table) -> pa.Table:
    """Without dictionaries, which pyarrow does not join with plain values."""
    for k, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            values = column.cast(column.type.value_type)
            table = table.set_column(k, table.column_names[k], values)
    return table


def joined(tables: Sequence[pa.Table]) -> list[dict[str, Any]]:
    """What pyarrow makes of the tables."""
    tables = [decoded(table) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive").to_pylist()


def text(*values: str | None) -> list[str | None]:
    return list(values)


# Types of one family, each with values that all of them hold.
NUMBERS = [[1, None, 3], [0, 100, 7, 5], [127, 1, None, None, 2]]
TEXTS = [text("a", None, "c"), text("", "déjà", "x" * 40), text(None, "y")]
BYTES = [[b"a", None], [b"", b"\xff" * 30, b"b"], [None, None, b"c"]]
LISTS = [[[1, 2], None, []], [[3, None], [4]], [None, [5, 6, 7]]]
FAMILIES: dict[str, tuple[list[pa.DataType], list[Any]]] = {
    "signed": ([pa.int8(), pa.int16(), pa.int32(), pa.int64()], NUMBERS),
    "unsigned": ([pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], NUMBERS),
    "floats": ([pa.float32(), pa.float64()], NUMBERS),
    "text": (
        [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
        TEXTS,
    ),
    "binary": ([pa.binary(), pa.large_binary()], BYTES),
    "lists": ([pa.list_(pa.int64()), pa.large_list(pa.int64())], LISTS),
    "items": ([pa.list_(pa.int8()), pa.list_(pa.int32()), pa.list_(pa.int64())], LISTS),
    "pairs": (
        [pa.list_(pa.int8(), 2), pa.list_(pa.int32(), 2)],
        [[[1, 2], None], [[3, None]], [None, [5, 6]]],
    ),
    "structs": (
        [
            pa.struct([("x", pa.int8()), ("y", pa.string())]),
            pa.struct([("x", pa.int64()), ("y", pa.large_string())]),
        ],
        [[{"x": 1, "y": "a"}, None], [{"x": None, "y": None}], [{"x": 3, "y": "c"}]],
    ),
}


def same_rows(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    return repr(ours) == repr(theirs)


@settings(max_examples=rounds(40), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("suffix", ["arrow", "parquet", "both"])
def test_columns_are_widened_as_pyarrow_widens_them(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("widened")
    families = data.draw(st.lists(st.sampled_from(list(FAMILIES)), min_size=1, unique=True))
    n_shards = data.draw(st.integers(1, 4))
    tables, paths = [], []
    for k in range(n_shards):
        columns = {}
        for family in data.draw(st.permutations(families)):
            types, values = FAMILIES[family]
            of = data.draw(st.sampled_from([*types, pa.null()]))
            picked = data.draw(st.sampled_from(values))
            columns[family] = pa.nulls(8) if of == pa.null() else pa.array((picked * 8)[:8], of)
        table = pa.table(columns)
        kind = suffix if suffix != "both" else ("arrow", "parquet")[k % 2]
        tables.append(table)
        paths.append(write(folder / f"{k}.{kind}", table))
    expected = joined([table.select(tables[0].column_names) for table in tables])
    assert same_rows(rows_of(gm.ArrowIterDataset(paths)), expected)
    # What is delivered does not depend on which shard comes first.
    spec = gm.ArrowIterDataset(paths, batch_size=4, fill_value=0)._element_spec
    other = gm.ArrowIterDataset(paths[::-1], batch_size=4, fill_value=0)._element_spec
    assert dict(spec) == dict(other)
    order = random.Random(0).sample(range(n_shards), n_shards)
    shuffled = gm.ArrowIterDataset([paths[k] for k in order], columns=families)
    expected = joined([tables[k].select(tables[order[0]].column_names) for k in order])
    assert same_rows(rows_of(shuffled), expected)


@pytest.mark.parametrize("flip", [False, True])
def test_batches_have_the_wider_dtype_whichever_shard_comes_first(
    tmp_path: Path, flip: bool
) -> None:
    narrow = pa.table({"n": pa.array([1, 2], pa.int32()), "f": pa.array([0.5, 1], pa.float32())})
    wide = pa.table({"f": pa.array([2.5], pa.float64()), "n": pa.array([2**40], pa.int64())})
    paths = [write(tmp_path / "a.arrow", narrow), write(tmp_path / "b.parquet", wide)]
    dataset = gm.ArrowIterDataset(paths[::-1] if flip else paths, batch_size=3)
    (batch,) = dataset
    assert (batch["n"].dtype, batch["f"].dtype) == (np.int64, np.float64)
    assert sorted(batch["n"].tolist()) == [1, 2, 2**40]
    assert dataset._element_spec["n"].dtype == np.int64


def test_more_columns_are_fine_where_nobody_asks_for_them(tmp_path: Path) -> None:
    tables = [
        pa.table({"x": [1, 2], "y": ["a", "b"]}),
        pa.table({"extra": [0.5], "y": ["c"], "x": [3]}),
        pa.table({"x": ["no number"], "y": ["d"]}),
    ]
    paths = [write(tmp_path / f"{k}.arrow", table) for k, table in enumerate(tables)]
    assert rows_of(gm.ArrowIterDataset(paths, columns=["y"])) == [{"y": y} for y in "abcd"]
    both = gm.ArrowIterDataset(paths[:2], columns=["y", "x"])
    assert [list(row.values()) for row in rows_of(both)] == [[1, "a"], [2, "b"], [3, "c"]]
    # All columns are asked for where none is named.
    with pytest.raises(
        gm.SchemaError, match=r'1\.arrow has .*0\.arrow does not.*\["x", "y"\]'
    ) as e:
        list(gm.ArrowIterDataset(paths[:2]))
    assert e.value.column == "extra"
    with pytest.raises(gm.SchemaError, match=r"0\.arrow and .*2\.arrow differ.*Int64.*Utf8") as e:
        list(gm.ArrowIterDataset(paths, columns=["y", "x"]))
    assert e.value.column == "x"
    for option in (
        {"filters": [("extra", ">", 0)]},
        {"split": gm.Split("a", {"a": 1}, by="extra")},
    ):
        with pytest.raises(gm.SchemaError, match=r"1\.arrow has this column") as e:
            list(gm.ArrowIterDataset(paths, columns=["y"], **option))
        assert e.value.column == "extra"
    assert gm.ArrowIterDataset(paths).rows_per_epoch() == 4


APART = {
    "text and numbers": (pa.array(["a"]), pa.array([1])),
    "signs": (pa.array([1], pa.int32()), pa.array([1], pa.uint8())),
    "integers and floats": (pa.array([1], pa.int32()), pa.array([1.0], pa.float64())),
    "times": (pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("ms"))),
    "widths": (pa.array([[1]], pa.list_(pa.int8(), 1)), pa.array([[1, 2]], pa.list_(pa.int8(), 2))),
    "text and bytes": (pa.array(["a"]), pa.array([b"a"])),
    "fields": (pa.array([{"x": 1}]), pa.array([{"x": 1, "y": 2}])),
    "in a struct": (pa.array([{"x": 1}]), pa.array([{"x": "1"}])),
    "in a list": (pa.array([[1]]), pa.array([["1"]])),
}


@pytest.mark.parametrize("case", APART)
@pytest.mark.parametrize("flip", [False, True])
def test_types_without_a_common_one_are_refused(tmp_path: Path, case: str, flip: bool) -> None:
    arrays = APART[case][:: -1 if flip else 1]
    paths = [write(tmp_path / f"{k}.arrow", pa.table({"v": v})) for k, v in enumerate(arrays)]
    with pytest.raises(gm.SchemaError) as caught:
        list(gm.ArrowIterDataset(paths))
    message = str(caught.value)
    assert all(part in message for part in ("0.arrow", "1.arrow", "columns=[...]")), message
    assert caught.value.column.split(".")[0] == "v"
    assert ("only one of them has this field" in message) == (case == "fields")
    assert caught.value.column == {"fields": "v.y", "in a struct": "v.x"}.get(case, "v")


def test_two_columns_of_one_name_where_schemas_differ(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["x", "x", "y"])
    paths = [
        write(tmp_path / "a.arrow", pa.table({"x": [1], "y": [2]})),
        write(tmp_path / "b.arrow", twice),
    ]
    with pytest.raises(gm.SchemaError, match=r"two columns of .*b\.arrow have this name"):
        list(gm.ArrowIterDataset(paths))
    assert [int(row["y"]) for row in gm.ArrowIterDataset(paths, columns=["y"])] == [2, 3]


AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
LARGE = pa.struct([("path", pa.large_string()), ("bytes", pa.large_binary())])


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_audio_of_binary_and_of_large_binary(tmp_path: Path, suffix: str) -> None:
    sounds = [encode(synthetic(n, RATE), RATE, "flac16") for n in (1, 0.5, 0.3, 2)]
    paths = []
    for k, kind in enumerate((AUDIO, LARGE)):
        rows = [{"bytes": sound, "path": f"{k}.flac"} for sound in sounds[2 * k : 2 * k + 2]]
        table = pa.table({"n": pa.array([k, k], [pa.int8(), pa.int32()][k])})
        table = table.add_column(k, "audio", pa.array(rows, kind))
        paths.append(write(tmp_path / f"{k}.{suffix}", table))
    encoded = rows_of(gm.ArrowIterDataset(paths, audio=None))
    assert [row["audio"]["bytes"] for row in encoded] == sounds
    assert [row["audio"]["path"] for row in encoded] == ["0.flac"] * 2 + ["1.flac"] * 2
    audio = gm.Audio("audio", crop=gm.StartCrop(0.25))
    for row, sound in zip(gm.ArrowIterDataset(paths, audio=audio), sounds, strict=True):
        assert np.array_equal(row["audio"], gm.decode(sound, start=0, seconds=0.25))
    source = gm.ArrowDataSource(paths[::-1], audio=audio)
    assert source[3]["n"].dtype == np.int32


def test_filters_sampling_and_splits_see_the_joined_columns(tmp_path: Path) -> None:
    tables = [
        pa.table(
            {"k": pa.array(["a", "b"] * 5).dictionary_encode(), "n": pa.array(range(10), "int8")}
        ),
        pa.table(
            {"n": pa.array(range(10, 20), "int64"), "k": pa.array(["b", "c"] * 5, "large_string")}
        ),
    ]
    paths = [write(tmp_path / f"{k}.arrow", table) for k, table in enumerate(tables)]
    every = [(int(r["n"]), r["k"]) for r in gm.ArrowIterDataset(paths)]
    chosen = gm.ArrowIterDataset(paths, filters=[("k", "==", "b"), ("n", ">", 3)])
    assert [int(r["n"]) for r in chosen] == [n for n, k in every if k == "b" and n > 3]
    parts = {"one": 0.5, "other": 0.5}
    split = [
        {r["k"] for r in gm.ArrowIterDataset(paths, split=gm.Split(part, parts, by="k", seed=1))}
        for part in parts
    ]
    assert not split[0] & split[1]
    assert split[0] | split[1] == set("abc")
    sampled = gm.ArrowIterDataset(paths, sampling=gm.Balanced("k", seed=3), epochs=20)
    counts = [sum(r["k"] == k for r in sampled) for k in "abc"]
    assert max(counts) < 1.3 * min(counts)


def test_states_are_those_of_shards_of_one_schema(tmp_path: Path) -> None:
    def dataset(folder: Path, of: pa.DataType) -> gm.ArrowIterDataset:
        folder.mkdir()
        tables = [pa.table({"n": pa.array(range(9), t)}) for t in (pa.int64(), of)]
        paths = [write(folder / f"{k}.arrow", table) for k, table in enumerate(tables)]
        return gm.ArrowIterDataset(paths, shuffle=gm.Shuffle(seed=5), batch_size=2)

    same, other = dataset(tmp_path / "same", pa.int64()), dataset(tmp_path / "other", pa.int8())
    it = iter(same)
    next(it)
    resumed = iter(other)
    resumed.set_state(it.get_state())
    assert [b["n"].tolist() for b in resumed] == [b["n"].tolist() for b in it]


def test_a_dictionary_that_would_not_fit_is_refused(tmp_path: Path) -> None:
    """Each row would have a copy of the one large value."""
    keys = pa.array(np.zeros(4000, np.int8))
    large = pa.DictionaryArray.from_arrays(keys, pa.array(["x" * 2**20]))
    paths = [
        write(tmp_path / "a.arrow", pa.table({"t": large}), 4000),
        write(tmp_path / "b.arrow", pa.table({"t": ["y"]})),
    ]
    with pytest.raises(gm.LimitError, match=r"a\.arrow.*one schema"):
        next(iter(gm.ArrowIterDataset(paths)))
    assert next(iter(gm.ArrowIterDataset(paths[:1])))["t"] == "x" * 2**20


def test_nulls_that_would_become_wide_lists_are_refused(tmp_path: Path) -> None:
    wide = pa.list_(pa.int64(), 2**24)
    paths = [
        write(tmp_path / "a.arrow", pa.table({"t": pa.nulls(1000)}), 1000),
        write(tmp_path / "b.arrow", pa.table({"t": pa.array([], wide)})),
    ]
    with pytest.raises(gm.LimitError, match=r"a\.arrow"):
        next(iter(gm.ArrowIterDataset(paths)))


def test_features_of_the_first_shard_that_has_them_name_the_audio(tmp_path: Path) -> None:
    features = {"audio": {"_type": "Audio"}, "other": {"_type": "Image"}}
    rows = [{"bytes": encode(synthetic(1, RATE), RATE, "flac16"), "path": "x"}]
    table = pa.table({"audio": pa.array(rows, AUDIO), "other": pa.array(rows, AUDIO)})
    named = table.replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    paths = [write(tmp_path / "a.arrow", table), write(tmp_path / "b.arrow", named)]
    for order in (paths, paths[::-1]):
        first = next(iter(gm.ArrowIterDataset(order)))
        assert isinstance(first["audio"], np.ndarray)
        assert isinstance(first["other"], dict)


def test_inspect_shows_the_columns_of_all_shards(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", pa.table({"x": pa.array([1], pa.int8()), "y": ["a"]}))
    write(tmp_path / "b.arrow", pa.table({"more": [True], "x": pa.array([1], pa.int64())}))
    page = str(page_of(inspect(tmp_path)))
    assert "Int8 or Int64\n" in page
    assert "Utf8  (in 1 of 2 shards)" in page
    assert "Boolean  (in 1 of 2 shards)" in page
