"""Metadata files that are broken, that contradict themselves, or that could be misunderstood."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import gristmill as gm
import pack_material as material

GRISTMILL = Path(sys.executable).with_name("gristmill")


def corrupt_parquet() -> bytes:
    """A Parquet file whose footer is sound, and whose first pages are not."""
    sink = io.BytesIO()
    pa.parquet.write_table(pa.table({"file_name": [f"{k}.wav" for k in range(5000)]}), sink)
    data = bytearray(sink.getvalue())
    data[4:200] = b"\xff" * 196
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("metadata.csv", b"name,n\na.wav,1\n", "no column 'file_name'"),
        ("metadata.csv", b"", "cannot be read as csv"),
        ("metadata.csv", b"file_name,n\na.wav,1,2\n", "cannot be read as csv"),
        ("metadata.csv", b"file_name,n,n\na.wav,1,2\n", "a column 'n' too many"),
        ("metadata.csv", b"file_name,audio\na.wav,1\n", "a column 'audio' too many"),
        ("metadata.csv", b"file_name,n\n\xff\xfe.wav,1\n", "cannot be read as csv|invalid UTF8"),
        ("metadata.csv", b'file_name,n\na.wav,"1\nb.wav,2\n', "opens in line 2 is never closed"),
        ("metadata.csv", b'\xef\xbb\xbf"file_name', "opens in line 1 is never closed"),
        ("metadata.csv", b'file_name,n\na.wav,"1"""\n\n"a.wav,1""\n', "opens in line 4 is never"),
        ("metadata.jsonl", b'{"file_name": 3}\n', "no column 'file_name' of strings"),
        ("metadata.jsonl", b'{"file_name": "a.wav"\n', "cannot be read as jsonl"),
        ("metadata.jsonl", b"[1, 2]\n", "cannot be read as jsonl"),
        ("metadata.jsonl", b'{"a":' * 100_000, "cannot be read as jsonl"),
        ("metadata.parquet", b"PAR1 no parquet PAR1", "cannot be read as parquet"),
        ("metadata.parquet", corrupt_parquet(), r"metadata\.parquet cannot be read as parquet"),
    ],
)
def test_metadata_that_cannot_be_read(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.wav").write_bytes(material.recording(0))
    (source / name).write_bytes(data)
    with pytest.raises(gm.SchemaError, match=message):
        gm.pack(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ids", "kind", "message"),
    [
        ([0, 1], pa.int64(), r"row 2: 'x' is 1, and the features in its schema name 1 classes"),
        ([0, 255], pa.uint8(), "row 2: 'x' is 255, "),
        ([None, -2], pa.int8(), "row 2: 'x' is -2, "),
        ([None, -1], pa.int32(), None),
        ([0, 2**64 - 1], pa.uint64(), f"row 2: 'x' is {2**64 - 1}, "),
        ([0, 0], pa.uint64(), None),
    ],
)
def test_classes_without_a_name(
    tmp_path: Path, ids: list[int | None], kind: pa.DataType, message: str | None
) -> None:
    source = two_with_metadata(tmp_path, pa.array(ids, kind))
    table = pa.parquet.read_table(source / "metadata.parquet")
    features = {"x": {"_type": "ClassLabel", "names": ["only"]}}
    told = {"huggingface": json.dumps({"info": {"features": features}})}
    pa.parquet.write_table(table.replace_schema_metadata(told), source / "metadata.parquet")
    if message is None:
        assert gm.pack(source, tmp_path / "out").features["x"]["names"] == ["only"]
        return
    with pytest.raises(gm.SchemaError, match=message) as refused:
        gm.pack(source, tmp_path / "out")
    assert refused.value.column == "x"
    assert not (tmp_path / "out").exists()


def test_a_type_that_datasets_has_no_feature_for(tmp_path: Path) -> None:
    storage = pa.array([b"a" * 16] * 2, pa.binary(16))
    source = two_with_metadata(tmp_path, pa.ExtensionArray.from_storage(pa.uuid(), storage))
    with pytest.raises(gm.SchemaError, match=r"of type extension<arrow\.uuid>, .*; leave it out"):
        gm.pack(source, tmp_path / "out")


def two_with_metadata(folder: Path, column: pa.Array) -> Path:
    """Two recordings, and a Parquet file that gives them this column."""
    source = folder / "source"
    source.mkdir()
    names = ["0.wav", "1.wav"]
    for k, name in enumerate(names):
        (source / name).write_bytes(material.recording(k))
    table = pa.table({"file_name": names, "x": column})
    pa.parquet.write_table(table, source / "metadata.parquet")
    return source


def test_metadata_that_are_refused_end_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(material.recording(0))
    (tmp_path / "metadata.csv").write_text("file_name;n\na.wav;1\n")
    command = [str(GRISTMILL), "pack", str(tmp_path), "-o", str(tmp_path / "out"), "--quiet"]
    # A third of the runs were aborted when the interpreter ended.
    for _ in range(8):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert "no column 'file_name' of strings; its columns are file_name;n" in done.stderr


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["12345678901234567891", "7"], [12345678901234567891, 7]),
        (["98765432109876543210123", "98765432109876543210124"], None),
        (["-12345678901234567891", "7"], None),
        (["98765432109876543210123", "1.5"], [98765432109876543210123.0, 1.5]),
        (["0x10", "12"], None),
        (["0X10", "0xff"], None),
        (["007", "010"], [7, 10]),
        (["-1", ""], [-1, None]),
        (["1e5", "inf"], [1e5, float("inf")]),
        (['"say ""x"""', '"two\nlines"'], ['say "x"', "two\nlines"]),
        (['5" nail', 'x"y""'], None),
    ],
)
def test_identifiers_stay_what_they_are(
    tmp_path: Path, values: list[str], expected: list[object] | None
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    lines = ["file_name,id"]
    for k, value in enumerate(values):
        (source / f"{k}.wav").write_bytes(material.recording(k))
        lines.append(f"{k}.wav,{value}")
    (source / "metadata.csv").write_text("\n".join(lines) + "\n")
    gm.pack(source, tmp_path / "out")
    (shard,) = (tmp_path / "out").glob("*.arrow")
    found = pa.ipc.open_stream(shard).read_all()["id"].to_pylist()
    assert found == (values if expected is None else expected)
