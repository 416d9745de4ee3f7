"""Where a crop lies, how long it is, and what a short recording becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
import shards
from signals import RATE, encode

import oracle

LONG = np.linspace(-0.5, 0.5, 10_001, dtype=np.float32)[:, None]
SHORT = LONG[:999]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording longer and one shorter than the crops of 4 000 frames."""
    folder = tmp_path_factory.mktemp("two")
    made = [encode(x, RATE, "wavf32") for x in (LONG, SHORT)]
    return shards.write_audio(folder / "two.arrow", made)


def crops(path: Path, **audio: Any) -> list[np.ndarray]:
    return [element["audio"] for element in gm.ArrowIterDataset(path, audio=gm.Audio(**audio))]


def test_start_and_center(two: Path) -> None:
    long, _ = crops(two, crop=gm.StartCrop(0.125))
    np.testing.assert_array_equal(long, LONG[:4_000, 0])
    long, _ = crops(two, crop=gm.CenterCrop(0.125))
    np.testing.assert_array_equal(long, LONG[3_000:7_000, 0])  # the earlier of two middles


@pytest.mark.parametrize("crop", [gm.StartCrop(0.125), gm.CenterCrop(0.125), gm.RandomCrop(0.125)])
def test_short_recordings_are_padded_as_told(two: Path, crop: Any) -> None:
    _, short = crops(two, crop=crop, pad="zero")
    np.testing.assert_array_equal(short, np.pad(SHORT[:, 0], (0, 3_001)))
    _, short = crops(two, crop=crop, pad="repeat")
    np.testing.assert_array_equal(short, np.tile(SHORT[:, 0], 5)[:4_000])
    _, short = crops(two, crop=crop, pad=None)
    np.testing.assert_array_equal(short, SHORT[:, 0])


def test_without_a_crop_the_recording_is_whole(two: Path) -> None:
    for ours, theirs in zip(crops(two), (LONG, SHORT), strict=True):
        np.testing.assert_array_equal(ours, theirs[:, 0])


def test_channels_to_a_number(tmp_path: Path) -> None:
    stereo = np.repeat(LONG, 2, axis=1) * np.float32([1, -0.5])
    made = [encode(x, RATE, "wavf32") for x in (LONG, stereo)]
    path = shards.write_audio(tmp_path / "channels.arrow", made)
    mono, stereo_out = crops(path, channels=2)
    np.testing.assert_array_equal(mono, np.repeat(LONG, 2, axis=1).T)  # a mono file is repeated
    np.testing.assert_array_equal(stereo_out, stereo.T)
    mono, first = crops(path, channels=1)
    np.testing.assert_array_equal(mono, LONG.T)
    np.testing.assert_array_equal(first, stereo[:, :1].T)  # the first ones of the file


def test_random_crops_follow_epoch_and_seed(two: Path) -> None:
    def starts(shuffle: int | None, crop_seed: int | None) -> list[int]:
        ds = gm.ArrowIterDataset(
            two,
            audio=gm.Audio(crop=gm.RandomCrop(0.125, seed=crop_seed)),
            shuffle=None if shuffle is None else gm.Shuffle(shuffle),
            exclude=[(0, 1)],
            epochs=5,
        )
        return [int(np.flatnonzero(LONG[:, 0] == e["audio"][0])[0]) for e in ds]

    for shuffle, crop_seed, seed in ((None, None, 0), (3, None, 3), (3, 4, 4), (None, 6, 6)):
        expected = [oracle.crop_start(seed, epoch, "two.arrow", 0, 6_002) for epoch in range(5)]
        assert starts(shuffle, crop_seed) == expected
        assert len(set(expected)) > 1


def test_a_crop_does_not_depend_on_the_folder_or_the_other_shards(
    two: Path, numbered: list[Path]
) -> None:
    audio = gm.Audio(crop=gm.RandomCrop(0.01, seed=1))
    alone = list(gm.ArrowIterDataset(two, audio=audio))
    among = list(gm.ArrowIterDataset([*numbered, two], audio=audio))
    np.testing.assert_array_equal(alone[0]["audio"], among[-2]["audio"])
