"""WAV, AIFF, CAF and SPHERE against libsndfile: the same bits, however samples are stored."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile

import gristmill as gm
from signals import synthetic

RATE = 44_100
LINEAR = ["PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW"]
WRITTEN = [
    *(("WAV", subtype, "FILE") for subtype in ["PCM_U8", *LINEAR]),
    *(("WAVEX", subtype, "FILE") for subtype in ["PCM_U8", *LINEAR]),
    *(("RF64", subtype, "FILE") for subtype in ["PCM_U8", *LINEAR]),
    *(("AIFF", subtype, "FILE") for subtype in ["PCM_S8", "PCM_U8", *LINEAR]),
    *(("AIFF", subtype, "LITTLE") for subtype in ["PCM_16", "PCM_24", "PCM_32"]),
    *(("CAF", subtype, "FILE") for subtype in ["PCM_S8", *LINEAR]),
    *(("CAF", subtype, endian) for subtype in LINEAR[:5] for endian in ("LITTLE", "BIG")),
    *(("NIST", subtype, "FILE") for subtype in ["PCM_S8", "ALAW", "ULAW"]),
    *(("NIST", subtype, endian) for subtype in LINEAR[:3] for endian in ("LITTLE", "BIG")),
]
CODEC = {
    "WAV": "wav",
    "WAVEX": "wav",
    "RF64": "wav",
    "AIFF": "aiff",
    "CAF": "caf",
    "NIST": "sphere",
}


def encode(frames: np.ndarray, container: str, subtype: str, endian: str = "FILE") -> bytes:
    out = io.BytesIO()
    soundfile.write(out, frames, RATE, format=container, subtype=subtype, endian=endian)
    return out.getvalue()


def expected(data: bytes) -> np.ndarray:
    frames, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    return np.ascontiguousarray(frames.T)


@pytest.mark.parametrize(("container", "subtype", "endian"), WRITTEN)
@pytest.mark.parametrize("channels", [1, 2, 3, 8])
def test_bits_are_those_of_libsndfile(
    container: str, subtype: str, endian: str, channels: int
) -> None:
    frames = synthetic(0.1, RATE, channels, 3)
    frames[:8] = np.array([1, -1, 0.5, -0.5, 2**-15, -(2**-15), 0, 1 - 2**-20])[:, None]
    data = encode(frames, container, subtype, endian)
    info = gm.probe(data)
    found = (info.codec, info.sample_rate, info.channels, info.frames)
    assert found == (CODEC[container], RATE, channels, len(frames))
    assert gm.decode(data, channels="keep").tobytes() == expected(data).tobytes()


@pytest.mark.parametrize(("container", "subtype", "endian"), WRITTEN)
def test_crops_are_slices(container: str, subtype: str, endian: str) -> None:
    data = encode(synthetic(0.4, RATE, 2, 4), container, subtype, endian)
    whole = gm.decode(data, channels="keep")
    rng = np.random.default_rng(5)
    for length in rng.integers(1, 3_000, 100):
        start = int(rng.integers(0, whole.shape[1] - length))
        got = gm.decode(data, channels="keep", start=start / RATE, seconds=length / RATE)
        assert got.tobytes() == whole[:, start : start + length].tobytes()


@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF", "NIST"])
def test_a_tag_in_front_is_skipped(container: str) -> None:
    data = encode(synthetic(0.1, RATE, 2, 5), container, "PCM_16")
    tag = b"ID3\x04\0\0\0\0\x02\x01" + bytes(257)
    assert gm.decode(tag + data).tobytes() == gm.decode(data).tobytes()


@pytest.mark.parametrize("container", ["WAV", "WAVEX", "RF64", "AIFF", "CAF", "NIST"])
@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
def test_a_cut_is_seen(container: str, part: float) -> None:
    data = encode(synthetic(0.3, RATE, 2, 6), container, "PCM_16")
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data[: int(len(data) * part)], seconds=0.001)
    assert caught.value.reason in {"truncated", "malformed_header"}
    assert caught.value.codec == CODEC[container]


@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF", "NIST"])
def test_no_frames_are_a_bad_row(container: str) -> None:
    data = encode(np.zeros((0, 2), np.float32), container, "PCM_16")
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data)
    assert caught.value.reason == "empty"


def place(data: bytes, chunk: bytes, width: int) -> slice:
    """Where the length of a chunk stands."""
    at = data.index(chunk) + 4
    return slice(at, at + width)


@pytest.mark.parametrize("length", [0, 0xFFFF_FFFF, 0x7FFF_F000])
def test_wav_of_unknown_length_goes_to_the_end(length: int) -> None:
    data = bytearray(encode(synthetic(0.1, RATE, 2, 7), "WAV", "PCM_16"))
    whole = gm.decode(bytes(data))
    data[place(data, b"data", 4)] = struct.pack("<I", length)
    data[4:8] = struct.pack("<I", length)
    assert gm.decode(bytes(data)).tobytes() == whole.tobytes()


def test_caf_and_aiff_of_unknown_length_go_to_the_end() -> None:
    caf = bytearray(encode(synthetic(0.1, RATE, 1, 7), "CAF", "PCM_16"))
    at = place(caf, b"data", 8)
    n_bytes = struct.unpack(">q", caf[at])[0]
    whole = gm.decode(bytes(caf))
    del caf[at.stop + n_bytes :]
    caf[at] = struct.pack(">q", -1)
    assert gm.decode(bytes(caf)).tobytes() == whole.tobytes()
    aiff = bytearray(encode(synthetic(0.1, RATE, 1, 7), "AIFF", "PCM_16"))
    whole = gm.decode(bytes(aiff))
    aiff[place(aiff, b"SSND", 4)] = bytes(4)
    comm = aiff.index(b"COMM")
    aiff[comm + 10 : comm + 14] = bytes(4)
    assert gm.decode(bytes(aiff)).tobytes() == whole.tobytes()


def test_sphere_of_unknown_length_goes_to_the_end() -> None:
    data = encode(synthetic(0.1, RATE, 2, 7), "NIST", "PCM_16")
    for count in (b"0   ", b"8820"):  # unknown, and that of both channels
        said = data.replace(b"sample_count -i 4410", b"sample_count -i " + count)
        assert said != data
        assert gm.decode(said, channels="keep").tobytes() == expected(data).tobytes()


@pytest.mark.parametrize(
    ("coding", "name"),
    [("pcm,embedded-shorten-v2.00", "Shorten"), ("ulaw,embedded-wavpack-v1.0", "WavPack")],
)
def test_packed_sphere_is_named(coding: str, name: str) -> None:
    data = encode(synthetic(0.1, RATE, 1, 7), "NIST", "PCM_16")
    head = data[:1024].replace(b"-s3 pcm", f"-s{len(coding)} {coding}".encode())
    with pytest.raises(gm.UnsupportedCodecError, match=f"SPHERE with {name}"):
        gm.decode(head[:1024] + data[1024:])


@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF"])
def test_ffmpeg_writes_the_same(container: str) -> None:
    """What FFmpeg's muxers write reads back as it was, 64-bit floats and odd widths among it."""
    av = pytest.importorskip("av")
    codecs = {
        "WAV": ["pcm_u8", "pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_f64le"],
        "AIFF": ["pcm_s8", "pcm_s16be", "pcm_s24be", "pcm_s32be", "pcm_f32be", "pcm_s16le"],
        "CAF": ["pcm_s16be", "pcm_s16le", "pcm_s24le", "pcm_s32be", "pcm_f32le", "pcm_f64be"],
    }[container]
    frames = np.round(synthetic(0.2, RATE, 1, 8)[:, 0] * 100) / 128
    for codec in [*codecs, "pcm_alaw", "pcm_mulaw"]:
        out = io.BytesIO()
        with av.open(out, "w", format=container.lower()) as file:
            stream = file.add_stream(codec, rate=RATE, layout="mono")
            pcm = av.AudioFrame.from_ndarray(
                frames.astype(np.float32)[None], format="flt", layout="mono"
            )
            pcm.rate = RATE
            for frame in av.AudioResampler(format=stream.format, rate=RATE).resample(pcm):
                for packet in stream.encode(frame):
                    file.mux(packet)
            for packet in stream.encode():
                file.mux(packet)
        got = gm.decode(out.getvalue())
        if codec in {"pcm_alaw", "pcm_mulaw"}:
            assert got.shape == frames.shape
            assert np.abs(got - frames).max() < 0.03
        else:
            assert np.array_equal(got, frames.astype(np.float32)), codec


@pytest.mark.parametrize(
    ("container", "subtype", "name"),
    [
        ("WAV", "IMA_ADPCM", "IMA ADPCM"),
        ("WAV", "MS_ADPCM", "Microsoft ADPCM"),
        ("WAV", "GSM610", "GSM 6.10"),
        ("AIFF", "IMA_ADPCM", "IMA ADPCM"),
        ("AIFF", "DWVW_16", "DWVW"),
        ("CAF", "ALAC_16", "ALAC"),
        ("W64", "PCM_16", "Wave64"),
        ("AU", "PCM_16", "Sun AU"),
    ],
)
def test_what_is_not_decoded_is_named(container: str, subtype: str, name: str) -> None:
    rate = 8_000 if subtype == "GSM610" else RATE
    out = io.BytesIO()
    soundfile.write(out, synthetic(0.2, rate, 1, 9), rate, format=container, subtype=subtype)
    with pytest.raises(gm.UnsupportedCodecError, match=name):
        gm.decode(out.getvalue())
