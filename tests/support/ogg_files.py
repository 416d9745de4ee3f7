"""Ogg pages taken apart and put together, and Opus in them, encoded by libopus through PyAV."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import gristmill as gm

av = pytest.importorskip("av", reason="PyAV encodes the files for this test")

CONTINUED, FIRST, LAST = 1, 2, 4
NO_GRANULE = -1
# Where the channels of WAV order stand in the order of Vorbis and Opus, by their number.
VORBIS_ORDER = {
    3: [0, 2, 1],
    4: [0, 1, 2, 3],
    5: [0, 2, 1, 3, 4],
    6: [0, 2, 1, 5, 3, 4],
    7: [0, 2, 1, 6, 5, 3, 4],
    8: [0, 2, 1, 7, 5, 6, 3, 4],
}
LAYOUTS = dict(enumerate(["mono", "stereo", "3.0", "quad", "5.0", "5.1", "6.1", "7.1"], start=1))


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte << 24
        for _ in range(8):
            crc = ((crc << 1) ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
        table.append(crc)
    return table


_TABLE = _crc_table()


@dataclass(frozen=True)
class Page:
    flags: int
    granule: int
    serial: int
    sequence: int
    lacing: bytes
    body: bytes

    def pack(self, *, intact: bool = True) -> bytes:
        head = struct.pack(
            "<4sBBqIIIB",
            b"OggS",
            0,
            self.flags,
            self.granule,
            self.serial,
            self.sequence,
            0,
            len(self.lacing),
        )
        page = head + self.lacing + self.body
        crc = 0 if intact else 1
        for byte in page:
            crc = ((crc << 8) & 0xFFFFFFFF) ^ _TABLE[(crc >> 24) ^ byte]
        return page[:22] + struct.pack("<I", crc) + page[26:]


def pages_of(data: bytes) -> list[Page]:
    pages, at = [], 0
    while at < len(data):
        magic, _, flags, granule, serial, sequence, _, n = struct.unpack_from(
            "<4sBBqIIIB", data, at
        )
        assert magic == b"OggS"
        lacing = data[at + 27 : at + 27 + n]
        end = at + 27 + n + sum(lacing)
        pages.append(Page(flags, granule, serial, sequence, lacing, data[at + 27 + n : end]))
        at = end
    return pages


def join(pages: Iterable[Page]) -> bytes:
    return b"".join(page.pack() for page in pages)


def changed(data: bytes, index: int, **fields: object) -> bytes:
    """The file with fields of one page changed, and its checksum made right."""
    pages = pages_of(data)
    pages[index] = replace(pages[index], **fields)
    return join(pages)


def with_head(data: bytes, at: int, field: bytes) -> bytes:
    """The Opus file with some bytes of its header changed."""
    body = bytearray(pages_of(data)[0].body)
    body[at : at + len(field)] = field
    return changed(data, 0, body=bytes(body))


def opus(
    frames: np.ndarray, rate: int = 48_000, bit_rate: int = 96_000, **options: object
) -> bytes:
    """Ogg Opus of (frames, channels). `options` are libopus's: application, frame_duration."""
    out = io.BytesIO()
    channels = frames.shape[1]
    with av.open(out, "w", format="ogg") as container:
        stream = container.add_stream(
            "libopus",
            rate=rate,
            layout=LAYOUTS[channels],
            options={name: str(value) for name, value in options.items()},
        )
        stream.bit_rate = bit_rate
        stream.format = "flt"
        packed = np.ascontiguousarray(frames, np.float32).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=LAYOUTS[channels])
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return out.getvalue()


def decode_av(data: bytes, codec: str) -> np.ndarray:
    """What FFmpeg decodes, as (channels, frames), by the decoder of this name."""
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.audio[0]
        context = av.CodecContext.create(codec, "r")
        context.extradata = stream.codec_context.extradata
        frames = [
            frame.to_ndarray()
            for packet in container.demux(stream)
            for frame in context.decode(packet if packet.size else None)
        ]
        channels = stream.codec_context.layout.nb_channels
    if frames[0].shape[0] != channels:  # interleaved
        frames = [frame.reshape(-1, channels).T for frame in frames]
    return np.concatenate(frames, axis=1)


def whole(data: bytes) -> np.ndarray:
    """All channels, decoded here."""
    return gm.decode(data, channels="keep")


def reason(data: bytes) -> str:
    """Why the file does not decode here."""
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data)
    return caught.value.reason
