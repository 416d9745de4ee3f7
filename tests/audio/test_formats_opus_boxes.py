"""Opus in Matroska, WebM and MP4: the packets of an Ogg file, and the same sound, bit for bit."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

import gristmill as gm
from av_files import remux
from ogg_files import av, opus
from signals import synthetic

RATE = 48_000
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}
CONTAINERS = {
    "webm": ("webm", None),
    "matroska": ("matroska", None),
    "mp4": ("mp4", None),
    "fragments": ("mp4", FRAGMENTS),
}
# kbit/s, application, frame in ms, channels: CELT and SILK, the shortest and the longest packets
SETTINGS = {
    "celt": (96, "audio", 20, 2),
    "short": (96, "lowdelay", 2.5, 1),
    "silk": (16, "voip", 20, 1),
    "long": (12, "voip", 60, 1),
    "surround": (256, "audio", 20, 6),
}


def in_ogg(setting: str, seconds: float) -> bytes:
    kbits, application, duration, channels = SETTINGS[setting]
    return opus(
        synthetic(seconds, RATE, channels, seed=3),
        bit_rate=kbits * 1000,
        application=application,
        frame_duration=duration,
        **({"mapping_family": 1} if channels > 2 else {}),
    )


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("seconds", [4, 3.333])
def test_the_sound_is_that_of_ogg(setting: str, container: str, seconds: float) -> None:
    ogg = in_ogg(setting, seconds)
    boxed = remux(ogg, *CONTAINERS[container])
    expected = gm.decode(ogg, channels="keep")
    info = gm.probe(boxed)
    assert (info.codec, info.sample_rate) == ("opus", RATE)
    assert (info.channels, info.frames) == expected.shape
    assert gm.decode(boxed, channels="keep").tobytes() == expected.tobytes()
    # FFmpeg trims the end in Matroska alone.
    with av.open(io.BytesIO(boxed)) as file:
        n_theirs = sum(frame.samples for frame in file.decode(audio=0))
    surplus = n_theirs - info.frames
    assert surplus == 0 if container in {"webm", "matroska"} else 0 <= surplus < 2_880


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(("setting", "tolerance"), [("celt", 1e-6), ("silk", 2e-2)])
def test_crops_are_slices(container: str, setting: str, tolerance: float) -> None:
    boxed = remux(in_ogg(setting, 12), *CONTAINERS[container])
    whole = gm.decode(boxed, channels="keep")
    rng = np.random.default_rng(5)
    for _ in range(50):
        n = int(rng.integers(1, 9_600))
        start = int(rng.integers(0, whole.shape[1] - n))
        crop = gm.decode(boxed, channels="keep", start=start / RATE, seconds=n / RATE)
        assert crop.shape[1] == n
        np.testing.assert_allclose(crop, whole[:, start : start + n], rtol=0, atol=tolerance)


def test_without_an_edit_list_the_pre_skip_holds() -> None:
    boxed = remux(in_ogg("celt", 2), "mp4")
    assert b"edts" in boxed
    expected = gm.decode(boxed, channels="keep")
    assert gm.decode(boxed.replace(b"edts", b"free"), channels="keep").tobytes() == (
        expected.tobytes()
    )


def test_without_a_codec_delay_the_pre_skip_holds() -> None:
    boxed = remux(in_ogg("celt", 2), "webm")
    delay = b"\x56\xaa"  # CodecDelay; a Void element stands in its place
    at = boxed.index(delay)
    (size,) = struct.unpack_from("B", boxed, at + 2)
    n = size & 0x7F
    void = b"\xec" + bytes([0x80 | (n + 1)]) + bytes(n + 1)
    without = boxed[:at] + void + boxed[at + 3 + n :]
    assert len(without) == len(boxed)
    assert gm.decode(without).tobytes() == gm.decode(boxed).tobytes()


def test_a_lost_packet_is_counted_and_the_others_keep_their_places() -> None:
    boxed = remux(in_ogg("celt", 4), "mp4")
    whole = gm.decode(boxed, channels="keep")
    at = boxed.index(b"mdat") + 4 + 20_000
    bad = boxed[:at] + bytes([0xFF]) * 600 + boxed[at + 600 :]
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(bad)
    assert caught.value.reason == "corrupt_packets"
    audio, report = gm.decode_with_report(bad, channels="keep", strict=False)
    assert audio.shape == whole.shape
    assert report.damage["corrupt_packets"] >= 1
    assert 0 < report.frames_missing < RATE
    # Two seconds behind the damage the decoder has converged to what it would hold.
    np.testing.assert_allclose(audio[:, -4_800:], whole[:, -4_800:], rtol=0, atol=1e-3)
