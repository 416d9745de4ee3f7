"""Counts, times, numbers and marks of packets that lie about sound that is all there.

Each plays as the file without the lie, as FFmpeg plays it, and the lie is a note.
"""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import av_files
import gristmill as gm
from damaged_files import RATE, made, signal
from ogg_files import LAST, Page, av, join, pages_of
from signals import encode, synthetic

Lie = Callable[[list[Page]], list[Page]]

HEADERS = {"vorbis": 2, "opus": 2, "flac": 2}
CASES = Path(__file__).parents[3] / "shared" / "cases"


@functools.cache
def ogg(codec: str) -> bytes:
    """About 40 pages of audio behind two pages of headers."""
    pages = {"page_duration": "100000"}
    if codec == "opus":
        return av_files.write(synthetic(4, 48_000), 48_000, "ogg", "libopus", flags=pages)
    if codec == "flac":
        lossless = {"sample_format": "s16", "bit_rate": None, "options": {"frame_size": "1024"}}
        return av_files.write(signal(), RATE, "ogg", "flac", flags=pages, **lossless)
    return av_files.remux(encode(signal(), RATE, "vorbis"), "ogg", pages)


def audio(change: Callable[[int, int, Page], Page]) -> Lie:
    """Changes each page behind the headers, by its place and the number of such pages."""

    def lie(pages: list[Page]) -> list[Page]:
        head = next(i for i, page in enumerate(pages) if page.granule > 0)
        n = len(pages) - head
        return pages[:head] + [change(i, n, page) for i, page in enumerate(pages[head:])]

    return lie


def granules(change: Callable[[int, int, int], int]) -> Lie:
    return audio(
        lambda i, n, page: (
            replace(page, granule=change(i, n, page.granule)) if page.granule >= 0 else page
        )
    )


def numbers(change: Callable[[int, int, int], int]) -> Lie:
    return audio(lambda i, n, page: replace(page, sequence=change(i, n, page.sequence)))


def marks(is_marked: Callable[[int, int], bool]) -> Lie:
    def change(i: int, n: int, page: Page) -> Page:
        flags = page.flags & ~LAST | (LAST if is_marked(i, n) else 0)
        return replace(page, flags=flags)

    return audio(change)


OGG_LIES: dict[str, Lie] = {
    "granules of 0": granules(lambda *_: 0),
    "granules of a third": granules(lambda _i, _n, granule: granule // 3),
    "granules of half": granules(lambda _i, _n, granule: granule // 2),
    "granules doubled": granules(lambda _i, _n, granule: 2 * granule),
    "granules off by 7": granules(lambda i, n, granule: granule + 7 * (i % 2) * (i < n - 1)),
    "granules that drift": granules(lambda i, _, granule: granule + i),
    "granules that jump": granules(lambda i, n, granule: granule + RATE * (i > n // 2)),
    "granules that begin again": granules(
        lambda i, n, granule: granule if i < n // 2 else (i - n // 2) * 1000
    ),
    "granules of 2^31 - 1": granules(lambda *_: 2**31 - 1),
    "granules of 2^63 - 1": granules(lambda *_: 2**63 - 1),
    "no granules": granules(lambda *_: -1),
    "an end granule too high": granules(lambda i, n, granule: granule + 50_000 * (i == n - 1)),
    "an end granule of 0": granules(lambda i, n, granule: granule * (i < n - 1)),
    "page numbers of 0": numbers(lambda *_: 0),
    "page numbers that begin again": numbers(lambda i, n, number: number if i < n // 2 else i),
    "page numbers by two": numbers(lambda i, _, number: number + i),
    "page numbers of 2^32 - 1": numbers(lambda *_: 2**32 - 1),
    "no mark of the end": marks(lambda *_: False),
    "marks of the end everywhere": marks(lambda *_: True),
    "a mark of the end in the middle": marks(lambda i, n: i in (n // 2, n - 1)),
    "headers twice": lambda pages: pages[:2] + pages,
}
# What cuts the end as well: the true end is told by nothing else.
NO_TRIM = {
    "granules of 0", "granules of a third", "granules of half", "granules doubled",
    "granules that begin again", "granules of 2^31 - 1", "granules of 2^63 - 1", "no granules",
    "an end granule too high", "an end granule of 0", "no mark of the end",
    "granules that drift", "granules that jump", "granules off by 7",
}  # fmt: skip


def assert_plays(lying: bytes, good: bytes, *, n_more: int, is_told: bool) -> None:
    """The sound of `good`, at most `n_more` frames longer."""
    expected = gm.decode(good)
    found, report = gm.decode_with_report(lying, strict=True)
    assert dict(report.damage) == {}
    if is_told:
        assert report.notes, "a lie that nobody sees"
        with pytest.raises(gm.DecodeError):
            gm.decode(lying, strict="pedantic")
    assert len(expected) <= len(found) <= len(expected) + n_more
    crop_from = len(expected) // 2
    assert found[: len(expected)].tobytes() == expected.tobytes()
    lenient, same = gm.decode_with_report(lying)
    assert lenient.tobytes() == found.tobytes()
    assert same == report
    info = gm.probe(lying)
    assert info.frames == len(found)
    crop = gm.decode(lying, start=crop_from / info.sample_rate, seconds=0.25)
    n = round(0.25 * info.sample_rate)
    np.testing.assert_allclose(crop, found[crop_from : crop_from + n], atol=1e-6)


def assert_as_ffmpeg(lying: bytes, at: int = 0) -> None:
    """FFmpeg plays the same, as far as it plays."""
    theirs = av_files.read(lying)[0]
    ours = gm.decode(lying)
    n = min(len(ours) - at, len(theirs))
    assert n >= 0.9 * len(ours)
    np.testing.assert_allclose(ours[at : at + n], theirs[:n], rtol=0, atol=1e-4)


@pytest.mark.parametrize("lie", OGG_LIES)
@pytest.mark.parametrize("codec", ["opus", "vorbis", "flac"])
def test_lies_of_ogg(codec: str, lie: str) -> None:
    good = ogg(codec)
    lying = join(OGG_LIES[lie](pages_of(good)))
    # Frames of FLAC have numbers, and its granules are not looked at.
    is_told = not ("granule" in lie and codec == "flac") and lie != "no granules"
    assert_plays(lying, good, n_more=2_048 if lie in NO_TRIM else 0, is_told=is_told)


@pytest.mark.parametrize("codec", ["opus", "vorbis", "flac"])
def test_ogg_that_was_joined_late(codec: str) -> None:
    good = ogg(codec)
    pages = pages_of(good)
    skip = {"opus": pages[21].granule - 312, "vorbis": pages[21].granule, "flac": pages[21].granule}
    lying = join(pages[:2] + pages[22:])
    found = gm.decode_with_report(lying, strict=True)
    assert "late_start" in found[1].notes
    assert not found[1].damage
    n = len(gm.decode(good)) - skip[codec]
    assert abs(len(found[0]) - n) <= 2_048
    tail = gm.decode(good)[-n // 2 :]
    np.testing.assert_allclose(found[0][-len(tail) :], tail, atol=1e-4)
    assert gm.probe(lying).frames == len(found[0])


@pytest.mark.parametrize("codec", ["opus", "vorbis", "flac"])
def test_a_page_that_is_missing_is_a_loss(codec: str) -> None:
    pages = pages_of(ogg(codec))
    del pages[20]
    with pytest.raises(gm.DecodeError):
        gm.decode(join(pages))
    lenient, report = gm.decode_with_report(join(pages))
    assert "lost_pages" in report.damage
    assert len(lenient) == len(gm.decode(ogg(codec)))


def retimed(
    data: bytes, container: str, time_ns: Callable[[int], int], *, tail: bytes = b""
) -> bytes:
    """The packets in another container, at other times."""
    out = io.BytesIO()
    with (
        av.open(io.BytesIO(data)) as source,
        av.open(out, "w", format=container) as file,
    ):
        stream = file.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.dts is None:
                continue
            base = packet.time_base
            ns = time_ns(round(packet.pts * base * 1_000_000_000))
            packet.pts = packet.dts = round(Fraction(ns, 1_000_000_000) / base)
            packet.stream = stream
            file.mux(packet)
    return out.getvalue() + tail


@functools.cache
def long_pcm() -> bytes:
    return av_files.write(
        synthetic(400, 8_000), 8_000, "matroska", "pcm_s16le", sample_format="s16", bit_rate=None
    )


S = 1_000_000_000


@pytest.mark.parametrize(
    ("lie", "time_ns"),
    [
        ("drift", lambda ns: ns + ns * 100 // 1_000_000),
        ("drift back", lambda ns: ns - ns * 100 // 1_000_000),
        ("step", lambda ns: ns + 25_000_000 * (ns > 100 * S)),
        ("pause", lambda ns: ns + 7 * S * (ns > 100 * S)),
        ("begins late", lambda ns: ns + 90 * S),
    ],
)
def test_times_of_matroska(lie: str, time_ns: Callable[[int], int]) -> None:
    good = long_pcm()
    lying = retimed(good, "matroska", time_ns)
    found, report = gm.decode_with_report(lying, strict=True)
    assert found.tobytes() == gm.decode(good).tobytes()
    assert not report.damage
    assert bool(report.notes) == (lie == "pause")
    assert gm.decode_with_report(lying)[0].tobytes() == found.tobytes()
    assert gm.probe(lying).frames == len(found)
    assert_as_ffmpeg(lying)


MATROSKA = ["AAC in Matroska", "FLAC in Matroska", "Opus in WebM"]


@pytest.mark.parametrize("name", MATROSKA)
@pytest.mark.parametrize("n_zeros", [1, 11, 12, 1_000, 100_000])
def test_zeros_behind_matroska(name: str, n_zeros: int) -> None:
    good = made(name)
    for data in (good, endless(good)):
        found, report = gm.decode_with_report(data + bytes(n_zeros), strict=True)
        assert found.tobytes() == gm.decode(good).tobytes()
        assert not report.damage


def endless(data: bytes) -> bytes:
    """Matroska whose segment says no size, as of a live stream."""
    at = data.index(b"\x18\x53\x80\x67") + 4
    return data[:at] + b"\x01" + b"\xff" * 7 + data[at + 8 :]


def test_padding_of_every_matroska_block_counts() -> None:
    data = (CASES / "mkv_two_discard_paddings.mkv").read_bytes() if CASES.exists() else None
    if data is None:
        pytest.skip(f"no files at {CASES}")
    ours, theirs = gm.decode(data, channels="keep"), av_files.read(data)
    assert ours.shape == theirs.shape
    assert ours.shape[1] == 38_590
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def with_edits(data: bytes, edits: list[tuple[int, int]]) -> bytes:
    """MP4 whose one edit is several: `moov` stands at the end, so nothing else moves."""
    at = data.index(b"elst") - 4
    size = int.from_bytes(data[at : at + 4], "big")
    entries = b"".join(struct.pack(">IiI", length, start, 1 << 16) for length, start in edits)
    elst = struct.pack(">I4sII", 16 + len(entries), b"elst", 0, len(edits)) + entries
    grown = len(elst) - size
    data = data[:at] + elst + data[at + size :]
    for tag in (b"moov", b"trak", b"edts"):
        box = data.rindex(tag, 0, at) - 4
        n = int.from_bytes(data[box : box + 4], "big") + grown
        data = data[:box] + n.to_bytes(4, "big") + data[box + 4 :]
    return data


@pytest.mark.parametrize("name", ["AAC in MP4", "Opus in MP4"])
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_edits_that_touch_are_one(name: str, parts: int) -> None:
    good = made(name)
    at = good.index(b"elst") + 12
    length, start = struct.unpack_from(">Ii", good, at)
    scale = int.from_bytes(good[good.index(b"mdhd") + 16 :][:4], "big")
    movie = int.from_bytes(good[good.index(b"mvhd") + 16 :][:4], "big")
    ends = [length * i // parts for i in range(parts + 1)]
    edits = [(b - a, start + a * scale // movie) for a, b in pairwise(ends)]
    assert gm.decode(with_edits(good, edits)).tobytes() == gm.decode(good).tobytes()


def two_tracks(container: str, first: str) -> bytes:
    """A track that is not decoded here before one that is."""
    out = io.BytesIO()
    frames = np.round(signal() * 32_767).astype(np.int16).reshape(1, -1)
    with av.open(out, "w", format=container) as file:
        streams = [file.add_stream(codec, rate=RATE, layout="mono") for codec in (first, "aac")]
        for stream in streams:
            frame = av.AudioFrame.from_ndarray(frames, format="s16", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = RATE, 0, Fraction(1, RATE)
            into = av.AudioResampler(stream.format, "mono", RATE).resample(frame)
            fifo = av.AudioFifo()
            for each in into:
                fifo.write(each)
            while (
                part := fifo.read(stream.codec_context.frame_size or 1_024, partial=True)
            ) is not None:
                file.mux(stream.encode(part))
            file.mux(stream.encode(None))
    return out.getvalue()


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_a_first_track_that_is_not_decoded_is_passed_over(container: str) -> None:
    data = two_tracks(container, "ac3")
    audio, report = gm.decode_with_report(data, strict=True)
    assert dict(report.notes) == {"skipped_tracks": 1}
    assert abs(len(audio) - len(signal())) <= 2_048
    assert np.abs(audio[: len(signal())] - signal()[: len(audio), 0]).mean() < 0.05
    with pytest.raises(gm.DecodeError):
        gm.decode(data, strict="pedantic")


def xing(data: bytes) -> int:
    return next(data.index(tag) for tag in (b"Xing", b"Info") if tag in data)


@pytest.mark.parametrize("n_zeros", [1, 417, 5_000, 100_000, 1_000_000])
def test_zeros_behind_the_tag_of_mp3(n_zeros: int) -> None:
    good = made("MP3")
    first = xing(good) - 36 if good[xing(good) - 36] == 0xFF else xing(good) - 21
    end = first + frame_len(good, first)
    lying = good[:end] + bytes(n_zeros) + good[end:]
    found, report = gm.decode_with_report(lying, strict=True)
    assert found.tobytes() == gm.decode(good).tobytes()
    assert (dict(report.damage), dict(report.notes)) == ({}, {"junk": 1})
    for id3 in (b"ID3\x04\0\0\0\0\0\x0a" + bytes(10), b""):
        before = id3 + bytes(n_zeros) + good
        assert gm.decode(before).tobytes() == gm.decode(good).tobytes()


def frame_len(data: bytes, at: int) -> int:
    kbits = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320][data[at + 2] >> 4]
    return 144 * kbits * 1000 // RATE + (data[at + 2] >> 1 & 1)


@pytest.mark.parametrize("n_bytes", [1, 100, 300])
def test_adts_that_begins_inside_a_frame(n_bytes: int) -> None:
    good = made("AAC in ADTS")
    first = int.from_bytes(good[3:6], "big") >> 5 & 0x1FFF
    lying = good[n_bytes:]
    n_lost = 1024 * (1 if n_bytes < first else 2)
    found, report = gm.decode_with_report(lying, strict=True)
    assert (dict(report.damage), dict(report.notes)) == ({}, {"late_start": 1})
    expected = gm.decode(good)[n_lost:]
    assert len(found) == len(expected)
    np.testing.assert_allclose(found[1024:], expected[1024:], atol=1e-6)


@pytest.mark.parametrize("codec", ["mp3", "flac16", "vorbis", "wav16"])
def test_a_whole_file_has_no_notes(codec: str) -> None:
    report = gm.decode_with_report(encode(signal(), RATE, codec), strict="pedantic")[1]
    assert (dict(report.damage), dict(report.notes)) == ({}, {})
