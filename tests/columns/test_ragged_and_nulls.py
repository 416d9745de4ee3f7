"""The options `ragged` and `fill_value`: shapes, dtypes, lengths, errors that name the row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards


def write(path: Path, batch_rows: int = 2, **columns: pa.Array) -> Path:
    return shards.write_table(path, pa.table(columns), batch_rows)


def batch(path: Path, **options: Any) -> dict[str, Any]:
    (only,) = gm.ArrowIterDataset(path, audio=None, batch_size=100, **options)
    return only


TAGS = [[1, 2, 3], [], [4]]


def test_object_keeps_each_list_an_array(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", tags=pa.array([*TAGS, None], pa.list_(pa.int16())))
    tags = batch(path)["tags"]
    assert (tags.dtype, tags.shape) == (object, (4,))
    assert [None if cell is None else cell.tolist() for cell in tags] == [*TAGS, None]
    assert all(cell.dtype == np.int16 for cell in tags[:3])


def test_pad_comes_with_lengths(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", tags=pa.array(TAGS, pa.large_list(pa.int16())))
    got = batch(path, ragged="pad")
    assert (got["tags"].dtype, got["tags_lengths"].dtype) == (np.int16, np.int32)
    assert got["tags"].tolist() == [[1, 2, 3], [0, 0, 0], [4, 0, 0]]
    assert got["tags_lengths"].tolist() == [3, 0, 1]
    assert got["tags"].flags.c_contiguous
    assert batch(path, ragged="pad", fill_value=-1)["tags"].tolist() == [
        [1, 2, 3],
        [-1, -1, -1],
        [4, -1, -1],
    ]


def test_pad_of_nested_lists(tmp_path: Path) -> None:
    nested = pa.array([[[1], [2, 3]], [], [[4, 5, 6]]], pa.list_(pa.list_(pa.float32())))
    got = batch(write(tmp_path / "a.arrow", x=nested), ragged="pad", fill_value=float("nan"))
    assert got["x"].shape == (3, 2, 3)
    assert got["x_lengths"].tolist() == [2, 0, 1]
    assert got["x_lengths_2"].tolist() == [[1, 2], [0, 0], [3, 0]]
    np.testing.assert_array_equal(got["x"][0], [[1, np.nan, np.nan], [2, 3, np.nan]])
    assert np.isnan(got["x"][1]).all()


def test_pad_inside_structs_and_of_strings(tmp_path: Path) -> None:
    rows = [{"words": ["a", "b"]}, {"words": []}]
    of = pa.struct([("words", pa.list_(pa.string()))])
    got = batch(write(tmp_path / "a.arrow", s=pa.array(rows, of)), ragged="pad")["s"]
    assert got["words"].tolist() == [["a", "b"], [None, None]]
    assert got["words_lengths"].tolist() == [2, 0]


def test_lists_of_one_length_stack(tmp_path: Path) -> None:
    tokens = np.arange(12, dtype=np.int32).reshape(4, 3)
    column = pa.array(list(tokens), pa.list_(pa.int32()))
    path = write(tmp_path / "a.arrow", tokens=column)
    got = batch(path, ragged="error")["tokens"]
    np.testing.assert_array_equal(got, tokens, strict=True)
    assert got.flags.c_contiguous
    assert got.flags.writeable
    assert got.ctypes.data % 64 == 0
    assert "tokens_lengths" not in batch(path, ragged="error")


def test_lists_of_unequal_lengths_are_an_error_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", tags=pa.array([[1, 2], [3, 4], [5]], pa.list_(pa.int8())))
    with pytest.raises(gm.SchemaError, match=r"a\.arrow, row 2.*'tags'.*1 items.*2.*pad") as caught:
        batch(path, ragged="error")
    assert caught.value.column == "tags"
    assert len(list(gm.ArrowIterDataset(path, ragged="error"))) == 3  # single rows are as they are


def test_styles_by_column(tmp_path: Path) -> None:
    column = pa.array([[1, 2], [3]], pa.list_(pa.int8()))
    numbers = pa.array([None, 7], pa.int8())
    path = write(tmp_path / "a.arrow", a=column, b=column, n=numbers)
    got = batch(path, ragged={"a": "pad"}, fill_value={"n": 9})
    assert got["a"].tolist() == [[1, 2], [3, 0]]
    assert [cell.tolist() for cell in got["b"]] == [[1, 2], [3]]
    assert got["n"].tolist() == [9, 7]
    for options in ({"ragged": {"nope": "pad"}}, {"fill_value": {"nope": 1}}):
        with pytest.raises(gm.SchemaError, match="nope") as caught:
            batch(path, **options)
        assert caught.value.column == "nope"


@pytest.mark.parametrize(
    ("of", "fill", "expected"),
    [
        (pa.int8(), -1, -1),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.int32(), np.int64(5), 5),
        (pa.int32(), 5.0, 5),
        (pa.float16(), 0.5, 0.5),
        (pa.float32(), -1, -1.0),
        (pa.float64(), float("inf"), float("inf")),
        (pa.bool_(), True, True),
        (pa.bool_(), 0, False),
        (pa.timestamp("us"), np.datetime64("NaT"), None),
        (pa.date32(), float("nan"), None),
        (pa.duration("s"), 3, np.timedelta64(3, "s").item()),
    ],
    ids=str,
)
def test_fill_values(tmp_path: Path, of: pa.DataType, fill: Any, expected: Any) -> None:
    path = write(tmp_path / "a.arrow", x=pa.nulls(2, of))
    assert batch(path, fill_value=fill)["x"].tolist() == [expected, expected]
    assert [row["x"] for row in gm.ArrowIterDataset(path, fill_value=fill)] == [None, None]


@pytest.mark.parametrize(
    ("of", "fill"),
    [(pa.uint8(), -1), (pa.uint8(), 256), (pa.int32(), 0.5), (pa.int64(), float("nan"))],
    ids=str,
)
def test_fill_values_that_do_not_fit(tmp_path: Path, of: pa.DataType, fill: Any) -> None:
    path = write(tmp_path / "a.arrow", x=pa.array([1, None], of))
    with pytest.raises(gm.SchemaError, match=r"row 1.*'x'.*fill_value") as caught:
        batch(path, fill_value=fill)
    assert caught.value.column == "x"
    assert batch(write(tmp_path / "b.arrow", x=pa.array([1], of)), fill_value=fill)["x"] == [1]


@pytest.mark.parametrize("options", [{"ragged": "stack"}, {"ragged": {"a": 1.5}}])
def test_ragged_is_a_mode_or_a_length(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ragged"):
        gm.ArrowIterDataset(tmp_path, **options)


@pytest.mark.parametrize("fill", ["", b"", 2**64, -(2**63) - 1, np.datetime64(1, "s"), {"a": []}])
def test_fill_value_is_a_number(tmp_path: Path, fill: Any) -> None:
    with pytest.raises(ValueError, match="fill_value"):
        gm.ArrowIterDataset(tmp_path, fill_value=fill)


def test_nulls_of_structs_are_nulls_of_their_fields(tmp_path: Path) -> None:
    of = pa.struct([("n", pa.int32()), ("s", pa.string()), ("box", pa.list_(pa.int8(), 2))])
    column = pa.array([{"n": 1, "s": "a", "box": [1, 2]}, None], of)
    path = write(tmp_path / "a.arrow", x=column)
    assert [row["x"] is None for row in gm.ArrowIterDataset(path)] == [False, True]
    got = batch(path, fill_value=0)["x"]
    assert got["n"].tolist() == [1, 0]
    assert got["s"].tolist() == ["a", None]
    assert got["box"].tolist() == [[1, 2], [0, 0]]
    with pytest.raises(gm.SchemaError, match=r"row 1.*'x\.n'.*null.*fill_value") as caught:
        batch(path)
    assert caught.value.column == "x.n"


def test_nulls_inside_lists(tmp_path: Path) -> None:
    column = pa.array([[1], [2, None], [3]], pa.list_(pa.int32()))
    path = write(tmp_path / "a.arrow", x=column)
    single = [row["x"] for row in gm.ArrowIterDataset(path)]
    assert [cell.tolist() for cell in single] == [[1], [2, None], [3]]
    assert [cell.dtype for cell in single] == [np.int32, object, np.int32]
    for ragged in ("object", "pad"):
        with pytest.raises(gm.SchemaError, match=r"row 1.*'x'.*null"):
            batch(path, ragged=ragged)
    assert [cell.tolist() for cell in batch(path, fill_value=7)["x"]] == [[1], [2, 7], [3]]


def test_a_null_list_is_not_an_empty_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", x=pa.array([[1, 2], None], pa.list_(pa.int32())))
    for ragged in ("pad", "error"):
        with pytest.raises(gm.SchemaError, match=r"row 1.*'x'.*null"):
            batch(path, ragged=ragged)
        assert batch(path, ragged=ragged, fill_value=9)["x"].tolist() == [[1, 2], [9, 9]]
    assert batch(path, ragged="pad", fill_value=9)["x_lengths"].tolist() == [2, 0]


def test_names_that_would_hide_each_other(tmp_path: Path) -> None:
    column = pa.array([[1]], pa.list_(pa.int32()))
    path = write(tmp_path / "a.arrow", x=column, x_lengths=pa.array([1]))
    assert batch(path)["x_lengths"].tolist() == [1]
    with pytest.raises(gm.SchemaError, match=r"'x_lengths'.*two columns"):
        batch(path, ragged="pad")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "a", "b"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, twice.schema) as writer:
        writer.write_table(twice)
    with pytest.raises(gm.SchemaError, match=r"'a'.*two columns"):
        batch(path)
    assert batch(path, columns=["b"])["b"].tolist() == [3]


@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("ragged", ["object", "pad", "error"])
def test_the_element_spec_is_what_comes(
    tmp_path: Path, batch_size: int | None, ragged: Any
) -> None:
    lists = pa.array([[[1, 2]], [[3, 4]]], pa.list_(pa.list_(pa.int8())))
    columns = {
        "n": pa.array([1, 2], pa.uint8()),
        "text": pa.array(["a", "b"]),
        "day": pa.array([1, 2], pa.int32()).view(pa.date32()),
        "fixed": pa.array([[[1, 2]], [[3, 4]]], pa.list_(pa.list_(pa.int8(), 2), 1)),
        "mixed": pa.array([[[1, 2]], [[3, 4]]], pa.list_(pa.list_(pa.int8(), 2))),
        "lists": lists,
        "d": pa.array([1.5, 2.5]).dictionary_encode(),
        "s": pa.array([{"x": [1]}, {"x": [2]}], pa.struct([("x", pa.list_(pa.int16()))])),
        "records": pa.array([[{"a": 1}], []], pa.list_(pa.struct([("a", pa.int8())]))),
        "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int8())),
    }
    ds = gm.ArrowIterDataset(
        write(tmp_path / "a.arrow", **columns),
        batch_size=batch_size,
        ragged=ragged,
        drop_remainder=True,
    )
    element = next(iter(ds))

    def check(spec: Any, value: Any, name: str) -> None:
        if isinstance(spec, dict):
            assert list(spec) == list(value)
            for child in spec:
                check(spec[child], value[child], f"{name}.{child}")
            return
        if isinstance(value, np.ndarray | np.generic):
            assert value.dtype == spec.dtype, name
            assert len(value.shape) == len(spec.shape), name
            pairs = zip(spec.shape, value.shape, strict=True)
            assert all(axis in (None, size) for axis, size in pairs), name
        else:
            assert (spec.shape, spec.dtype) == ((), np.dtype(object)), name

    check(ds._element_spec, element, "")
