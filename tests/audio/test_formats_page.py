"""The page of formats says what holds: its grades are measured, and its tables are generated."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

import av_files
import gristmill as gm
from damaged_files import MAKERS, made
from formats_table import COUNTERS, FORMATS, NOTES
from test_repository import ROOT, script

GRADED = [(form, name) for form in FORMATS for name in form.made]


def test_the_tables_are_those_that_are_generated() -> None:
    page = script("formats_page")
    for path in page.PAGES:
        assert page.generated(path) == path.read_text(encoding="utf-8"), (
            "run scripts/formats_page.py"
        )


def test_every_format_of_the_damage_table_has_a_grade() -> None:
    assert {name for _, name in GRADED} == set(MAKERS)


@pytest.mark.parametrize(("form", "name"), GRADED, ids=[name for _, name in GRADED])
def test_grades_hold(form, name: str) -> None:
    data = made(name)
    ours = gm.decode(data, channels="keep")
    if form.reference == "soundfile":
        theirs = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T
    else:
        theirs = av_files.read(data)
    # FFmpeg keeps the padding of the last packet of AAC. libsndfile guesses the length of MP3.
    n = min(ours.shape[1], theirs.shape[1])
    assert n > (0.3 if name == "MP3 without a count" else 0.99) * ours.shape[1]
    if form.tolerance == 0:
        assert ours.shape == theirs.shape
    assert np.abs(ours[:, :n] - theirs[:, :n]).max() <= form.tolerance


@pytest.mark.parametrize(("form", "name"), GRADED, ids=[name for _, name in GRADED])
def test_crops_are_as_the_table_says(form, name: str) -> None:
    data = made(name)
    whole, rate = gm.decode(data, channels="keep"), gm.probe(data).sample_rate
    rng = np.random.default_rng(8)
    for _ in range(40):
        n = int(rng.integers(1, 5_000))
        start = int(rng.integers(0, whole.shape[1] - n))
        crop = gm.decode(data, channels="keep", start=start / rate, seconds=n / rate)
        assert np.abs(crop - whole[:, start : start + n]).max() <= form.crop_tolerance


def test_counters_are_those_of_the_core() -> None:
    """Each is reached somewhere in the tests of damage, but for panics, which upstream may cure."""
    text = (ROOT / "rust/audio/src/report.rs").read_text(encoding="utf-8")
    for kind in [*COUNTERS, *NOTES]:
        assert f'("{kind}", Self::' in text
    assert text.count('", Self::') == len(COUNTERS) + len(NOTES)
