"""A recording without a frame is a bad row, `empty`, wherever it is met."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

import gristmill as gm
import shards
from damaged_files import made

KINDS = ["WAV", "AIFF", "CAF", "FLAC", "RF64"]


def without_frames(kind: str) -> bytes:
    if kind == "FLAC":  # libsndfile writes no header before the first frame
        data = made("FLAC")[:42]
        return data[:4] + b"\x80" + data[5:21] + bytes([data[21] & 0xF0]) + bytes(4) + data[26:]
    out = io.BytesIO()
    soundfile.write(out, np.zeros((0, 1)), 16_000, format=kind, subtype="PCM_16")
    return out.getvalue()


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("no_frames") / "rows.arrow"
    rows = [made("WAV"), *(without_frames(kind) for kind in KINDS), made("FLAC")]
    return shards.write_audio(path, rows, batch_rows=3)


BAD = list(range(1, 1 + len(KINDS)))


@pytest.mark.parametrize("strict", [True, False, "pedantic"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_cannot_be_decoded(kind: str, strict: bool | str) -> None:
    for read in (gm.decode, gm.probe):
        options = {"strict": strict} if read is gm.decode else {}
        with pytest.raises(gm.DecodeError, match="has no frame") as caught:
            read(without_frames(kind), **options)
        assert caught.value.reason == "empty"


@pytest.mark.parametrize("crop", [None, gm.RandomCrop(0.5), gm.Windows(1.0)])
@pytest.mark.parametrize("strict", [True, False])
def test_data_sets_skip_it(shard: Path, strict: bool, crop: gm.RandomCrop | None) -> None:
    audio = gm.Audio(crop=crop, strict=strict)
    it = iter(gm.ArrowIterDataset(shard, audio=audio, on_error="skip", shuffle=None))
    assert {element["count"] for element in it} == {-3, len(KINDS) + 1 - 3}
    assert [(bad.row, bad.reason) for bad in it.bad_rows()] == [(row, "empty") for row in BAD]
    with pytest.raises(gm.DecodeError, match="row 1"):
        list(gm.ArrowIterDataset(shard, audio=audio, shuffle=None))


@pytest.mark.parametrize("fast", [False, True])
def test_scan_finds_it(shard: Path, fast: bool) -> None:
    found = [(f.row.row, f.row.reason) for f in gm.scan(shard, fast=fast).findings]
    assert found == [(row, "empty") for row in BAD]


def test_pack_leaves_it_out(tmp_path: Path) -> None:
    for i, data in enumerate([made("WAV"), *map(without_frames, KINDS)]):
        suffix = ["wav", "wav", "aiff", "caf", "flac", "wav"][i]
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{i}.{suffix}").write_bytes(data)
    report = gm.pack(tmp_path / "in", tmp_path / "out")
    assert report.rows == 1
    assert set(report.reasons) == {"empty"}
