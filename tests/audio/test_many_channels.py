"""Three to eight channels in every codec that has them: each in its place, sample by sample.

The order is that of WAV files, as FFmpeg gives it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soundfile

import gristmill as gm
import ogg_files
import shards
from av_files import quantized, read, remux, write
from signals import synthetic

RATE = 48_000
CHANNELS = range(3, 9)


def loud(channels: int) -> np.ndarray:
    """Sounds that differ, each channel at a level of its own."""
    return synthetic(1, RATE, channels, seed=31) * np.linspace(1, 0.2, channels, dtype=np.float32)


def sparse(channels: int) -> np.ndarray:
    """Every second channel silent, the others in bursts that do not overlap."""
    frames = loud(channels)
    for channel in range(channels):
        keep = np.zeros(len(frames), bool)
        if channel % 2 == 0:
            keep[channel * 5_000 : channel * 5_000 + 9_000] = True
        frames[~keep, channel] = 0
    return frames


def alike(channels: int) -> np.ndarray:
    """Neighbours nearly the same, so that encoders couple them."""
    noise = synthetic(1, RATE, channels, seed=32)
    return (0.8 * noise[:, :1] + 0.1 * noise).astype(np.float32)


SOUNDS = {"loud": loud, "sparse": sparse, "alike": alike}


def by_soundfile(container: str, subtype: str, frames: np.ndarray) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, frames, RATE, format=container, subtype=subtype)
    return out.getvalue()


PCM = [
    (container, subtype)
    for container in ("WAV", "WAVEX", "RF64", "AIFF", "CAF")
    for subtype in ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "ULAW")
]


def assert_equals_libsndfile(data: bytes) -> None:
    theirs, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    np.testing.assert_array_equal(gm.decode(data, channels="keep"), theirs.T)


@pytest.mark.parametrize(("container", "subtype"), PCM)
@pytest.mark.parametrize("channels", CHANNELS)
def test_pcm_equals_libsndfile(container: str, subtype: str, channels: int) -> None:
    assert_equals_libsndfile(by_soundfile(container, subtype, loud(channels)))


@pytest.mark.parametrize(("container", "subtype"), PCM)
@pytest.mark.parametrize("channels", [9, 16, 64])
def test_arrays_of_microphones(container: str, subtype: str, channels: int) -> None:
    data = by_soundfile(container, subtype, loud(channels)[:3_000])
    assert_equals_libsndfile(data)
    every = gm.decode(data, channels="keep")
    mean = every.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(gm.decode(data), mean, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(gm.decode(data, channels=2), every[:2])
    part = gm.decode(data, channels=[channels - 1, 0], start=0.01, seconds=0.02)
    np.testing.assert_array_equal(part, every[[-1, 0], 480:1_440])


def test_more_channels_than_allowed() -> None:
    data = by_soundfile("WAV", "PCM_16", loud(65)[:10])
    with pytest.raises(gm.LimitError, match="65 channels, 64 are allowed") as caught:
        gm.decode(data)
    assert "Limits(max_channels=...)" in str(caught.value)
    more = gm.Limits(max_channels=65)
    assert gm.decode(data, channels="keep", limits=more).shape == (65, 10)


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG"])
def test_channels_are_picked_by_number(kind: str, tmp_path: Path) -> None:
    data = by_soundfile(kind, "VORBIS" if kind == "OGG" else "PCM_16", loud(4))
    every = gm.decode(data, channels="keep")
    for picked in ([0], [3], (1, 1), np.array([2, 0])):
        found = gm.decode(data, channels=picked)
        np.testing.assert_array_equal(found, every[np.asarray(picked)])
        audio = gm.Audio(channels=picked, sample_rate=RATE, crop=gm.StartCrop(0.5))
        path = shards.write_audio(tmp_path / "rows.arrow", [data] * 2)
        dataset = gm.ArrowIterDataset(path, audio=audio, batch_size=2)
        np.testing.assert_array_equal(next(iter(dataset))["audio"], [found[:, :24_000]] * 2)
        assert hash(audio) == hash(pickle.loads(pickle.dumps(audio)))
    with pytest.raises(gm.DecodeError, match="5 channels are needed, and the recording has 4"):
        gm.decode(data, channels=[0, 4])
    for wrong in ([], [-1], [0.5], list(range(9)), {0}, "0"):
        with pytest.raises(ValueError, match="channels is 'mono', 'keep', a number"):
            gm.decode(data, channels=wrong)  # pyright: ignore[reportArgumentType] # the subject


@pytest.mark.parametrize("sound", SOUNDS)
@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
@pytest.mark.parametrize("channels", CHANNELS)
def test_flac_equals_libsndfile(subtype: str, channels: int, sound: str) -> None:
    assert_equals_libsndfile(by_soundfile("FLAC", subtype, SOUNDS[sound](channels)))


def flac(container: str, frames: np.ndarray) -> bytes:
    return write(frames, RATE, container, "flac", sample_format="s16", bit_rate=None)


def alac(container: str, frames: np.ndarray) -> bytes:
    return write(frames, RATE, container, "alac", sample_format="s16p", bit_rate=None)


def pcm(container: str, frames: np.ndarray) -> bytes:
    return write(frames, RATE, container, "pcm_s16le", sample_format="s16", bit_rate=None)


Make = Callable[[str, np.ndarray], bytes]
LOSSLESS: dict[str, tuple[Make, str]] = {
    "FLAC": (flac, "flac"),
    "FLAC in Ogg": (flac, "ogg"),
    "FLAC in MP4": (flac, "mp4"),
    "FLAC in Matroska": (flac, "matroska"),
    "ALAC in MP4": (alac, "ipod"),
    "ALAC in Matroska": (alac, "matroska"),
    "PCM in Matroska": (pcm, "matroska"),
}


@pytest.mark.parametrize("sound", SOUNDS)
@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_what_is_lossless_comes_back(name: str, channels: int, sound: str) -> None:
    make, container = LOSSLESS[name]
    frames = SOUNDS[sound](channels)
    data = make(container, frames)
    ours = gm.decode(data, channels="keep")
    np.testing.assert_array_equal(ours, read(data))
    np.testing.assert_array_equal(ours, quantized(frames, 16).T)


@cache
def opus(channels: int, sound: str, options: tuple[tuple[str, object], ...]) -> bytes:
    bit_rate = 64_000 * channels
    frames = SOUNDS[sound](channels)
    return ogg_files.opus(frames, RATE, bit_rate, mapping_family=1, **dict(options))


OPUS: dict[str, tuple[tuple[str, object], ...]] = {
    "CELT": (("application", "lowdelay"), ("vbr", "on")),
    "hybrid and SILK": (("application", "voip"), ("frame_duration", 20)),
    "60 ms": (("frame_duration", 60),),
}


@pytest.mark.parametrize("sound", SOUNDS)
@pytest.mark.parametrize("kind", OPUS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_opus_equals_libopus(channels: int, kind: str, sound: str) -> None:
    data = opus(channels, sound, OPUS[kind])
    theirs, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    ours = gm.decode(data, channels="keep")
    assert ours.shape == (channels, RATE)
    # libsndfile leaves the order of the stream.
    theirs = theirs.T[ogg_files.VORBIS_ORDER[channels]]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
    for container in ("webm", "mp4"):
        again = gm.decode(remux(data, container), channels="keep")
        assert again[:, :RATE].tobytes() == ours.tobytes()


@pytest.mark.parametrize("channels", CHANNELS)
def test_opus_keeps_channels_in_their_places(channels: int) -> None:
    """A tone of its own in each, far from those of the others: no oracle can share a mistake."""
    t = np.arange(RATE) / RATE
    tones = 300 * (1 + np.arange(channels))
    if channels >= 6:
        tones[3] = 60  # low frequency effects
    frames = (0.3 * np.sin(2 * np.pi * t[:, None] * tones)).astype(np.float32)
    data = ogg_files.opus(frames, RATE, 64_000 * channels, mapping_family=1)
    for channel, plane in enumerate(gm.decode(data, channels="keep")):
        spectrum = np.abs(np.fft.rfft(plane[RATE // 4 : RATE // 4 + RATE // 2]))
        assert abs(2 * int(spectrum.argmax()) - tones[channel]) <= 4, channel


@pytest.mark.parametrize("channels", range(3, 9))
def test_aac_of_more_than_two_channels_is_refused_by_name(channels: int) -> None:
    for container in ("ipod", "adts", "matroska"):
        data = write(loud(channels), RATE, container, "aac")
        with pytest.raises(gm.UnsupportedCodecError, match=r"AAC (of|with a) .*channel"):
            gm.decode(data)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("name", ["WAV", "FLAC", "ALAC", "Opus"])
def test_mixes_and_crops_of_many_channels(name: str, channels: int) -> None:
    frames = loud(channels)
    data = {
        "WAV": lambda: by_soundfile("WAV", "PCM_16", frames),
        "FLAC": lambda: by_soundfile("FLAC", "PCM_16", frames),
        "ALAC": lambda: alac("ipod", frames),
        "Opus": lambda: opus(channels, "loud", OPUS["CELT"]),
    }[name]()
    whole = gm.decode(data, channels="keep")
    mean = whole[0].copy()
    for plane in whole[1:]:
        mean += plane
    mean *= np.float32(1) / np.float32(channels)
    np.testing.assert_array_equal(gm.decode(data), mean)
    for n in range(1, channels + 1):
        np.testing.assert_array_equal(gm.decode(data, channels=n), whole[:n])
    for start in (1, 10_000, 30_001):
        crop = gm.decode(data, channels="keep", start=start / RATE, seconds=0.25)
        wanted = whole[:, start : start + RATE // 4]
        np.testing.assert_allclose(crop, wanted, atol=1e-6 if name == "Opus" else 0)
    resampled = gm.decode(data, channels="keep", sample_rate=32_000)
    for channel in (0, channels - 1):
        alone = by_soundfile("WAV", "FLOAT", whole[channel][:, None])
        one = gm.decode(alone, sample_rate=32_000)
        np.testing.assert_array_equal(resampled[channel], one)
