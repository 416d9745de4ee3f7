"""FLAC: the checksum over the samples in STREAMINFO, odd metadata, FLAC in Ogg."""

from __future__ import annotations

import hashlib
import io
import struct
from fractions import Fraction

import numpy as np
import pytest

import gristmill as gm
from signals import CORPUS, encode, synthetic

RATE = 44_100
FILES = sorted((CORPUS / "flac").glob("*.flac"))


def corpus(kind: str) -> list[object]:
    found = [pytest.param(path, id=path.stem[:30]) for path in FILES if path.name.startswith(kind)]
    reason = f"no FLAC test bench at {CORPUS}; set GRISTMILL_CORPUS to find it"
    return found or [pytest.param(None, marks=pytest.mark.skip(reason=reason))]


def stream_info(data: bytes) -> tuple[int, int, bytes]:
    """Bits, frames and MD5 as STREAMINFO has them."""
    at = data.index(b"fLaC") + 4
    while data[at] & 0x7F:
        at += 4 + int.from_bytes(data[at + 1 : at + 4], "big")
    packed = int.from_bytes(data[at + 14 : at + 22], "big")
    return (packed >> 36 & 31) + 1, packed & (1 << 36) - 1, data[at + 22 : at + 38]


def md5(samples: np.ndarray, bits: int) -> bytes:
    """The checksum of (channels, frames) as RFC 9639 has it: integers, interleaved."""
    integers = samples.T.astype(np.float64) * 2.0 ** (bits - 1)
    assert np.array_equal(integers, np.round(integers))
    width = -(-bits // 8)
    wide = np.ascontiguousarray(integers.astype("<i4"))
    narrow = wide.view(np.uint8).reshape(*wide.shape, 4)[..., :width]
    return hashlib.md5(narrow.tobytes(), usedforsecurity=False).digest()


@pytest.mark.parametrize("path", corpus("subset"))
def test_subset_is_bit_exact(path) -> None:
    data = path.read_bytes()
    bits, n_frames, checksum = stream_info(data)
    whole = gm.decode(data, channels="keep")
    assert n_frames in {0, whole.shape[1]}
    assert md5(whole, bits) == checksum
    assert gm.probe(data).frames == whole.shape[1]


# What comes of the rest of the bench: "exact" is the MD5 of STREAMINFO, otherwise the reason of
# the error.
OUTCOMES = {
    # The largest block is larger than STREAMINFO says: the frames count.
    "faulty-01_-_wrong_max_blocksize.flac": "exact",
    # STREAMINFO says 24 bits, the frames 16.
    "faulty-03_-_wrong_bit_depth.flac": 16,
    # STREAMINFO promises 39,842 frames, and 109,487 are there.
    "faulty-05_-_wrong_total_number_of_samples.flac": "exact",
    "faulty-07_-_other_metadata_blocks_preceding_streaminfo_metadata_block.flac": "exact",
    "faulty-09_-_blocksize_1.flac": "exact",
    # The length of a metadata block goes over the end: the first frame is searched.
    "faulty-11_-_incorrect_metadata_block_length.flac": "exact",
    # The number of channels changes on the way.
    "uncommon-03_-_decreasing_number_of_channels.flac": "params_changed",
    "uncommon-09_-_Rice_partition_order_15.flac": "exact",
    # There is no stream marker and no STREAMINFO.
    "uncommon-11_-_file_starting_with_unparsable_data.flac": "unknown_format",
}


@pytest.mark.parametrize("path", [*corpus("faulty"), *corpus("uncommon")])
def test_outcome_of_the_rest_of_the_bench(path) -> None:
    data = path.read_bytes()
    outcome = OUTCOMES[path.name]
    if outcome in {"params_changed", "unknown_format"}:
        with pytest.raises(gm.DecodeError) as caught:
            gm.decode(data, channels="keep")
        assert caught.value.reason == outcome
        return
    bits, _, checksum = stream_info(data)
    whole = gm.decode(data, channels="keep")
    assert md5(whole, bits if outcome == "exact" else outcome) == checksum


def flac(seconds: float = 1.0, channels: int = 2, kind: str = "flac16") -> bytes:
    return encode(synthetic(seconds, RATE, channels, 2), RATE, kind)


def block(kind: int, body: bytes, length: int | None = None) -> bytes:
    """A metadata block that is not the last."""
    return bytes([kind]) + (len(body) if length is None else length).to_bytes(3, "big") + body


BAD_BLOCKS = {
    "cue sheet of nothing": block(5, b""),
    "cue sheet of noise": block(5, bytes(range(256)) * 3),
    "picture whose lengths lie": block(6, struct.pack(">II", 3, 0xFFFF_FFFF) + b"image/png"),
    "comment whose lengths lie": block(4, struct.pack("<II", 0xFFFF_FFF0, 7) + b"vendor"),
    "comment that is no text": block(4, struct.pack("<I", 4) + b"\xff\xfe\xfd\xfc" + bytes(4)),
    "unknown kind": block(126, b"what is this"),
    "invalid kind": block(127, b"what is this"),
    "seek table of noise": block(3, bytes(range(18)) * 9),
    "a second STREAMINFO": block(0, bytes(34)),
}


@pytest.mark.parametrize("name", BAD_BLOCKS)
def test_odd_metadata_does_not_cost_the_audio(name: str) -> None:
    data = flac()
    assert not data[4] & 0x80
    odd = data[:42] + BAD_BLOCKS[name] + data[42:]
    assert gm.decode(odd).tobytes() == gm.decode(data).tobytes()


@pytest.mark.parametrize("wrong", [1, 17, 0xFF_FFFF])
@pytest.mark.parametrize("kind", [4, 6])
def test_a_wrong_block_length_does_not_cost_the_audio(wrong: int, kind: int) -> None:
    data = flac()
    body = b"\xff\xf8\xc9\x18\0\xc2 looks like a frame" * 7
    odd = data[:42] + block(kind, body, (len(body) + wrong) % (1 << 24)) + data[42:]
    whole = gm.decode(data, channels="keep")
    assert gm.decode(odd, channels="keep").tobytes() == whole.tobytes()
    crop = gm.decode(odd, channels="keep", start=20_000 / RATE, seconds=0.1)
    assert crop.tobytes() == whole[:, 20_000:24_410].tobytes()


def with_total(data: bytes, n_frames: int) -> bytes:
    odd = bytearray(data)
    odd[21] = odd[21] & 0xF0 | n_frames >> 32
    odd[22:26] = (n_frames & 0xFFFF_FFFF).to_bytes(4, "big")
    return bytes(odd)


@pytest.mark.parametrize("total", [0, 1, 4_096, RATE - 1])
def test_frames_count_and_not_the_promise(total: int) -> None:
    data = flac()
    odd = with_total(data, total)
    assert gm.probe(odd).frames == RATE
    assert gm.decode(odd).tobytes() == gm.decode(data).tobytes()


@pytest.mark.parametrize("total", [RATE + 1, 2 * RATE, (1 << 36) - 1])
def test_a_promise_that_whole_frames_contradict_is_a_note(total: int) -> None:
    """The last frame ends with the file: what was cut would end inside a frame."""
    data = flac()
    odd = with_total(data, total)
    assert gm.probe(odd).frames == RATE
    audio, report = gm.decode_with_report(odd, strict=True)
    assert audio.tobytes() == gm.decode(data).tobytes()
    assert (dict(report.damage), dict(report.notes)) == ({}, {"header_length": 1})
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(odd, strict="pedantic")
    assert caught.value.reason == "truncated"


@pytest.mark.parametrize("n_bytes", [1, 2, 100, 20_000])
def test_a_cut_is_seen_whatever_the_crop(n_bytes: int) -> None:
    data = flac()
    for total in (RATE, 0):
        odd = with_total(data, total)[:-n_bytes]
        if total:
            with pytest.raises(gm.DecodeError) as caught:
                gm.decode(odd, seconds=0.1)
            assert caught.value.reason == "truncated"
        else:
            # Nothing tells how much there was: whole frames come out, and that one was cut is told.
            assert gm.probe(odd).frames % 4_096 == 0
            _, report = gm.decode_with_report(odd, seconds=0.1)
            assert report.damage == {"partial_frame": 1}


def test_a_flipped_byte_is_an_error_where_it_is() -> None:
    data = flac()
    odd = bytearray(data)
    odd[len(data) // 2] ^= 0x10
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(bytes(odd))
    assert caught.value.reason == "corrupt_packets"
    early = gm.decode(bytes(odd), seconds=0.1)
    assert early.tobytes() == gm.decode(data, seconds=0.1).tobytes()


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        (b"ID3\x04\0\0\0\0\x02\x01" + bytes(257), b""),
        (b"ID3\x04\0\0\0\0\0\x03abcID3\x03\0\0\0\0\0\x02de", b""),
        (b"", b"TAG" + b"Some title".ljust(125)),
        (b"", b"APETAGEX" + struct.pack("<IIII", 2000, 32, 0, 0) + bytes(8)),
        (b"", bytes(1000)),
    ],
)
def test_tags_around_are_skipped(head: bytes, tail: bytes) -> None:
    data = flac()
    whole = gm.decode(data)
    for total in (RATE, 0):
        assert gm.decode(head + with_total(data, total) + tail).tobytes() == whole.tobytes()


def test_an_empty_file_has_no_frames() -> None:
    data = with_total(flac(), 0)[:42]
    empty = data[:4] + b"\x80" + data[5:]
    for strict in (True, False):
        with pytest.raises(gm.DecodeError) as caught:
            gm.decode(empty, strict=strict)
        assert caught.value.reason == "empty"
    with pytest.raises(gm.DecodeError):
        gm.probe(with_total(empty, 1))


def ogg_flac(frames: np.ndarray, *, seconds_a_page: float | None = None) -> bytes:
    av = pytest.importorskip("av")
    out = io.BytesIO()
    options = {"page_duration": str(int(seconds_a_page * 1e6))} if seconds_a_page else {}
    with av.open(out, "w", format="ogg", options=options) as file:
        layout = {1: "mono", 2: "stereo", 6: "5.1"}[frames.shape[1]]
        stream = file.add_stream("flac", rate=RATE, layout=layout)
        stream.format = "s16"
        integers = np.round(frames * 32_768).astype(np.int16).reshape(1, -1)
        pcm = av.AudioFrame.from_ndarray(integers, format="s16", layout=layout)
        pcm.rate, pcm.pts, pcm.time_base = RATE, 0, Fraction(1, RATE)
        for packet in [*stream.encode(pcm), *stream.encode()]:
            file.mux(packet)
    return out.getvalue()


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("seconds_a_page", [None, 0.01])
def test_flac_in_ogg(channels: int, seconds_a_page: float | None) -> None:
    frames = synthetic(3, RATE, channels, 11)
    data = ogg_flac(frames, seconds_a_page=seconds_a_page)
    info = gm.probe(data)
    assert (info.codec, info.channels, info.frames) == ("flac", channels, len(frames))
    whole = gm.decode(data, channels="keep")
    assert np.array_equal(whole.T * 32_768, np.round(frames * 32_768))
    rng = np.random.default_rng(12)
    for length in rng.integers(1, 5_000, 200):
        start = int(rng.integers(0, whole.shape[1] - length))
        got = gm.decode(data, channels="keep", start=start / RATE, seconds=length / RATE)
        assert got.tobytes() == whole[:, start : start + length].tobytes()


@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
def test_a_cut_of_flac_in_ogg_is_seen(part: float) -> None:
    data = ogg_flac(synthetic(1, RATE, 1, 12))
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data[: int(len(data) * part)], seconds=0.1)
    assert caught.value.reason in {"truncated", "malformed_header"}


def test_damage_of_flac_in_ogg_is_seen() -> None:
    data = bytearray(ogg_flac(synthetic(1, RATE, 1, 12), seconds_a_page=0.05))
    data[len(data) // 2] ^= 1
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(bytes(data))
    assert caught.value.reason == "corrupt_packets"


@pytest.mark.parametrize(
    ("channels", "mode", "is_refused"), [(1, "auto", False), (2, "indep", False), (2, "auto", True)]
)
def test_flac_of_32_bits(channels: int, mode: str, is_refused: bool) -> None:
    """Right to the last bit of a float, or refused by name: differences of 32 bits have 33."""
    av = pytest.importorskip("av")
    frames = synthetic(0.5, RATE, channels, 13)
    integers = np.round(frames.astype(np.float64) * 2**31).astype(np.int32)
    out = io.BytesIO()
    with av.open(out, "w", format="flac") as file:
        layout = {1: "mono", 2: "stereo"}[channels]
        options = {"bits_per_raw_sample": "32", "strict": "experimental", "ch_mode": mode}
        stream = file.add_stream("flac", rate=RATE, layout=layout, options=options)
        stream.format = "s32"
        pcm = av.AudioFrame.from_ndarray(integers.reshape(1, -1), format="s32", layout=layout)
        pcm.rate, pcm.pts, pcm.time_base = RATE, 0, Fraction(1, RATE)
        for packet in [*stream.encode(pcm), *stream.encode()]:
            file.mux(packet)
    data = out.getvalue()
    assert stream_info(data)[0] == 32
    if is_refused:
        with pytest.raises(gm.UnsupportedCodecError, match="FLAC of 32 bits"):
            gm.decode(data)
    else:
        got = gm.decode(data, channels="keep").T
        assert np.array_equal(got, integers.astype(np.float32) / 2**31)


@pytest.mark.parametrize("second_s", [3.0, 5.0])
@pytest.mark.parametrize("is_counted", [True, False])
def test_of_joined_files_no_crop_is_the_second_ones(second_s: float, is_counted: bool) -> None:
    """Frames are found by their numbers, which begin anew in the second file."""
    first, second = (
        encode(synthetic(seconds, RATE, seed=k), RATE, "flac16")
        for k, seconds in enumerate((3.0, second_s))
    )
    data = bytearray(first + second)
    if not is_counted:
        at = data.index(b"fLaC") + 21
        data[at] &= 0xF0
        data[at + 1 : at + 5] = bytes(4)
    joined, alone = bytes(data), gm.decode(first)
    with pytest.raises(gm.DecodeError):
        gm.decode(joined)
    whole, report = gm.decode_with_report(joined)
    assert report.damage
    n_whole = 2 * RATE
    assert np.array_equal(whole[:n_whole], alone[:n_whole])
    for start_s in (0.5, 1.0, 1.7):
        with pytest.raises(gm.DecodeError):
            gm.decode(joined, start=start_s, seconds=0.2)
        crop, report = gm.decode_with_report(joined, start=start_s, seconds=0.2)
        assert report.damage
        begin = round(start_s * RATE)
        assert np.array_equal(crop, alone[begin : begin + len(crop)])
