"""Paths that are odd: pipes, folders and dangling links, names that are no UTF-8, broken JSON."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
import shards
from gristmill.bad_rows.quarantine import QuarantineFile
from signals import RATE, encode, synthetic

GOOD = encode(synthetic(0.1, RATE), RATE, "wav16")


def counts(paths: Any, **options: Any) -> list[int]:
    dataset = gm.ArrowIterDataset(paths, columns=["count"], audio=None, **options)
    return [int(element["count"]) for element in dataset]


@pytest.fixture
def latin(tmp_path: Path) -> Path:
    """A shard of four rows, the last bad, whose name is Latin-1."""
    made = shards.write_audio(tmp_path / "made", [GOOD] * 3 + [b"junk"])
    path = tmp_path / "shards" / os.fsdecode(b"caf\xe9.arrow")
    path.parent.mkdir()
    return made.rename(path)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_name_that_is_no_utf8_is_excluded(latin: Path) -> None:
    assert counts(latin, exclude=[(latin, 0)]) == [-2, -1, 0]
    assert counts(latin.parent, exclude=[(latin.name, 1)]) == [-3, -1, 0]
    assert counts(str(latin.parent / "*.arrow"), exclude=[(str(latin), 2)]) == [-3, -2, 0]


def test_two_stars_stand_for_any_number_of_folders(tmp_path: Path) -> None:
    for k, folder in enumerate(("", "a/", "a/b/", ".hidden/")):
        (tmp_path / folder).mkdir(exist_ok=True)
        made = shards.write_audio(tmp_path / "made", [GOOD] * (k + 1))
        made.rename(tmp_path / folder / f"{k}.arrow")
    assert len(counts(f"{tmp_path}/**/*.arrow")) == 6
    assert len(counts(f"{tmp_path}/**/**/*.arrow")) == 6
    assert len(counts(f"{tmp_path}/a/**")) == 5
    assert len(counts(f"{tmp_path}/**/b/*.arrow")) == 3
    assert len(counts(f"{tmp_path}/*/*.arrow")) == 2


def test_a_name_that_is_no_utf8_is_inspected_and_indexed(latin: Path) -> None:
    (header,) = gm.inspect(latin).shards
    assert header.path == str(latin)
    assert gm.build_indexes(latin).rows == 4
    assert gm.bench(latin, seconds=0.2, batch_size=2).rows > 0


def test_a_name_that_is_no_utf8_is_scanned(latin: Path, tmp_path: Path) -> None:
    found = gm.scan(latin, quarantine=tmp_path / "bad.jsonl")
    (finding,) = found.findings
    assert finding.row.shard == str(latin)
    assert str(latin) in finding.row.message
    (row,) = gm.read_quarantine(tmp_path / "bad.jsonl")
    assert (row.shard, row.row, row.message) == (latin.name, 3, finding.row.message)
    assert counts(latin, exclude=tmp_path / "bad.jsonl") == [-3, -2, -1]
    # What was finished is told again, from the log.
    assert gm.scan(latin, quarantine=tmp_path / "bad.jsonl").findings == found.findings


def test_a_name_that_is_no_utf8_in_bad_rows_stats_and_errors(latin: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    it = iter(gm.ArrowIterDataset(latin, on_error="mask", quarantine=file))
    assert len(list(it)) == 4
    (bad,) = it.bad_rows()
    assert (bad.shard, bad.row) == (str(latin), 3)
    assert [shard.path for shard in it.stats().shards] == [str(latin)]
    assert counts(latin, exclude=file) == [-3, -2, -1]
    with pytest.raises(gm.DecodeError) as caught:
        list(gm.ArrowIterDataset(latin))
    assert caught.value.shard == str(latin)
    assert str(latin) in str(caught.value)
    latin.write_bytes(b"junk")
    with pytest.raises(gm.CorruptShardError) as corrupt:
        list(gm.ArrowIterDataset(latin))
    assert corrupt.value.shard == str(latin)
    latin.unlink()
    with pytest.raises(FileNotFoundError) as missing:
        list(gm.ArrowIterDataset(latin))
    assert missing.value.filename == str(latin)


def test_damaged_rows_name_the_shard_too(latin: Path) -> None:
    shards.write_audio(latin.parent / "made", [GOOD[:-50]]).rename(latin)
    it = iter(gm.ArrowIterDataset(latin, audio=gm.Audio(strict=False)))
    list(it)
    assert [row.shard for row in it.damaged_rows()] == [str(latin)]


@pytest.mark.parametrize("what", ["exclude", "quarantine", "shard", "read", "scan"])
def test_pipes_are_refused(numbered: list[Path], pipe: Path, what: str) -> None:
    """And nobody waits for a writer."""
    make = {
        "exclude": lambda: counts(numbered, exclude=pipe),
        "quarantine": lambda: counts(numbered, on_error="skip", quarantine=pipe),
        "shard": lambda: counts([pipe]),
        "read": lambda: gm.read_quarantine(pipe),
        "scan": lambda: gm.scan(numbered, quarantine=pipe),
    }[what]
    with pytest.raises((ValueError, gm.CorruptShardError, OSError), match=r"pipe|regular file"):
        make()


def test_a_folder_is_no_quarantine_file(numbered: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no regular file"):
        counts(numbered, exclude=tmp_path)
    with pytest.raises(ValueError, match="no regular file"):
        counts(numbered, exclude="/dev/null")


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "link to itself", "link to a folder"])
@pytest.mark.parametrize("how", ["folder", "pattern"])
def test_what_is_no_file_is_left_out(
    tmp_path: Path, kind: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    shards.write_audio(tmp_path / "b.arrow", [GOOD] * 2)
    (tmp_path / "c.arrow").symlink_to(tmp_path / "b.arrow")
    odd = tmp_path / "a.arrow"
    {
        "folder": odd.mkdir,
        "pipe": lambda: os.mkfifo(odd),
        "link": lambda: odd.symlink_to(tmp_path / "gone"),
        "link to itself": lambda: odd.symlink_to(odd),
        "link to a folder": lambda: odd.symlink_to(tmp_path.parent),
    }[kind]()
    paths = tmp_path if how == "folder" else str(tmp_path / "*.arrow")
    with caplog.at_level(logging.WARNING, "gristmill"):
        assert counts(paths) == [-3, -2, -3, -2]
        assert counts(paths) == [-3, -2, -3, -2]
    told = [record.getMessage() for record in caplog.records if str(odd) in record.getMessage()]
    # Folders that fit a pattern are nothing odd.
    assert len(told) == (0 if how == "pattern" and "folder" in kind else 1), told


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_no_file_is_refused_where_it_is_named(tmp_path: Path, kind: str) -> None:
    odd = tmp_path / "a.arrow"
    os.mkfifo(odd) if kind == "pipe" else odd.symlink_to(tmp_path / "gone")
    with pytest.raises((OSError, gm.CorruptShardError)):
        counts([odd])


def test_a_folder_of_none_but_odd_ones_has_no_shards(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").mkdir()
    with pytest.raises(FileNotFoundError, match=r"No .arrow or .parquet shards"):
        counts(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        '{"_data_files": ["a.arrow"]}',
        '{"_data_files": [null]}',
        '{"_data_files": [{}]}',
        '{"_data_files": [{"filename": null}]}',
        '{"_data_files": [{"filename": 5}]}',
        '{"_data_files": [{"filename": ""}]}',
        '{"_data_files": [["filename", "a.arrow"]]}',
        '{"_data_files": "a.arrow"}',
        '{"_data_files": {"filename": 1}}',
        '{"_data_files": 7}',
        '{"_data_files": null}',
        '{"_data_files": [{"filename": "../b/a.arrow"}]}',
        '{"_data_files": [{"filename": "a/../../a.arrow"}]}',
        '{"_data_files": [{"filename": "/etc/passwd"}]}',
        '{"_data_files": [{"filename": "\\ud800.arrow"}]}',
        '{"_data_files": [{"filename": "a\\u0000.arrow"}]}',
        '{"_data_files": ',
        "[" * 100_000,
    ],
)
def test_a_broken_state_of_datasets(tmp_path: Path, content: str) -> None:
    shards.write_audio(tmp_path / "a.arrow", [GOOD])
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(ValueError, match=r"state\.json"):
        counts(tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"nope"])
@pytest.mark.parametrize("name", ["state.json", "dataset_dict.json", "dataset_info.json"])
def test_what_is_no_json_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    shards.write_audio(tmp_path / "a.arrow", [GOOD])
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        counts(tmp_path)


def test_splits_that_are_no_names(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": [1, null]}')
    with pytest.raises(ValueError, match="1, None"):
        counts(tmp_path)


def test_a_data_file_in_a_folder_within(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    shards.write_audio(tmp_path / "data" / "a.arrow", [GOOD])
    saved = {"_data_files": [{"filename": "data/a.arrow"}]}
    (tmp_path / "state.json").write_text(json.dumps(saved))
    assert counts(tmp_path) == [-3]


def test_an_endless_line_is_not_read_as_a_whole(tmp_path: Path, numbered: list[Path]) -> None:
    file = tmp_path / "bad.jsonl"
    QuarantineFile(file).close()
    with file.open("ab") as out:
        out.write(b"x" * (3 << 20))
    with pytest.raises(ValueError, match="line 2"):
        counts(numbered, exclude=file)


def test_many_exclusions_take_eight_bytes_each(tmp_path: Path) -> None:
    from gristmill.bad_rows.exclude import resolve

    file = tmp_path / "bad.jsonl"
    lines = ['{"gristmill_quarantine": 1}']
    lines += [f'{{"shard": "a.arrow", "rows": 5000, "row": {row}}}' for row in range(4000)]
    file.write_text("\n".join(lines) + "\n")
    found = resolve([file, (0, 4500)], ["x/a.arrow"])
    ((number, rows),) = found.rows.items()
    assert number == 0
    assert rows.itemsize == 8
    assert list(rows) == [*range(4000), 4500]
    assert found.counts == [(0, 5000)]


def test_names_that_the_locale_does_not_have(tmp_path: Path) -> None:
    shards.write(tmp_path / "Käuze.arrow", [shards.row(0, b"garbage"), shards.row(1, b"garbage")])
    script = (
        "import sys, gristmill as gm\n"
        "folder, bad = sys.argv[1:]\n"
        "assert gm.inspect(folder).rows == 2\n"
        "gm.build_indexes(folder, audio=True, read=gm.ReadOptions(index_dir=folder + '/own'))\n"
        "for again in range(2): assert gm.scan(folder, quarantine=bad).undecodable == 2\n"
        "try: next(iter(gm.ArrowIterDataset(folder, exclude=bad, audio=None)))\n"
        "except ValueError as error: print(ascii(str(error)))\n"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    bad = tmp_path / "bad.jsonl"
    command = [sys.executable, "-c", script, str(tmp_path), str(bad)]
    env = {**os.environ, **ascii_only}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=100
    )
    assert "exclude= leaves out all 2 rows" in done.stdout
    assert [row.shard for row in gm.read_quarantine(bad)] == ["Käuze.arrow"] * 2
