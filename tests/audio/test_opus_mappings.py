"""Opus whose mapping is not the table's: streams and channels are those that the header tells."""

from __future__ import annotations

import numpy as np
import pytest

import av_files
import gristmill as gm
from ogg_files import changed, opus, pages_of, whole
from signals import synthetic


def with_mapping(data: bytes, channels: int, family: int, table: list[int]) -> bytes:
    body = bytearray(pages_of(data)[0].body[:19])
    body[9], body[18] = channels, family
    return changed(data, 0, body=bytes(body) + bytes(table), lacing=bytes([19 + len(table)]))


@pytest.fixture(scope="module")
def mono() -> bytes:
    return opus(synthetic(1, 48_000, 1, seed=3))


@pytest.fixture(scope="module")
def stereo() -> bytes:
    return opus(synthetic(1, 48_000, 2, seed=4))


@pytest.mark.parametrize("family", [1, 255])
def test_one_stream(mono: bytes, stereo: bytes, family: int) -> None:
    one, two = whole(mono), whole(stereo)
    for data, channels, table, expected in [
        (mono, 1, [1, 0, 0], one),
        (mono, 2, [1, 0, 0, 0], one[[0, 0]]),
        (mono, 2, [1, 0, 0, 255], np.stack([one[0], np.zeros_like(one[0])])),
        (stereo, 2, [1, 1, 0, 1], two),
        (stereo, 2, [1, 1, 1, 0], two[::-1]),
        (stereo, 1, [1, 1, 1], two[1:]),
    ]:
        found = whole(with_mapping(data, channels, family, table))
        np.testing.assert_array_equal(found, expected)


def assert_same(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape[0] == theirs.shape[0]
    n = min(ours.shape[1], theirs.shape[1])
    assert n >= 47_000
    np.testing.assert_allclose(ours[:, :n], theirs[:, :n], rtol=0, atol=1e-3)


@pytest.mark.parametrize("channels", range(1, 9))
def test_uncoupled_streams(channels: int) -> None:
    frames = synthetic(1, 48_000, channels, seed=5)
    options = {"bit_rate": 64_000 * channels, "application": "audio", "frame_duration": 20}
    data = opus(frames, mapping_family=255, **options)
    assert pages_of(data)[0].body[18:21] == bytes([255, channels, 0])
    assert_same(whole(data), av_files.read(data))


@pytest.mark.parametrize("channels", range(1, 9))
def test_layouts_as_ffmpeg_writes_them(channels: int) -> None:
    frames = synthetic(1, 48_000, channels, seed=6)
    data = opus(frames, bit_rate=64_000 * channels, application="audio")
    assert_same(whole(data), av_files.read(data))


@pytest.mark.parametrize("table", [[1, 0, 1], [0, 0, 0], [1, 2, 0], [2, 0, 2]])
def test_a_mapping_that_contradicts_itself_is_refused(mono: bytes, table: list[int]) -> None:
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(with_mapping(mono, 1, 255, table))
    assert caught.value.reason == "malformed_header"
