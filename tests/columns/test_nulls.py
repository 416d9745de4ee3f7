"""Nulls: `None` in single rows, an error in batches of numbers, and never a made-up value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gristmill as gm
import shards


def write(path: Path, **columns: pa.Array) -> Path:
    table = shards.with_features(pa.table(columns), {"audio": {"_type": "Audio"}})
    return shards.write_table(path, table)


@pytest.mark.parametrize(
    ("keys", "values"), [([0, None, 1], [10, 20]), ([0, 1, 0], [10, None])], ids=["key", "value"]
)
def test_nulls_of_a_dictionary_of_numbers(
    tmp_path: Path, keys: list[int | None], values: list[int | None]
) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int32()), pa.array(values))
    path = write(tmp_path / "a.arrow", code=column)
    assert [row["code"] for row in gm.ArrowIterDataset(path)] == column.to_pylist()
    with pytest.raises(gm.SchemaError, match=r"a\.arrow, row 1.*code.*null") as caught:
        next(iter(gm.ArrowIterDataset(path, batch_size=3)))
    assert caught.value.column == "code"


KIND = pa.struct([("bytes", pa.binary()), ("path", pa.string()), ("rate", pa.int32())])


def test_nulls_beside_encoded_audio(tmp_path: Path) -> None:
    audio = pa.array(
        [
            {"bytes": b"x", "path": "p", "rate": 5},
            {"bytes": b"y", "path": None, "rate": None},
            None,
        ],
        KIND,
    )
    path = write(tmp_path / "a.arrow", audio=audio)
    single = [row["audio"] for row in gm.ArrowIterDataset(path, audio=None)]
    assert single == [
        {"bytes": b"x", "path": "p", "rate": 5},
        {"bytes": b"y", "path": None, "rate": None},
        {"bytes": None, "path": None, "rate": None},
    ]
    with pytest.raises(gm.SchemaError, match=r"row 1.*audio\.rate.*null"):
        next(iter(gm.ArrowIterDataset(path, audio=None, batch_size=3)))


def test_a_null_struct_of_text_beside_encoded_audio(tmp_path: Path) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    path = write(tmp_path / "a.arrow", audio=pa.array([{"bytes": b"x", "path": "p"}, None], kind))
    (batch,) = gm.ArrowIterDataset(path, audio=None, batch_size=2)
    assert batch["audio"]["path"].tolist() == ["p", None]
    assert batch["audio"]["bytes"].tolist() == [b"x", None]


def test_columns_that_bear_the_names_of_row_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", row=pa.array(["a"]), x=pa.array([1.5]))
    assert next(iter(gm.ArrowIterDataset(path)))["row"] == "a"
    with pytest.raises(gm.SchemaError, match=r"a\.arrow.*'row'.*with_row_id"):
        next(iter(gm.ArrowIterDataset(path, with_row_id=True)))
    row = next(iter(gm.ArrowIterDataset(path, columns=["x"], with_row_id=True)))
    assert (row["row"], row["x"]) == (0, 1.5)


@pytest.mark.parametrize("make", [pa.ipc.new_stream, pa.ipc.new_file])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_null_structs_before_the_first_value_of_a_dictionary(
    tmp_path: Path, make: Any, compression: str | None
) -> None:
    kind = pa.struct([("name", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())])
    parts: list[list[Any]] = [[None, None], [{"name": None, "n": 1}]]
    if make is pa.ipc.new_stream:
        parts.append([None, {"name": "x", "n": 2}])
    path = tmp_path / "a.arrow"
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with make(str(path), pa.schema([("of", kind)]), options=options) as writer:
        for part in parts:
            writer.write_table(pa.table({"of": pa.array(part, kind)}))
    expected = [row for part in parts for row in part]
    assert [row["of"] for row in gm.ArrowIterDataset(path)] == expected
    batches = gm.ArrowIterDataset(path, batch_size=2, fill_value={"of": -1})
    names = [name for batch in batches for name in batch["of"]["name"]]
    assert names == [row and row["name"] for row in expected]
