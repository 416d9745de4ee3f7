"""FLAC written here, bit by bit: what no encoder writes."""

from __future__ import annotations


def crc(data: bytes, polynomial: int, width: int) -> int:
    """A checksum, the highest bit first."""
    value = 0
    for byte in data:
        value ^= byte << (width - 8)
        for _ in range(8):
            value <<= 1
            if value >> width:
                value ^= (1 << width) | polynomial
    return value


def stream_info(rate_hz: int, n_channels: int, n_frames: int, block: int) -> bytes:
    """The signature and STREAMINFO of 16 bits, with no checksum of the samples."""
    fields = rate_hz << 44 | (n_channels - 1) << 41 | 15 << 36 | n_frames
    blocks = block.to_bytes(2, "big") * 2 + bytes(6)
    return b"fLaC\x80\0\0\x22" + blocks + fields.to_bytes(8, "big") + bytes(16)


def constant_flac(
    *, rate_hz: int, n_channels: int, n_frames: int, value: int = 1 << 13, block: int = 65_535
) -> bytes:
    """`n_frames` of one value: a dozen bytes for each block of one channel."""
    out = [stream_info(rate_hz, n_channels, n_frames, block)]
    for number, start in enumerate(range(0, n_frames, block)):
        n = min(block, n_frames - start)
        # The length in 16 bits, the rate and the depth as in STREAMINFO.
        head = bytes([0xFF, 0xF8, 0x70, (n_channels - 1) << 4]) + chr(number).encode()
        head += (n - 1).to_bytes(2, "big")
        head += bytes([crc(head, 0x07, 8)])
        frame = head + (b"\0" + value.to_bytes(2, "big", signed=True)) * n_channels
        out.append(frame + crc(frame, 0x8005, 16).to_bytes(2, "big"))
    return b"".join(out)
