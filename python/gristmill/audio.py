"""Decoding of encoded bytes from any source."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gristmill import _core, checks
from gristmill.crops import check_crop_seconds
from gristmill.options import (
    Audio,
    Channels,
    Dtype,
    Limits,
    Resampler,
    Strict,
    check_limits,
)
from gristmill.report import AudioInfo, DecodeReport

_Data = bytes | bytearray | memoryview | np.ndarray[Any, np.dtype[np.uint8]]


def decode(
    data: _Data,
    *,
    sample_rate: int | None = None,
    channels: Channels = "mono",
    start: float = 0.0,
    seconds: float | None = None,
    resampler: Resampler = "hq",
    dtype: Dtype = "float32",
    strict: Strict = True,
    limits: Limits | None = None,
) -> np.ndarray[Any, np.dtype[Any]]:
    """Decodes a recording, or a part of it.

    Args:
        data: A whole file, in any of the formats of `docs/formats.md`: bytes, or an array of uint8.
        sample_rate: Target rate in Hz; `None` keeps the file's own.
        channels: As in `Audio`.
        start: Where the part begins, in seconds, rounded to a frame at the target rate; at most
            30 days.
        seconds: How long it is; `None` is to the end. Past the end there is nothing: the result
            is short, or empty.
        resampler: As in `Audio`.
        dtype: As in `Audio`.
        strict: As in `Audio`; `decode_with_report` tells what was wrong.
        limits: What the recording may ask for; `None` is `Limits()`.

    Returns:
        Samples, `(frames,)` for `"mono"`, else `(channels, frames)`. Floats are nominally within
        -1 to 1, and never clamped. The part equals the same slice of the whole, bit for bit.

    Raises:
        DecodeError: The bytes are damaged or in no known format.
        LimitError: The recording asks for more than `limits` allow.
        MemoryError: The system has no memory for the samples.
        ValueError: An option is out of range.
        ImportError: `dtype="bfloat16"` without `ml_dtypes`.

    Runs without the GIL, and may be called from many threads at once.
    """
    return decode_with_report(
        data,
        sample_rate=sample_rate,
        channels=channels,
        start=start,
        seconds=seconds,
        resampler=resampler,
        dtype=dtype,
        strict=strict,
        limits=limits,
    )[0]


def decode_with_report(
    data: _Data,
    *,
    sample_rate: int | None = None,
    channels: Channels = "mono",
    start: float = 0.0,
    seconds: float | None = None,
    resampler: Resampler = "hq",
    dtype: Dtype = "float32",
    strict: Strict = False,
    limits: Limits | None = None,
) -> tuple[np.ndarray[Any, np.dtype[Any]], DecodeReport]:
    """The same as `decode`, with a report on the recording; damage is no error by default.

    Example:
        >>> audio, report = gm.decode_with_report(data)  # doctest: +SKIP
        >>> report.frames_promised, report.frames_missing, dict(report.damage)  # doctest: +SKIP
        (132300, 4096, {'checksums': 1, 'gaps': 1})
    """
    audio = Audio(
        sample_rate=sample_rate,
        channels=channels,
        resampler=resampler,
        dtype=dtype,
        strict=strict,
        limits=check_limits(limits),
    )
    return _core.decode(
        as_bytes(data),
        _core.AudioSpec(audio),
        start=checks.number("start", start, 0, _core.MAX_RECORDING_SECONDS, write="start=1.5"),
        seconds=None if seconds is None else check_crop_seconds("seconds", seconds, "seconds=5"),
    )


def probe(data: _Data, *, limits: Limits | None = None) -> AudioInfo:
    """Codec, rate, channels and length of a recording, without decoding it.

    Raises:
        DecodeError: The bytes are damaged or in no known format.
        LimitError: The recording asks for more than `limits` allow.
    """
    return _core.probe(as_bytes(data), limits=check_limits(limits))


def as_bytes(data: _Data) -> bytes | bytearray:
    """The bytes as the core takes them."""
    if isinstance(data, (str, os.PathLike)):
        raise TypeError(
            f"a recording is bytes, not {checks.shown(data)}, which is a path: write "
            f"gm.decode(pathlib.Path(...).read_bytes())"
        )
    if isinstance(data, np.ndarray) and data.dtype != np.uint8:
        raise TypeError(f"a recording is bytes or an array of uint8, not of {data.dtype}")
    if not isinstance(data, (bytes, bytearray, memoryview, np.ndarray)):
        raise TypeError(f"a recording is bytes or an array of uint8, not {checks.shown(data)}")
    return data.tobytes() if isinstance(data, memoryview | np.ndarray) else data
