"""What a folder without shards holds instead, for a message that says what to do."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

_RECORDINGS = frozenset(
    (
        ".wav",
        ".flac",
        ".ogg",
        ".oga",
        ".opus",
        ".mp3",
        ".mp2",
        ".m4a",
        ".mp4",
        ".aac",
        ".aif",
        ".aiff",
        ".aifc",
        ".caf",
        ".sph",
        ".mka",
        ".webm",
    )
)
_MOST_ENTRIES = 10_000
"""Entries that are looked at: a folder may have millions."""


def what_is_in(folder: str) -> str:
    """The rest of a sentence that says that a folder has no shards."""
    try:
        suffixes, folders = _look(folder)
    except OSError:
        return ""
    if not suffixes and not folders:
        return ": it is empty"
    recordings = {suffix: n for suffix, n in suffixes.items() if suffix in _RECORDINGS}
    if recordings:
        pack = f"gristmill pack {shlex.quote(folder)} -o SHARDS"
        return f", but {_counts(recordings)}; make shards of them: {pack}"
    if suffixes[".tar"]:
        pack = f"gristmill pack {shlex.quote(f'{folder}/*.tar')} -o SHARDS"
        return f", but {_counts({'.tar': suffixes['.tar']})}; make shards of them: {pack}"
    parts = [_counts(suffixes)] if suffixes else []
    if folders:
        parts.append(_named(folders))
    return f", but {' and '.join(parts)}; name the one that has them"


def what_is_in_store(folders: Sequence[str]) -> str:
    """The same of a folder of a store, of which the folders are known."""
    return f", but {_named(folders)}; name the one that has them" if folders else ""


def _named(folders: Sequence[str]) -> str:
    """`the folders a, b, c, ...`."""
    named = ", ".join(sorted(folders)[:3]) + (", ..." if len(folders) > 3 else "")
    return f"the folder {named}" if len(folders) == 1 else f"the folders {named}"


def _look(folder: str) -> tuple[Counter[str], list[str]]:
    """The files by suffix, those one folder below included, and the folders."""
    suffixes: Counter[str] = Counter()
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in islice(entries, _MOST_ENTRIES):
            if entry.is_dir():
                folders.append(entry.name)
            else:
                suffixes[Path(entry.name).suffix.lower()] += 1
    left = _MOST_ENTRIES - sum(suffixes.values())
    for name in folders:
        with os.scandir(Path(folder, name)) as entries:
            below = [entry for entry in islice(entries, max(left, 0)) if entry.is_file()]
        left -= len(below)
        suffixes.update(Path(entry.name).suffix.lower() for entry in below)
    return suffixes, folders


def _counts(suffixes: dict[str, int]) -> str:
    """`60 .ogg files and 2 .wav files`, the most frequent first."""
    most = sorted(suffixes.items(), key=lambda item: (-item[1], item[0]))
    texts = [
        f"{n:,} {suffix} file{'s' * (n > 1)}" if suffix else f"{n:,} without a suffix"
        for suffix, n in most[:3]
    ]
    return " and ".join((", ".join(texts[:-1]), texts[-1]) if texts[:-1] else texts)
