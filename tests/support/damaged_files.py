"""One file of each format, and seven ways to damage it."""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Callable

import numpy as np
import soundfile

import av_files
import ogg_files
from signals import encode, synthetic
from stated_numbers import Line, Number

RATE = 32_000
SECONDS = 4.05  # half of no file lies between two frames
N_FRAMES = round(RATE * SECONDS)


def signal(channels: int = 1) -> np.ndarray:
    return synthetic(SECONDS, RATE, channels, seed=21)


def plain(container: str) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, signal(), RATE, format=container, subtype="PCM_16")
    return out.getvalue()


def av_file(container: str, codec: str, **arguments: object) -> bytes:
    return av_files.write(signal(), RATE, container, codec, **arguments)


LOSSLESS = {"sample_format": "s16", "bit_rate": None}
ALAC = {"sample_format": "s16p", "bit_rate": None}
AAC = {"options": {"aac_pns": "0"}, "bit_rate": 64_000}
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "300000"}


def with_total(data: bytes) -> bytes:
    """FLAC in Ogg whose header tells its length, which FFmpeg leaves open."""
    body = bytearray(ogg_files.pages_of(data)[0].body)
    at = body.index(b"\0\0\x22") + 3 + 14
    body[at : at + 4] = N_FRAMES.to_bytes(4, "big")
    return ogg_files.changed(data, 0, body=bytes(body))


def without_xing(data: bytes) -> bytes:
    """An MP3 file without the frame that counts its frames."""
    at = data.index(b"\xff\xfb") if data[:3] == b"ID3" else 0
    bits = {3: (144, 32_000)}[data[at + 1] >> 3 & 3]
    kbits = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320][data[at + 2] >> 4]
    return data[at + bits[0] * kbits * 1000 // bits[1] + (data[at + 2] >> 1 & 1) :]


MAKERS: dict[str, Callable[[], bytes]] = {
    "WAV": lambda: plain("WAV"),
    "AIFF": lambda: plain("AIFF"),
    "CAF": lambda: plain("CAF"),
    "SPHERE": lambda: plain("NIST"),
    "FLAC": lambda: encode(signal(), RATE, "flac16"),
    "FLAC in Ogg": lambda: with_total(
        av_file("ogg", "flac", flags={"page_duration": "200000"}, **LOSSLESS)
    ),
    "Ogg Vorbis": lambda: encode(signal(), RATE, "vorbis"),
    "Ogg Opus": lambda: ogg_files.opus(synthetic(SECONDS, 48_000, seed=21), bit_rate=64_000),
    "Opus in MP4": lambda: av_files.remux(made("Ogg Opus"), "mp4"),
    "Opus in WebM": lambda: av_files.remux(made("Ogg Opus"), "webm"),
    "MP3": lambda: encode(signal(), RATE, "mp3"),
    "MP3 without a count": lambda: without_xing(encode(signal(), RATE, "mp3")),
    "MPEG layer II": lambda: av_file("mp2", "mp2", sample_format="s16", bit_rate=96_000),
    "AAC in MP4": lambda: av_file("ipod", "aac", **AAC),
    "AAC in fragments": lambda: av_file("mp4", "aac", flags=FRAGMENTS, **AAC),
    "AAC in ADTS": lambda: av_file("adts", "aac", **AAC),
    "AAC in Matroska": lambda: av_file("matroska", "aac", **AAC),
    "ALAC in MP4": lambda: av_file("ipod", "alac", **ALAC),
    "FLAC in MP4": lambda: av_file("mp4", "flac", **LOSSLESS),
    "FLAC in Matroska": lambda: av_file("matroska", "flac", **LOSSLESS),
}


@functools.cache
def made(name: str) -> bytes:
    return MAKERS[name]()


def cut(part: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(part * len(data))]


def flipped(seed: int, n_bytes: int = 20) -> Callable[[bytes], bytes]:
    """Some bytes of the middle eight tenths are changed."""

    def damage(data: bytes) -> bytes:
        rng = np.random.default_rng(seed)
        bad = bytearray(data)
        for at in rng.choice(
            np.arange(len(data) // 10, len(data) * 9 // 10), n_bytes, replace=False
        ):
            bad[at] ^= int(rng.integers(1, 256))
        return bytes(bad)

    return damage


def hole(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(2_048) + data[middle + 2_048 :]


def beheaded(data: bytes) -> bytes:
    return data[64:]


def ogg_flac_lie(data: bytes) -> bytes:
    pages = ogg_files.pages_of(data)
    body = Number(b"\0\0\x22", 14, 4).doubled(pages[0].body)
    return ogg_files.changed(data, 0, body=body)


def granule_lie(data: bytes) -> bytes:
    last = ogg_files.pages_of(data)[-1]
    return ogg_files.changed(data, -1, granule=2 * last.granule)


def duration_lie(data: bytes) -> bytes:
    at = data.index(b"\x44\x89\x88") + 3
    (duration,) = struct.unpack_from(">d", data, at)
    return data[:at] + struct.pack(">d", 2 * duration) + data[at + 8 :]


# Each promises twice the frames that are there; what promises nothing is not here.
LIES: dict[str, Callable[[bytes], bytes]] = {
    "WAV": Number(b"data", 0, 4, "little").doubled,
    "AIFF": Number(b"COMM", 6, 4).doubled,
    "CAF": Number(b"data", 0, 8).doubled,
    "SPHERE": Line(b"sample_count").doubled,
    "FLAC": Number(b"fLaC", 4 + 14, 4).doubled,
    "FLAC in Ogg": ogg_flac_lie,
    "Ogg Vorbis": granule_lie,
    "Ogg Opus": granule_lie,
    "Opus in MP4": Number(b"mdhd", 16, 4).doubled,
    "Opus in WebM": duration_lie,
    "MP3": Number(b"Xing", 4, 4).doubled,
    "AAC in MP4": Number(b"mdhd", 16, 4).doubled,
    "AAC in Matroska": duration_lie,
    "ALAC in MP4": Number(b"mdhd", 16, 4).doubled,
    "FLAC in MP4": Number(b"mdhd", 16, 4).doubled,
    "FLAC in Matroska": duration_lie,
}


def damages(name: str) -> dict[str, Callable[[bytes], bytes]]:
    """By the words of the table; `20 flipped bytes` is the first of several seeds."""
    found = {
        "cut at 1 %": cut(0.01),
        "cut at 50 %": cut(0.5),
        "cut at 99 %": cut(0.99),
        "20 flipped bytes": flipped(0),
        "2 KB hole": hole,
        "no header": beheaded,
    }
    return {**found, "lying header": LIES[name]} if name in LIES else found
