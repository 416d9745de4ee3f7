"""Damage is seen: each kind in each format ends as `docs/formats.md` says, and none in silence."""

from __future__ import annotations

import numpy as np
import pytest

import gristmill as gm
from damage_seen import look
from damaged_files import MAKERS, beheaded, cut, damages, flipped, hole, made
from formats_table import FLIPS, OUTCOMES

CELLS = [(name, damage) for name in MAKERS for damage in damages(name)]
# What has checksums comes back as it was, or as zeros: frames that are neither, at most, for each
# place that was hit. Vorbis and Opus need some packets until they are what they were.
CHECKED = {"FLAC": 0, "FLAC in Ogg": 0, "FLAC in MP4": 0, "FLAC in Matroska": 0}
RESTART = {"Ogg Vorbis": 2_048, "Ogg Opus": 6_000}


def test_every_cell_is_in_the_table() -> None:
    assert {name: set(damages(name)) - {"20 flipped bytes"} for name in MAKERS} == {
        name: set(row) for name, row in OUTCOMES.items()
    }
    assert set(FLIPS) == set(MAKERS)


@pytest.mark.parametrize(("name", "damage"), [cell for cell in CELLS if "flip" not in cell[1]])
def test_damage_ends_as_the_table_says(name: str, damage: str) -> None:
    good = made(name)
    n_good = gm.probe(good).frames
    seen, audio, report = look(damages(name)[damage](good), n_good)
    assert seen == OUTCOMES[name][damage]
    if audio is None or report is None:
        return
    assert len(audio) == report.frames_promised == report.frames_wanted
    assert np.isfinite(audio).all()
    assert 0 <= report.frames_decoded <= report.frames_wanted
    if damage == "lying header" and seen.lenient == "longer":
        assert abs(report.frames_promised - 2 * n_good) <= 4_096
    if damage == "lying header" and seen.lenient == "noted":
        # All of the sound, and no zeros: the lie is only told. Where it was the end that cuts the
        # padding of the encoder, that is played, as FFmpeg plays it.
        assert audio[:n_good].tobytes() == gm.decode(good).tobytes()
        padded = {"Ogg Vorbis": 1_024, "Ogg Opus": 1_024, "MP3": 1_152}
        assert len(audio) - n_good <= padded.get(name, 0)
        with pytest.raises(gm.DecodeError):
            gm.decode(damages(name)[damage](good), strict="pedantic")
    if report.frames_missing:
        assert report.damage["gaps"] >= 1
        assert np.count_nonzero(audio == 0) >= report.frames_missing


@pytest.mark.parametrize("name", MAKERS)
def test_flipped_bytes_end_as_the_table_says(name: str) -> None:
    good = made(name)
    n_good = gm.probe(good).frames
    seen = [look(flipped(seed)(good), n_good)[0] for seed in range(8)]
    assert {(one.strict, one.lenient) for one in seen} <= {
        (o.strict, o.lenient) for o in FLIPS[name]
    }
    if all(one.lenient == "unseen" for one in FLIPS[name]):
        return
    # Where some are seen, at least one of the eight is.
    assert any(one.lenient != "unseen" for one in seen)


SUMMED = {"FLAC", "FLAC in Ogg", "Ogg Vorbis", "Ogg Opus", "FLAC in MP4", "FLAC in Matroska"}


@pytest.mark.parametrize("name", MAKERS)
def test_one_flipped_byte_is_seen_where_there_are_checksums(name: str) -> None:
    good = made(name)
    seen = [look(flipped(100 + seed, 1)(good), 0)[0] for seed in range(30)]
    n_unseen = sum(one.lenient == "unseen" for one in seen)
    # Without checksums most of it cannot be seen, and the page says so.
    assert n_unseen == 0 if name in SUMMED else n_unseen >= 1


def places_hit(good: np.ndarray, bad: np.ndarray, tolerance: float) -> tuple[int, int]:
    """Frames that are neither as they were nor zero, and stretches of zeros."""
    n = min(len(good), len(bad))
    good, bad = good[:n], bad[:n]
    is_zero = bad == 0
    is_other = ~is_zero & (np.abs(good - bad) > tolerance)
    starts = np.count_nonzero(np.diff(is_zero.astype(np.int8)) == 1)
    return int(np.count_nonzero(is_other)), int(starts)


@pytest.mark.parametrize("name", [*CHECKED, *RESTART])
def test_what_has_checksums_comes_back_in_its_place_or_as_zeros(name: str) -> None:
    data = made(name)
    good = gm.decode(data)
    tolerance = 1e-6 if name in RESTART else 0.0
    kinds = [cut(0.5), cut(0.9), hole, *(flipped(seed) for seed in range(6))]
    n_read = 0
    for damage in kinds:
        _, bad, report = look(damage(data), len(good))
        if bad is None or report is None:
            continue
        n_read += 1
        n_other, _ = places_hit(good, bad, tolerance)
        n_places = report.damage.get("gaps", 0) + 1
        assert n_other <= {**CHECKED, **RESTART}[name] * n_places
        n_same = np.count_nonzero(bad == good[: len(bad)])
        assert name in RESTART or n_same >= report.frames_decoded
    assert n_read >= 5


@pytest.mark.parametrize(
    "name", ["MP3", "MP3 without a count", "MPEG layer II", "AAC in ADTS", "AAC in Matroska"]
)
def test_behind_a_hole_frames_stand_in_their_places(name: str) -> None:
    data = made(name)
    good = gm.decode(data)
    bad = look(hole(data), len(good))[1]
    assert bad is not None
    assert len(bad) == len(good)
    tail = slice(len(good) * 3 // 4, None)
    assert np.abs(good[tail] - bad[tail]).max() < 1e-4
    assert np.abs(good[: len(good) // 4] - bad[: len(good) // 4]).max() < 1e-4


@pytest.mark.parametrize("name", MAKERS)
def test_whatever_the_damage_nothing_is_made_up(name: str) -> None:
    """Random damage: finite samples, a consistent report, or one error for both."""
    good = made(name)
    n_good = gm.probe(good).frames
    rng = np.random.default_rng(33)
    for _ in range(25):
        bad = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            at, size = int(rng.integers(len(bad))), int(rng.integers(1, 600))
            match rng.integers(4):
                case 0:
                    bad[at : at + size] = rng.bytes(size)
                case 1:
                    del bad[at : at + size]
                case 2:
                    bad[at:at] = rng.bytes(size)
                case _:
                    bad = bad[: max(at, 1)]
        _, audio, report = look(bytes(bad), n_good)
        if audio is not None and report is not None:
            assert np.isfinite(audio).all()
            assert len(audio) == report.frames_promised
            assert 0 <= report.frames_decoded <= report.frames_wanted


@pytest.mark.parametrize("name", ["WAV", "FLAC", "FLAC in Ogg", "ALAC in MP4", "FLAC in MP4"])
@pytest.mark.parametrize("damage", [cut(0.6), hole], ids=["cut", "hole"])
def test_crops_of_a_damaged_file_are_slices(name: str, damage) -> None:
    bad = damage(made(name))
    try:
        whole = gm.decode(bad, strict=False)
    except gm.DecodeError:
        assert name in {"ALAC in MP4", "FLAC in MP4"}  # their tables stand at the end
        return
    for start in (0, 20_000, 60_000, 100_000):
        crop, report = gm.decode_with_report(bad, start=start / 32_000, seconds=0.5)
        assert crop.tobytes() == whole[start : start + 16_000].tobytes()
        assert report.frames_wanted == 16_000


def test_damage_outside_the_crop_costs_nothing() -> None:
    bad = flipped(0)(made("FLAC"))
    crop, report = gm.decode_with_report(bad, seconds=0.1, strict=True)
    assert not report.is_damaged
    assert report.frames_missing == 0
    assert crop.tobytes() == gm.decode(made("FLAC"), seconds=0.1).tobytes()


def test_samples_that_are_not_finite_are_zeros_and_counted() -> None:
    import io

    import soundfile

    frames = np.linspace(-0.5, 0.5, 1_000, dtype=np.float32)
    frames[[3, 500, 999]] = [np.nan, np.inf, -np.inf]
    out = io.BytesIO()
    soundfile.write(out, frames, 8_000, format="WAV", subtype="FLOAT")
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(out.getvalue())
    assert caught.value.reason == "non_finite"
    audio, report = gm.decode_with_report(out.getvalue())
    assert report.damage == {"non_finite": 3}
    assert audio.tobytes() == np.where(np.isfinite(frames), frames, 0).astype(np.float32).tobytes()
    resampled, report = gm.decode_with_report(out.getvalue(), sample_rate=16_000)
    assert report.damage == {"non_finite": 3}
    assert np.isfinite(resampled).all()


def test_resampled_damage_is_the_damage_resampled() -> None:
    from resample_reference import resample

    bad = cut(0.5)(made("WAV"))
    at_rate = gm.decode(bad, strict=False)
    resampled = gm.decode(bad, strict=False, sample_rate=24_000)
    assert np.abs(resampled - resample(at_rate[None], 32_000, 24_000)[0]).max() < 1e-5


def test_a_chain_keeps_its_first_links() -> None:
    first = made("Ogg Vorbis")
    whole = gm.decode(first)
    chain = first + first[: len(first) // 2]
    with pytest.raises(gm.DecodeError):
        gm.decode(chain)
    audio, report = gm.decode_with_report(chain)
    assert audio[: len(whole)].tobytes() == whole.tobytes()
    assert len(whole) < len(audio) < 2 * len(whole)
    assert report.damage["truncated"] == 1


@pytest.mark.parametrize("name", MAKERS)
def test_a_sound_file_has_a_clean_report(name: str) -> None:
    data = made(name)
    strict, report = gm.decode_with_report(data, strict=True)
    n = gm.probe(data).frames
    codec = gm.probe(data).codec
    assert report == gm.DecodeReport(codec, n, n, n, {})
    lenient, same = gm.decode_with_report(data)
    assert lenient.tobytes() == strict.tobytes()
    assert same == report
    assert (report.is_damaged, report.frames_missing) == (False, 0)


def test_a_headless_file_is_not_taken_for_another() -> None:
    """Without its header nothing but a self-framing stream plays."""
    plays = {name for name in MAKERS if look(beheaded(made(name)), 0)[1] is not None}
    framed = {"MP3", "MP3 without a count", "MPEG layer II", "AAC in ADTS"}
    assert plays <= framed
