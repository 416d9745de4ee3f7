"""Gristmill against the naive loader: same rows, same order, same crops, whatever the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gristmill as gm
from resample_reference import snr_db
from rounds import rounds
from signals import CODEC, KINDS, RATE, TOLERANCE, encode, field, synthetic

import oracle

SECONDS = 0.5


def by_name(element: dict[str, Any], name: str) -> Any:
    return element[name].tolist() if hasattr(element[name], "tolist") else element[name]


def assert_same_columns(ours: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("label", "count", "level", "good", "name", "shard", "row"):
        assert ours[name] == expected[name], name
    assert ours["when"] == np.datetime64(expected["when"], "us")
    np.testing.assert_array_equal(ours["tags"], np.array(expected["tags"], np.int32))
    np.testing.assert_array_equal(ours["box"], np.array(expected["box"], np.float32))
    assert {k: by_name(ours["place"], k) for k in ("lat", "lon")} == expected["place"]


def rows_of(batch: dict[str, Any]) -> list[dict[str, Any]]:
    """Takes a batch apart into its rows."""
    size = len(batch["audio"])
    place = batch["place"]
    return [
        {name: values[i] for name, values in batch.items() if name != "place"}
        | {"place": {name: values[i] for name, values in place.items()}}
        for i in range(size)
    ]


def codec_of(audio: bytes) -> str:
    return gm.probe(audio).codec


def audio_bytes(paths: list[Path]) -> dict[tuple[int, int], bytes]:
    return {
        (s, r): value["bytes"].as_py()
        for s, path in enumerate(paths)
        for r, value in enumerate(oracle.read_table(path)["audio"])
    }


@pytest.mark.parametrize("channels", ["mono", "keep"])
def test_single_rows_equal_the_oracle(same_rate: list[Path], channels: str) -> None:
    job = oracle.Job(same_rate, channels=channels, seconds=SECONDS, seed=5)
    ds = gm.ArrowIterDataset(
        same_rate,
        audio=gm.Audio(channels=channels, crop=gm.RandomCrop(SECONDS)),
        shuffle=gm.Shuffle(5),
        with_row_id=True,
    )
    data = audio_bytes(same_rate)
    elements, expected = list(ds), list(oracle.load(job))
    assert len(elements) == len(expected) == 25
    for ours, theirs in zip(elements, expected, strict=True):
        assert_same_columns(ours, theirs)
        assert ours["audio"].dtype == np.float32
        assert ours["audio"].shape == theirs["audio"].shape
        difference = np.abs(ours["audio"] - theirs["audio"]).max()
        assert difference <= TOLERANCE[codec_of(data[theirs["shard"], theirs["row"]])]


@settings(
    max_examples=rounds(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    num_threads=st.sampled_from([1, 2, 3, 8]),
    batch_size=st.sampled_from([1, 2, 5, 7, 25, 26, 64]),
    memory_budget=st.sampled_from(["16MiB", 40_000_000, "2GiB"]),
    prefetch_batches=st.sampled_from([1, 2, 9]),
    seed=st.sampled_from([None, 0, 2**63 + 5]),
)
def test_options_of_speed_change_nothing(
    same_rate: list[Path],
    num_threads: int,
    batch_size: int,
    memory_budget: str | int,
    prefetch_batches: int,
    seed: int | None,
) -> None:
    job = oracle.Job(same_rate, RATE, seconds=SECONDS, seed=seed, crop_seed=11)
    ds = gm.ArrowIterDataset(
        same_rate,
        audio=gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(SECONDS, seed=11)),
        shuffle=None if seed is None else gm.Shuffle(seed),
        batch_size=batch_size,
        epochs=2,
        with_row_id=True,
        read=gm.ReadOptions(
            num_threads=num_threads, memory_budget=memory_budget, prefetch_batches=prefetch_batches
        ),
    )
    expected = [element for epoch in range(2) for element in oracle.load(job, epoch)]
    batches = list(ds)
    sizes = [len(batch["row"]) for batch in batches]
    assert all(size == batch_size for size in sizes[:-1])
    rows = [row for batch in batches for row in rows_of(batch)]
    assert len(rows) == len(expected) == 50
    for ours, theirs in zip(rows, expected, strict=True):
        assert_same_columns(ours, theirs)
        assert np.abs(ours["audio"] - theirs["audio"]).max() <= TOLERANCE["mp3"]


@pytest.mark.parametrize("rate_out", [pytest.param(16_000, marks=pytest.mark.gate), 32_000, 48_000])
def test_resampled_crops_lie_on_the_f64_reference(mixed_rates: list[Path], rate_out: int) -> None:
    job = oracle.Job(mixed_rates, rate_out, seconds=SECONDS, seed=1)
    ds = gm.ArrowIterDataset(
        mixed_rates,
        audio=gm.Audio(sample_rate=rate_out, crop=gm.RandomCrop(SECONDS)),
        shuffle=gm.Shuffle(1),
        with_row_id=True,
    )
    for ours, theirs in zip(ds, oracle.load(job), strict=True):
        assert_same_columns(ours, theirs)
        assert ours["audio"].shape == theirs["audio"].shape
        # f32 sums of some 200 products, against f64.
        np.testing.assert_allclose(ours["audio"], theirs["audio"], rtol=0, atol=5e-6)


def test_field_recordings_equal_the_oracle(field_shards: list[Path]) -> None:
    job = oracle.Job(field_shards, RATE, seconds=2.0, seed=9)
    epochs = rounds(3, 2)
    ds = gm.ArrowIterDataset(
        field_shards,
        audio=gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(2.0)),
        shuffle=gm.Shuffle(9),
        batch_size=4,
        epochs=epochs,
        with_row_id=True,
    )
    expected = [element for epoch in range(epochs) for element in oracle.load(job, epoch)]
    rows = [row for batch in ds for row in rows_of(batch)]
    for ours, theirs in zip(rows, expected, strict=True):
        assert_same_columns(ours, theirs)
        np.testing.assert_allclose(ours["audio"], theirs["audio"], rtol=0, atol=5e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [22_050, 32_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_whole_decode_equals_libsndfile(kind: str, rate: int, channels: int) -> None:
    data = encode(synthetic(1.1, rate, channels, 4), rate, kind)
    for mode in ("mono", "keep"):
        ours, theirs = gm.decode(data, channels=mode), oracle.decode(data, None, mode)
        assert ours.dtype == np.float32
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= TOLERANCE[CODEC[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_probe_tells_the_header(kind: str) -> None:
    data = encode(synthetic(0.7, 44_100, 2, 5), 44_100, kind)
    info = gm.probe(data)
    assert (info.codec, info.sample_rate, info.channels) == (CODEC[kind], 44_100, 2)
    assert info.frames == 30_870
    assert info.duration == pytest.approx(0.7)


def test_resampling_is_as_good_as_soxr() -> None:
    frames, rate = synthetic(4, 44_100, 1, 6), 44_100
    assert_close_to_soxr(frames, rate)


def test_resampled_field_recording_is_close_to_soxr() -> None:
    frames, rate = field("great_plains_toad.wav", seconds=10)
    assert_close_to_soxr(frames, rate)


def assert_close_to_soxr(frames: np.ndarray, rate: int) -> None:
    data = encode(frames, rate, "wavf32")
    ours = gm.decode(data, sample_rate=RATE)
    theirs = soxr.resample(frames[:, 0].astype(np.float64), rate, RATE, quality="HQ")
    n = min(len(ours), len(theirs))
    assert abs(len(ours) - len(theirs)) <= 1
    assert snr_db(theirs[:n], ours[:n]) >= 70
