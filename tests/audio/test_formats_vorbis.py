"""Vorbis: the samples of libvorbis at all numbers of channels, packets cut short, WebM, caches."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

import gristmill as gm
from ogg_files import VORBIS_ORDER, Page, join, pages_of, whole
from signals import synthetic

# Of the largest difference to libvorbis; samples are within 1.
TOLERANCE = 1e-6


def vorbis(frames: np.ndarray, rate: int, quality: float = 0.5) -> bytes:
    """Ogg Vorbis as libvorbis writes it, from quality 0 (the best) to 1."""
    out = io.BytesIO()
    channels = frames.shape[1]
    with soundfile.SoundFile(
        out, "w", rate, channels, format="OGG", subtype="VORBIS", compression_level=quality
    ) as file:
        for start in range(0, len(frames), 16_384):
            file.write(frames[start : start + 16_384])
    return out.getvalue()


def theirs(data: bytes) -> np.ndarray:
    """What libvorbis decodes, in the order of WAV files."""
    planes = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T
    return planes[VORBIS_ORDER[len(planes)]] if len(planes) > 2 else planes


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 96_000])
@pytest.mark.parametrize("channels", range(1, 9))
def test_every_number_of_channels_is_as_libvorbis_decodes_it(channels: int, rate: int) -> None:
    for quality in [0.0, 0.2, 0.4, 0.5, 0.6, 0.9]:
        data = vorbis(synthetic(0.4, rate, channels, seed=channels), rate, quality)
        expected = theirs(data)
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(whole(data), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("channels", [2, 3, 6])
def test_crops_of_surround_are_slices(channels: int) -> None:
    rate = 32_000
    data = vorbis(synthetic(3, rate, channels, seed=2), rate)
    expected = whole(data)
    rng = np.random.default_rng(channels)
    for _ in range(100):
        n = int(rng.integers(1, 5_000))
        start = int(rng.integers(0, expected.shape[1] - n))
        crop = gm.decode(data, channels="keep", start=start / rate, seconds=n / rate)
        np.testing.assert_array_equal(crop, expected[:, start : start + n])


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_silent_channels_stay_silent(channels: int) -> None:
    frames = synthetic(1, 44_100, channels, seed=4)
    frames[:, channels // 2] = 0
    data = vorbis(frames, 44_100)
    np.testing.assert_allclose(whole(data), theirs(data), rtol=0, atol=TOLERANCE)
    data = vorbis(np.zeros_like(frames), 44_100)
    np.testing.assert_array_equal(whole(data), 0)


def cut(data: bytes, keep: float, seed: int) -> bytes:
    """The file with every second audio packet cut short, and all lengths and checksums right."""
    rng = np.random.default_rng(seed)
    pages = pages_of(data)
    out = pages[:2]
    for page in pages[2:]:
        lacing, body, at, begin = b"", b"", 0, 0
        for i, length in enumerate(page.lacing):
            at += length
            if length == 255 and i + 1 < len(page.lacing):
                continue
            packet = page.body[begin:at]
            if rng.random() < 0.5 and length < 255:
                packet = packet[: max(3, int(len(packet) * keep * rng.random()))]
            full, rest = divmod(len(packet), 255)
            lacing += b"\xff" * full + (b"" if length == 255 else bytes([rest]))
            body, begin = body + packet, at
        out.append(Page(page.flags, page.granule, page.serial, page.sequence, lacing, body))
    return join(out)


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_packets_that_end_early_are_as_libvorbis_decodes_them(channels: int) -> None:
    data = vorbis(synthetic(1, 32_000, channels, seed=6), 32_000)
    for keep in [0.05, 0.3, 1.0]:
        short = cut(data, keep, seed=channels)
        assert len(short) < len(data)
        np.testing.assert_allclose(whole(short), theirs(short), rtol=0, atol=2e-6)


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_webm_has_the_samples_of_ogg(channels: int) -> None:
    av = pytest.importorskip("av")
    data = vorbis(synthetic(2, 48_000, channels, seed=8), 48_000)
    out = io.BytesIO()
    with av.open(io.BytesIO(data)) as source, av.open(out, "w", format="webm") as target:
        stream = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    ours = gm.decode(out.getvalue(), channels="keep", strict=False)
    n = min(ours.shape[1], 96_000) - 4_096
    np.testing.assert_array_equal(ours[:, :n], whole(data)[:, :n])


def test_a_decoder_learns_nothing_from_other_recordings() -> None:
    """Setups come in turns, more of them than are kept, and each recording stays what it was."""
    made = [
        vorbis(synthetic(0.3, rate, channels, seed=1), rate, quality)
        for rate in (8_000, 32_000, 44_100)
        for channels in (1, 2, 3)
        for quality in (0.1, 0.8)
    ]
    first = [whole(data) for data in made]
    for data, expected in list(zip(made, first, strict=True))[::-1]:
        np.testing.assert_array_equal(whole(data), expected)
