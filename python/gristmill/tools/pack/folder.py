"""Folders of recordings: what is in them, and the classes that subfolders stand for."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pyarrow as pa

from gristmill.checks import is_text
from gristmill.tools.pack.report import BadFile
from gristmill.tools.pack.source import (
    SPLITS,
    Recording,
    Source,
    is_audio,
    is_hidden,
    name_of,
    splits_of,
)

METADATA_NAMES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


@dataclass
class Folder:
    """The files of a folder, as far as they matter, each by its path in it, sorted."""

    root: str
    recordings: dict[str, Recording] = field(default_factory=dict[str, Recording])
    metadata: list[str] = field(default_factory=list[str])
    tars: list[str] = field(default_factory=list[str])
    source: Source = field(default_factory=Source)


class _Walk:
    def __init__(self, root: str, left_out: str, *, follow_links: bool) -> None:
        self.folder = Folder(root)
        self._real_root = os.path.realpath(root)
        self._left_out = left_out
        self._follow = follow_links

    def walk(self) -> Folder:
        found = self.folder
        self._enter(self._real_root, "", (self._real_root,))
        found.recordings = {name: found.recordings[name] for name in sorted(found.recordings)}
        found.metadata.sort()
        found.tars.sort()
        return found

    def _enter(self, path: str, prefix: str, inside: tuple[str, ...]) -> None:
        for entry in _entries(path):
            if is_hidden(entry.name):
                continue
            name = prefix + name_of(entry.name)
            if not is_text(name):
                if is_audio(name) or is_tar(name) or Path(entry.path).is_dir():
                    shown = name.encode("utf-8", "replace").decode()
                    self._bad(shown, "name", "its name is not UTF-8; rename it")
                continue
            try:
                found = entry.stat()
            except (FileNotFoundError, OSError) as error:
                if not entry.is_symlink():
                    raise
                if is_audio(name):
                    self._bad(name, "missing", f"it is a link that leads nowhere: {error.strerror}")
                continue
            if stat.S_ISDIR(found.st_mode):
                if not is_hidden(entry.name, is_folder=True):
                    self._folder(entry, name, inside)
            else:
                self._file(entry, name, found)

    def _folder(self, entry: os.DirEntry[str], name: str, inside: tuple[str, ...]) -> None:
        real = os.path.realpath(entry.path)
        if real == self._left_out:
            return
        if entry.is_symlink() and not self._follow:
            why = "it is a link to a folder; give --follow-links to take what is in it"
            self._bad(name, "link", why)
        elif entry.is_symlink() and real in inside:
            self._bad(name, "link", "it links to a folder that contains it")
        else:
            self._enter(entry.path, name + "/", (*inside, real))

    def _file(self, entry: os.DirEntry[str], name: str, found: os.stat_result) -> None:
        folder = self.folder
        ending = PurePosixPath(name).suffix.lower()
        is_metadata = entry.name in METADATA_NAMES
        if not (is_audio(name) or is_metadata or is_tar(name)):
            folder.source.ignored[ending] += 1
        elif not stat.S_ISREG(found.st_mode):
            self._bad(name, "not_a_file", "it is no regular file")
        elif entry.is_symlink() and not self._follow and not self._is_inside(entry.path):
            why = "it is a link that leads out of the folder; give --follow-links to follow it"
            self._bad(name, "outside", why)
        elif is_metadata:
            folder.metadata.append(name)
        elif is_tar(name):
            folder.tars.append(name)
        else:
            folder.recordings[name] = Recording(
                name, name, entry.path, 0, found.st_size, found.st_mtime_ns
            )

    def _is_inside(self, path: str) -> bool:
        return os.path.realpath(path).startswith(self._real_root.rstrip("/") + "/")

    def _bad(self, name: str, reason: str, message: str) -> None:
        self.folder.source.bad.append(BadFile(name, reason, message))


def walk(root: str, *, left_out: str = "", follow_links: bool = False) -> Folder:
    """Looks through a folder; hidden files and the folder `left_out` are passed over.

    Raises:
        OSError: A folder cannot be read.
    """
    return _Walk(root, left_out, follow_links=follow_links).walk()


def is_tar(name: str) -> bool:
    """Whether a file of this name is a tar, compressed or not."""
    lower = name.lower()
    return lower.endswith((".tar", ".tgz")) or ".tar." in lower.rpartition("/")[2]


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        yield from sorted(entries, key=lambda entry: entry.name)


def with_classes(folder: Folder) -> Source:
    """The recordings, labelled by the folders that they lie in.

    As in `datasets`: where all lie at one depth and in folders of more than one name; but splits
    are no classes.
    """
    source = folder.source
    source.recordings = list(folder.recordings.values())
    labels = [
        recording.name.rpartition("/")[0].rpartition("/")[2] for recording in source.recordings
    ]
    classes = sorted(set(labels))
    depths = {recording.name.count("/") for recording in source.recordings}
    is_split = any(split != "train" for split in splits_of(source.recordings))
    if len(classes) < 2 or (is_split and set(classes) <= SPLITS):
        return source
    if len(depths) > 1:
        source.notes.append("There are no labels, since recordings are at different depths.")
        return source
    number = {name: k for k, name in enumerate(classes)}
    source.columns = pa.table({"label": pa.array([number[x] for x in labels], pa.int64())})
    source.features = {"label": {"names": classes, "_type": "ClassLabel"}}
    return source
