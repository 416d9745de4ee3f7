"""Folders and patterns of object stores and the Hub: which shards they stand for."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Sequence

from gristmill import _core
from gristmill.storage import StorageOptions
from gristmill.urls import shown_path

EXTENSIONS = (".arrow", ".parquet")
"""Of the files that a folder stands for."""
_ANY_FOLDERS = "**"
"""This part of a pattern stands for any number of folders."""


def is_shard_name(name: str) -> bool:
    """Whether a file in a folder is one of its shards by its name, which is not hidden."""
    return name.endswith(EXTENSIONS) and not name.startswith(".")


class Folder:
    """A folder of a bucket, or of a data set or bucket on the Hub; its names are listed once.

    Args:
        url: Its URL, with or without a slash at its end.
        options: How it is reached.
        retries: How often listing it, or a request for a file, is repeated.
    """

    def __init__(self, url: str, options: StorageOptions, retries: int) -> None:
        self.url = url.rstrip("/")
        self._options = options.native([url])
        self._retries = retries
        files, folders = _core.list_url(
            self.url + "/", self._options, recursive=False, retries=retries
        )
        self.files = _names(files)
        self.folders = _names(folders)

    @property
    def is_there(self) -> bool:
        """Whether anything is in it: object stores have no empty folders."""
        return bool(self.files or self.folders)

    def shards(self) -> list[str]:
        """The names of the files that are shards by their names."""
        return [name for name in self.files if is_shard_name(name)]

    def read(self, name: str) -> bytes:
        """A small file as a whole."""
        return _core.read_url(f"{self.url}/{name}", self._options, retries=self._retries)


def matches(pattern: str, options: StorageOptions, retries: int) -> list[str]:
    """The files that a pattern stands for, sorted; as `glob`, it crosses a slash by `**` alone.

    Names that begin with a dot are matched by a dot alone.
    """
    place, parts = _fixed(pattern)
    deep = len(parts) > 1 or parts == [_ANY_FOLDERS]
    files, _ = _core.list_url(
        f"{place}/", options.native([pattern]), recursive=deep, retries=retries
    )
    root, inside = _root_and_rest(place)
    found: list[str] = []
    for path in files:
        if path == _root_and_rest(pattern)[1]:
            return [pattern]  # a file that is called so
        if path == inside:
            continue  # an object for the folder itself
        names = (path.removeprefix(f"{inside}/") if inside else path).split("/")
        if _path_fits(names, parts):
            found.append(f"{root}/{path}")
    return sorted(found)


def _path_fits(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a path is one of a pattern's, without trying each folder for each `**`."""
    places = _after_any_folders({0}, parts)
    for name in names:
        fitting = [k for k in places if k < len(parts) and _fits(name, parts[k])]
        following = {k + (parts[k] != _ANY_FOLDERS) for k in fitting}
        places = _after_any_folders(following, parts)
    return len(parts) in places


def _after_any_folders(places: set[int], parts: Sequence[str]) -> set[int]:
    """These places in a pattern, and those behind a `**` there, which may stand for no folder."""
    reached = set(places)
    for k, part in enumerate(parts):
        if k in reached and part == _ANY_FOLDERS:
            reached.add(k + 1)
    return reached


def _fits(name: str, pattern: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatch.fnmatchcase(name, pattern)


def _fixed(pattern: str) -> tuple[str, Sequence[str]]:
    """The folder before the first part with a wildcard, and the parts from there on.

    Raises:
        ValueError: The wildcard stands in what is no folder.
    """
    root, rest = _root_and_rest(pattern)
    if glob.has_magic(root):
        what = "the data set or bucket" if root.startswith("hf:") else "the bucket or container"
        raise ValueError(
            f"{shown_path(pattern)}: a pattern cannot stand for {what}; name it, and list the "
            "patterns of several"
        )
    parts = rest.split("/")
    first = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    return "/".join([root, *parts[:first]]), parts[first:]


def _root_and_rest(url: str) -> tuple[str, str]:
    """The bucket, or the data set and its revision, and the path in it."""
    scheme, _, rest = url.partition("://")
    parts = rest.split("/")
    n = 3 if scheme == "hf" else 1
    return f"{scheme}://{'/'.join(parts[:n])}", "/".join(parts[n:])


def _names(paths: Sequence[str]) -> list[str]:
    """The last parts; an object store may have an object for the folder itself."""
    return sorted({path.rstrip("/").rsplit("/", 1)[-1] for path in paths} - {""})
