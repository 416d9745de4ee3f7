"""Files of each container, the numbers that they state, and the lies that writers tell."""

from __future__ import annotations

import functools
import io
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import soundfile

import av_files
from damaged_files import AAC, ALAC, LOSSLESS
from ogg_files import opus
from signals import encode, synthetic
from stated_numbers import Line, Number

RATE = 32_000
SECONDS = 1.05


def sound(channels: int = 1, rate: int = RATE) -> np.ndarray:
    return synthetic(SECONDS, rate, channels, seed=21)


def stored(kind: str, subtype: str = "PCM_16", channels: int = 1) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, sound(channels), RATE, format=kind, subtype=subtype)
    return out.getvalue()


def ffmpeg(container: str, codec: str, **arguments: object) -> bytes:
    return av_files.write(sound(), RATE, container, codec, **arguments)


def matroska(data: bytes, container: str = "matroska") -> bytes:
    """Five clusters."""
    return av_files.remux(data, container, {"cluster_time_limit": "250"})


FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "200000"}

MAKERS: dict[str, Callable[[], bytes]] = {
    "WAV": lambda: stored("WAV"),
    "WAV with chunks": lambda: stored("WAV", "FLOAT"),
    "extensible WAV": lambda: stored("WAVEX", "PCM_24", 2),
    "RF64": lambda: stored("RF64"),
    "AIFF": lambda: stored("AIFF"),
    "CAF": lambda: stored("CAF"),
    "SPHERE": lambda: stored("NIST"),
    "FLAC": lambda: encode(sound(), RATE, "flac16"),
    "MP3": lambda: encode(sound(), RATE, "mp3"),
    "Opus": lambda: opus(sound(rate=48_000), bit_rate=64_000),
    "AAC in ADTS": lambda: ffmpeg("adts", "aac", **AAC),
    "AAC in MP4": lambda: ffmpeg("ipod", "aac", **AAC),
    "ALAC in MP4": lambda: ffmpeg("ipod", "alac", **ALAC),
    "FLAC in MP4": lambda: ffmpeg("mp4", "flac", **LOSSLESS),
    "Opus in MP4": lambda: av_files.remux(made("Opus"), "mp4"),
    "AAC in fragments": lambda: ffmpeg("mp4", "aac", flags=FRAGMENTS, **AAC),
    "AAC in Matroska": lambda: matroska(ffmpeg("matroska", "aac", **AAC)),
    "FLAC in Matroska": lambda: matroska(ffmpeg("matroska", "flac", **LOSSLESS)),
    "PCM in Matroska": lambda: matroska(ffmpeg("matroska", "pcm_s16le", **LOSSLESS)),
    "Opus in WebM": lambda: matroska(made("Opus"), "webm"),
    "Vorbis in WebM": lambda: matroska(encode(sound(), RATE, "vorbis"), "webm"),
}


@functools.cache
def made(name: str) -> bytes:
    return MAKERS[name]()


class Field(Protocol):
    """A number that a file states."""

    def read(self, data: bytes) -> tuple[int | float, int | float]:
        """The number, and the highest that there is room for."""
        ...

    def write(self, data: bytes, number: float) -> bytes:
        """The file with another number."""
        ...


@dataclass(frozen=True)
class Adts:
    """Bits of the header of the fifth frame."""

    bit: int
    width: int

    def place(self, data: bytes) -> int:
        at = 0
        for _ in range(4):
            at += int.from_bytes(data[at + 3 : at + 6], "big") >> 5 & 0x1FFF
        return at

    def read(self, data: bytes) -> tuple[int, int]:
        at, top = self.place(data), (1 << self.width) - 1
        return int.from_bytes(data[at : at + 7], "big") >> (56 - self.bit - self.width) & top, top

    def write(self, data: bytes, number: float) -> bytes:
        at, shift = self.place(data), 56 - self.bit - self.width
        head = int.from_bytes(data[at : at + 7], "big")
        head ^= (self.read(data)[0] ^ int(number)) << shift
        return data[:at] + head.to_bytes(7, "big") + data[at + 7 :]


MASTERS = {
    0x18538067, 0x1549A966, 0x1654AE6B, 0xAE, 0xE1, 0x1F43B675, 0xA0, 0x1C53BB6B, 0x114D9B74,
    0x4DBB, 0xBB, 0xB7,
}  # fmt: skip


def vint(data: bytes, at: int) -> tuple[int, int]:
    """An EBML number with its mark, and its width."""
    width = 9 - data[at].bit_length()
    return int.from_bytes(data[at : at + width], "big"), width


def elements(data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Of each element: identifier, place and width of its size, place and length of its body."""
    at = 0
    while at < len(data):
        kind, width = vint(data, at)
        size, size_width = vint(data, at + width)
        body, n = at + width + size_width, size & ~(1 << 7 * size_width)
        yield kind, at + width, size_width, body, n
        at = body if kind in MASTERS else body + n


@dataclass(frozen=True)
class Element:
    """The size of an element of Matroska, or a number in its body."""

    kind: int
    part: str = "body"
    which: int = 0
    skip: int = 0
    width: int = 0

    def place(self, data: bytes) -> tuple[int, int]:
        found = [element for element in elements(data) if element[0] == self.kind]
        _, at, width, body, n = found[self.which]
        return (at, width) if self.part == "size" else (body + self.skip, self.width or n)

    def read(self, data: bytes) -> tuple[int | float, int | float]:
        at, width = self.place(data)
        field = data[at : at + width]
        if self.part == "float":
            return struct.unpack(">d" if width == 8 else ">f", field)[0], 1e30
        top = (1 << (7 if self.part == "size" else 8) * width) - 1
        return int.from_bytes(field, "big") & top, top

    def write(self, data: bytes, number: float) -> bytes:
        at, width = self.place(data)
        if self.part == "float":
            field = struct.pack(">d" if width == 8 else ">f", number)
        else:
            mark = 1 << 7 * width if self.part == "size" else 0
            field = (int(number) | mark).to_bytes(width, "big")
        return data[:at] + field + data[at + width :]


def lies(field: Field, data: bytes) -> dict[str, bytes]:
    """The file with each lie that fits into the field."""
    told, top = field.read(data)
    numbers = {
        "0": 0,
        "1": 1,
        "the highest": top,
        "2^31 - 1": 2**31 - 1,
        "2^31 - 256": 2**31 - 256,
        "2^31": 2**31,
        "2^31 + 36": 2**31 + 36,
        "2^32 - 37": 2**32 - 37,
        "half": told // 2,
        "double": 2 * told,
        "one more": told + 1,
        "one less": told - 1,
        "a chunk's header more": told + 8,
        "a file's header more": told + 44,
    }
    found: dict[int | float, str] = {}
    for lie, number in numbers.items():
        if 0 <= number <= top and number != told:
            found.setdefault(number, lie)
    return {lie: field.write(data, number) for number, lie in found.items()}


def mp4(mark: bytes, skip: int, which: int = 0) -> Number:
    return Number(mark, skip, 4, which=which)


def little(mark: bytes, skip: int, width: int = 4) -> Number:
    return Number(mark, skip, width, "little")


WAV = {
    "RIFF size": little(b"RIFF", 0),
    "fmt size": little(b"fmt ", 0),
    "bytes a second": little(b"fmt ", 12),
    "block align": little(b"fmt ", 16, 2),
    "data size": little(b"data", 0),
}
MP4 = {
    "movie duration": mp4(b"mvhd", 16),
    "track duration": mp4(b"tkhd", 20),
    "media timescale": mp4(b"mdhd", 12),
    "media duration": mp4(b"mdhd", 16),
    "edits": mp4(b"elst", 4),
    "runs of durations": mp4(b"stts", 4),
    "packets of a duration": mp4(b"stts", 8),
    "duration of packets": mp4(b"stts", 12),
    "first chunk": mp4(b"stsc", 8),
    "packets a chunk": mp4(b"stsc", 12),
    "number of sizes": mp4(b"stsz", 8),
    "size of a packet": mp4(b"stsz", 12),
    "chunks": mp4(b"stco", 4),
    "place of a chunk": mp4(b"stco", 8),
    "mdat size": mp4(b"mdat", -8),
    "moov size": mp4(b"moov", -8),
    "stts size": mp4(b"stts", -8),
}
MATROSKA = {
    "EBML size": Element(0x1A45DFA3, "size"),
    "segment size": Element(0x18538067, "size"),
    "info size": Element(0x1549A966, "size"),
    "timestamp scale": Element(0x2AD7B1),
    "duration": Element(0x4489, "float"),
    "tracks size": Element(0x1654AE6B, "size"),
    "private size": Element(0x63A2, "size"),
    "cluster size": Element(0x1F43B675, "size", which=1),
    "cluster time": Element(0xE7, which=1),
    "block size": Element(0xA3, "size", which=9),
    "block time": Element(0xA3, which=9, skip=1, width=2),
    "cues size": Element(0x1C53BB6B, "size"),
    "place of a cue": Element(0xF1),
}
PRIVATE = "private size"

FIELDS: dict[str, dict[str, Field]] = {
    "WAV": WAV,
    "WAV with chunks": {
        "fact size": little(b"fact", 0),
        "fact count": little(b"fact", 4),
        "PEAK size": little(b"PEAK", 0),
        "data size": little(b"data", 0),
    },
    "extensible WAV": {
        "bits": little(b"fmt ", 18, 2),
        "valid bits": little(b"fmt ", 22, 2),
        "channel mask": little(b"fmt ", 24),
    },
    "RF64": {
        "ds64 RIFF size": little(b"ds64", 4, 8),
        "ds64 data size": little(b"ds64", 12, 8),
        "ds64 count": little(b"ds64", 20, 8),
    },
    "AIFF": {
        "FORM size": mp4(b"FORM", 0),
        "COMM size": mp4(b"COMM", 0),
        "count": mp4(b"COMM", 6),
        "SSND size": mp4(b"SSND", 0),
        "block size": mp4(b"SSND", 8),
    },
    "CAF": {
        "bytes a packet": mp4(b"lpcm", 4),
        "frames a packet": mp4(b"lpcm", 8),
        "data size": Number(b"data", 0, 8),
        "edits": mp4(b"data", 8),
    },
    "SPHERE": {
        "header size": Line(b""),
        "sample_count": Line(b"sample_count"),
        "sample_n_bytes": Line(b"sample_n_bytes"),
        "sample_sig_bits": Line(b"sample_sig_bits"),
    },
    "FLAC": {
        "shortest block": Number(b"fLaC", 4, 2),
        "longest block": Number(b"fLaC", 6, 2),
        "shortest frame": Number(b"fLaC", 8, 3),
        "longest frame": Number(b"fLaC", 11, 3),
        "total": mp4(b"fLaC", 18),
        "MD5": Number(b"fLaC", 22, 8),
    },
    "MP3": {
        "count": mp4(b"Xing", 4),
        "bytes": mp4(b"Xing", 8),
        "table": Number(b"Xing", 12, 8),
        "checksum of the tag": Number(b"Xing", 150, 2),
    },
    "AAC in ADTS": {
        "frame length": Adts(30, 13),
        "fullness": Adts(43, 11),
        "version": Adts(12, 1),
    },
    "AAC in MP4": {**MP4, "movie timescale": mp4(b"mvhd", 12)},
    "ALAC in MP4": MP4,
    "FLAC in MP4": MP4,
    "Opus in MP4": MP4,
    "AAC in fragments": {
        "media timescale": mp4(b"mdhd", 12),
        "number of a fragment": mp4(b"mfhd", 4, which=2),
        "time of a fragment": Number(b"tfdt", 4, 8, which=2),
        "packets of a fragment": mp4(b"trun", 4, which=2),
        "place of packets": mp4(b"trun", 8, which=2),
    },
    "AAC in Matroska": MATROSKA,
    "FLAC in Matroska": MATROSKA,
    "PCM in Matroska": {name: field for name, field in MATROSKA.items() if name != PRIVATE},
    "Opus in WebM": {**MATROSKA, "codec delay": Element(0x56AA)},
    "Vorbis in WebM": MATROSKA,
}

# Bytes of the header that comes a second time, before the whole file.
HEADERS: dict[str, Callable[[bytes], int]] = {
    "WAV": lambda data: data.index(b"data") + 8,
    "AIFF": lambda data: data.index(b"SSND") + 16,
    "CAF": lambda data: data.index(b"data") + 16,
    "SPHERE": lambda _: 1024,
    "FLAC": lambda data: data.index(b"\xff\xf8"),
    "MP3": lambda data: data.index(b"Xing") + 120,
    "AAC in ADTS": lambda _: 7,
    "AAC in MP4": lambda data: data.index(b"mdat") - 4,
    "FLAC in Matroska": lambda data: data.index(b"\x1f\x43\xb6\x75"),
}


def twice(name: str) -> bytes:
    """The file behind a copy of its header."""
    data = made(name)
    return data[: HEADERS[name](data)] + data


def retimed(change: Callable[[int, int], int]) -> bytes:
    """Fragments whose times are others, by their number and the time that they had."""
    data = made("AAC in fragments")
    n = len(re.findall(b"tfdt", data))
    assert n >= 4
    for i in range(n):
        field = Number(b"tfdt", 4, 8, which=i)
        data = field.write(data, change(i, field.read(data)[0]))
    return data


CLOCKS: dict[str, Callable[[int, int], int]] = {
    "all 0": lambda _i, _time: 0,
    "that begin again": lambda i, time: time if i < 3 else (i - 3) * 6_400,
    "that drift": lambda _i, time: time + time // 10_000,
    "that drift back": lambda _i, time: time - time // 10_000,
    "that begin late": lambda _i, time: time + 90 * RATE,
    "of twice the speed": lambda _i, time: 2 * time,
}
