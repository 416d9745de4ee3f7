"""Looking a recording over finds what decoding it finds, and keeps nothing of it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import soundfile

import damaged_files
import gristmill as gm
from gristmill import _core

# What checksums and framing do not show, of all that decoding finds in the table.
UNSEEN = {
    (name, damage)
    for name in ("AAC in MP4", "AAC in Matroska", "ALAC in MP4", "FLAC in MP4", "FLAC in Matroska")
    for damage in ("20 flipped bytes", "2 KB hole")
}


def check(data: bytes, *, decode: bool = True, limits: gm.Limits | None = None) -> Any:
    """`(report, error)`, the error also where nothing could be decoded."""
    try:
        found = _core.check(data, decode=decode, limits=limits or gm.Limits())
    except gm.GristmillError as error:
        return None, error
    return found.report, found.error


def decoded(data: bytes) -> Any:
    """The same from decoding it."""
    error = None
    try:
        gm.decode(data, channels="keep")
    except gm.GristmillError as found:
        error = found
    try:
        return gm.decode_with_report(data, channels="keep")[1], error
    except gm.GristmillError as found:
        return None, found


def words(error: Exception | None) -> Any:
    return error and (type(error), str(error), error.__dict__)


@pytest.mark.parametrize("name", damaged_files.MAKERS)
def test_agrees_with_decoding(name: str) -> None:
    sound = damaged_files.made(name)
    report, error = check(sound)
    assert error is None
    assert report == decoded(sound)[0]
    assert check(sound, decode=False)[1] is None
    for damage, change in damaged_files.damages(name).items():
        data = change(sound)
        (report, error), (expected, raised) = check(data), decoded(data)
        assert report == expected, damage
        assert words(error) == words(raised), damage
        # Checksums never blame what decodes.
        fast = check(data, decode=False)[1]
        assert (fast is None) == (error is None) or (name, damage) in UNSEEN, damage
        assert fast is None or error is not None, damage


def test_samples_that_are_not_finite_are_counted() -> None:
    frames = np.zeros((1000, 2), np.float32)
    frames[[7, 8], 1] = [np.nan, np.inf]
    out = io.BytesIO()
    soundfile.write(out, frames, 32_000, format="WAV", subtype="FLOAT")
    report, error = check(out.getvalue())
    assert error.reason == "non_finite"
    assert report.damage == {"non_finite": 2}
    assert report.frames_decoded == 1000


def test_limits_hold() -> None:
    data = damaged_files.made("WAV")
    report, error = check(data, limits=gm.Limits(max_seconds=1))
    assert report is None
    assert isinstance(error, gm.LimitError)
    assert error.limit == "max_seconds"
    assert check(b"")[1].reason == "empty"
