"""Junk between pages is junk, missing packets are missing, and a false time is no hole."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import av
import numpy as np
import pytest

import gristmill as gm
from av_files import remux, write
from ogg_files import join, pages_of
from signals import encode, synthetic

SECONDS = 4
SOUND = synthetic(SECONDS, 48_000, 1)


def vorbis_ogg() -> bytes:
    return encode(SOUND, 48_000, "vorbis")


def flac_ogg() -> bytes:
    return write(SOUND, 48_000, "ogg", "flac", sample_format="s16", bit_rate=None)


def opus_ogg() -> bytes:
    return write(SOUND, 48_000, "ogg", "libopus")


def with_junk(data: bytes, junk: bytes = bytes(100)) -> tuple[bytes, int]:
    """Junk before a page in the middle, and where it begins."""
    pages = pages_of(data)
    before, behind = join(pages[: len(pages) // 2 + 1]), join(pages[len(pages) // 2 + 1 :])
    assert len(pages) >= 4
    return before + junk + behind, len(before)


def assert_junk(data: bytes, at: int, good: bytes) -> None:
    """There is junk from this byte on, which is a note, and the sound is that of `good`."""
    with pytest.raises(gm.DecodeError, match=f"no audio, .* from byte {at} on") as caught:
        gm.decode(data, strict="pedantic")
    assert caught.value.reason == "junk"
    for strict in (True, False):
        audio, report = gm.decode_with_report(data, strict=strict)
        assert (dict(report.damage), dict(report.notes)) == ({}, {"junk": 1})
        assert audio.tobytes() == gm.decode(good).tobytes()


@pytest.mark.parametrize("make", [vorbis_ogg, opus_ogg, flac_ogg])
@pytest.mark.parametrize("junk", [bytes(100), b"x", b"OggX" * 9], ids=["zeros", "one", "nearly"])
def test_junk_between_pages_is_junk(make: object, junk: bytes) -> None:
    assert callable(make)
    good = make()
    data, at = with_junk(good, junk)
    assert_junk(data, at, good)


def test_junk_between_the_links_of_a_chain_is_junk() -> None:
    good = vorbis_ogg()
    data = good + bytes(50) + good
    assert_junk(data, len(good), good + good)


def test_what_is_left_of_a_page_is_no_junk() -> None:
    """A page that is lost is lost, whatever lies in its place."""
    pages = pages_of(vorbis_ogg())
    middle = len(pages) // 2
    data = join(pages[:middle]) + bytes(300) + join(pages[middle + 1 :])
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data)
    assert caught.value.reason == "corrupt_packets"
    _, report = gm.decode_with_report(data)
    assert report.damage["lost_pages"] == 1
    assert "junk" not in report.damage


def without(data: bytes, *drop: int) -> bytes:
    """The packets of a file in WebM, some of them left out."""
    out = io.BytesIO()
    with (
        av.open(io.BytesIO(data)) as source,
        av.open(out, "w", format="webm", options={"cluster_time_limit": "500"}) as file,
    ):
        stream = file.add_stream_from_template(source.streams.audio[0])
        for i, packet in enumerate(source.demux(source.streams.audio[0])):
            if packet.dts is None or i in drop:
                continue
            packet.stream = stream
            file.mux(packet)
    return out.getvalue()


def patched_times(data: bytes, change: dict[int, int]) -> bytes:
    """The i-th SimpleBlock at so many milliseconds from its cluster."""
    out, at, i = bytearray(data), 0, 0
    while (at := data.find(b"\xa3", at)) >= 0:
        width = 9 - data[at + 1].bit_length()
        body = at + 1 + width
        if data[body] == 0x81 and data[body + 3] == 0x80 and 1 <= width <= 2:
            if i in change:
                out[body + 1 : body + 3] = change[i].to_bytes(2, "big", signed=True)
            i += 1
            at = body
        at += 1
    assert i > max(change), i
    return bytes(out)


def times_of(data: bytes) -> list[int]:
    with av.open(io.BytesIO(data)) as file:
        return [p.pts for p in file.demux(audio=0) if p.pts is not None]


CLICKS = np.zeros((2 * 48_000, 1), np.float32)
CLICKS[4_000::9_000] = 0.7  # Vorbis takes short blocks for them


@pytest.mark.parametrize("step", [50, 100, 200])
def test_coarse_times_of_vorbis_are_no_holes(step: int) -> None:
    """Blocks share a time, which is right, or ahead by up to a step."""
    ogg = encode(CLICKS, 48_000, "vorbis")
    plain = remux(ogg, "webm")
    whole = gm.decode(plain)
    times = times_of(plain)
    coarse = {i: -(-t // step) * step for i, t in enumerate(times[:-2])}
    data = patched_times(plain, coarse)
    assert times_of(data) == [*coarse.values(), *times[-2:]] != times
    audio, report = gm.decode_with_report(data)
    assert (dict(report.damage), report.frames_missing) == ({}, 0)
    assert audio.tobytes() == whole.tobytes() == gm.decode(data).tobytes()


S16: dict[str, Any] = {"sample_format": "s16", "bit_rate": None}
IN_MATROSKA: dict[str, Callable[[], bytes]] = {
    "vorbis": lambda: remux(encode(CLICKS, 48_000, "vorbis"), "matroska"),
    "opus": lambda: write(SOUND, 48_000, "matroska", "libopus"),
    "pcm": lambda: write(SOUND, 48_000, "matroska", "pcm_s16le", **S16),
}


@pytest.mark.parametrize("codec", IN_MATROSKA)
@pytest.mark.parametrize("step", [50, 100, 200])
def test_coarse_times_up_to_the_end_are_no_holes(codec: str, step: int) -> None:
    """No later time confirms the last ones; the length of the segment has no room for a gap."""
    plain = IN_MATROSKA[codec]()
    whole = gm.decode(plain)
    times = times_of(plain)
    # A last block with padding is no SimpleBlock, and keeps its time.
    n = len(times) - (codec in ("vorbis", "opus"))
    coarse = {i: -(-max(t, 0) // step) * step for i, t in enumerate(times[:n])}
    data = patched_times(plain, coarse)
    audio, report = gm.decode_with_report(data)
    assert (dict(report.damage), report.frames_missing) == ({}, 0)
    assert audio.tobytes() == whole.tobytes() == gm.decode(data).tobytes()


@pytest.mark.parametrize("junk", [bytes(100), b"\xff" * 50], ids=["zeros", "ones"])
def test_junk_between_clusters_is_junk(junk: bytes) -> None:
    good = write(SOUND, 48_000, "matroska", "flac", flags={"cluster_time_limit": "500"}, **S16)
    at = -1
    for _ in range(4):
        at = good.index(b"\x1f\x43\xb6\x75", at + 1)
    # Times show no gap there, so nothing is missing.
    assert_junk(good[:at] + junk + good[at:], at, good)


@pytest.mark.parametrize("codec", ["libopus", "vorbis"])
@pytest.mark.parametrize("milliseconds", [32_000, -32_000, 900])
def test_a_false_time_adds_nothing(codec: str, milliseconds: int) -> None:
    data = write(SOUND, 48_000, "webm", codec) if codec != "vorbis" else remux(vorbis_ogg(), "webm")
    whole = gm.decode(data)
    for i in (3, 20, 60):
        bad = patched_times(data, {i: milliseconds})
        assert bad != data
        audio, report = gm.decode_with_report(bad)
        assert report.frames_missing == 0
        assert audio.tobytes() == whole.tobytes()
        assert gm.decode(bad).tobytes() == whole.tobytes()


def test_a_false_time_of_a_cluster_adds_nothing() -> None:
    data = write(SOUND, 48_000, "webm", "libopus", flags={"cluster_time_limit": "500"})
    whole = gm.decode(data)
    clusters = [at for at in range(len(data)) if data.startswith(b"\x1f\x43\xb6\x75", at)]
    assert len(clusters) >= 5
    for cluster in (clusters[2], clusters[-1]):
        at = data.index(b"\xe7", cluster)
        width = data[at + 1] & 0x7F
        bad = data[: at + 2] + b"\x7f" * width + data[at + 2 + width :]
        audio, report = gm.decode_with_report(bad)
        assert (report.frames_missing, len(audio)) == (0, len(whole))
        assert audio.tobytes() == whole.tobytes()


@pytest.mark.parametrize("drop", [(50,), (50, 51, 52), (40, 80)])
def test_a_hole_in_opus_is_missing_packets(drop: tuple[int, ...]) -> None:
    ogg = opus_ogg()
    data, plain = without(ogg, *drop), without(ogg)
    n_places = 1 + sum(b - a > 1 for a, b in itertools.pairwise(drop))
    with pytest.raises(gm.DecodeError, match=f"missing in {n_places} places") as caught:
        gm.decode(data)
    assert caught.value.reason == "lost_packets"
    audio, report = gm.decode_with_report(data)
    assert dict(report.damage) == {"lost_packets": n_places, "gaps": n_places}
    assert report.frames_missing == 960 * len(drop)
    assert len(audio) == len(gm.decode(plain))
    np.testing.assert_allclose(audio[-48_000:], gm.decode(plain)[-48_000:], atol=1e-3)


FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "200000"}


@pytest.mark.parametrize("time", [2**31, 0])
def test_a_false_time_of_a_fragment_adds_nothing(time: int) -> None:
    data = write(SOUND, 48_000, "mp4", "aac", flags=FRAGMENTED)
    whole = gm.decode(data)
    places = [at for at in range(len(data)) if data.startswith(b"tfdt", at)]
    assert len(places) >= 10
    for at in (places[3], places[-2]):
        width = 8 if data[at + 4] == 1 else 4
        bad = data[: at + 8] + time.to_bytes(width, "big") + data[at + 8 + width :]
        audio, report = gm.decode_with_report(bad)
        assert dict(report.damage) == {}
        assert audio.tobytes() == whole.tobytes() == gm.decode(bad).tobytes()


def test_a_missing_fragment_is_missing_packets() -> None:
    data = write(SOUND, 48_000, "mp4", "aac", flags=FRAGMENTED)
    starts = [at - 4 for at in range(len(data)) if data.startswith(b"moof", at)]
    bad = data[: starts[5]] + data[starts[6] :]
    with pytest.raises(gm.DecodeError, match="missing in 1 places") as caught:
        gm.decode(bad)
    assert caught.value.reason == "lost_packets"
    audio, report = gm.decode_with_report(bad)
    assert report.damage["lost_packets"] == 1
    assert len(audio) == len(gm.decode(data))
