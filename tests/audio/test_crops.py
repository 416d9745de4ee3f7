"""A crop is the slice of the whole, bit for bit, resampled too.

`test_crops_many.py` has the thousands of short crops at the file's own rate.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gristmill as gm
from flac_files import constant_flac
from rounds import rounds
from signals import encode, field, synthetic

N_CROPS = rounds(1_000, 300)
CODECS = ["wav16", "wav24", "flac16", "vorbis", "mp3", "mp3vbr"]
# Rate of the recording, rate of the crop.
RATES = [(32_000, None), (44_100, 32_000), (32_000, 48_000), (32_000, 22_050)]
NAMES = {32_000: "birds_10s.wav", 44_100: "great_plains_toad.wav"}


def assert_crops_are_slices(
    data: bytes, rate: int, rate_out: int | None, channels: str, rng: np.random.Generator, n: int
) -> None:
    whole = gm.decode(data, sample_rate=rate_out, channels=channels)
    rate_out = rate_out or rate
    end = whole.shape[-1]
    lengths = rng.integers(300, 5_000, n)
    starts = rng.integers(0, end - lengths)
    crops = list(zip(starts.tolist(), lengths.tolist(), strict=True))
    for length in (1, 300, 4_999):
        crops += [(start, length) for start in (0, 1, 2, end - length - 1, end - length)]
        crops += [(end - length - k, length) for k in (5, 511, 1_151, 1_152, 2_048)]

    def check(crop: tuple[int, int]) -> tuple[int, int] | None:
        start, length = crop
        got = gm.decode(
            data,
            sample_rate=rate_out,
            channels=channels,
            start=start / rate_out,
            seconds=length / rate_out,
        )
        expected = whole[..., start : start + length]
        same = got.shape == expected.shape and got.tobytes() == expected.tobytes()
        return None if same else crop

    with ThreadPoolExecutor(2) as pool:
        wrong = [crop for crop in pool.map(check, crops) if crop is not None]
    assert not wrong, f"{len(wrong)} of {len(crops)} crops differ, (start, length): {wrong[:5]}"


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize(("rate", "rate_out"), RATES)
def test_crops_of_field_recordings(kind: str, rate: int, rate_out: int | None) -> None:
    frames, rate = field(NAMES[rate], seconds=9.7)
    data = encode(frames, rate, kind)
    rng = np.random.default_rng([rate, rate_out or 0])
    assert_crops_are_slices(data, rate, rate_out, "mono", rng, N_CROPS)


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize(("rate", "rate_out"), [(44_100, None), (48_000, 32_000), (22_050, 32_000)])
@pytest.mark.parametrize("channels", ["mono", "keep"])
def test_crops_of_stereo(kind: str, rate: int, rate_out: int | None, channels: str) -> None:
    data = encode(synthetic(6.3, rate, 2, 8), rate, kind)
    rng = np.random.default_rng([rate, rate_out or 0])
    assert_crops_are_slices(data, rate, rate_out, channels, rng, rounds(300, 90))


@pytest.mark.parametrize("kind", CODECS)
def test_decoding_from_a_start_runs_to_the_end(kind: str) -> None:
    data = encode(synthetic(2, 32_000, 1, 9), 32_000, kind)
    whole = gm.decode(data)
    for start in (0, 1, 31_999, 63_000, len(whole) - 1, len(whole)):
        assert gm.decode(data, start=start / 32_000).tobytes() == whole[start:].tobytes()


def test_a_start_reaches_as_far_as_a_recording_may() -> None:
    data = constant_flac(rate_hz=32, n_channels=1, n_frames=90_000 * 32)
    assert gm.decode(data, start=89_999, seconds=2).shape == (32,)
    data = constant_flac(rate_hz=32, n_channels=1, n_frames=90_001 * 32)
    with pytest.raises(gm.LimitError, match=r"max_seconds=") as caught:
        gm.decode(data, start=89_999, seconds=2)
    assert caught.value.limit == "max_seconds"
    limits = gm.Limits(max_seconds=90_001)
    assert gm.decode(data, start=90_000, seconds=2, limits=limits).shape == (32,)
    assert gm.decode(data, start=2_592_000, limits=limits).shape == (0,)
    for start in (-1, 2_592_001):
        with pytest.raises(ValueError, match="a number from 0 to 2,592,000"):
            gm.decode(data, start=start, limits=limits)


@pytest.mark.parametrize(
    "rate_in", [8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]
)
@pytest.mark.parametrize("rate_out", [16_000, 22_050, 24_000, 32_000, 44_100, 48_000])
def test_length_and_crops_at_every_ratio(rate_in: int, rate_out: int) -> None:
    n = rate_in + 7
    data = encode(synthetic(n / rate_in, rate_in, 1, 10), rate_in, "wav16")
    assert len(gm.decode(data, sample_rate=rate_out)) == -(-n * rate_out // rate_in)
    rng = np.random.default_rng([rate_in, rate_out])
    assert_crops_are_slices(data, rate_in, rate_out, "mono", rng, 50)


def test_threads_share_nothing() -> None:
    """The same crops, decoded at the same time by many threads with other codecs between."""
    made = [encode(synthetic(2, 32_000, 2, i), 32_000, kind) for i, kind in enumerate(CODECS)]
    alone = [gm.decode(data, sample_rate=44_100, start=0.5, seconds=0.7) for data in made]
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(gm.decode, made[i % 6], sample_rate=44_100, start=0.5, seconds=0.7)
            for i in range(240)
        ]
    for i, job in enumerate(jobs):
        assert job.result().tobytes() == alone[i % 6].tobytes()
