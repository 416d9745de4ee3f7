"""The named resamplers against soxr and torchaudio: gain, aliases, delay, lengths, crops."""

from __future__ import annotations

import io
import itertools
import math

import numpy as np
import pytest
import soundfile
import soxr

import gristmill as gm
from resample_reference import BEST, resample, snr_db, torchaudio
from signals import encode, field, synthetic

NAMES = ["hq", "best", "torchaudio"]
RATES_IN = [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]
RATES_OUT = [16_000, 22_050, 24_000, 32_000, 48_000]
PAIRS = [(a, b) for a, b in itertools.product(RATES_IN, RATES_OUT) if a != b]


def wav(signal: np.ndarray, rate: int) -> bytes:
    return encode(signal.astype(np.float32)[:, None], rate, "wavf32")


def ours(signal: np.ndarray, rate_in: int, rate_out: int, name: str = "hq") -> np.ndarray:
    return gm.decode(wav(signal, rate_in), sample_rate=rate_out, resampler=name)


def like_soxr(signal: np.ndarray, rate_in: int, rate_out: int, quality: str = "HQ") -> np.ndarray:
    return soxr.resample(signal.astype(np.float64), rate_in, rate_out, quality=quality)


def wide_band(rate: int, seconds: float = 4.0) -> np.ndarray:
    """A chirp from 0 Hz to the Nyquist frequency, another one downwards, and pinkish noise."""
    n = round(rate * seconds)
    t = np.arange(n) / n
    chirps = np.sin(np.pi * n * t**2 / 2) + np.sin(np.pi * n * (t - t**2 / 2))
    noise = np.cumsum(np.random.default_rng(1).standard_normal(n))
    noise -= np.convolve(noise, np.ones(64) / 64, "same")
    return (0.3 * chirps + 0.1 * noise / noise.std()).astype(np.float32)


def compared(signal: np.ndarray, rate_in: int, rate_out: int) -> float:
    a, b = ours(signal, rate_in, rate_out), like_soxr(signal, rate_in, rate_out)
    n = min(len(a), len(b))
    assert abs(len(a) - len(b)) <= 1
    return snr_db(b[:n], a[:n])


def tone(frequency: float, rate: int, n: int) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(n) / rate)


def gain_and_delay(y: np.ndarray, frequency: float, rate: int) -> tuple[float, float]:
    """Gain, and delay in frames, of a tone of amplitude 0.5, from the middle of the result."""
    middle = slice(len(y) // 4, 3 * len(y) // 4)
    t = np.arange(len(y))[middle] / rate
    window = np.hanning(len(t))
    basis = np.exp(-2j * np.pi * frequency * t)
    amplitude = 2 * np.sum(y[middle] * basis * window) / window.sum()
    phase = np.angle(amplitude * 1j)  # of a sine
    return abs(amplitude) / 0.5, -phase / (2 * np.pi * frequency) * rate


@pytest.mark.parametrize("pair", [(44_100, 32_000), (32_000, 16_000), (48_000, 32_000)])
def test_hq_is_soxr_hq_across_the_whole_band(pair: tuple[int, int]) -> None:
    assert compared(wide_band(pair[0]), *pair) >= 74


@pytest.mark.parametrize(("rate_in", "rate_out"), PAIRS)
def test_hq_follows_soxr_hq_at_every_ratio(rate_in: int, rate_out: int) -> None:
    assert compared(wide_band(rate_in), rate_in, rate_out) >= 66


@pytest.mark.parametrize("name", ["great_plains_toad.wav", "birds_10s.wav", "aru_1.wav"])
@pytest.mark.parametrize("rate_out", [16_000, 24_000, 32_000, 48_000])
def test_hq_is_soxr_hq_on_field_recordings(name: str, rate_out: int) -> None:
    frames, rate = field(name, seconds=6)
    if rate != rate_out:
        assert compared(frames[:, 0], rate, rate_out) >= 74


@pytest.mark.parametrize(
    ("rate_in", "rate_out"),
    [(44_100, 32_000), (32_000, 16_000), (22_050, 48_000), (48_000, 32_000), (44_099, 32_000)],
)
def test_torchaudio_is_torchaudio(rate_in: int, rate_out: int) -> None:
    signal = wide_band(rate_in, 0.4)
    got, want = ours(signal, rate_in, rate_out, "torchaudio"), torchaudio(signal, rate_in, rate_out)
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 1e-6


@pytest.mark.parametrize(("name", "kernel"), [("hq", None), ("best", BEST)])
@pytest.mark.parametrize("pair", [(44_100, 32_000), (96_000, 22_050), (16_000, 48_000)])
def test_kernels_are_as_documented(name: str, kernel: object, pair: tuple[int, int]) -> None:
    signal = wide_band(pair[0], 0.5)
    got, want = ours(signal, *pair, name), resample(signal, *pair, kernel)
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 3e-6


# Parts of the lower Nyquist frequency at which a tone passes within 0.05 dB, and from which on its
# alias lies below so many dB.
BANDS = {"hq": (0.915, 1.0, -110), "best": (0.95, 1.0, -120)}


@pytest.mark.parametrize("name", BANDS)
@pytest.mark.parametrize("pair", [(44_100, 32_000), (32_000, 16_000), (44_099, 32_000)])
def test_tones_pass_or_vanish(name: str, pair: tuple[int, int]) -> None:
    rate_in, rate_out = pair
    passes, stops, alias_db = BANDS[name]
    for place in (0.02, 0.3, 0.6, 0.8, passes):
        frequency = place * rate_out / 2
        gain, delay = gain_and_delay(
            ours(tone(frequency, rate_in, rate_in), *pair, name), frequency, rate_out
        )
        assert abs(20 * math.log10(gain)) < 0.05, (place, gain)
        assert abs(delay) < 1e-4, (place, delay)
    for place in (stops, 1.02, 1.05, 1.1, 1.25):
        alias = ours(tone(place * rate_out / 2, rate_in, rate_in), *pair, name)
        middle = alias[len(alias) // 4 : 3 * len(alias) // 4].astype(np.float64)
        level = 20 * math.log10(np.sqrt(np.mean(middle**2)) / (0.5 / math.sqrt(2)))
        assert level < alias_db, (place, level)


def test_gain_alias_and_delay_are_soxrs() -> None:
    """What soxr does to the same tones, measured in the same way."""
    rate_in, rate_out = 44_100, 32_000
    for place in (0.02, 0.5, 0.8, 0.9, 0.93, 0.9569, 0.97):
        frequency = place * rate_out / 2
        signal = tone(frequency, rate_in, rate_in)
        gain, delay = gain_and_delay(ours(signal, rate_in, rate_out), frequency, rate_out)
        theirs, shift = gain_and_delay(like_soxr(signal, rate_in, rate_out), frequency, rate_out)
        assert abs(gain - theirs) < 1e-3, place
        assert abs(delay - shift) < 1e-4, place


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pair", [(44_100, 32_000), (32_000, 16_000), (8_000, 48_000)])
def test_a_constant_stays(name: str, pair: tuple[int, int]) -> None:
    y = ours(np.full(pair[0], 0.5), *pair, name)
    middle = y[len(y) // 4 : 3 * len(y) // 4]
    # torchaudio does not scale its phases.
    assert np.abs(middle / 0.5 - 1).max() < (2e-3 if name == "torchaudio" else 1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pair", [*PAIRS, (44_099, 32_000), (44_100, 44_099)])
def test_a_crop_is_the_slice_of_the_whole(name: str, pair: tuple[int, int]) -> None:
    rate_in, rate_out = pair
    n = rate_in // 2 + 7
    data = wav(synthetic(n / rate_in, rate_in, 1, 3)[:, 0], rate_in)
    whole = gm.decode(data, sample_rate=rate_out, resampler=name)
    assert len(whole) == -(-n * rate_out // rate_in)
    rng = np.random.default_rng(pair)
    for _ in range(25):
        start = int(rng.integers(0, len(whole)))
        length = int(rng.integers(1, 3_000))
        got = gm.decode(
            data,
            sample_rate=rate_out,
            start=start / rate_out,
            seconds=length / rate_out,
            resampler=name,
        )
        assert got.tobytes() == whole[start : start + length].tobytes(), (start, length)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "pair", [(1, 1_000), (1_001, 1_000), (768_000, 1_009), (751, 768_000), (767_999, 768_000)]
)
def test_rates_from_1_to_768000(name: str, pair: tuple[int, int]) -> None:
    rate_in, rate_out = pair
    n = min(3 * rate_in + 1, 4_000)
    y = ours(np.full(n, 0.25), rate_in, rate_out, name)
    assert len(y) == -(-n * rate_out // rate_in)
    assert np.isfinite(y).all()
    assert np.abs(y).max() < 0.4


def test_the_default_is_hq_also_in_a_data_set(mixed_rates: list) -> None:
    def first(**options: str) -> bytes:
        audio = gm.Audio(sample_rate=32_000, crop=gm.StartCrop(0.5), **options)
        return next(iter(gm.ArrowIterDataset(mixed_rates, audio=audio)))["audio"].tobytes()

    assert first() == first(resampler="hq")
    assert len({first(resampler=name) for name in NAMES}) == len(NAMES)


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ValueError, match="resampler"):
        gm.Audio(resampler="HQ")
    out = io.BytesIO()
    soundfile.write(out, np.zeros(10), 8_000, format="WAV")
    with pytest.raises(ValueError, match="resampler"):
        gm.decode(out.getvalue(), resampler="kaiser_best")
