"""Ogg itself: chains, streams side by side, pages without a granule, damage."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

import gristmill as gm
from ogg_files import (
    FIRST,
    LAST,
    NO_GRANULE,
    VORBIS_ORDER,
    Page,
    changed,
    join,
    opus,
    pages_of,
    reason,
    replace,
    whole,
)
from signals import encode, synthetic

RATE = 32_000


def vorbis(seconds: float, rate: int = RATE, channels: int = 1, seed: int = 0) -> bytes:
    return encode(synthetic(seconds, rate, channels, seed), rate, "vorbis")


def side_by_side(data: bytes, serial: int, *, head: bytes, other_first: bool) -> bytes:
    """The stream with pages of a stream of another kind between its own."""
    mine = pages_of(data)
    first = Page(FIRST, 0, serial, 0, bytes([len(head)]), head)
    out = [first, mine[0]] if other_first else [mine[0], first]
    for i, page in enumerate(mine[1:], 1):
        out += [page, Page(0, i, serial, i, b"\xc8\x64", bytes(300))]
    out.append(Page(LAST, len(mine), serial, len(mine), b"\x10", bytes(16)))
    return join(out)


@pytest.mark.parametrize("n_links", [2, 3])
def test_a_chain_plays_as_one(n_links: int) -> None:
    links = [vorbis(1 + i / 3, seed=i) for i in range(n_links)]
    chain = b"".join(links)
    expected = np.concatenate([whole(link) for link in links], axis=1)
    assert gm.probe(chain).frames == expected.shape[1]
    np.testing.assert_array_equal(whole(chain), expected)
    rng = np.random.default_rng(5)
    for _ in range(200):
        n = int(rng.integers(1, 20_000))
        start = int(rng.integers(0, expected.shape[1] - n))
        crop = gm.decode(chain, channels="keep", start=start / RATE, seconds=n / RATE)
        np.testing.assert_array_equal(crop, expected[:, start : start + n])


def test_a_chain_may_keep_its_serial_number() -> None:
    first, second = vorbis(1, seed=1), vorbis(1, seed=2)
    serial = pages_of(first)[0].serial
    second = join([replace(page, serial=serial) for page in pages_of(second)])
    assert whole(first + second).shape == (1, 2 * RATE)


@pytest.mark.parametrize(
    "other",
    [vorbis(1, rate=44_100), vorbis(1, channels=2), opus(synthetic(1, 48_000))],
    ids=["rate", "channels", "codec"],
)
def test_a_chain_that_changes_is_reported(other: bytes) -> None:
    assert reason(vorbis(1) + other) == "params_changed"


def test_a_chain_with_a_bad_link_is_reported() -> None:
    first, second = vorbis(1, seed=1), vorbis(2, seed=2)
    assert reason(first + second[:-200]) == "truncated"
    assert reason(first + second[:3]) == "truncated"
    # A link without the mark of its end, and junk between links, are notes.
    unmarked = join(pages_of(first)[:-1])
    whole_links = [whole(unmarked), whole(second)]
    np.testing.assert_array_equal(whole(unmarked + second), np.concatenate(whole_links, axis=1))
    np.testing.assert_array_equal(whole(first + bytes(100) + second), whole(first + second))
    # What follows the last link is not ours.
    np.testing.assert_array_equal(whole(first + bytes(100)), whole(first))


@pytest.mark.parametrize("other_first", [True, False])
@pytest.mark.parametrize("head", [b"\x80theora\x03\x02\x01", b"fishead\0", b"Speex   1.2"])
@pytest.mark.parametrize("codec", ["vorbis", "opus"])
def test_streams_beside_it_are_passed_over(codec: str, head: bytes, other_first: bool) -> None:
    data = vorbis(2) if codec == "vorbis" else opus(synthetic(2, 48_000))
    both = side_by_side(data, 77, head=head, other_first=other_first)
    assert gm.probe(both).codec == codec
    np.testing.assert_array_equal(whole(both), whole(data))
    crop = gm.decode(both, channels="keep", start=1.25, seconds=0.25)
    np.testing.assert_array_equal(crop, gm.decode(data, channels="keep", start=1.25, seconds=0.25))
    np.testing.assert_array_equal(whole(both + both), np.tile(whole(data), 2))


def test_pages_may_lack_a_granule() -> None:
    data = vorbis(3)
    pages = pages_of(data)
    expected = whole(data)
    for index in range(2, len(pages) - 1):
        bare = changed(data, index, granule=NO_GRANULE)
        np.testing.assert_array_equal(whole(bare), expected)
        crop = gm.decode(bare, channels="keep", start=1.5, seconds=0.5)
        np.testing.assert_array_equal(crop, expected[:, 48_000:64_000])


def test_a_last_page_without_a_granule_is_played_to_its_end() -> None:
    data = vorbis(3)
    ours = whole(changed(data, -1, granule=NO_GRANULE))
    assert 3 * RATE <= ours.shape[1] < 3 * RATE + 4096
    np.testing.assert_array_equal(ours[:, : 3 * RATE], whole(data))


def test_no_end_of_stream_is_a_note() -> None:
    data = vorbis(3)
    last = pages_of(data)[-1]
    for unmarked in (changed(data, -1, flags=last.flags & ~LAST), join(pages_of(data)[:-1])):
        report = gm.decode_with_report(unmarked, strict=True)[1]
        assert (dict(report.damage), dict(report.notes)) == ({}, {"end_mark": 1})
        with pytest.raises(gm.DecodeError) as caught:
            gm.decode(unmarked, strict="pedantic")
        assert caught.value.reason == "truncated"


@pytest.mark.parametrize("channels", [3, 4, 5, 6, 7, 8])
def test_surround_is_in_the_order_of_wav(channels: int) -> None:
    data = vorbis(1, channels=channels)
    # libsndfile leaves them in the order of Vorbis, FFmpeg does not.
    theirs = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T
    theirs = theirs[VORBIS_ORDER[channels]]
    np.testing.assert_allclose(whole(data), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("codec", [b"\x7fFLAC", b"Speex   ", b"\x80theora", b"other"])
def test_other_codecs_alone_are_refused(codec: bytes) -> None:
    page = Page(FIRST, 0, 1, 0, b"\x40", codec.ljust(64, b"\0"))
    with pytest.raises(gm.DecodeError):
        gm.probe(page.pack())
