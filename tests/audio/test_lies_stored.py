"""Headers of WAV, AIFF, CAF and FLAC that lie about sound that is all there.

It plays as FFmpeg plays it.
"""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile

import gristmill as gm
from ogg_files import av
from signals import synthetic

RATE = 16_000
SOUND = synthetic(4, RATE, 1)
N_FRAMES = len(SOUND)
N_BYTES = 2 * N_FRAMES


def made(kind: str) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, SOUND, RATE, format=kind, subtype="PCM_16")
    return out.getvalue()


def wav(size: int | None = None, *, before: bytes = b"", pcm: bytes = b"") -> bytes:
    samples = pcm or made("WAV")[-N_BYTES:]
    size = len(samples) if size is None else size
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    body = form + before + struct.pack("<4sI", b"data", size) + samples
    return struct.pack("<4sI4s", b"RIFF", (36 + size) % 2**32, b"WAVE") + body


def ffmpeg(data: bytes) -> np.ndarray:
    with av.open(io.BytesIO(data)) as container:
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
    return np.concatenate(frames, axis=1)[0].astype(np.float32) / 32_768


def assert_plays(data: bytes, expected: np.ndarray) -> None:
    """All ways agree, and nothing is an error or silence."""
    np.testing.assert_array_equal(gm.decode(data), expected)
    audio, report = gm.decode_with_report(data)
    np.testing.assert_array_equal(audio, expected)
    assert not report.damage
    assert gm.probe(data).frames == len(expected)
    crop = gm.decode(data, start=1, seconds=0.5)
    np.testing.assert_array_equal(crop, expected[RATE : RATE + RATE // 2])


def test_a_tiny_size_before_many_samples_is_forgotten() -> None:
    assert_plays(wav(44), ffmpeg(wav()))


def test_samples_that_look_like_a_chunk_are_samples() -> None:
    pcm = b"abcd" + struct.pack("<I", 100) + wav()[-N_BYTES + 8 :]
    assert_plays(wav(0, pcm=pcm), ffmpeg(wav(pcm=pcm)))


def test_odd_chunks_without_their_pad() -> None:
    for pad in (b"", b"\0"):
        before = b"LIST" + struct.pack("<I", 5) + b"INFOx" + pad
        assert_plays(wav(before=before), ffmpeg(wav()))


@pytest.mark.parametrize("kind", ["WAV", "AIFF", "CAF"])
def test_a_cut_is_a_loss_all_the_same(kind: str) -> None:
    data = made(kind)
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data[: len(data) - N_BYTES // 3])
    assert caught.value.reason == "truncated"


def with_total(data: bytes, total: int) -> bytes:
    packed = int.from_bytes(data[18:26], "big") >> 36 << 36 | total
    return data[:18] + packed.to_bytes(8, "big") + data[26:]


@pytest.mark.parametrize("total", [0, N_FRAMES, N_FRAMES - 3 * 4096])
def test_numbers_of_flac_that_begin_late(total: int) -> None:
    data = made("FLAC")
    audio = data.index(b"\xff\xf8")
    third = data.index(b"\xff\xf8\xc5\x08\x03") if b"\xff\xf8\xc5\x08\x03" in data else -1
    if third < 0:
        pytest.skip("the encoder writes other headers")
    cut = with_total(data[:audio] + data[third:], total)
    assert_plays(cut, ffmpeg(data)[3 * 4096 :])


def crc(data: bytes, polynomial: int, bits: int) -> int:
    value, top = 0, 1 << (bits - 1)
    for byte in data:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = ((value << 1) ^ polynomial if value & top else value << 1) & ((1 << bits) - 1)
    return value


def frames_of(data: bytes) -> list[tuple[int, int]]:
    """Where the frames of a FLAC file begin, and how long their headers are."""
    found, at = [], 42
    while (at := data.find(b"\xff\xf8", at)) >= 0:
        for n in range(5, 16):
            if at + n < len(data) and crc(data[at : at + n], 7, 8) == data[at + n]:
                found.append((at, n))
                break
        at += 2
    return found


def renumbered(data: bytes, which: int, number: int) -> bytes:
    """A frame with another number below 128, its checksums right."""
    frames = frames_of(data)
    at, n = frames[which]
    end = frames[which + 1][0] if which + 1 < len(frames) else len(data)
    frame = bytearray(data[at:end])
    frame[4] = number
    frame[n] = crc(frame[:n], 7, 8)
    frame[-2:] = crc(frame[:-2], 0x8005, 16).to_bytes(2, "big")
    return data[:at] + bytes(frame) + data[end:]


@pytest.mark.parametrize("number", [0, 1, 5, 100])
@pytest.mark.parametrize("which", [0, 2, 5])
def test_a_false_number_of_flac_costs_nothing(which: int, number: int) -> None:
    data = made("FLAC")
    lying = renumbered(data, which, number)
    assert_plays(lying, ffmpeg(data))


def test_numbers_of_flac_that_begin_again() -> None:
    data = made("FLAC")
    for which in range(5, len(frames_of(data))):
        data = renumbered(data, which, which - 5)
    for total in (0, N_FRAMES):
        assert_plays(with_total(data, total), ffmpeg(made("FLAC")))


def test_flac_that_turns_into_something_else_keeps_its_last_block() -> None:
    data = made("FLAC")
    end = frames_of(data)[8][0]
    noise = np.random.default_rng(1).integers(0, 256, 60_000, dtype=np.uint8).tobytes()
    turned = with_total(data[:end] + noise, 0)
    with pytest.raises(gm.DecodeError):
        gm.decode(turned)
    audio, report = gm.decode_with_report(turned)
    assert dict(report.damage) == {"junk": 1}
    np.testing.assert_array_equal(audio, ffmpeg(data)[: 8 * 4096])
