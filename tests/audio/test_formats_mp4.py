"""AAC and ALAC, and what is in MP4, ADTS and Matroska, compared with FFmpeg."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import gristmill as gm
from av_files import quantized, read, remux, write
from rounds import rounds
from signals import synthetic
from test_crops import assert_crops_are_slices

SECONDS = 3.3
EXACT = {"aac_pns": "0"}  # without noise substitution a crop has the bits of the slice
FRAGMENTS = {"movflags": "frag_keyframe+delay_moov", "frag_duration": "500000"}
EMPTY_MOOV = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "300000"}

# name -> rate, channels, arguments of write()
AAC = {
    "m4a": (44_100, 2, {"container": "ipod", "options": EXACT}),
    "m4a mono": (32_000, 1, {"container": "ipod", "options": EXACT}),
    "quicktime": (48_000, 2, {"container": "mov", "options": EXACT}),
    "fragmented": (22_050, 2, {"container": "mp4", "options": EXACT, "flags": FRAGMENTS}),
    "empty moov": (44_100, 1, {"container": "mp4", "options": EXACT, "flags": EMPTY_MOOV}),
    "adts": (16_000, 2, {"container": "adts", "options": EXACT}),
    "adts mono": (48_000, 1, {"container": "adts", "options": EXACT}),
    "matroska": (44_100, 2, {"container": "matroska", "options": EXACT}),
}
ALAC_16 = {"codec": "alac", "sample_format": "s16p", "bit_rate": None}
ALAC_24 = {"codec": "alac", "sample_format": "s32p", "bit_rate": None}
FLAC = {"codec": "flac", "sample_format": "s16", "bit_rate": None}
LOSSLESS = {
    "alac": (44_100, 2, 16, {"container": "ipod", **ALAC_16}),
    "alac 24": (48_000, 1, 24, {"container": "ipod", **ALAC_24}),
    "alac in quicktime": (22_050, 2, 16, {"container": "mov", **ALAC_16}),
    "alac in fragments": (44_100, 2, 16, {"container": "mp4", "flags": EMPTY_MOOV, **ALAC_16}),
    "alac in matroska": (32_000, 2, 16, {"container": "matroska", **ALAC_16}),
    "flac in mp4": (44_100, 2, 16, {"container": "mp4", **FLAC}),
    "flac in matroska": (48_000, 1, 16, {"container": "matroska", **FLAC}),
    "pcm in matroska": (
        44_100,
        2,
        16,
        {"container": "matroska", "codec": "pcm_s16le", "sample_format": "s16", "bit_rate": None},
    ),
    "big-endian pcm in matroska": (
        44_100,
        2,
        16,
        {"container": "matroska", "codec": "pcm_s16be", "sample_format": "s16", "bit_rate": None},
    ),
}
OTHERS = {
    "mp3 in matroska": (44_100, 2, "mp3", {"codec": "libmp3lame"}),
    "vorbis in matroska": (44_100, 2, "vorbis", {"codec": "vorbis", "options": {"strict": "-2"}}),
}


def aac(name: str) -> tuple[bytes, int, int]:
    """The file, its rate and the frames that were encoded."""
    rate, channels, arguments = AAC[name]
    frames = synthetic(SECONDS, rate, channels, seed=3)
    return write(frames, rate, codec="aac", **arguments), rate, len(frames)


def lossless(name: str) -> tuple[bytes, int, np.ndarray]:
    """The file, its rate and the frames that it holds, (channels, frames)."""
    rate, channels, bits, arguments = LOSSLESS[name]
    frames = quantized(synthetic(SECONDS, rate, channels, seed=4), bits)
    return write(frames, rate, **arguments), rate, frames.T


@pytest.mark.parametrize("name", AAC)
def test_aac_equals_ffmpeg(name: str) -> None:
    data, rate, n_encoded = aac(name)
    info = gm.probe(data)
    ours, theirs = gm.decode(data, channels="keep"), read(data)
    assert (info.codec, info.sample_rate, info.channels) == ("aac", rate, AAC[name][1])
    assert ours.shape[-1] == info.frames
    n = min(ours.shape[-1], theirs.shape[-1])
    assert np.abs(ours[:, :n] - theirs[:, :n]).max() <= 1e-5
    # FFmpeg's decoder keeps what the encoder added to fill the last packet.
    assert 0 <= theirs.shape[-1] - ours.shape[-1] < 1_024
    if name in {"m4a", "m4a mono", "quicktime", "fragmented"}:
        assert ours.shape[-1] == n_encoded


@pytest.mark.parametrize("name", AAC)
def test_crops_of_aac_are_slices(name: str) -> None:
    data, rate, _ = aac(name)
    rng = np.random.default_rng(11)
    assert_crops_are_slices(data, rate, None, "keep", rng, rounds(500, 150))
    assert_crops_are_slices(data, rate, 24_000, "mono", rng, rounds(200, 60))


def test_crops_with_noise_substitution_differ_by_the_noise_alone() -> None:
    frames = synthetic(SECONDS, 44_100, 2, seed=5)
    data = write(frames, 44_100, "ipod", "aac")
    whole = gm.decode(data, channels="keep")
    assert whole.tobytes() == gm.decode(data, channels="keep").tobytes()
    for start in (0, 5_000, 70_001):
        part = gm.decode(data, channels="keep", start=start / 44_100, seconds=0.5)
        slice_ = whole[:, start : start + part.shape[1]]
        assert np.abs(part - slice_).max() < 0.3
        ratio = np.square(part).sum() / np.square(slice_).sum()
        assert 0.98 < ratio < 1.02
        again = gm.decode(data, channels="keep", start=start / 44_100, seconds=0.5)
        assert part.tobytes() == again.tobytes()


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_is_exact(name: str) -> None:
    data, rate, frames = lossless(name)
    ours = gm.decode(data, channels="keep")
    assert ours.shape == frames.shape
    assert ours.tobytes() == np.ascontiguousarray(frames).tobytes()
    assert ours.tobytes() == read(data).tobytes()
    info = gm.probe(data)
    codec = name.split(maxsplit=1)[0] if "pcm" not in name else "wav"
    assert (info.codec, info.sample_rate, info.frames) == (codec, rate, frames.shape[1])


@pytest.mark.parametrize("name", LOSSLESS)
def test_crops_of_lossless_are_slices(name: str) -> None:
    data, rate, _ = lossless(name)
    rng = np.random.default_rng(12)
    assert_crops_are_slices(data, rate, None, "keep", rng, rounds(500, 150))
    assert_crops_are_slices(data, rate, 24_000, "mono", rng, 100)


def test_alac_of_six_channels() -> None:
    frames = quantized(synthetic(1.0, 48_000, 6, seed=6), 16)
    data = write(frames, 48_000, "ipod", **ALAC_16)
    assert gm.decode(data, channels="keep").tobytes() == read(data).tobytes()


@pytest.mark.parametrize("name", OTHERS)
def test_other_codecs_in_matroska(name: str) -> None:
    rate, channels, codec, arguments = OTHERS[name]
    data = write(synthetic(SECONDS, rate, channels, seed=7), rate, "matroska", **arguments)
    assert gm.probe(data).codec == codec
    ours, theirs = gm.decode(data, channels="keep"), read(data)
    n = min(ours.shape[-1], theirs.shape[-1])
    assert ours.shape[-1] == gm.probe(data).frames
    assert abs(ours.shape[-1] - theirs.shape[-1]) <= 1
    assert np.abs(ours[:, :n] - theirs[:, :n]).max() <= 1e-5
    assert_crops_are_slices(data, rate, None, "keep", np.random.default_rng(13), 200)


def atom(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body) + 8) + kind + body


def tagged(data: bytes, delay: int, n_frames: int) -> bytes:
    """An M4A file whose edit list is hidden, with iTunes's tag instead."""
    text = f" 00000000 {delay:08X} 00000000 {n_frames:016X}".encode()
    item = atom(b"mean", b"\0\0\0\0com.apple.iTunes") + atom(b"name", b"\0\0\0\0iTunSMPB")
    item += atom(b"data", struct.pack(">II", 1, 0) + text)
    meta = atom(b"meta", b"\0\0\0\0" + atom(b"ilst", atom(b"----", item)))
    more = atom(b"udta", meta)
    data = data.replace(b"edts", b"free").replace(b"udta", b"free")
    at = data.index(b"moov") - 4
    (size,) = struct.unpack_from(">I", data, at)
    assert at + size == len(data)  # the tables stand at the end: their offsets stay right
    return data[:at] + struct.pack(">I", size + len(more)) + data[at + 4 :] + more


def test_the_tag_of_itunes_trims() -> None:
    data, rate, n_encoded = aac("m4a")
    whole = gm.decode(data, channels="keep")
    untrimmed = gm.decode(data.replace(b"edts", b"free"), channels="keep")
    assert untrimmed.shape[1] == n_encoded + 1_024
    assert untrimmed[:, 1_024:].tobytes() == whole.tobytes()
    made = tagged(data, 1_024, n_encoded - 100)
    assert gm.probe(made).frames == n_encoded - 100
    assert gm.decode(made, channels="keep").tobytes() == whole[:, :-100].tobytes()
    assert gm.probe(made).sample_rate == rate


def reason(data: bytes) -> tuple[str, str]:
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data)
    return caught.value.reason, str(caught.value)


def patched_config(data: bytes, config: bytes) -> bytes:
    """The file with another AudioSpecificConfig, in the room of FFmpeg's five bytes."""
    tag = b"\x05\x80\x80\x80\x05"
    at = data.index(tag) + len(tag)
    return data[:at] + config.ljust(5, b"\0") + data[at + 5 :]


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (b"\x2b\x92\x08\x00", "HE-AAC"),
        (b"\xeb\x8a\x08\x00", "HE-AAC v2"),
        (b"\x13\x90\x56\xe5\xa0", "HE-AAC"),
        (b"\xf9\x48\x40\x00", "xHE-AAC"),
        (b"\x0a\x10", "AAC Main"),
        (b"\x12\x30", "AAC of 6 channels"),
    ],
)
def test_relatives_of_aac_are_refused_by_name(config: bytes, name: str) -> None:
    key, message = reason(patched_config(aac("m4a")[0], config))
    assert key == "unsupported_codec"
    assert name in message


@pytest.mark.parametrize(
    ("kind", "name"),
    [(b"enca", "encrypted"), (b"drms", "FairPlay"), (b"ac-3", "AC-3"), (b"samr", "AMR")],
)
def test_other_tracks_are_refused_by_name(kind: bytes, name: str) -> None:
    data = aac("m4a")[0]
    key, message = reason(data.replace(b"mp4a", kind))
    assert key == "unsupported_codec"
    assert name in message


SBR = [(6, 3), (6, 4), (13, 4), (0x5A5A5A5A5A5, 44)]
"""A fill element of 6 bytes, of the kind 13."""
END = [(7, 3)]
ENDINGS = {
    "alone": SBR + END,
    "with a checksum": [(6, 3), (2, 4), (14, 4), (0x123, 12), *END],
    "before filling": [*SBR, *[(6, 3), (15, 4), (100, 8), (0, 4), (0, 908)] * 3, *END],
    "behind filling": [(6, 3), (1, 4), (0, 8), *SBR, *END],
    "before data": [*SBR, (4, 3), (0, 4), (0, 1), (2, 8), (0xABCD, 16), *END],
    "before ones": [*SBR, *END, (0x3F, 6)],
}


def with_band_replication(data: bytes, fields: list[tuple[int, int]]) -> bytes:
    """An ADTS file whose packets end in what claims to be band replication."""
    out, at = [], 0
    while at < len(data):
        length = (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
        body = int.from_bytes(data[at + 7 : at + length], "big")
        n = 8 * (length - 7)
        zeros = (body & -body).bit_length() - 1  # behind the three ones that end a packet
        body, n = body >> (zeros + 3), n - zeros - 3
        for value, bits in fields:
            body, n = body << bits | value, n + bits
        body, n = body << -n % 8, n + -n % 8
        length = n // 8 + 7
        head = bytearray(data[at : at + 7])
        head[3] = head[3] & 0xFC | length >> 11
        head[4], head[5] = length >> 3 & 0xFF, head[5] & 0x1F | (length & 7) << 5
        out.append(bytes(head) + body.to_bytes(n // 8, "big"))
        at += (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
    return b"".join(out)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["adts", "adts mono"])
def test_band_replication_without_a_mark_is_found(name: str, ending: str) -> None:
    data = with_band_replication(aac(name)[0], ENDINGS[ending])
    assert read(data).size  # to FFmpeg it is sound
    for marked in (data, remux(data, "matroska"), remux(data, "mp4")):
        key, message = reason(marked)
        assert (key, "HE-AAC" in message) == ("unsupported_codec", True)


def test_other_elements_behind_the_channels_change_nothing() -> None:
    """The same with fill elements of another kind: the samples of the file without them."""
    plain = aac("adts mono")[0]
    for fields in ENDINGS.values():
        others = [(0, 4) if field in {(13, 4), (14, 4)} else field for field in fields]
        filled = with_band_replication(plain, others)
        assert gm.decode(filled).tobytes() == gm.decode(plain).tobytes()


def test_noise_is_not_taken_for_band_replication() -> None:
    rng = np.random.default_rng(14)
    for rate, channels, bit_rate in [
        (24_000, 1, 24_000),
        (22_050, 2, 64_000),
        (48_000, 2, 256_000),
    ]:
        noise = (0.3 * rng.standard_normal((2 * rate, channels))).clip(-1, 1).astype(np.float32)
        data = write(noise, rate, "adts", "aac", bit_rate=bit_rate)
        assert gm.decode(data, channels="keep").shape == read(data).shape


WHOLE = {**dict.fromkeys(AAC, aac), **dict.fromkeys(LOSSLESS, lossless)}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
def test_half_a_file_is_never_whole(name: str, part: float) -> None:
    data = WHOLE[name](name)[0]
    key, message = reason(data[: int(part * len(data))])
    assert key in {"truncated", "malformed_header", "unknown_format"}, message


@pytest.mark.parametrize("name", ["alac", "flac in matroska", "flac in mp4", "adts", "matroska"])
def test_a_hole_is_seen(name: str) -> None:
    data = bytearray(WHOLE[name](name)[0])
    middle = len(data) // 2
    # ALAC has no checksum: zeros within one of its large packets are samples to a decoder.
    size = 24_576 if name == "alac" else 2_048
    data[middle : middle + size] = bytes(size)
    key, _ = reason(bytes(data))
    assert key in {"corrupt_packets", "malformed_header", "truncated"}


@pytest.mark.parametrize("name", WHOLE)
def test_flipped_bytes_end_in_frames_or_a_reason(name: str) -> None:
    data = WHOLE[name](name)[0]
    frames = gm.probe(data).frames
    rng = np.random.default_rng(15)
    for _ in range(60):
        bad = bytearray(data)
        for at in rng.integers(0, len(data), 20):
            bad[at] = rng.integers(256)
        try:
            n_found = gm.decode(bytes(bad), channels="keep").shape[-1]
        except gm.GristmillError as error:
            panicked = getattr(error, "reason", None) == "decoder_panic"
            n_found = 0
        else:
            panicked = False
        assert not panicked
        assert n_found <= 2 * frames
