"""`gm.pack` against `datasets`: the same rows, labels and features, in shards that both read."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pytest
from click.testing import CliRunner

import gristmill as gm
import pack_material as material
from gristmill.cli import main

# It does not close a CSV file that it has read only the first rows of.
PANDAS_LEAVES_OPEN = pytest.mark.filterwarnings("ignore:.*unclosed file:ResourceWarning")


@pytest.fixture(autouse=True)
def no_torchcodec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here `datasets` has nothing to encode, and asks for torchcodec all the same."""

    def as_it_is(_: datasets.Audio, value: str | dict[str, Any]) -> dict[str, Any]:
        return value if isinstance(value, dict) else {"bytes": None, "path": value}

    monkeypatch.setattr(datasets.Audio, "encode_example", as_it_is)


def loaded(tmp_path: Path, builder: str, **options: Any) -> datasets.Dataset:
    """What `datasets` makes of the source, in one split."""
    ds = datasets.load_dataset(builder, cache_dir=str(tmp_path / "hf"), split="train", **options)
    gc.collect()  # what pandas leaves open is closed here, where the warning is known
    return undecoded(ds)


def undecoded(ds: datasets.Dataset) -> datasets.Dataset:
    return ds.cast_column("audio", datasets.Audio(decode=False))


def rows_of(ds: datasets.Dataset) -> list[dict[str, Any]]:
    """Rows with the bytes in them, and without paths, which are told in other ways."""
    rows: list[dict[str, Any]] = []
    for row in ds:
        audio = row["audio"]
        data = audio["bytes"] if audio["bytes"] is not None else Path(audio["path"]).read_bytes()
        rows.append({**row, "audio": data})
    return rows


def native_rows(folder: Path) -> list[dict[str, Any]]:
    dataset = gm.ArrowIterDataset(folder, audio=None, shuffle=None, epochs=1)
    return [{**row, "audio": row["audio"]["bytes"]} for row in dataset]


def files_in(folder: Path) -> dict[str, str]:
    """Every file and a hash of it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def plain(value: Any) -> Any:
    """A value of either reader as JSON has it."""
    return json.loads(
        json.dumps(value, default=lambda x: x.hex() if isinstance(x, bytes) else x.tolist())
    )


def test_class_folders_equal_audiofolder(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source")
    (source / "wren" / "wren-2.ogg").rename(source / "wren" / "__last.ogg")
    report = gm.pack(source, tmp_path / "out")
    expected = loaded(tmp_path, "audiofolder", data_dir=str(source))
    found = undecoded(datasets.load_from_disk(tmp_path / "out"))
    assert rows_of(found) == rows_of(expected)
    assert found.features == expected.features
    assert plain(native_rows(tmp_path / "out")) == plain(rows_of(expected))
    paths = [row["audio"]["path"] for row in loaded(tmp_path, "audiofolder", data_dir=str(source))]
    assert [row["audio"]["path"] for row in found] == [
        str(Path(path).relative_to(source)) for path in paths
    ]
    assert report.rows == 9
    assert report.ignored == {".txt": 1}
    assert not report.bad
    assert report.features["label"]["names"] == ["barn owl", "crow", "wren"]
    assert sum(shard.audio_seconds for shard in report.shards) == pytest.approx(9 * 0.3, rel=0.1)


@PANDAS_LEAVES_OPEN
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_metadata_equal_audiofolder(tmp_path: Path, kind: str) -> None:
    source = material.with_metadata(tmp_path / "source", kind)
    report = gm.pack(source, tmp_path / "out")
    expected = loaded(tmp_path, "audiofolder", data_dir=str(source))
    found = undecoded(datasets.load_from_disk(tmp_path / "out"))
    # Strings of pandas are large strings from its version 3 on.
    told = str(expected.features).replace("large_string", "string")
    assert str(found.features) == told
    assert rows_of(found) == rows_of(expected)
    assert report.unlisted == 1
    paths = [row["audio"]["path"] for row in found]
    assert paths == [f"clips/{9 - i}.wav" for i in range(len(material.ROWS))]
    for native, row in zip(native_rows(tmp_path / "out"), rows_of(expected), strict=True):
        assert plain(native) == plain(row)


@PANDAS_LEAVES_OPEN
def test_strings_become_classes(tmp_path: Path) -> None:
    source = material.with_metadata(tmp_path / "source", "csv")
    report = gm.pack(source, tmp_path / "out", class_columns=["species"])
    expected = loaded(tmp_path, "audiofolder", data_dir=str(source)).class_encode_column("species")
    found = datasets.load_from_disk(tmp_path / "out")
    assert found.features["species"] == expected.features["species"]
    assert found["species"][:] == expected["species"][:]
    assert report.features["species"]["names"] == ["crow", "owl", "wren"]


def test_classes_of_a_parquet_file_stay(tmp_path: Path) -> None:
    source = material.with_metadata(tmp_path / "source", "parquet")
    path = source / "metadata.parquet"
    ds = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "hf"))
    ds.class_encode_column("species").to_parquet(path)
    gm.pack(source, tmp_path / "out")
    found = datasets.load_from_disk(tmp_path / "out")
    assert found.features["species"] == datasets.ClassLabel(names=["crow", "owl", "wren"])
    assert [found.features["species"].int2str(k) for k in found["species"]] == [
        row["species"] for row in material.ROWS
    ]


def test_metadata_in_several_folders(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for k, name in enumerate(("b", "a")):
        (source / name).mkdir(parents=True)
        (source / name / "x.wav").write_bytes(material.recording(k))
        value = "1" if name == "a" else "2.5"
        (source / name / "metadata.csv").write_text(f"level,file_name\n{value},x.wav\n")
    gm.pack(source, tmp_path / "out")
    found = undecoded(datasets.load_from_disk(tmp_path / "out"))
    assert [(row["audio"]["path"], row["level"]) for row in found] == [
        ("a/x.wav", 1.0),
        ("b/x.wav", 2.5),
    ]
    assert list(found.features) == ["level", "audio"]


def test_splits_have_folders_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for split in ("train", "valid", "test"):
        material.class_folders(source / split, n_each=2)
    # A class that one split lacks has its number all the same.
    shutil.rmtree(source / "valid" / "crow")
    report = gm.pack(source, tmp_path / "out")
    assert report.splits == {"train": 6, "validation": 4, "test": 6}
    expected = datasets.load_dataset(
        "audiofolder", data_dir=str(source), cache_dir=str(tmp_path / "hf")
    )
    found = datasets.load_from_disk(tmp_path / "out")
    assert set(found) == set(expected)
    for split, part in found.items():
        assert rows_of(undecoded(part)) == rows_of(undecoded(expected[split]))
    assert len(native_rows(tmp_path / "out" / "validation")) == 4
    with pytest.raises(ValueError, match="contains several splits"):
        native_rows(tmp_path / "out")


def test_tars_equal_webdataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    tars = [
        material.write_tar(source / f"clips-{k}.tar", material.samples(10 * k)) for k in range(2)
    ]
    report = gm.pack(source, tmp_path / "out")
    expected = datasets.load_dataset(
        "webdataset",
        data_files=[str(tar) for tar in tars],
        cache_dir=str(tmp_path / "hf"),
        split="train",
    ).rename_column("flac", "audio")
    expected = undecoded(expected)
    found = undecoded(datasets.load_from_disk(tmp_path / "out"))
    assert list(found.features) == ["audio", "cls", "json", "txt", "__key__", "__url__"]
    for row, other in zip(found, expected, strict=True):
        assert row["audio"]["bytes"] == other["audio"]["bytes"]
        assert row["audio"]["path"] == f"{row['__key__']}.flac"
        assert row["__url__"] == Path(other["__url__"]).name
        for name in ("cls", "json", "txt", "__key__"):
            assert row[name] == other[name]
    assert report.rows == 6
    # One of them alone is a source too.
    for several in (tars, [*tars, tars[0]], [f"{source}/clips-?.tar"], str(source / "*.tar")):
        out = tmp_path / "several"
        assert gm.pack(several, out, overwrite=True).rows == 6
        assert files_in(out) == files_in(tmp_path / "out")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert gm.pack("~/source/clips-1.tar", "~/one").rows == 3
    assert plain(native_rows(tmp_path / "one")) == plain(native_rows(tmp_path / "out")[3:])


def test_shards_of_a_size(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source")
    report = gm.pack(source, tmp_path / "out", shard_size="20kB")
    names = [f"data-{k:05d}-of-{len(report.shards):05d}.arrow" for k in range(len(report.shards))]
    assert [shard.file for shard in report.shards] == names
    assert len(names) > 2
    audio = [
        sum(len(row["audio"]["bytes"]) for row in pa.ipc.open_stream(path).read_all().to_pylist())
        for path in sorted((tmp_path / "out").glob("*.arrow"))
    ]
    assert all(size <= 20_000 for size in audio)
    # None could have taken the next one's first recording as well: they are as full as they can be.
    whole = gm.pack(source, tmp_path / "whole")
    assert len(whole.shards) == 1
    assert native_rows(tmp_path / "out") == native_rows(tmp_path / "whole")
    # A recording that is longer than a shard may be has one of its own.
    assert len(gm.pack(source, tmp_path / "single", shard_size=1).shards) == 9


def test_equal_bytes_whatever_threads_and_times(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source")
    (source / "wren" / "broken.wav").write_bytes(b"RIFF")
    gm.pack(source, tmp_path / "first", num_threads=1, shard_size="30kB")
    copy = Path(shutil.copytree(source, tmp_path / "elsewhere"))
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))
    gm.pack(copy, tmp_path / "second", num_threads=5, shard_size="30kB")
    assert files_in(tmp_path / "first") == files_in(tmp_path / "second")


def test_bad_files_are_left_out_or_kept(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source")
    whole = material.recording(1)
    bad = {
        "crow/cut.wav": whole[: len(whole) // 2],
        "crow/empty.ogg": b"",
        "wren/text.flac": b"no audio at all",
        "wren/tape.au": b".snd\0\0\0\x18",
    }
    for name, data in bad.items():
        (source / name).write_bytes(data)
    reasons = {
        "crow/cut.wav": "truncated",
        "crow/empty.ogg": "empty",
        "wren/tape.au": "unsupported_codec",
        "wren/text.flac": "unknown_format",
    }
    report = gm.pack(source, tmp_path / "out")
    assert {one.file: one.reason for one in report.bad} == reasons
    assert not any(one.kept for one in report.bad)
    assert report.rows == 9
    lines = (tmp_path / "out" / "bad_files.jsonl").read_text().splitlines()
    assert [json.loads(line)["file"] for line in lines] == sorted(bad)

    kept = gm.pack(source, tmp_path / "kept", keep_bad=True)
    assert kept.rows == 13
    assert all(one.kept for one in kept.bad)
    found = undecoded(datasets.load_from_disk(tmp_path / "kept"))
    data = {row["audio"]["path"]: row["audio"]["bytes"] for row in found}
    assert {name: data[name] for name in bad} == bad
    # What a scan finds in the shards is what packing has found.
    scanned = gm.scan(tmp_path / "kept")
    assert {one.row.path: one.row.reason for one in scanned.findings} == reasons
    assert gm.scan(tmp_path / "out").is_clean

    fast = gm.pack(source, tmp_path / "fast", fast=True)
    assert {one.file: one.reason for one in fast.bad} == reasons


def test_shards_without_rows(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source")
    (source / "crow" / "broken.wav").write_bytes(b"RIFF")
    report = gm.pack(source, tmp_path / "out", shard_size=1)
    assert sorted({shard.rows for shard in report.shards}) == [0, 1]
    found = undecoded(datasets.load_from_disk(tmp_path / "out"))
    assert plain(native_rows(tmp_path / "out")) == plain(rows_of(found))
    assert len(found) == 9
    # One bad file alone is a data set of no rows, and is listed.
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "broken.wav").write_bytes(b"RIFF")
    nothing = gm.pack(tmp_path / "bad", tmp_path / "none")
    assert (nothing.rows, len(nothing.bad)) == (0, 1)


def test_done_is_done(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source")
    (source / "crow" / "broken.wav").write_bytes(b"RIFF")
    first = gm.pack(source, tmp_path / "out", shard_size="20kB")
    before = files_in(tmp_path / "out")
    again = gm.pack(source, tmp_path / "out", shard_size="20kB")
    assert files_in(tmp_path / "out") == before
    assert (again.shards, again.bad, again.features) == (first.shards, first.bad, first.features)
    assert (first.reused, again.reused) == (0, len(first.shards))
    assert not (tmp_path / "out" / ".pack").exists()

    with pytest.raises(ValueError, match=r"contains shards of another pack.*--overwrite"):
        gm.pack(source, tmp_path / "out")
    assert files_in(tmp_path / "out") == before
    (tmp_path / "out" / "mine.txt").write_text("mine")
    gm.pack(source, tmp_path / "out", overwrite=True)
    gm.pack(source, tmp_path / "other")
    (tmp_path / "other" / "mine.txt").write_text("mine")
    assert files_in(tmp_path / "out") == files_in(tmp_path / "other")


def test_the_command(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source")
    out = tmp_path / "out"
    done = CliRunner().invoke(main, ["pack", str(source), "-o", str(out), "--shard-size", "25kB"])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("9 recordings in ")
    assert "label  ClassLabel of 3: barn owl, crow, wren" in done.stdout
    assert "Other files, ignored: .txt 1." in done.stdout
    assert "9/9 files" in done.stderr
    (source / "crow" / "broken.wav").write_bytes(b"RIFF")
    arguments = ["pack", str(source), "-o", str(out), "--overwrite", "--json", "--quiet"]
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 1, again.stderr
    assert not again.stderr
    found = json.loads(again.stdout)
    assert found["rows"] == 9
    assert [bad["file"] for bad in found["bad"]] == ["crow/broken.wav"]
    refused = CliRunner().invoke(main, ["pack", str(source), "-o", str(out), "--keep-bad"])
    assert refused.exit_code == 3
    assert "--overwrite" in refused.stderr


def test_every_option_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    for parameter in main.commands["pack"].params:
        options = [name for name in parameter.opts if name.startswith("--")]
        assert all(f"`{name}" in page for name in options), options
    shown = CliRunner().invoke(main, ["pack", "--help"]).output
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_no_labels_where_recordings_lie_at_different_depths(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source")
    (source / "loose.wav").write_bytes(material.recording(5))
    report = gm.pack(source, tmp_path / "out")
    assert list(report.features) == ["audio"]
    assert report.notes == ("There are no labels, since recordings are at different depths.",)
    expected = loaded(tmp_path, "audiofolder", data_dir=str(source))
    assert rows_of(undecoded(datasets.load_from_disk(tmp_path / "out"))) == rows_of(expected)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = material.class_folders(tmp_path / "source")
    monkeypatch.setattr("gristmill.tools.pack.api.find_spec", lambda name: None)
    monkeypatch.setattr("gristmill.cli.pack.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install pyarrow"):
        gm.pack(source, tmp_path / "out")
    done = CliRunner().invoke(main, ["pack", str(source), "-o", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "pack needs pyarrow: pip install pyarrow" in done.stderr


def test_a_url_as_out_makes_no_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="out is the path of a folder on this machine, not a URL"):
        gm.pack("recordings", "s3://bucket/shards")
    assert not any(tmp_path.iterdir())
