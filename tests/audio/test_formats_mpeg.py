"""MPEG audio of layers I to III: the standard's test streams, and layer II as FFmpeg writes it."""

from __future__ import annotations

import contextlib
import io
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import soundfile

import gristmill as gm
from ogg_files import av, decode_av
from signals import CORPUS, synthetic

VECTORS = sorted((CORPUS / "mp3").glob("*.bit"))

CUT = "the reference begins after frames that lack their bit reservoir, which are silent here"
RINGING = "the reference goes on with what rings in its filter, and with zeros"
HIGHEST = "intensity stereo of MPEG-2, whose highest numbers the reference takes for no position"
ONE_MORE = "the reference leaves out the last frame"
FREE = "a free bit rate is refused by name"

# name -> why the lengths differ; up to the end of the shorter one they are equal
OTHER_LENGTH = {
    **dict.fromkeys(["l1-fl2", "l1-fl4", "l1-fl6", "l1-fl8"], RINGING),
    **dict.fromkeys(["l2-fl11", "l2-fl13", "l2-fl15"], RINGING),
    **dict.fromkeys(["l3-he_44khz", "l3-hecommon"], ONE_MORE),
    "l3-si_block": ONE_MORE,
}
# name -> what comes instead, and why
REFUSED = {
    "l2-nonstandard-fl1_fl2_ff": ("unsupported_codec", FREE),
    "l3-he_free": ("unsupported_codec", FREE),
    "l2-nonstandard-test32-size": (
        "corrupt_packets",
        "a frame promises more samples than it has bits for; the reference makes them up",
    ),
    "l3-nonstandard-compl-sideinfo-blocktype": ("corrupt_packets", "an invalid type of block"),
    "l3-nonstandard-he_44_48khz": ("params_changed", "a quarter of it is of another rate"),
    "l3-nonstandard-vbrtag-oob-read": (
        "truncated",
        "one frame of noise whose tag promises hundreds; the reference ignores the tag",
    ),
}
# name -> why our decode is not the reference
DIFFERS = {
    "l3-sin1k0db": CUT,
    "l3-test46": HIGHEST,
}


def mp2(frames: np.ndarray, rate: int, bit_rate: int) -> bytes:
    out = io.BytesIO()
    channels = frames.shape[1]
    layout = {1: "mono", 2: "stereo"}[channels]
    with av.open(out, "w", format="mp2") as container:
        stream = container.add_stream("mp2", rate=rate, layout=layout)
        stream.bit_rate = bit_rate
        packed = (frames * 32_767).astype(np.int16).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, format="s16", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return out.getvalue()


RATES = {16_000: 64, 22_050: 64, 24_000: 96, 32_000: 128, 44_100: 192, 48_000: 256}


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", RATES)
def test_layer_2_equals_both_decoders(rate: int, channels: int) -> None:
    data = mp2(synthetic(2, rate, channels), rate, RATES[rate] * 1000 * channels // 2)
    info = gm.probe(data)
    assert (info.codec, info.sample_rate, info.channels) == ("mp2", rate, channels)
    ours = gm.decode(data, channels="keep")
    assert ours.shape[1] == info.frames
    sndfile = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T
    ffmpeg = decode_av(data, "mp2float")
    for theirs in (sndfile, ffmpeg):
        assert theirs.shape == ours.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kbits", [32, 48, 56, 80])
def test_low_rates_of_layer_2_in_stereo_are_refused_by_name(kbits: int) -> None:
    data = mp2(synthetic(1, 22_050, 2), 22_050, kbits * 1000)
    with pytest.raises(gm.UnsupportedCodecError, match=f"layer II in stereo at {kbits}"):
        gm.probe(data)


def assert_crops_equal_slices(data: bytes, n_crops: int) -> None:
    whole = gm.decode(data, channels="keep")
    rate = gm.probe(data).sample_rate
    rng = np.random.default_rng(2)
    for _ in range(n_crops):
        n = int(rng.integers(1, min(5_000, whole.shape[1])))
        start = int(rng.integers(0, whole.shape[1] - n + 1))
        crop = gm.decode(data, channels="keep", start=start / rate, seconds=n / rate)
        np.testing.assert_array_equal(crop, whole[:, start : start + n])


@pytest.mark.parametrize(("rate", "channels"), [(24_000, 1), (44_100, 2)])
def test_crops_of_layer_2_equal_slices(rate: int, channels: int) -> None:
    assert_crops_equal_slices(mp2(synthetic(3, rate, channels), rate, 128_000), 300)


def test_damage_is_seen() -> None:
    data = mp2(synthetic(2, 44_100, 2), 44_100, 192_000)
    torn = data[:20_000] + bytes(2_000) + data[22_000:]
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(torn)
    assert (caught.value.codec, caught.value.reason) == ("mp2", "corrupt_packets")
    mono = mp2(synthetic(1, 44_100), 44_100, 96_000)
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data + mono)
    assert caught.value.reason == "params_changed"


def worst_difference(ours: np.ndarray, reference: np.ndarray) -> float:
    n = min(len(ours), len(reference))
    ours, reference = ours[:n], reference[:n]
    # A clipped reference says no more than the sign.
    is_clipped = (np.abs(reference) >= 32_767) & (ours * np.sign(reference) >= 32_766)
    return float(np.abs(ours - reference)[~is_clipped].max(initial=0))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_streams_of_the_standard_equal_their_reference(path: Path) -> None:
    reference = np.frombuffer(path.with_suffix(".pcm").read_bytes(), "<i2").astype(np.float64)
    data, name = path.read_bytes(), path.stem
    if name in REFUSED:
        with pytest.raises(gm.DecodeError) as caught:
            gm.decode(data)
        assert caught.value.reason == REFUSED[name][0]
        return
    if len(reference) == 0:
        with contextlib.suppress(gm.DecodeError):
            assert gm.decode(data).size == 0
        return
    ours = gm.decode(data, channels="keep").T.reshape(-1).astype(np.float64) * 32_768
    # The reference was rounded to 16 bits, by a converter that makes all between -1.5 and 0.5 a 0.
    is_equal = worst_difference(ours, reference) <= 1.51
    assert is_equal != (name in DIFFERS)
    if is_equal:
        assert (len(ours) != len(reference)) == (name in OTHER_LENGTH)


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_crops_of_the_standards_streams_equal_slices(path: Path) -> None:
    data = path.read_bytes()
    try:
        frames = gm.decode(data).size
    except gm.DecodeError:
        pytest.skip("the stream is refused, so it has no crops")
    if frames < 2:
        pytest.skip("the stream has fewer than two frames to cut")
    assert_crops_equal_slices(data, 40)


def test_the_streams_are_there() -> None:
    if not VECTORS:
        pytest.skip(f"no test streams at {CORPUS}; set GRISTMILL_CORPUS to find them")
    assert len(VECTORS) >= 40
