"""What comes of a damaged file, in the words of the table in `docs/formats.md`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import gristmill as gm


@dataclass(frozen=True)
class Seen:
    """`strict` is the reason of the error, or `""`; `lenient` is one of the words below."""

    strict: str
    lenient: str


WORDS = {
    "refused": "an error too: nothing can be placed in time, or the promise is too large",
    "whole": "the promised length; zeros fill what could not be decoded, and are counted",
    "shorter": "what the file still contains, counted; how much is missing is unknown",
    "longer": "the false length: what is left, then zeros, counted",
    "noted": "all sound, with `True` and `False`; the report's `notes` name the contradiction",
    "marked": "what the file still contains; the report says that it ends inside a frame",
    "unseen": "plays as if undamaged: nothing in the file shows the damage",
}


def reason_of(error: gm.GristmillError) -> str:
    return getattr(error, "reason", None) or "limit"


def look(data: bytes, n_good: int) -> tuple[Seen, np.ndarray | None, gm.DecodeReport | None]:
    """What `strict` says, and what comes without it: samples and report, if any."""
    try:
        loud, strict_report = gm.decode_with_report(data, strict=True)
        reason = ""
    except gm.GristmillError as error:
        reason = reason_of(error)
    try:
        audio, report = gm.decode_with_report(data, strict=False)
    except gm.GristmillError:
        # It may be another error: what is left may promise too much. What strict lets pass is in
        # no table as refused.
        return Seen(reason, "refused"), None, None
    if not reason:
        # What strict lets pass, lenient gives bit for bit, and the same marks.
        assert loud.tobytes() == audio.tobytes()
        assert strict_report == report
        assert report.frames_missing == 0
        word = "marked" if report.is_damaged else "noted" if report.notes else "unseen"
        return Seen("", word), audio, report
    assert report.is_damaged, "damage that strict refuses must be counted"
    n = report.frames_promised
    slack = 600 if data.startswith(b"\x1aE\xdf\xa3") else 0  # Matroska promises less exactly
    word = "whole" if abs(n - n_good) <= slack else "shorter" if n < n_good else "longer"
    return Seen(reason, word), audio, report
