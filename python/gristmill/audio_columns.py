"""Which columns are decoded: what data sets take for `audio=`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, cast

from gristmill import checks
from gristmill.options import Audio

AudioOption: TypeAlias = Audio | Mapping[str, Audio] | Literal["auto"] | None
"""One column, several by name, the one that the features call audio, or none."""

_WRITE: Final = 'audio={"mic1": gm.Audio(...), "mic2": gm.Audio(...)}'


def checked_audio(audio: Any) -> tuple[Audio | Literal["auto"] | None, tuple[Audio, ...]]:
    """The first column that is decoded, and the others."""
    if audio is None or isinstance(audio, Audio) or (isinstance(audio, str) and audio == "auto"):
        return audio, ()
    if not isinstance(audio, Mapping):
        raise ValueError(
            f"audio is gm.Audio(...), several by column, 'auto' or None, not {checks.shown(audio)}"
        )
    named = cast("Mapping[Any, Any]", audio)
    if not named:
        raise ValueError(f"audio={{}} names no column: write {_WRITE}, or audio=None for none")
    first, *others = (_column(name, of) for name, of in named.items())
    for other in others:
        if other.crop != first.crop:
            raise ValueError(
                f"the recordings of a row are cropped at the same place, to the same length, and "
                f"columns {first.column!r} and {other.column!r} have crop={first.crop!r} and "
                f"{other.crop!r}: give both the same crop="
            )
    return first, tuple(others)


def _column(name: Any, audio: Any) -> Audio:
    if not checks.is_text(name):
        raise ValueError(
            f"audio is by the names of columns, and {checks.shown(name)} is none: write {_WRITE}"
        )
    if not isinstance(audio, Audio):
        raise ValueError(
            f"audio has {checks.shown(audio)} for column {name!r}, and gm.Audio(...) says how a "
            f"column is decoded: write {_WRITE}"
        )
    if audio.column not in (None, name):
        raise ValueError(
            f"audio names column {name!r}, and its gm.Audio({audio.column!r}) another: leave the "
            f"name out there, as in {_WRITE}"
        )
    return replace(audio, column=name)
