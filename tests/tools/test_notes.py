"""Headers that contradict sound which is all there: the row is sound, and counted with notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gristmill as gm
import shards
from damaged_files import LIES, cut, made
from gristmill.cli import main

LYING = ["WAV", "FLAC", "Ogg Vorbis", "Ogg Opus", "AAC in Matroska", "AAC in MP4"]
ROWS = [made("WAV"), *(LIES[name](made(name)) for name in LYING), cut(0.5)(made("WAV"))]
SOUND = [made("WAV"), *(made(name) for name in LYING)]
NOTES = {"header_length": 4, "timestamps": 2}


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("noted") / "rows.arrow"
    return shards.write_audio(path, ROWS, batch_rows=3)


def test_scan_counts_them_and_finds_no_bad_row(shard: Path, tmp_path: Path) -> None:
    out = tmp_path / "bad.jsonl"
    report = gm.scan(shard, quarantine=out)
    assert [finding.row.row for finding in report.findings] == [len(ROWS) - 1]
    assert (report.noted, dict(report.notes)) == (len(LYING), NOTES)
    lines = [line for line in str(report).splitlines() if "notes" in line]
    assert len(lines) == 1
    assert "header_length" in lines[0]


def test_inspect_has_a_line_of_them(shard: Path) -> None:
    result = CliRunner().invoke(main, ["inspect", str(shard)])
    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if line.strip().startswith("notes")]
    assert len(lines) == 1
    assert "header_length" in lines[0]


def test_training_takes_them_as_they_are_and_pedantic_refuses(shard: Path, tmp_path: Path) -> None:
    index = gm.ReadOptions(index_dir=tmp_path)
    for _ in range(2):  # the second time by the audio index
        for row, (noted, sound) in enumerate(zip(ROWS, SOUND, strict=False)):
            audio, report = gm.decode_with_report(noted, strict=True)
            expected = gm.decode(sound)
            assert gm.probe(noted).frames == len(audio)
            assert audio[: len(expected)].tobytes() == expected.tobytes()
            assert bool(report.notes) == (row > 0)
        crops = gm.Audio(crop=gm.RandomCrop(0.5))
        it = iter(gm.ArrowIterDataset(shard, audio=crops, read=index, on_error="skip"))
        assert len(list(it)) == len(SOUND)
        pedantic = gm.Audio(crop=gm.RandomCrop(0.5), strict="pedantic")
        it = iter(gm.ArrowIterDataset(shard, audio=pedantic, read=index, on_error="skip"))
        assert len(list(it)) == 1


def test_windows_are_as_many_as_the_sound_has(shard: Path) -> None:
    windows = gm.Audio(crop=gm.Windows(1.0), strict=True)
    counts = [
        len(list(gm.ArrowIterDataset(shard, audio=windows, on_error="skip", shuffle=None))),
        sum(int(np.ceil(gm.probe(data).duration)) for data in ROWS[:-1]),
    ]
    assert counts[0] == counts[1]
