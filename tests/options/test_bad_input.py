"""Bad input: a typed exception that names the place and the remedy, and no harm done."""

from __future__ import annotations

import gc
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile

import gristmill as gm
import shards
from probes import n_descriptors, n_threads, settles
from signals import RATE, encode, synthetic

GOOD = encode(synthetic(0.2, RATE), RATE, "wav16")


@pytest.fixture(autouse=True)
def unharmed(numbered: list[Path]) -> Iterator[None]:
    """After each test: the next call works, and no thread and no descriptor is left."""
    threads, descriptors = n_threads(), n_descriptors()
    yield
    ds = gm.ArrowIterDataset(numbered, batch_size=8)
    it = iter(ds)
    assert len([batch["audio"] for batch in it]) == 5
    it.close()
    gc.collect()  # the exception that the test caught holds the frames that it came through
    assert settles(n_threads, threads)
    assert settles(n_descriptors, descriptors)


def first(paths: Any, **options: Any) -> Any:
    it = iter(gm.ArrowIterDataset(paths, **options))
    try:
        return next(it)
    finally:
        it.close()


def shard_of(tmp_path: Path, *recordings: bytes | None) -> Path:
    return shards.write_audio(tmp_path / "bad.arrow", recordings, batch_rows=2)


def test_errors_are_of_one_family() -> None:
    for error in (gm.CorruptShardError, gm.SchemaError, gm.DecodeError, gm.LimitError):
        assert issubclass(error, gm.GristmillError)
        assert getattr(gm.errors, error.__name__) is error
    assert issubclass(gm.UnsupportedCodecError, gm.DecodeError)
    assert issubclass(gm.InternalError, gm.GristmillError)


@pytest.mark.parametrize("name", ["missing.arrow", "missing-*.arrow", "missing/"])
def test_missing_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        first(str(tmp_path / name))


def test_one_missing_among_many(numbered: list[Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.arrow"):
        first([numbered[0], tmp_path / "missing.arrow", numbered[2]])


def test_a_directory_without_shards(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no shard")
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        first(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"ARROW1", b"\xff" * 8, b"PAR1" + bytes(100), b"not arrow at all " * 50, bytes(4_096)],
    ids=["empty", "magic only", "no length", "parquet", "text", "zeros"],
)
def test_files_that_are_no_shards(numbered: list[Path], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.arrow"
    path.write_bytes(content)
    with pytest.raises(gm.CorruptShardError, match=r"odd\.arrow") as caught:
        list(gm.ArrowIterDataset([numbered[0], path]))
    assert Path(caught.value.shard).name == "odd.arrow"


@pytest.mark.parametrize("form", ["stream", "file"])
@pytest.mark.parametrize("share", [0.001, 0.3, 0.5, 0.9, 0.999])
def test_truncated_shards(tmp_path: Path, form: str, share: float) -> None:
    whole = shards.write_audio(tmp_path / "whole.arrow", [GOOD] * 12, form=form)
    path = tmp_path / "cut.arrow"
    data = whole.read_bytes()
    # A stream may end without its mark of 8 bytes: then nothing is missing.
    path.write_bytes(data[: round((len(data) - 16) * share)])
    with pytest.raises(gm.CorruptShardError, match=r"cut\.arrow") as caught:
        list(gm.ArrowIterDataset(path))
    assert Path(caught.value.shard).name == "cut.arrow"
    assert caught.value.byte is None or 0 <= caught.value.byte <= len(data)


def test_a_column_that_is_not_there(numbered: list[Path]) -> None:
    with pytest.raises(gm.SchemaError, match="songs") as caught:
        first(numbered, columns=["count", "songs"])
    assert caught.value.column == "songs"
    with pytest.raises(gm.SchemaError, match="songs") as caught:
        first(numbered, audio=gm.Audio("songs"))
    assert caught.value.column == "songs"
    assert "audio" in str(caught.value)  # what there is


@pytest.mark.parametrize("column", ["label", "name", "tags", "place"])
def test_an_audio_column_of_the_wrong_type(numbered: list[Path], column: str) -> None:
    with pytest.raises(gm.SchemaError, match=column) as caught:
        first(numbered, audio=gm.Audio(column))
    assert caught.value.column.startswith(column)


def test_shards_of_different_schemas(numbered: list[Path], tmp_path: Path) -> None:
    of = shards.schema({"audio": shards.AUDIO, "count": pa.string()})
    rows = [{"audio": {"bytes": GOOD, "path": "x"}, "count": "three"}]
    other = shards.write(tmp_path / "other.arrow", rows, of=of)
    with pytest.raises(gm.SchemaError, match=r"other\.arrow"):
        list(gm.ArrowIterDataset([numbered[0], other], columns=["audio", "count"]))


BAD_AUDIO = {
    "null": None,
    "empty": b"",
    "garbage": bytes(range(256)) * 20,
    "text": b"<html>404 Not Found</html>",
    "wav header only": GOOD[:44],
    "half a header": GOOD[:20],
    "ogg header only": encode(synthetic(1, RATE), RATE, "vorbis")[:300],
    "flac header only": encode(synthetic(1, RATE), RATE, "flac16")[:60],
    "mp3 cut short": encode(synthetic(1, RATE), RATE, "mp3")[:70],
}


@pytest.mark.parametrize("kind", BAD_AUDIO)
@pytest.mark.parametrize("batch_size", [None, 5])
def test_bad_audio(tmp_path: Path, kind: str, batch_size: int | None) -> None:
    path = shard_of(tmp_path, GOOD, GOOD, GOOD, BAD_AUDIO[kind], GOOD)
    audio = gm.Audio(crop=gm.StartCrop(0.1))
    ds = gm.ArrowIterDataset(path, audio=audio, batch_size=batch_size)
    it = iter(ds)
    with pytest.raises(gm.DecodeError, match=r"bad\.arrow.*row 3") as caught:
        list(it)
    assert Path(caught.value.shard).name == "bad.arrow"
    assert caught.value.row == 3
    assert caught.value.reason
    it.close()
    without = gm.ArrowIterDataset(path, audio=audio, batch_size=batch_size, exclude=[(0, 3)])
    assert sum(np.size(element["count"]) for element in without) == 4


def test_rows_before_and_after_a_bad_row(tmp_path: Path) -> None:
    path = shard_of(tmp_path, GOOD, b"junk", GOOD)
    it = iter(gm.ArrowIterDataset(path))
    assert next(it)["count"] == -3
    before = it.get_state()
    with pytest.raises(gm.DecodeError):
        next(it)
    it.set_state({**before, "next_index": before["next_index"] + 1})
    assert next(it)["count"] == -1


@pytest.mark.parametrize("kind", [kind for kind in BAD_AUDIO if kind != "null"])
def test_bad_bytes_to_decode_and_probe(kind: str) -> None:
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(BAD_AUDIO[kind])
    assert (caught.value.shard, caught.value.row) == (None, None)
    if kind in ("empty", "garbage", "text", "half a header"):
        with pytest.raises(gm.DecodeError):
            gm.probe(BAD_AUDIO[kind])


@pytest.mark.parametrize("kind", ["wav16", "flac16", "vorbis", "mp3"])
def test_truncated_audio_is_an_error(kind: str) -> None:
    whole = encode(synthetic(2, RATE), RATE, kind)
    with pytest.raises(gm.DecodeError, match="truncated") as caught:
        gm.decode(whole[: len(whole) // 2])
    assert caught.value.codec is not None


@pytest.mark.parametrize("unknown", ["adpcm", "au"])
def test_codecs_that_are_not_supported(unknown: str) -> None:
    out = io.BytesIO()
    form, subtype = {"adpcm": ("WAV", "IMA_ADPCM"), "au": ("AU", "PCM_16")}[unknown]
    soundfile.write(out, synthetic(0.5, 48_000), 48_000, format=form, subtype=subtype)
    with pytest.raises(gm.DecodeError):
        gm.decode(out.getvalue())


def test_rows_of_unequal_length_in_a_batch(tmp_path: Path) -> None:
    longer = encode(synthetic(0.3, RATE), RATE, "wav16")
    path = shard_of(tmp_path, GOOD, GOOD, longer)
    for audio in (gm.Audio(), gm.Audio(crop=gm.StartCrop(0.25), pad=None)):
        assert len(list(gm.ArrowIterDataset(path, audio=audio))) == 3
        with pytest.raises((gm.GristmillError, ValueError), match=r"bad\.arrow.*row 2") as caught:
            first(path, audio=audio, batch_size=3)
        assert "crop" in str(caught.value) or "pad" in str(caught.value)
