"""The rate that the Hugging Face features name is the one that audio is decoded at by default."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

import gristmill as gm
from signals import encode, synthetic

OWN, NAMED = 32_000, 16_000


def saved(folder: Path, rate: int | None, seed: int = 0) -> datasets.Dataset:
    data = encode(synthetic(0.2, OWN, seed=seed), OWN, "wav16")
    rows = {"audio": [{"bytes": data, "path": "a.wav"}] * 2}
    made = datasets.Dataset.from_dict(rows)
    made.cast_column("audio", datasets.Audio(sampling_rate=rate)).save_to_disk(folder)
    return datasets.load_from_disk(folder)


def first(paths: Any, audio: Any = "auto") -> np.ndarray:
    with iter(gm.ArrowIterDataset(paths, audio=audio)) as it:
        return next(it)["audio"]


@pytest.mark.parametrize("is_cast", [False, True])
def test_a_cast_column_is_decoded_at_its_rate(
    tmp_path: Path, is_cast: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ds = saved(tmp_path / "d", None if is_cast else NAMED)
    paths: Any = str(tmp_path / "d" / "*.arrow")
    if is_cast:
        paths = ds.cast_column("audio", datasets.Audio(sampling_rate=NAMED))
    data = ds.cast_column("audio", datasets.Audio(decode=False))[0]["audio"]["bytes"]
    expected = gm.decode(data, sample_rate=NAMED)
    with caplog.at_level(logging.WARNING, "gristmill"):
        for audio in ("auto", gm.Audio(), gm.Audio("audio")):
            np.testing.assert_array_equal(first(paths, audio), expected)
    np.testing.assert_array_equal(gm.ArrowDataSource(paths)[0]["audio"], expected)
    (told,) = caplog.messages
    assert 'column "audio" are resampled to 16000 Hz' in told
    # What is given goes first.
    np.testing.assert_array_equal(first(paths, gm.Audio(sample_rate=None)), gm.decode(data))
    other = gm.decode(data, sample_rate=8_000)
    np.testing.assert_array_equal(first(paths, gm.Audio(sample_rate=8_000)), other)


def test_the_files_own_rate_is_not_worth_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved(tmp_path / "d", OWN)
    assert len(first(str(tmp_path / "d" / "*.arrow"))) == 0.2 * OWN
    assert not caplog.messages


def test_shards_that_name_several_rates_are_refused(tmp_path: Path) -> None:
    for rate in (8_000, NAMED):
        saved(tmp_path / str(rate), rate)
    paths = [str(path) for path in sorted(tmp_path.glob("*/*.arrow"))]
    with pytest.raises(gm.SchemaError, match=r"16000 Hz .* 8000 Hz; write gm\.Audio"):
        first(paths)
    assert len(first(paths, gm.Audio(sample_rate=None))) == 0.2 * OWN


def test_windows_count_at_that_rate(tmp_path: Path) -> None:
    saved(tmp_path / "d", NAMED)
    paths = str(tmp_path / "d" / "*.arrow")
    states = []
    for rate in ("auto", NAMED, None):
        audio = gm.Audio(sample_rate=rate, crop=gm.Windows(0.1))  # pyright: ignore[reportArgumentType]
        it = iter(gm.ArrowIterDataset(paths, audio=audio))
        assert next(it)["audio"].shape == (
            round(0.1 * (rate if isinstance(rate, int) else OWN if rate is None else NAMED)),
        )
        states.append(it.get_state())
    assert states[0] == states[1] != states[2]


def test_inspect_shows_it(tmp_path: Path) -> None:
    saved(tmp_path / "d", NAMED)
    page = str(gm.inspect(str(tmp_path / "d" / "*.arrow")))
    assert "rate of the features  16,000 Hz" in page
