"""PCM to WAV, FLAC, Ogg Vorbis and MP3 bytes, the same bytes each time."""

import io
import struct
import zlib

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

FORMATS = {
    "wav": ("WAV", "PCM_16", "wav"),
    "flac": ("FLAC", "PCM_16", "flac"),
    "vorbis": ("OGG", "VORBIS", "ogg"),
    "mp3": ("MP3", "MPEG_LAYER_III", "mp3"),
}
"""Codec to libsndfile's container and subtype, and the file name's ending."""

_BLOCK_FRAMES = 65_536
_REVERSED_BITS = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def encode(pcm: NDArray[np.float32], rate_hz: int, codec: str) -> bytes:
    """Encodes frames by channels."""
    container, subtype, _ = FORMATS[codec]
    out = io.BytesIO()
    with sf.SoundFile(out, "w", rate_hz, pcm.shape[1], format=container, subtype=subtype) as file:
        # In blocks: libsndfile's Vorbis encoder overflows the stack on one long write.
        for first in range(0, len(pcm), _BLOCK_FRAMES):
            file.write(pcm[first : first + _BLOCK_FRAMES])
    data = out.getvalue()
    return with_serial(data, 1) if codec == "vorbis" else data


def with_serial(ogg: bytes, serial: int) -> bytes:
    """Gives every page of an Ogg stream this serial number; encoders draw one from the clock."""
    out = bytearray(ogg)
    page = 0
    while page < len(out):
        n_segments = out[page + 26]
        header_end = page + 27 + n_segments
        end = header_end + sum(out[page + 27 : header_end])
        struct.pack_into("<I", out, page + 14, serial)
        struct.pack_into("<I", out, page + 22, 0)  # the checksum counts as zero in its own sum
        struct.pack_into("<I", out, page + 22, _ogg_crc(bytes(out[page:end])))
        page = end
    return bytes(out)


def _ogg_crc(page: bytes) -> int:
    """Ogg's CRC-32 is zlib's with the bits of each byte and of the result reversed, from zero."""
    reflected = zlib.crc32(page.translate(_REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
