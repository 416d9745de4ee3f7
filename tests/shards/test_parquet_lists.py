"""Lists of numbers from Parquet, which are decoded by runs: equal to pyarrow's, in any layout."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill as gm
import test_column_types as types

ITEMS = [pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.int8()]
INDEXED = {"write_page_index": True, "data_page_size": 300, "write_batch_size": 3}
LAYOUTS: dict[str, dict[str, Any]] = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "falls back": {"dictionary_pagesize_limit": 200, "write_batch_size": 3},
    "v2": {"data_page_version": "2.0", "compression": "ZSTD"},
    "v2 plain": {"data_page_version": "2.0", "use_dictionary": False, "row_group_size": 9},
    "small pages": {"data_page_size": 200, "write_batch_size": 1, "row_group_size": 30},
    "index": INDEXED,
    "index, dictionary falls back": {**INDEXED, "dictionary_pagesize_limit": 100},
    "split": {"column_encoding": {"x.list.element": "BYTE_STREAM_SPLIT"}, "use_dictionary": False},
}


def rows_of(path: Path, **options: Any) -> list[Any]:
    ds = gm.ArrowIterDataset(path, columns=["x", "n"], audio=None, **options)
    found: dict[int, Any] = {int(row["n"]): row["x"] for row in ds}
    assert sorted(found) == list(range(len(found)))
    return [found[n] for n in sorted(found)]


def assert_rows(path: Path, lists: pa.Array) -> None:
    dtype = lists.type.value_type.to_pandas_dtype()
    for options in ({}, {"shuffle": gm.Shuffle(3)}):
        found = rows_of(path, **options)
        assert len(found) == len(lists)
        for row, expected in zip(found, lists, strict=True):
            if not expected.is_valid:
                assert row is None
            elif None in expected.as_py():
                assert [None if v is None else v for v in list(row)] == expected.as_py()
            else:
                assert row.dtype == dtype
                np.testing.assert_array_equal(row, np.array(expected.as_py(), dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@types.SETTINGS
@given(data=st.data())
def test_lists_of_numbers(tmp_path_factory: pytest.TempPathFactory, layout: str, data: Any) -> None:
    item = data.draw(st.sampled_from([*ITEMS]))
    if layout == "split" and not pa.types.is_floating(item):
        item = pa.float32()
    length = data.draw(st.sampled_from([st.integers(1, 9), st.integers(0, 3), st.just(40)]))
    lengths = data.draw(st.lists(length, min_size=1, max_size=80))
    kind = data.draw(st.sampled_from(["list", "large", "fixed"]))
    if kind == "fixed":
        lengths = [lengths[0] or 2] * len(lengths)
    size = lengths[0]
    if data.draw(st.integers(0, 3)) == 0:
        lengths[data.draw(st.integers(0, len(lengths) - 1))] = None
    top, seed = data.draw(st.sampled_from([1, 2, 9, 120])), data.draw(st.integers(0, 99))
    values = np.random.default_rng(seed).integers(0, top, 80 * 40)
    starts = np.cumsum([0, *(n or 0 for n in lengths)])
    rows = [
        None if n is None else values[start : start + n].tolist()
        for n, start in zip(lengths, starts, strict=False)
    ]
    is_optional = data.draw(st.booleans())
    element = pa.field("element", item, is_optional)
    lists = {"list": pa.list_, "large": pa.large_list, "fixed": lambda of: pa.list_(of, size)}
    x = pa.array(rows, lists[kind](element))
    schema = pa.schema([pa.field("x", x.type, True), pa.field("n", pa.int64())])
    table = pa.table([x, pa.array(range(len(rows)))], schema)
    path = tmp_path_factory.mktemp("lists") / "a.parquet"
    pq.write_table(table, path, **LAYOUTS[layout])
    assert_rows(path, x)


def test_long_lists(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for layout in ("dictionary", "plain", "falls back", "v2", "index"):
        for top in (2, 300, 70_000):
            values = rng.integers(0, top, 40 * 2_048, np.int32)
            offsets = np.arange(41, dtype=np.int32) * 2_048
            lists = pa.ListArray.from_arrays(offsets, values)
            path = tmp_path / f"{layout}-{top}.parquet"
            options = {k: v for k, v in LAYOUTS[layout].items() if k != "write_batch_size"}
            pq.write_table(pa.table({"x": lists, "n": range(40)}), path, **options)
            assert_rows(path, lists)
            batches = gm.ArrowIterDataset(path, audio=None, batch_size=16, ragged="error")
            found = np.concatenate([batch["x"] for batch in batches])
            np.testing.assert_array_equal(found, values.reshape(40, -1))


def test_long_lists_of_one_length(tmp_path: Path) -> None:
    """Such as embeddings. Where a list has another length, the error is the crate's."""
    values = np.random.default_rng(6).normal(size=40 * 1_280).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(values, 1_280)
    for layout in ("dictionary", "plain", "v2", "index"):
        path = tmp_path / f"{layout}.parquet"
        options = {k: v for k, v in LAYOUTS[layout].items() if k != "write_batch_size"}
        pq.write_table(pa.table({"x": lists, "n": range(40)}), path, **options)
        assert_rows(path, lists)
    other = pa.ListArray.from_arrays(np.array([0, 1_000, 2_560], np.int32), values[:2_560])
    schema = pa.schema([("x", lists.type), ("n", pa.int64())])
    path = tmp_path / "other.parquet"
    with pq.ParquetWriter(path, pa.schema([("x", other.type), ("n", pa.int64())])) as out:
        encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
        out.add_key_value_metadata({"ARROW:schema": encoded})
        out.write_table(pa.table({"x": other, "n": range(2)}))
    with pytest.raises(gm.GristmillError):
        rows_of(path)


def test_nulls_inside_lists(tmp_path: Path) -> None:
    lists = pa.array([[1, 2], [None, 3], [4], [], None, [5, 6]], pa.list_(pa.int32()))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": lists, "n": range(6)}), path, row_group_size=1)
    ds = gm.ArrowIterDataset(
        path, audio=None, batch_size=6, ragged="pad", fill_value=-1, columns=["x"]
    )
    (batch,) = ds
    expected = [[1, 2], [-1, 3], [4, -1], [-1, -1], [-1, -1], [5, 6]]
    np.testing.assert_array_equal(batch["x"], expected)
