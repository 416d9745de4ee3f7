"""Packing tars put together, names of splits, and metadata that are deep or wide."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet
import pytest

import gristmill as gm
import pack_material as material
from test_pack_hostile import paths_in, reasons


def tar_of(*members: tuple[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


@pytest.mark.parametrize("zeros", [0, 512, 3 << 20])
def test_tars_behind_each_other(tmp_path: Path, zeros: int) -> None:
    (tmp_path / "ab.tar").write_bytes(
        tar_of(("a.wav", material.recording(0)))
        + bytes(zeros)
        + tar_of(("b.wav", material.recording(1)), ("b.txt", b"b"))
        + tar_of(("c.wav", material.recording(2)))
    )
    report = gm.pack(tmp_path / "ab.tar", tmp_path / "out")
    with tarfile.open(tmp_path / "ab.tar", ignore_zeros=True) as archive:
        names = [name for name in archive.getnames() if name.endswith(".wav")]
    assert paths_in(tmp_path / "out") == names == ["a.wav", "b.wav", "c.wav"]
    assert (report.bad, report.notes) == ((), ())


def test_other_bytes_behind_a_tar_are_told(tmp_path: Path) -> None:
    tar = tar_of(("a.wav", material.recording(0)))
    (tmp_path / "a.tar").write_bytes(tar + b"signature")
    report = gm.pack(tmp_path / "a.tar", tmp_path / "out")
    assert report.rows == 1
    assert report.notes == ("a.tar: 9 bytes behind its end are no tar, and were ignored.",)
    with (tmp_path / "hole.tar").open("wb") as file:
        file.write(tar)
        file.truncate(1 << 42)
    assert gm.pack(tmp_path / "hole.tar", tmp_path / "hole").notes == ()


def test_a_sample_twice_is_not_said_to_be_packed(tmp_path: Path) -> None:
    sound = material.recording(0)
    twice = (("1.wav", sound), ("1.json", b'{"l":1}')) * 2
    (tmp_path / "twice.tar").write_bytes(tar_of(*twice, ("2.wav", sound)))
    report = gm.pack(tmp_path / "twice.tar", tmp_path / "out")
    assert paths_in(tmp_path / "out") == ["2.wav"]
    (why,) = (one.message for one in report.bad if one.reason == "duplicate")
    assert why == "the tar has this member twice, and neither is packed; make the tar again"
    (tmp_path / "dots.tar").write_bytes(tar_of(("a.1.wav", sound), ("a.2.wav", sound)))
    (bad,) = gm.pack(tmp_path / "dots.tar", tmp_path / "dots").bad
    assert (bad.file, bad.reason) == ("dots.tar/a.2.wav", "duplicate")
    assert (
        "and the first is packed; members whose names are equal up to the first dot" in bad.message
    )


def test_a_pax_size_beyond_any_file(tmp_path: Path) -> None:
    sound = material.recording(0)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "good.tar").write_bytes(tar_of(("good.wav", sound)))
    with tarfile.open(tmp_path / "source" / "bad.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for k in range(3):
            info = tarfile.TarInfo(f"bad{k}.wav")
            info.size = len(sound)
            info.pax_headers = {"size": "99999999999999"} if k == 1 else {}
            archive.addfile(info, io.BytesIO(sound))
    report = gm.pack(tmp_path / "source", tmp_path / "out")
    assert paths_in(tmp_path / "out") == ["bad0.wav", "good.wav"]
    assert reasons(report) == {"bad.tar": "corrupt_tar", "bad.tar/bad1.wav": "truncated"}


def put(root: Path, *names: str) -> Path:
    for k, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(material.recording(k))
    return root


@pytest.mark.parametrize("above", ["", "corpus/data/"])
def test_splits_are_no_classes(tmp_path: Path, above: str) -> None:
    source = put(tmp_path / "in", *(f"{above}{x}" for x in ("train/a.wav", "test/b.wav")))
    report = gm.pack(source, tmp_path / "out")
    assert report.splits == {"train": 1, "test": 1}
    assert list(report.features) == ["audio"]
    names = (f"{above}{x}/b.wav" for x in ("train/wren", "train/owl", "test/owl"))
    labelled = gm.pack(put(tmp_path / "classes", *names), tmp_path / "labelled")
    assert labelled.splits == {"train": 2, "test": 1}
    assert labelled.features["label"]["names"] == ["owl", "wren"]


def test_metadata_above_splits(tmp_path: Path) -> None:
    names = ["data/train/a.wav", "data/train/b.wav", "data/test/c.wav"]
    source = put(tmp_path / "in", *names)
    lines = (json.dumps({"file_name": name, "x": name[-5]}) + "\n" for name in names)
    (source / "metadata.jsonl").write_text("".join(lines))
    assert gm.pack(source, tmp_path / "out").splits == {"train": 2, "test": 1}
    assert paths_in(tmp_path / "out" / "test") == ["data/test/c.wav"]
    put(source, "data/extra/d.wav")
    with (source / "metadata.jsonl").open("a") as file:
        file.write('{"file_name": "data/extra/d.wav", "x": "d"}\n')
    mixed = gm.pack(source, tmp_path / "mixed")
    assert mixed.splits == {"train": 4}
    assert mixed.notes == (
        "There are no splits: some recordings are beside the folders test, train.",
    )


@pytest.mark.parametrize("depth", [63, 64, 100, 1_000, 2_000, 100_000])
@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}"), ("[\n", "]\n")])
def test_deep_json_lines(tmp_path: Path, depth: int, brackets: tuple[str, str]) -> None:
    source = put(tmp_path / "in", "a.wav")
    value = brackets[0] * depth + "1" + brackets[1] * depth
    text = r'"text": "[[\"[[", ' + f'"x": {value}'
    (source / "metadata.jsonl").write_text(f'{{"file_name": "a.wav", {text}}}\n')
    if depth <= 63:
        assert gm.pack(source, tmp_path / "out").rows == 1
        return
    with pytest.raises(gm.SchemaError, match=r"as jsonl: line \d+ nests more than 63 levels"):
        gm.pack(source, tmp_path / "out")


@pytest.mark.parametrize("depth", [63, 64, 500])
def test_deep_parquet(tmp_path: Path, depth: int) -> None:
    source = put(tmp_path / "in", "a.wav")
    kind: pa.DataType = pa.int64()
    for _ in range(depth):
        kind = pa.list_(kind)
    table = pa.table({"file_name": ["a.wav"], "x": pa.nulls(1, kind)})
    with mock.patch("gristmill.tools.pack.metadata.pa_parquet.read_table", return_value=table):
        (source / "metadata.parquet").touch()
        if depth <= 63:
            assert gm.pack(source, tmp_path / "out").rows == 1
            return
        with pytest.raises(gm.SchemaError, match="'x' of the metadata is nested more than 63"):
            gm.pack(source, tmp_path / "out")


def test_many_columns_are_set_once(tmp_path: Path) -> None:
    source = put(tmp_path / "in", "a.wav")
    n = 4_000  # were each of them set in the table, the test would take minutes
    header = ",".join(f"c{k}" for k in range(n))
    (source / "metadata.csv").write_text(f"file_name,{header}\na.wav{',1' * n}\n")
    report = gm.pack(source, tmp_path / "out")
    assert len(report.features) == n + 1
    assert report.features["c17"] == {"dtype": "int64", "_type": "Value"}
