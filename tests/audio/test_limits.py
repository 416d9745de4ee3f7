"""Limits: a recording that asks for too much costs a typed error that names the limit."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
import shards
from damaged_files import made
from signals import RATE, encode, synthetic
from stated_numbers import Line, Number

STEREO = encode(synthetic(2, RATE, 2), RATE, "flac16")
# Tight, so that two seconds of stereo exceed them; and wide enough.
LIMITS: dict[str, tuple[Any, Any]] = {
    "max_bytes": (len(STEREO) - 1, len(STEREO)),
    "max_sample_rate": (RATE - 1, RATE),
    "max_channels": (1, 2),
    "max_seconds": (1.99, 2.0),
    "max_decoded_bytes": (2 * RATE * 4 - 1, 2 * RATE * 4),
    "max_decode_seconds": (1e-9, 60.0),
}


def limited(limit: str, value: Any) -> gm.Limits:
    return gm.Limits(**{limit: value})


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("strict", [True, False])
def test_each_limit_is_named_and_can_be_raised(limit: str, strict: bool) -> None:
    tight, wide = LIMITS[limit]
    with pytest.raises(gm.LimitError, match=rf"raise it with Limits\({limit}=") as caught:
        gm.decode(STEREO, strict=strict, limits=limited(limit, tight))
    assert caught.value.limit == limit
    assert not isinstance(caught.value, gm.DecodeError)
    whole = gm.decode(STEREO, strict=strict, limits=limited(limit, wide))
    assert whole.tobytes() == gm.decode(STEREO).tobytes()


@pytest.mark.parametrize("limit", [limit for limit in LIMITS if not limit.startswith("max_decode")])
def test_probing_has_the_same_limits(limit: str) -> None:
    tight, wide = LIMITS[limit]
    with pytest.raises(gm.LimitError) as caught:
        gm.probe(STEREO, limits=limited(limit, tight))
    assert caught.value.limit == limit
    assert gm.probe(STEREO, limits=limited(limit, wide)) == gm.probe(STEREO)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_data_set_has_the_same_limits(limit: str, tmp_path: Path) -> None:
    path = shards.write_audio(tmp_path / "rows.arrow", [STEREO])
    tight, wide = LIMITS[limit]
    for strict in (True, False):
        audio = gm.Audio(limits=limited(limit, tight), strict=strict)
        with pytest.raises(gm.LimitError, match=r"rows\.arrow, row 0") as caught:
            next(iter(gm.ArrowIterDataset(path, audio=audio)))
        error = caught.value
        assert (error.limit, error.row, Path(error.shard or "").name) == (limit, 0, "rows.arrow")
    audio = gm.Audio(limits=limited(limit, wide))
    assert next(iter(gm.ArrowIterDataset(path, audio=audio)))["audio"].shape == (2 * RATE,)


def test_what_is_too_long_is_not_read(tmp_path: Path) -> None:
    long = bytes(40_000_000)
    path = shards.write_audio(tmp_path / "rows.arrow", [long, STEREO])
    audio = gm.Audio(limits=limited("max_bytes", len(STEREO)))
    read = gm.ReadOptions(index_dir=None)
    dataset = gm.ArrowIterDataset(path, audio=audio, on_error="skip", read=read)
    with contextlib.closing(iter(dataset)) as rows:
        assert next(rows)["audio"].shape == (2 * RATE,)
        assert rows.stats().storage.bytes < 2_000_000
        (bad,) = rows.bad_rows()
    assert (bad.row, bad.reason, bad.bytes) == (0, "max_bytes", len(long))


# Each is made to promise 4 billion frames in some hundred KB.
FORGED = {
    "WAV": Number(b"data", 0, 4, "little"),
    "AIFF": Number(b"COMM", 6, 4),
    "CAF": Number(b"data", 0, 8),
    "SPHERE": Line(b"sample_count"),
    "FLAC": Number(b"fLaC", 4 + 14, 4),
    "MP3": Number(b"Xing", 4, 4),
}


# In these another field, or whole frames up to the end, show that nothing is missing.
CONTRADICTED = {"WAV", "AIFF", "FLAC", "MP3"}


@pytest.mark.parametrize("name", sorted(CONTRADICTED))
def test_a_forged_length_that_the_file_contradicts_is_a_note(name: str) -> None:
    data = made(name)
    forged = FORGED[name].write(data, 0xF000_0000)
    for strict in (True, False):
        audio, report = gm.decode_with_report(forged, strict=strict)
        # MP3 cuts its padding where the count says that the frames end.
        n = len(audio) - (623 if name == "MP3" else 0)
        assert audio[:n].tobytes() == gm.decode(data).tobytes()
        assert (dict(report.damage), dict(report.notes)) == ({}, {"header_length": 1})
    with pytest.raises(gm.DecodeError) as pedantic:
        gm.decode(forged, strict="pedantic")
    assert pedantic.value.reason == "truncated"


@pytest.mark.parametrize("name", sorted(set(FORGED) - CONTRADICTED))
def test_a_forged_length_costs_an_error_and_no_memory(name: str) -> None:
    data = made(name)
    forged = FORGED[name].write(data, 0xF000_0000)
    with pytest.raises(gm.DecodeError) as strict:
        gm.decode(forged)
    assert strict.value.reason == "truncated"
    with pytest.raises(gm.LimitError) as lenient:
        gm.decode(forged, strict=False)
    assert lenient.value.limit in {"max_frames_per_byte", "max_seconds"}
    # A part of it is as long as was asked for.
    wide = gm.Limits(max_frames_per_byte=10**9, max_seconds=2_592_000)
    audio, report = gm.decode_with_report(forged, seconds=0.5, limits=wide)
    assert audio.tobytes() == gm.decode(data, seconds=0.5).tobytes()
    assert report.frames_promised > 10**9
    assert report.damage["truncated"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_bytes": 0},
        {"max_sample_rate": 768_001},
        {"max_channels": 1025},
        {"max_channels": 0},
        {"max_seconds": 0.0},
        {"max_seconds": float("nan")},
        {"max_frames_per_byte": 0},
        {"max_decoded_bytes": 0},
        {"max_decode_seconds": 0.0},
    ],
)
def test_limits_that_cannot_mean_anything(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        gm.Limits(**wrong)


def test_a_limit_that_cannot_be_raised_says_so() -> None:
    nine = encode(synthetic(0.1, RATE, 9), RATE, "vorbis")
    with pytest.raises(gm.LimitError, match="9 channels") as caught:
        gm.decode(nine)
    assert caught.value.limit == "max_channels"
    assert "raise it" not in str(caught.value)
