"""Every column type against pyarrow: rows, batches, both forms, any record batches and codec."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import column_values as cv
import gristmill as gm
import shards
from rounds import rounds

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=20)
BYTES = st.binary(max_size=20)
LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), INT32),
    (pa.int64(), INT64),
    (pa.uint8(), st.integers(0, 255)),
    (pa.uint16(), st.integers(0, 2**16 - 1)),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float16(), st.floats(width=16, allow_nan=False).map(np.float16)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), INT32),
    (pa.date64(), st.integers(-(2**20), 2**20).map(lambda days: days * 86_400_000)),
    *((pa.time32(unit), st.integers(0, 86_399)) for unit in ("s", "ms")),
    *((pa.time64(unit), st.integers(0, 86_399_999_999)) for unit in ("us", "ns")),
    *((pa.timestamp(unit), INT64) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("us", "Europe/Berlin"), INT64),
    *((pa.duration(unit), INT64) for unit in ("s", "ms", "us", "ns")),
    (pa.decimal32(7, 2), st.decimals(-99_999, 99_999, places=2)),
    (pa.decimal64(15, 4), st.decimals(-(10**10), 10**10, places=4)),
    (pa.decimal128(30, 5), st.decimals(-(10**20), 10**20, places=5)),
    (pa.decimal128(9, -2), st.integers(-999, 999).map(lambda i: Decimal(i * 100))),
    (pa.decimal256(60, 10), st.decimals(-(10**40), 10**40, places=10)),
    *((of, TEXT) for of in (pa.string(), pa.large_string(), pa.string_view())),
    *((of, BYTES) for of in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.binary(0), st.just(b"")),
    (pa.null(), st.none()),
]


def leaf(draw: st.DrawFn, n: int, nulls: bool, choices: list[Any] = LEAVES) -> pa.Array:
    of, values = draw(st.sampled_from(choices))
    column = draw(st.lists(st.none() | values if nulls else values, min_size=n, max_size=n))
    if pa.types.is_temporal(of):  # from counts: Python's own times are coarser and have limits
        narrow = pa.types.is_date32(of) or pa.types.is_time32(of)
        return pa.array(column, pa.int32() if narrow else pa.int64()).view(of)
    return pa.array(column, of)


@st.composite
def arrays(draw: st.DrawFn, n: int, depth: int = 2, nulls: bool = True) -> pa.Array:
    """An array of any supported type, of `n` values."""
    kinds = ["leaf", "leaf", "leaf", "dictionary", "runs"]
    if depth > 0:
        kinds += ["list", "large", "view", "large view", "fixed", "struct", "map"]
    kind = draw(st.sampled_from(kinds))
    below = lambda n: draw(arrays(n, depth - 1, nulls))  # noqa: E731
    mask = None
    if nulls:
        mask = pa.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), pa.bool_())
    if kind == "leaf":
        return leaf(draw, n, nulls)
    if kind == "dictionary":
        size = draw(st.integers(1, 4))
        values = below(size) if depth > 0 and draw(st.booleans()) else leaf(draw, size, nulls)
        if pa.types.is_dictionary(values.type) or pa.types.is_run_end_encoded(values.type):
            values = leaf(draw, size, nulls, LEAVES[:12])
        keys = st.integers(0, size - 1)
        keys = draw(st.lists(st.none() | keys if nulls else keys, min_size=n, max_size=n))
        key = draw(st.sampled_from([pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64()]))
        return pa.DictionaryArray.from_arrays(pa.array(keys, key), values)
    if kind == "runs":
        lengths = draw(st.lists(st.integers(1, 3), max_size=n).filter(lambda ls: sum(ls) >= n))
        ends = [min(int(end), n) for end in np.cumsum(lengths)]
        ends = sorted({end for end in ends if end > 0})
        width = draw(st.sampled_from([pa.int16(), pa.int32(), pa.int64()]))
        values = leaf(draw, len(ends), nulls, LEAVES[:12] + LEAVES[-9:-5])
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, width), values)
    if kind == "fixed":
        width = draw(st.integers(0, 3))
        values = below(n * width)
        return (
            pa.FixedSizeListArray.from_arrays(values, type=pa.list_(values.type, width), mask=mask)
            if width
            else pa.array([[]] * n, pa.list_(pa.int32(), 0))
        )
    if kind == "struct":
        children = [below(n) for _ in range(draw(st.integers(1, 3)))]
        return pa.StructArray.from_arrays(
            children, names=[f"f{k}" for k in range(len(children))], mask=mask
        )
    lengths = draw(
        st.lists(st.integers(0, 4), min_size=n, max_size=n)
        | st.integers(0, 4).map(lambda width: [width] * n)
    )
    offsets = [0, *(int(end) for end in np.cumsum(lengths))]
    if kind == "map":
        keys = leaf(draw, offsets[-1], False, LEAVES[:4] + LEAVES[-9:-8])
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, below(offsets[-1]))
    values = below(offsets[-1])
    index = pa.int64() if "large" in kind else pa.int32()
    if kind in ("list", "large"):
        of = pa.LargeListArray if kind == "large" else pa.ListArray
        return of.from_arrays(pa.array(offsets, index), values, mask=mask)
    starts = offsets[:-1]
    if draw(st.booleans()) and starts:  # views may share items and come in any order
        starts = [draw(st.integers(0, offsets[-1] - length)) for length in lengths]
    of = pa.LargeListViewArray if kind == "large view" else pa.ListViewArray
    return of.from_arrays(pa.array(starts, index), pa.array(lengths, index), values, mask=mask)


def write(path: Path, table: pa.Table, form: str, codec: str | None, rows: int) -> Path:
    return shards.write_table(path, table, rows, form=form, codec=codec)


def load(path: Path, **options: Any) -> list[dict[str, Any]]:
    read = gm.ReadOptions(num_threads=1)
    with_options = gm.ArrowIterDataset(path, audio=None, read=read, **options)
    return list(with_options)


def same(ours: Any, theirs: Any) -> bool:
    """Equal, NaN included, and of the same Python types but for tuples of pairs."""
    if isinstance(theirs, float) and math.isnan(theirs):
        return isinstance(ours, float) and math.isnan(ours)
    if isinstance(theirs, dict):
        return (
            isinstance(ours, dict)
            and list(ours) == list(theirs)
            and all(same(ours[name], theirs[name]) for name in theirs)
        )
    if isinstance(theirs, list | tuple):
        return (
            type(ours) is type(theirs)
            and len(ours) == len(theirs)
            and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
        )
    return bool(ours == theirs) and (type(ours) is type(theirs) or isinstance(theirs, np.generic))


def assert_same(ours: Any, theirs: Any) -> None:
    assert same(cv.plain(ours), theirs), f"{ours!r} is not {theirs!r}"


tables = st.integers(1, 7).flatmap(
    lambda n: st.lists(arrays(n), min_size=1, max_size=3).map(
        lambda columns: pa.table(columns, names=[f"c{k}" for k in range(len(columns))])
    )
)
SETTINGS = settings(
    max_examples=rounds(80),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_a_null_list_of_fixed_size_is_not_a_list_of_nulls(tmp_path: Path) -> None:
    """Inside a row too, and behind a dictionary or runs: cells of one array could not tell."""
    pairs = pa.array([["a", None], None, [None, None], ["b", "c"]], pa.list_(pa.string(), 2))
    keys = pa.array([0, 1, 2, None], pa.int8())
    items = [
        pairs,
        pa.FixedSizeListArray.from_arrays(pairs, 2),
        pa.DictionaryArray.from_arrays(keys, pairs),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), pairs),
        pa.ListArray.from_arrays(pa.array([0, 1, 1, 4], pa.int32()), pairs),
        pa.LargeListArray.from_arrays(pa.array([0, 0, 4]), pairs),
    ]
    for number, column in enumerate(items):
        offsets = pa.array([0, 1, len(column)], pa.int32())
        table = pa.table({"c0": pa.ListArray.from_arrays(offsets, column)})
        path = write(tmp_path / f"{number}.arrow", table, "stream", None, 8)
        for row, scalar in zip(load(path), table["c0"], strict=True):
            assert_same(row["c0"], cv.row(scalar))


@SETTINGS
@given(
    table=tables,
    form=st.sampled_from(["stream", "file"]),
    codec=st.sampled_from([None, "lz4", "zstd"]),
    chunk=st.integers(1, 8),
    size=st.integers(1, 8),
    fill=st.sampled_from([None, 0, 1]),
    shuffled=st.booleans(),
)
def test_any_table(
    tmp_path_factory: pytest.TempPathFactory,
    table: pa.Table,
    form: str,
    codec: str | None,
    chunk: int,
    size: int,
    fill: int | None,
    shuffled: bool,
) -> None:
    """Rows are pyarrow's, and batches are rows stacked: the same mapping, type by type."""
    path = write(tmp_path_factory.getbasetemp() / "any.arrow", table, form, codec, chunk)
    options: dict[str, Any] = {"shuffle": gm.Shuffle(3)} if shuffled else {}
    rows = load(path, with_row_id=True, **options)
    order = [int(row["row"]) for row in rows]
    assert sorted(order) == list(range(table.num_rows))
    for row in rows:
        for name in table.column_names:
            assert_same(row[name], cv.row(table[name][int(row["row"])]))
    for name in table.column_names:
        column = [table[name][at] for at in order]
        for ragged in ("object", "pad", "error"):
            expected, reason = [], None
            try:
                for start in range(0, len(column), size):
                    part = column[start : start + size]
                    expected.append(cv.batch(part, table[name].type, ragged, fill))
            except cv.NoValueError as error:
                reason = error
            batches = gm.ArrowIterDataset(
                path,
                audio=None,
                columns=[name],
                batch_size=size,
                ragged=ragged,
                fill_value=fill,
                read=gm.ReadOptions(num_threads=1),
                **options,
            )
            if reason is not None:
                with pytest.raises(gm.SchemaError, match=name):
                    list(batches)
                continue
            got = list(batches)
            assert len(got) == len(expected)
            if ragged == "pad":
                for k, ours in enumerate(got):
                    part = column[k * size : (k + 1) * size]
                    beside = cv.named_lengths(name, cv.lengths(part, table[name].type))
                    assert_same({key: ours[key] for key in ours if key != name}, beside)
            for ours, theirs in zip(got, expected, strict=True):
                assert_same(ours[name], theirs)


@pytest.mark.parametrize(("of", "values"), LEAVES, ids=str)
def test_dtypes(tmp_path: Path, of: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    """Numbers have the dtype of the table, alone, in lists and in batches; other values none."""
    one = pa.array([0], pa.int64()).cast(pa.int32()).view(of) if pa.types.is_date32(of) else None
    if one is None:
        if pa.types.is_temporal(of):
            narrow = pa.types.is_time32(of)
            one = pa.array([0], pa.int32() if narrow else pa.int64()).view(of)
        else:
            example: Any = {"binary": b"", "fixed_size_binary[3]": b"abc"}.get(str(of))
            if "string" in str(of):
                example = ""
            elif cv.dtype(of) is not None:
                example = np.dtype(of.to_pandas_dtype()).type(0)
            one = pa.array([example], of)
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), one)
    path = write(tmp_path / "a.arrow", pa.table({"x": one, "y": lists}), "stream", None, 9)
    (row,) = load(path)
    (batch,) = load(path, batch_size=1, ragged="error")
    dtype = cv.dtype(of)
    if dtype is None:
        assert batch["x"].dtype == batch["y"].dtype == row["y"].dtype == object
    else:
        assert batch["x"].dtype == batch["y"].dtype == row["y"].dtype == row["x"].dtype == dtype
        assert isinstance(row["x"], np.generic)
        assert batch["x"].flags.c_contiguous
        assert batch["x"].flags.writeable
    assert batch["x"].shape == (1,)
    assert batch["y"].shape == (1, 1)


def test_decimals_are_exact_whatever_their_precision(tmp_path: Path) -> None:
    many = Decimal("1234567890123456789012345678901234567890.1234567890")
    column = pa.array([many, -many, Decimal("0E-10"), None], pa.decimal256(60, 10))
    path = write(tmp_path / "a.arrow", pa.table({"x": column}), "stream", None, 9)
    assert [row["x"] for row in load(path)] == column.to_pylist()
    assert str(load(path)[0]["x"]) == str(many)


def test_times_of_day_count_from_midnight(tmp_path: Path) -> None:
    noon = dt.time(12, 0, 0, 5)
    table = pa.table({"x": pa.array([noon], pa.time64("us"))})
    path = write(tmp_path / "a.arrow", table, "stream", None, 9)
    assert load(path)[0]["x"].item() == dt.timedelta(hours=12, microseconds=5)


def test_encoded_columns_are_as_their_values(tmp_path: Path) -> None:
    plain = pa.array([5, 5, None, 7, 7, 7], pa.int16())
    encoded = {"x": plain, "d": plain.dictionary_encode(), "r": pc.run_end_encode(plain)}
    path = write(tmp_path / "a.arrow", pa.table(encoded), "file", None, 2)
    (batch,) = load(path, batch_size=6, fill_value=-1)
    for name in encoded:
        assert batch[name].dtype == np.int16
        assert batch[name].tolist() == [5, 5, -1, 7, 7, 7]


@pytest.mark.parametrize("kind", ["union", "interval"])
def test_types_without_a_value_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    column = (
        pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]
        )
        if kind == "union"
        else pa.array([None, None], pa.month_day_nano_interval())
    )
    nested = pa.StructArray.from_arrays([column], ["inner"])
    of = pa.table({"ok": pa.array([1, 2]), "x": column, "y": nested})
    path = write(tmp_path / "a.arrow", of, "stream", None, 9)
    for name in ("x", "y"):
        with pytest.raises(gm.SchemaError, match=rf"a\.arrow.*'{name}'.*{kind}") as caught:
            load(path, columns=[name])
        assert caught.value.column == name
    assert [row["ok"] for row in load(path, columns=["ok"])] == [1, 2]
