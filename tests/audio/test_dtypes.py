"""Samples as float16, bfloat16 and int16: what NumPy would make of the float32 result."""

from __future__ import annotations

import importlib.util
import io
import pickle
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest
import soundfile

import gristmill as gm
from signals import encode, field, synthetic

DTYPES = ["float32", "float16", "bfloat16", "int16"]


def numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(name)


def converted(samples: np.ndarray, name: str) -> np.ndarray:
    """The conversion as documented, by NumPy."""
    if name == "int16":
        samples = np.clip(np.rint(samples.astype(np.float64) * 32_768), -32_768, 32_767)
    with np.errstate(over="ignore"):
        return samples.astype(numpy_dtype(name))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", ["mono", "keep", 2])
def test_decode_converts(dtype: str, channels: str | int) -> None:
    data = encode(synthetic(1.3, 44_100, 2, 1), 44_100, "vorbis")
    options: dict[str, Any] = {"channels": channels, "sample_rate": 32_000}
    got = gm.decode(data, **options, dtype=dtype)
    want = converted(gm.decode(data, **options), dtype)
    assert got.dtype == numpy_dtype(dtype)
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_float_converts(dtype: str) -> None:
    """Loud, quiet and odd numbers, ties among them, straight from a file of floats."""
    rng = np.random.default_rng(2)
    ties = (np.arange(-40, 40) + 0.5) / 32_768
    halves = np.arange(0, 200) * 2.0**-25  # steps of half the smallest float16
    edges = [1.0, -1.0, 0.99999, -1.5, 65_504, 65_519, 65_520, 1e6, -1e9, 1e-40, 6.1e-5, -6.0e-8]
    noise = rng.standard_normal(5_000) * 10.0 ** rng.uniform(-9, 2, 5_000)
    samples = np.concatenate([ties, halves, edges, noise]).astype(np.float32)
    data = encode(samples[:, None], 32_000, "wavf32")
    assert gm.decode(data).tobytes() == samples.tobytes()
    assert gm.decode(data, dtype=dtype).tobytes() == converted(samples, dtype).tobytes()


@pytest.mark.parametrize("kind", ["wav16", "flac16"])
def test_16_bit_files_keep_their_numbers(kind: str) -> None:
    numbers = np.random.default_rng(3).integers(-32_768, 32_768, (70_000, 2)).astype(np.int16)
    out = io.BytesIO()
    container = {"wav16": "WAV", "flac16": "FLAC"}[kind]
    soundfile.write(out, numbers, 44_100, format=container, subtype="PCM_16")
    got = gm.decode(out.getvalue(), channels="keep", dtype="int16")
    np.testing.assert_array_equal(got, numbers.T)


def test_int16_of_a_field_recording_is_soundfiles() -> None:
    frames, rate = field("birds_10s.wav", seconds=3)
    data = encode(frames, rate, "flac16")
    theirs, _ = soundfile.read(io.BytesIO(data), dtype="int16")
    np.testing.assert_array_equal(gm.decode(data, dtype="int16"), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch_size", [None, 5])
@pytest.mark.parametrize("crop", [gm.RandomCrop(0.31), None])
def test_data_sets_convert(
    same_rate: list[Path], dtype: str, batch_size: int | None, crop: gm.RandomCrop | None
) -> None:
    if crop is None and batch_size is not None:
        batch_size = 1  # whole recordings differ in length

    def load(dtype: str) -> list[dict[str, Any]]:
        audio = gm.Audio(sample_rate=32_000, crop=crop, dtype=dtype)  # an odd number of frames
        return list(
            gm.ArrowIterDataset(
                same_rate, audio=audio, shuffle=gm.Shuffle(1), batch_size=batch_size
            )
        )

    for got, want in zip(load(dtype), load("float32"), strict=True):
        assert got["audio"].dtype == numpy_dtype(dtype)
        assert got["audio"].shape == want["audio"].shape
        assert got["audio"].tobytes() == converted(want["audio"], dtype).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_element_spec_tells_the_dtype(same_rate: list[Path], dtype: str) -> None:
    audio = gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(0.1), dtype=dtype)
    ds = gm.ArrowIterDataset(same_rate, columns=["audio"], audio=audio, batch_size=4)
    spec = grain.experimental.get_element_spec(ds)
    assert np.dtype(spec["audio"].dtype) == numpy_dtype(dtype)
    assert next(iter(ds))["audio"].dtype == numpy_dtype(dtype)
    assert pickle.loads(pickle.dumps(audio)) == audio


def test_wrong_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match="dtype"):
        gm.Audio(dtype="float64")
    with pytest.raises(ValueError, match="dtype"):
        gm.decode(b"", dtype="int32")


def test_bfloat16_needs_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install ml_dtypes"):
        gm.Audio(dtype="bfloat16")
