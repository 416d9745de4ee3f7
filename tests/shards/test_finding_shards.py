"""What users type for shards: `~`, `file://`, folders of something else, audio without features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards
from gristmill.paths import resolve
from signals import encode, synthetic

DATA = [encode(synthetic(0.1, 8_000, 1, i), 8_000, "wav16") for i in range(3)]


def write(path: Path, fields: dict[str, pa.DataType], *, features: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{name: shards.row(i, d)["audio"] for name in fields} for i, d in enumerate(DATA)]
    schema = pa.schema(list(fields.items()))
    if features:
        images = {name: {"_type": "Image"} for name in fields}
        metadata = json.dumps({"info": {"features": images}})
        schema = schema.with_metadata({"huggingface": metadata})
    return shards.write(path, rows, of=schema)


def decodes(path: Any) -> bool:
    rows = list(gm.ArrowIterDataset(path, audio=gm.Audio()))
    return all(
        np.array_equal(*row.values(), gm.decode(d)) for row, d in zip(rows, DATA, strict=True)
    )


@pytest.mark.parametrize(
    "struct",
    [
        shards.AUDIO,
        pa.struct([("bytes", pa.large_binary()), ("path", pa.large_string())]),
    ],
)
def test_audio_is_found_without_features(tmp_path: Path, struct: pa.DataType) -> None:
    path = write(tmp_path / "a.arrow", {"sound": struct})
    assert decodes(path)
    row = next(iter(gm.ArrowIterDataset(path)))["sound"]
    assert np.array_equal(row, gm.decode(DATA[0]))
    assert gm.inspect(path).audio_column == "sound"
    assert gm.scan(path).is_clean


def test_where_it_is_not_clear_nothing_is_decoded(tmp_path: Path) -> None:
    two = write(tmp_path / "two.arrow", {"a": shards.AUDIO, "b": shards.AUDIO})
    other = pa.struct([("bytes", pa.binary()), ("path", pa.string()), ("rate", pa.int32())])
    shaped = write(tmp_path / "other.arrow", {"a": other})
    # The features say that nothing is audio: it may be an image.
    named = write(tmp_path / "image.arrow", {"a": shards.AUDIO}, features=True)
    for path in (two, shaped, named):
        assert next(iter(gm.ArrowIterDataset(path)))["a"]["bytes"] == DATA[0]
        with pytest.raises(gm.SchemaError, match=r"name it|name the one to decode"):
            next(iter(gm.ArrowIterDataset(path, audio=gm.Audio())))
        assert next(iter(gm.ArrowIterDataset(path, audio=gm.Audio("a"))))["a"].shape == (800,)


def test_paths_as_people_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "my data" / "a#1.arrow", {"audio": shards.AUDIO})
    monkeypatch.setenv("HOME", str(tmp_path))
    given: list[Any] = [
        path,
        "~/my data/a#1.arrow",
        Path("~/my data"),
        "~/my data/*.arrow",
        path.as_uri(),
        f"file://{str(path.parent).replace(' ', '%20')}",
        f"file://localhost{path.as_uri()[7:]}",
        [Path("~/my data/a#1.arrow")],
    ]
    for paths in given:
        assert decodes(paths), paths
        assert len(gm.ArrowDataSource(paths)) == 3
    for url in ("file://host/a.arrow", "file:///a.arrow?x", "file:///a.arrow#1", "ftp://b/a.arrow"):
        with pytest.raises(ValueError, match=r"file:// URL has|and not ftp://"):
            gm.ArrowIterDataset(url)
    (tmp_path / "~").mkdir()
    write(tmp_path / "~" / "b.arrow", {"audio": shards.AUDIO})
    monkeypatch.chdir(tmp_path)
    assert decodes("./~")


def message(folder: Path) -> str:
    with pytest.raises(FileNotFoundError) as raised:
        gm.ArrowDataSource(folder)[0]
    assert raised.value.filename == str(folder)
    return str(raised.value.strerror)


def test_a_folder_without_shards_says_what_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "some data"
    folder.mkdir()
    no = "No .arrow or .parquet shards in this directory"
    assert message(folder) == f"{no}: it is empty"
    for i in range(60):
        (folder / f"{i}.ogg").touch()
    pack = f"make shards of them: gristmill pack '{folder}' -o SHARDS"
    assert message(folder) == f"{no}, but 60 .ogg files; {pack}"
    (folder / "metadata.csv").touch()
    (folder / "wren").mkdir()
    (folder / "wren" / "a.WAV").touch()
    assert message(folder) == f"{no}, but 60 .ogg files and 1 .wav file; {pack}"
    tars = tmp_path / "tars"
    tars.mkdir()
    (tars / "a.tar").touch()
    assert f"but 1 .tar file; make shards of them: gristmill pack '{tars}/*.tar'" in message(
        tars
    ).replace(f"{tars}/*.tar -o", f"'{tars}/*.tar' -o")
    split = tmp_path / "splits"
    for name in ("train", "test"):
        write(split / name / "a.arrow", {"audio": shards.AUDIO})
    assert message(split) == (
        f"{no}, but 2 .arrow files and the folders test, train; name the one that has them"
    )
    for name in ("a", "b"):
        (split / name).mkdir()
    assert "the folders a, b, test, ...; name the one" in message(split)


def test_hidden_files_are_no_shards(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", {"audio": shards.AUDIO})
    for name in ("._a.arrow", "._a.parquet", ".arrow"):
        (tmp_path / name).write_bytes(b"\0\5\x16\7 written by macOS")
    assert resolve([str(tmp_path)]) == [str(tmp_path / "a.arrow")]
    (tmp_path / "a.arrow").unlink()
    with pytest.raises(FileNotFoundError, match=r"No \.arrow or \.parquet shards"):
        resolve([str(tmp_path)])
