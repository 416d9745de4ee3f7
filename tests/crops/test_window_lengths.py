"""Lengths of recordings, by which windows are counted: how they are learnt, and where kept."""

from __future__ import annotations

import logging
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
import shards
from signals import RATE, encode, synthetic

Window = tuple[int, int, int]  # row, number, count


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Eight recordings in three shards, one of them empty, all of which have settled."""
    folder = tmp_path_factory.mktemp("lengths")
    written = []
    for s, n_rows in enumerate((3, 0, 5)):
        kinds = ("wav16", "flac16", "vorbis", "mp3", "flac24")
        made = [encode(synthetic(0.2 + 0.3 * k, RATE, 1, k), RATE, kinds[k]) for k in range(n_rows)]
        written.append(shards.write_audio(folder / f"part-{s}.arrow", made, batch_rows=2))
        os.utime(written[-1], (1_000_000_000, 1_000_000_000))
    return written


def dataset(paths: list[Path], crop: gm.Windows, **options: Any) -> gm.ArrowIterDataset:
    audio = gm.Audio("audio", crop=crop, **{"sample_rate": RATE, **options.pop("audio", {})})
    return gm.ArrowIterDataset(
        paths, columns=[], audio=audio, with_row_id=True, with_crop=True, **options
    )


def listed(ds: Any) -> list[Window]:
    return [(int(e["row"]), int(e["window"]), int(e["n_windows"])) for e in ds]


def test_lengths_are_kept(
    paths: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gristmill")
    read = gm.ReadOptions(index_dir=tmp_path)
    ds = dataset(paths, gm.Windows(0.25), read=read)
    expected = listed(ds)
    assert "counted the parts of 8 rows" in caplog.text
    caplog.clear()
    # Other windows follow from the same lengths.
    other = dataset(paths, gm.Windows(0.1, tail="drop"), read=read)
    assert other.rows_per_epoch() == len(listed(other))
    assert listed(ds) == expected
    assert "counted" not in caplog.text
    # A file that is damaged is not believed.
    for kept in tmp_path.glob("*.gmindex"):
        data = bytearray(kept.read_bytes())
        data[-1] ^= 1
        kept.write_bytes(data)
    assert listed(ds) == expected
    assert "counted the parts of 8 rows" in caplog.text


@pytest.mark.parametrize("strict", [True, False])
def test_long_recordings_are_read_at_their_ends(tmp_path: Path, strict: bool) -> None:
    """Their length is what decoding them gives, whatever is wrong with them and wherever."""
    made = []
    for kind in ("flac16", "wav16", "vorbis"):
        data = encode(synthetic(9.3, RATE, 2, 3), RATE, kind)
        middle = len(data) // 2
        made += [
            data,
            data[:middle] + bytes(100) + data[middle + 100 :],
            data[:middle],
            data[:-20],
            data[:-20] + bytes(20),
            data + bytes(100_000),
            data[:100] + bytes(100_000) + data[100:],
        ]
    path = shards.write_audio(tmp_path / "long.arrow", made)
    lengths = []
    for data in made:
        try:
            lengths.append(gm.probe(data).frames if strict else len(gm.decode(data, strict=False)))
        except gm.DecodeError:
            lengths.append(0)
    ds = dataset([path], gm.Windows(0.5), audio={"strict": strict}, on_error="mask")
    counts = {row: count for row, _, count in listed(ds)}
    assert list(counts.values()) == [max(-(-n // 16_000), 1) for n in lengths]


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(lines[0].removeprefix("rchar: "))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much a process has read")
@pytest.mark.parametrize("kind", ["flac16", "wav16", "vorbis"])
def test_how_much_is_read(tmp_path: Path, kind: str) -> None:
    """Of FLAC and WAV both ends; other formats tell their length by all pages or frames."""
    data = encode(synthetic(30, RATE, 2, 3), RATE, kind)
    path = shards.write_audio(tmp_path / "long.arrow", [data] * 4)
    ds = dataset([path], gm.Windows(5))
    before = bytes_read()
    assert ds.rows_per_epoch() == 4 * 6
    read = bytes_read() - before
    if kind == "vorbis":
        assert read > 4 * len(data)
    else:
        assert 4 * (128 << 10) <= read < 4 * (128 << 10) + (64 << 10)
        assert read < len(data) * 4 / 3


def test_an_empty_chunk_at_the_seam(tmp_path: Path) -> None:
    """A WAV file whose data chunk says that it is empty, just where the first bytes end.

    What follows tells whether it is: another chunk, or samples that were written to a pipe.
    """
    whole = encode(synthetic(0.01, RATE), RATE, "wav16")
    head = whole[: whole.index(b"data")]
    room = (64 << 10) - len(head) - 8 - 8  # so that the header of the chunk ends there
    head += b"JUNK" + struct.pack("<I", room) + bytes(room) + b"data" + bytes(4)
    assert len(head) == 64 << 10
    n_samples = 200_000
    made = [
        head + b"LIST" + struct.pack("<I", 2 * n_samples) + bytes(2 * n_samples),
        head + bytes(2 * n_samples),
    ]
    with pytest.raises(gm.DecodeError) as caught:
        gm.probe(made[0])
    assert caught.value.reason == "empty"
    assert gm.probe(made[1]).frames == n_samples
    path = shards.write_audio(tmp_path / "seam.arrow", made)
    ds = dataset([path], gm.Windows(0.5), audio={"sample_rate": None}, on_error="skip")
    assert [window[0] for window in listed(ds)] == [1] * -(-n_samples // (RATE // 2))
