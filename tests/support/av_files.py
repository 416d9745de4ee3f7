"""Files made and read by FFmpeg through PyAV, as an independent writer and decoder."""

from __future__ import annotations

import io
from fractions import Fraction

import numpy as np
import pytest

av = pytest.importorskip("av")

LAYOUTS = {
    1: "mono",
    2: "stereo",
    3: "3.0",
    4: "4.0",
    5: "5.0",
    6: "5.1",
    7: "6.1(back)",
    8: "7.1(wide)",
}
# What encoders take, and how the tests' floats become it.
INTEGER = {
    "s16": (np.int16, 15),
    "s16p": (np.int16, 15),
    "s32": (np.int32, 31),
    "s32p": (np.int32, 31),
}


def quantized(frames: np.ndarray, bits: int) -> np.ndarray:
    """The values that a lossless file of so many bits holds, as floats."""
    scale = 2.0 ** (bits - 1)
    return (np.round(frames * scale) / scale + 0.0).astype(np.float32)  # no negative zero


def write(
    frames: np.ndarray,
    rate: int,
    container: str,
    codec: str,
    *,
    sample_format: str = "fltp",
    bit_rate: int | None = 128_000,
    options: dict[str, str] | None = None,
    flags: dict[str, str] | None = None,
) -> bytes:
    """Encodes (frames, channels). `options` are the encoder's, `flags` the container's."""
    out = io.BytesIO()
    layout = LAYOUTS[frames.shape[1]]
    if (width := sample_format.removesuffix("p")) in INTEGER:
        dtype, shift = INTEGER[width]
        frames = np.round(frames.astype(np.float64) * 2.0**shift).astype(dtype)
    # PyAV takes no planes of eight channels.
    planar = sample_format.endswith("p") and frames.shape[1] < 8
    given = sample_format if planar else sample_format.removesuffix("p")
    array = np.ascontiguousarray(frames.T if planar else frames.reshape(1, -1))
    with av.open(out, "w", format=container, options=flags or {}) as file:
        stream = file.add_stream(codec, rate=rate, layout=layout, options=options or {})
        stream.format = sample_format
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        whole = av.AudioFrame.from_ndarray(array, format=given, layout=layout)
        whole.sample_rate, whole.pts, whole.time_base = rate, 0, Fraction(1, rate)
        if given != sample_format:
            (whole,) = av.AudioResampler(sample_format, layout).resample(whole)
        fifo = av.AudioFifo()
        fifo.write(whole)
        stream.codec_context.open()
        size = stream.codec_context.frame_size or 1_024
        while (frame := fifo.read(size, partial=True)) is not None:
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return out.getvalue()


def remux(data: bytes, container: str, flags: dict[str, str] | None = None) -> bytes:
    """The packets of the first audio track in another container."""
    out = io.BytesIO()
    with (
        av.open(io.BytesIO(data)) as source,
        av.open(out, "w", format=container, options=flags or {}) as file,
    ):
        stream = file.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.dts is not None:  # the last one is empty
                packet.stream = stream
                file.mux(packet)
    return out.getvalue()


def read(data: bytes) -> np.ndarray:
    """Decodes to (channels, frames) of float32; integers by their full scale."""
    blocks = []
    with av.open(io.BytesIO(data)) as file:
        for frame in file.decode(audio=0):
            if frame.layout.nb_channels == 8 and frame.format.is_planar:
                packed = av.AudioResampler(frame.format.packed, frame.layout)
                (frame,) = packed.resample(frame)  # noqa: PLW2901
            block = frame.to_ndarray()
            if not frame.format.is_planar:
                block = block.reshape(-1, frame.layout.nb_channels).T
            blocks.append(block)
    whole = np.concatenate(blocks, axis=1)
    if whole.dtype.kind == "i":
        return (whole / 2.0 ** (8 * whole.dtype.itemsize - 1)).astype(np.float32)
    return whole.astype(np.float32)
