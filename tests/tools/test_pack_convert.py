"""`gm.pack(convert=True)`: what is not decoded becomes FLAC, equal to what FFmpeg decodes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import pack_material as material

RATE = 16_000


def encoded(container: str, codec: str, rate: int = RATE) -> bytes:
    sink = io.BytesIO()
    with av.open(sink, "w", format=container) as target:
        stream: Any = target.add_stream(codec, rate=rate)
        stream.layout = "mono"
        sound = np.random.default_rng(1).integers(-9_000, 9_000, rate // 2).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(sound[None], "s16", "mono")
        frame.sample_rate = rate
        frame.pts = 0
        for one in (frame, None):
            for packet in stream.encode(one):
                target.mux(packet)
    return sink.getvalue()


def by_ffmpeg(data: bytes) -> np.ndarray[Any, Any]:
    """Mono, as float32."""
    with av.open(io.BytesIO(data)) as source:
        parts = [frame.to_ndarray() for frame in source.decode(audio=0)]
    joined = np.concatenate(parts, axis=-1).reshape(-1)
    if joined.dtype == np.uint8:
        return ((joined.astype(np.float32) - 128) / 128).astype(np.float32)
    scale = {np.dtype(np.int16): 2.0**15, np.dtype(np.int32): 2.0**31}.get(joined.dtype, 1.0)
    return (joined / scale).astype(np.float32)


FORMATS = {
    "ac3": ("ac3", "ac3", 48_000, 24),
    "eac3": ("eac3", "eac3", 48_000, 24),
    "wav": ("wav", "adpcm_ms", RATE, 16),
    "tta": ("tta", "tta", RATE, 16),
    "au": ("au", "pcm_s16be", RATE, 16),
    "amr": ("amr", "libopencore_amrnb", 8_000, 24),
}


def rows(folder: Path, **options: Any) -> list[dict[str, Any]]:
    return list(gm.ArrowIterDataset(folder, audio=None, shuffle=None, epochs=1, **options))


@pytest.mark.parametrize("ending", FORMATS)
def test_equals_ffmpeg(tmp_path: Path, ending: str) -> None:
    container, codec, rate, bits = FORMATS[ending]
    try:
        data = encoded(container, codec, rate)
    except (av.FFmpegError, ValueError) as error:
        pytest.skip(f"this FFmpeg has no encoder: {error}")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"a.{ending}").write_bytes(data)
    assert gm.pack(tmp_path / "in", tmp_path / "all", keep_bad=True).reasons == {
        "unsupported_codec": 1
    }
    report = gm.pack(tmp_path / "in", tmp_path / "out", convert=True)
    assert (report.rows, report.converted, report.bad) == (1, 1, ())
    assert "1 recording converted to FLAC" in str(report)
    (row,) = rows(tmp_path / "out")
    assert row["audio"]["path"] == f"a.{ending}"
    found = gm.decode(row["audio"]["bytes"])
    want = by_ffmpeg(data)
    np.testing.assert_allclose(
        np.asarray(found).reshape(-1), want, atol=0 if bits == 16 else 2**-23, rtol=0
    )


def test_tars_and_shards(tmp_path: Path) -> None:
    good, adpcm = material.recording(0), encoded("wav", "adpcm_ms")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, data in (("x.wav", good), ("x.cls", b"7"), ("y.wav", adpcm), ("y.cls", b"8")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    shards, again = tmp_path / "shards", tmp_path / "again"
    first = gm.pack(tmp_path / "a.tar", shards, keep_bad=True)
    assert first.rows == 2
    report = gm.pack(shards, again, convert=True)
    assert (report.rows, report.converted) == (2, 1)
    assert report.features == first.features
    before, after = rows(shards), rows(again)
    assert [row["audio"]["path"] for row in after] == ["x.wav", "y.wav"]
    assert [row["cls"] for row in after] == [row["cls"] for row in before]
    assert after[0]["audio"]["bytes"] == good
    assert after[1]["audio"]["bytes"][:4] == b"fLaC"
    of_tar = gm.pack(tmp_path / "a.tar", tmp_path / "tar", convert=True)
    assert of_tar.converted == 1
    assert rows(tmp_path / "tar")[1]["audio"]["bytes"] == after[1]["audio"]["bytes"]
    assert gm.pack(shards, again, convert=True).converted == 1  # nothing is left to do


def test_null_rows_features_and_compression(tmp_path: Path) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    sounds = [
        {"bytes": encoded("wav", "adpcm_ms"), "path": None},
        None,
        {"bytes": None, "path": "b"},
    ]
    features = '{"info": {"features": {"sound": {"sampling_rate": 8000, "_type": "Audio"}}}}'
    schema = pa.schema([("n", pa.int64()), ("sound", kind)], {"huggingface": features})
    table = pa.table([pa.array([1, 2, 3]), pa.array(sounds, kind)], schema=schema)
    (tmp_path / "in").mkdir()
    for name, compression in (("in/a.arrow", None), ("packed.arrow", "zstd")):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_file(tmp_path / name, schema, options=options) as writer:
            writer.write_table(table)
    report = gm.pack(tmp_path / "in", tmp_path / "out", convert=True)
    assert (report.rows, report.converted, report.reasons) == (1, 1, {"no_audio": 2})
    assert report.features["sound"] == {"sampling_rate": 8000, "_type": "Audio"}
    with pytest.raises(gm.SchemaError, match=r"packed.arrow is compressed"):
        gm.pack(tmp_path / "packed.arrow", tmp_path / "no", convert=True)


def test_limits_and_playlists(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.wav").write_bytes(encoded("wav", "adpcm_ms"))
    secret = tmp_path / "secret.wav"
    secret.write_bytes(material.recording(0))
    playlist = f"ffconcat version 1.0\nfile '{secret}'\n"
    (source / "list.wma").write_text(playlist)
    report = gm.pack(source, tmp_path / "out", convert=True, keep_bad=True)
    assert report.converted == 1
    assert [one.file for one in report.bad] == ["list.wma"]
    for field, value, said in (
        ("max_seconds", 0.4, "longer than max_seconds"),
        ("max_bytes", 8_500, "as FLAC"),
    ):
        limits = gm.Limits(**{field: value})
        found = gm.pack(source, tmp_path / field, convert=True, keep_bad=True, limits=limits)
        assert found.converted == 0
        assert said in next(one.message for one in found.bad if one.file == "a.wav")


def test_without_pyav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gristmill.tools.pack.api.find_spec", lambda name: None if name == "av" else name
    )
    with pytest.raises(ModuleNotFoundError, match="pip install av"):
        gm.pack(tmp_path, tmp_path / "out", convert=True)
