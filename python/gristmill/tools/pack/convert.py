"""Turns recordings that Gristmill does not decode into FLAC, through PyAV (FFmpeg)."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from typing import Any

from gristmill.options import Limits

REASONS = frozenset(("unsupported_codec", "unknown_format"))
"""Of `DecodeError`, where another decoder may know more. What is damaged stays bad."""
_FORMATS = (
    "aac,ac3,aiff,amr,ape,asf,au,avi,caf,dsf,dts,eac3,flac,iff,latm,loas,matroska,webm,"
    "mov,mp4,m4a,3gp,3g2,mj2,mp3,mpegts,nistsphere,ogg,qcp,rm,sln,spdif,truehd,tta,voc,w64,wav,wv,"
    "xwma"
)
"""Demuxers that read their own bytes alone: playlists name other files and addresses."""
_INPUT = {"format_whitelist": _FORMATS, "protocol_whitelist": "none"}
_OUTPUT = {"fflags": "+bitexact"}  # the version of FFmpeg is not written
_LOSSLESS_16 = ("u8", "u8p", "s16", "s16p")
_MOST_BYTES = 2**31 - 1
_MOST_FLAC_CHANNELS = 8


class ConversionError(ValueError):
    """A recording that does not become FLAC, and why."""


def to_flac(data: bytes, limits: Limits) -> bytes:
    """The recording as FLAC: of 16 bits where the decoder's samples have them, else of 24.

    Raises:
        ConversionError: FFmpeg does not decode all of it, its rate or channels change, or it goes
            beyond a limit.
    """
    import av
    from av.error import FFmpegError

    try:
        with av.open(io.BytesIO(data), options=_INPUT) as source:
            if not source.streams.audio:
                raise ConversionError("FFmpeg finds no audio in it")
            return _encoded(_frames(source, limits), limits)
    except FFmpegError as error:
        raise ConversionError(f"FFmpeg: {error.strerror}") from error
    except (ValueError, OverflowError, MemoryError) as error:
        raise ConversionError(str(error) or type(error).__name__) from error


def _frames(source: Any, limits: Limits) -> Iterator[Any]:
    """What FFmpeg decodes of the first audio stream, each frame of the same rate and channels."""
    stream = source.streams.audio[0]
    stream.codec_context.thread_count = 1  # recordings are converted several at a time
    seconds = limits.max_decode_seconds
    ends_at = None if seconds is None else time.monotonic() + seconds
    first: tuple[Any, ...] | None = None
    n_frames = 0
    for packet in source.demux(stream):
        if ends_at is not None and time.monotonic() > ends_at:
            raise ConversionError(f"it takes longer than max_decode_seconds, {seconds:g} s")
        for frame in packet.decode():
            kind = (frame.sample_rate, frame.layout.name, frame.format.name)
            if first is None:
                first = kind
                _check_kind(frame, limits)
            elif kind != first:
                raise ConversionError("its rate or channels change")
            n_frames += frame.samples
            if n_frames > limits.max_seconds * frame.sample_rate:
                raise ConversionError(f"it is longer than max_seconds, {limits.max_seconds:g} s")
            frame.pts = None
            yield frame


def _check_kind(frame: Any, limits: Limits) -> None:
    n_channels = len(frame.layout.channels)
    most = min(limits.max_channels, _MOST_FLAC_CHANNELS)
    if n_channels > most:
        raise ConversionError(f"it has {n_channels} channels, and the limit is {most}")
    if frame.sample_rate > limits.max_sample_rate:
        raise ConversionError(
            f"its rate is {frame.sample_rate:,} Hz, and the limit is {limits.max_sample_rate:,}"
        )


def _encoded(frames: Iterator[Any], limits: Limits) -> bytes:
    import av

    first = next(frames, None)
    if first is None:
        raise ConversionError("FFmpeg finds no sound in it")
    width = "s16" if first.format.name in _LOSSLESS_16 else "s32"  # FLAC takes its upper 24 bits
    resampler = av.AudioResampler(width, first.layout, first.sample_rate)
    sink = io.BytesIO()
    most = min(limits.max_bytes, _MOST_BYTES)
    with av.open(sink, "w", format="flac", options=_OUTPUT) as target:
        stream: Any = target.add_stream("flac", rate=first.sample_rate)
        stream.layout = first.layout
        stream.format = width
        stream.codec_context.thread_count = 1

        def write(frame: Any) -> None:
            for packet in stream.encode(frame):
                target.mux(packet)
            if sink.tell() > most:
                raise ConversionError(f"it has more than {most:,} bytes as FLAC")

        def take(frame: Any) -> None:
            for one in resampler.resample(frame):
                write(one)

        take(first)
        for frame in frames:
            take(frame)
        take(None)
        write(None)
    return sink.getvalue()
