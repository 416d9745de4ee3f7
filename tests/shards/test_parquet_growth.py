"""Values that Parquet's pages refer to: what they take is known before they are decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm

N_ROWS = 20_000
LAYOUTS: dict[str, dict[str, Any]] = {
    "dictionary": {},
    "dictionary, v2": {"data_page_version": "2.0", "compression": "zstd"},
    "dictionary, page index": {"write_page_index": True},
    "prefixes": {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
    "prefixes, v2": {
        "use_dictionary": False,
        "column_encoding": "DELTA_BYTE_ARRAY",
        "data_page_version": "2.0",
    },
}


def texts(n: int) -> pa.Array:
    """Short values with a few nulls, and a long one: if all were as long, they took gigabytes."""
    rng = np.random.default_rng(3)
    known = pa.array([f"tag {k}" for k in range(500)] + ["long " * 5_000, None])
    numbers = rng.integers(0, 500, n)
    numbers[[7, 8, 400]] = 500
    numbers[9::50] = 501
    return known.take(pa.array(numbers))


def read(path: Path, **options: Any) -> list[Any]:
    ds = gm.ArrowIterDataset(path, audio=None, batch_size=1_000, **options)
    return [value for batch in ds for value in batch["x"]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_long_value_among_many_short_ones(tmp_path: Path, layout: str) -> None:
    flat = texts(5 * N_ROWS)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, 5 * N_ROWS + 1, 5), pa.int32()), flat)
    for k, column in enumerate((flat[:N_ROWS], lists)):
        path = tmp_path / f"{k}.parquet"
        options = dict(LAYOUTS[layout])
        if "column_encoding" in options:
            name = "x" if k == 0 else "x.list.element"
            options["column_encoding"] = {name: options["column_encoding"]}
        pq.write_table(pa.table({"x": column}), path, **options)
        budget = gm.ReadOptions(memory_budget="64MiB", index_dir=None)
        for row, expected in zip(read(path, read=budget), column.to_pylist(), strict=True):
            assert (list(row) if k else row) == expected


@pytest.mark.parametrize("layout", ["dictionary", "prefixes"])
@pytest.mark.parametrize("is_list", [False, True])
def test_a_small_file_that_decodes_to_more_than_the_budget(
    tmp_path: Path, layout: str, is_list: bool
) -> None:
    column = pa.array(["long " * 10_000]).take(pa.array(np.zeros(2_000, np.int32)))
    name = "x"
    if is_list:
        offsets = pa.array(np.arange(0, 2_001, 5), pa.int32())
        column, name = pa.ListArray.from_arrays(offsets, column), "x.list.element"
    options = dict(LAYOUTS[layout])
    if "column_encoding" in options:
        options["column_encoding"] = {name: options["column_encoding"]}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": column}), path, compression="zstd", **options)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(gm.LimitError, match=r"take up to 10[0-9]{7} bytes"):
        read(path, read=gm.ReadOptions(memory_budget="64MiB"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_list", [False, True])
def test_values_that_are_never_null(tmp_path: Path, layout: str, is_list: bool) -> None:
    """Pages have no levels where nothing may be null."""
    column = pa.array([f"value number {k % 3_000}" for k in range(2 * N_ROWS)])
    name, kind = "x", column.type
    if is_list:
        offsets = pa.array(np.arange(0, len(column) + 1, 5), pa.int32())
        name, kind = "x.list.element", pa.list_(pa.field("element", kind, nullable=False))
        column = pa.ListArray.from_arrays(offsets, column, type=kind)
    options = dict(LAYOUTS[layout])
    if "column_encoding" in options:
        options["column_encoding"] = {name: options["column_encoding"]}
    path = tmp_path / "a.parquet"
    schema = pa.schema([pa.field("x", kind, nullable=False)])
    pq.write_table(pa.table([column], schema), path, **options)
    found = [list(value) if is_list else value for value in read(path)]
    assert found == column.to_pylist()
