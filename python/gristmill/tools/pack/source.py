"""What is to be packed: recordings, and the columns beside them."""

# pyarrow ships no types: its values are unknown, and are given types where they leave this package.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from gristmill.tools.pack.report import BadFile

# What Gristmill decodes, and what else is audio: it ends among the bad files, and not unseen.
_DECODED = (
    "wav wave bwf rf64 flac ogg oga opus mp3 mp2 mp1 mpga mpa m4a m4b mp4 aac adts aif aiff aifc "
    "caf mka mkv webm sph nist"
)
_OTHER_AUDIO = (
    "au snd w64 wma amr awb ape wv tta dsf dff spx ra voc avr sds htk paf 3gp ac3 ec3 eac3 dts"
)
AUDIO_ENDINGS = frozenset(f".{name}" for name in f"{_DECODED} {_OTHER_AUDIO}".split())

_SPLITS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
}
SPLITS = frozenset(_SPLITS)
ORDER_OF_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Recording:
    """Where a recording lies: `size` bytes of `file` from `offset` on.

    Attributes:
        name: Its path in the source, as bad files are listed.
        path: What the audio column has as its path; `None` in some shards.
        file: The file that is read.
        offset: Its first byte there.
        size: Its bytes.
        changed_ns: When the file last changed, on the file system's clock.
    """

    name: str
    path: str | None
    file: str
    offset: int
    size: int
    changed_ns: int


@dataclass
class Source:
    """What a folder or tars hold.

    Attributes:
        recordings: In the order of the rows.
        columns: Beside the audio, one row for each recording; `None` if there are none.
        features: Of `columns`, where they say more than the type: classes.
        audio_at: How many of the columns stand before the audio.
        audio_name: The name of the audio column.
        audio_feature: Its feature.
        bad: What cannot be packed, as far as that is known before anything is read.
        unlisted: Recordings that no metadata file names.
        ignored: Other files, by ending.
        notes: Sentences for the report.
    """

    recordings: list[Recording] = field(default_factory=list[Recording])
    columns: pa.Table | None = None
    features: dict[str, Any] = field(default_factory=dict[str, Any])
    audio_at: int = 0
    audio_name: str = "audio"
    audio_feature: dict[str, Any] = field(default_factory=lambda: {"_type": "Audio"})
    bad: list[BadFile] = field(default_factory=list[BadFile])
    unlisted: int = 0
    ignored: Counter[str] = field(default_factory=Counter[str])
    notes: list[str] = field(default_factory=list[str])


def name_of(file: str) -> str:
    """A file's name, which is UTF-8 whatever the locale says; other bytes are lone surrogates."""
    return os.fsencode(file).decode("utf-8", "surrogateescape")


def on_disk(root: str, name: str) -> str:
    """Where what is called so in a source lies."""
    return str(Path(root, os.fsdecode(name.encode("utf-8", "surrogateescape"))))


def is_audio(name: str) -> bool:
    """Whether a file of this name is a recording."""
    return PurePosixPath(name).suffix.lower() in AUDIO_ENDINGS


def is_hidden(name: str, *, is_folder: bool = False) -> bool:
    """Whether `datasets` passes over files or folders of this name: `._a.wav`, `__MACOSX`."""
    return name.startswith(".") or (is_folder and name.startswith("__"))


def splits_of(recordings: Sequence[Recording]) -> list[str]:
    """The split of each recording: that of its uppermost folder, where all have one; else train.

    Folders that all recordings share do not count, unless they are called like a split.
    """
    tops = _tops(recordings)
    if not set(tops) <= SPLITS:
        return ["train"] * len(tops)
    return [_SPLITS[top] for top in tops]


def lone_splits(recordings: Sequence[Recording]) -> list[str]:
    """Folders that are called like several splits, though other recordings lie beside them."""
    tops = set(_tops(recordings))
    found = sorted(tops & SPLITS)
    is_mixed = not tops <= SPLITS and len({_SPLITS[top] for top in found}) > 1
    return found if is_mixed else []


def _tops(recordings: Sequence[Recording]) -> list[str]:
    """The uppermost folder of each recording that not all share, or that is called like a split."""
    names = [recording.name for recording in recordings]
    while names:
        tops = [name.partition("/")[0] for name in names]
        if len(set(tops)) > 1 or tops[0] in SPLITS or not all("/" in name for name in names):
            return tops
        names = [name.partition("/")[2] for name in names]
    return []
