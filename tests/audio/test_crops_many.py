"""Thousands of short crops of each codec, at two rates, mono and stereo: all are slices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import av_files
import gristmill as gm
from rounds import rounds
from signals import encode, field, synthetic

N_CROPS = rounds(5_000, 500)
SECONDS = 9.7
FIELD = {32_000: "birds_10s.wav", 44_100: "great_plains_toad.wav"}
# What libsndfile does not write: container, encoder, and how it takes samples.
FFMPEG = {
    "aac": {"container": "ipod", "codec": "aac", "options": {"aac_pns": "0"}},
    "alac": {"container": "ipod", "codec": "alac", "sample_format": "s16p", "bit_rate": None},
    "mp2": {"container": "mp2", "codec": "mp2", "sample_format": "s16", "bit_rate": 96_000},
}
CODECS = ["wav16", "flac16", "flac24", "vorbis", "mp3", "mp3vbr", *FFMPEG]


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", FIELD)
def test_short_crops_are_slices(kind: str, rate: int, channels: int) -> None:
    if channels == 1:
        frames, rate = field(FIELD[rate], SECONDS)
    else:
        frames = synthetic(SECONDS, rate, 2, seed=8)
    if kind in FFMPEG:
        data = av_files.write(frames, rate, **FFMPEG[kind])
    else:
        data = encode(frames, rate, kind)
    whole = gm.decode(data, channels="keep")
    rng = np.random.default_rng([rate, channels])
    # Most are shorter than a packet, some longer than a second's hundredth part.
    lengths = rng.choice([1, 7, 60, 500, 1_500], N_CROPS)
    starts = rng.integers(0, whole.shape[1] - lengths + 1)

    def differs(crop: tuple[int, int]) -> bool:
        start, n = crop
        part = gm.decode(data, channels="keep", start=start / rate, seconds=n / rate)
        return part.tobytes() != whole[:, start : start + n].tobytes()

    crops = list(zip(starts.tolist(), lengths.tolist(), strict=True))
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(differs, crops))
    wrong = [crop for crop, is_wrong in zip(crops, verdicts, strict=True) if is_wrong]
    assert not wrong, f"{len(wrong)} of {N_CROPS} crops differ, (start, length): {wrong[:5]}"
