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
    """The first column that is decoded, and the others.

    Raises:
        ValueError: It is none of the kinds of `AudioOption`, or the columns' crops differ.
    """
    if audio is None or isinstance(audio, Audio) or (isinstance(audio, str) and audio == "auto"):
        return audio, ()
    if not isinstance(audio, Mapping):
        raise ValueError(
            f"audio is gm.Audio(...), one for each column in a dict, 'auto' or None, not "
            f"{checks.shown(audio)}"
        )
    named = cast("Mapping[Any, Any]", audio)
    if not named:
        raise ValueError(f"audio={{}} names no column: write {_WRITE}, or audio=None for none")
    first, *others = (_column(name, of) for name, of in named.items())
    for other in others:
        if other.crop != first.crop:
            raise ValueError(
                f"columns {first.column!r} and {other.column!r} have crop={first.crop!r} and "
                f"{other.crop!r}, and the recordings of a row are cropped together: give both the "
                "same crop="
            )
    return first, tuple(others)


def _column(name: Any, audio: Any) -> Audio:
    if not checks.is_text(name):
        raise ValueError(
            f"the keys of audio= are names of columns, not {checks.shown(name)}: write {_WRITE}"
        )
    if not isinstance(audio, Audio):
        raise ValueError(
            f"audio[{name!r}] is gm.Audio(...), not {checks.shown(audio)}: write {_WRITE}"
        )
    if audio.column not in (None, name):
        raise ValueError(
            f"audio[{name!r}] names another column, gm.Audio({audio.column!r}): leave that name "
            f"out, as in {_WRITE}"
        )
    return replace(audio, column=name)
