"""The option `paths`: from paths, patterns and directories to a list of shards."""

from __future__ import annotations

import errno
import glob
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast
from urllib.parse import unquote, urlsplit

from gristmill import urls
from gristmill._core import path_kinds
from gristmill.checks import in_order, is_path, items, shown
from gristmill.found import what_is_in, what_is_in_store
from gristmill.listing import EXTENSIONS, Folder, is_shard_name, matches
from gristmill.storage import NO_OPTIONS, StorageOptions
from gristmill.troubleshooting import explain

logger = logging.getLogger("gristmill")

_NOTHING = object()
_logged: set[str] = set()
"""Paths that are left out, once that is logged: a data set looks for its shards more than once."""

CacheFile = Mapping[str, str]
"""A file as `datasets` names it in `cache_files`: `{"filename": "..."}`."""
OnePath = str | os.PathLike[str] | CacheFile
Paths = OnePath | Sequence[OnePath]


def as_list(paths: object) -> tuple[str, ...]:
    """The paths as given, without access to the file system."""
    given: Sequence[object] | None
    if isinstance(paths, (str, os.PathLike, dict)):
        given = [cast("object", paths)]
    else:
        given = None if isinstance(paths, (bytes, Mapping)) else items(in_order("paths", paths))
    if given is not None:
        given = [_of_cache_file(path) for path in given]
    if given is None or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise ValueError(
            f"paths is a path, a pattern or a directory, or a list of them, not {shown(paths)}: "
            "write 'shards/*.arrow'"
        )
    listed = tuple(os.fsdecode(cast("os.PathLike[str]", path)) for path in given)
    if not listed:
        raise ValueError("there are no shards: paths is empty")
    listed = tuple(map(_local, listed))
    for path in listed:
        if not path:
            raise ValueError("a path is empty: write '.' for the working directory")
        if not is_path(path):
            raise ValueError(f"paths has {shown(path)}, which no file can be called")
    return listed


def _of_cache_file(path: object) -> object:
    """The path that an entry of `cache_files` names; anything else as it is."""
    if not isinstance(path, dict):
        return path
    fields = cast("dict[object, object]", path)
    return fields["filename"] if set(fields) == {"filename"} else fields


def _local(path: str) -> str:
    """A URL, or a path without `file://` and `~`; `./~` is a folder of that name."""
    if path.startswith("file://"):
        try:
            url = urlsplit(path)
            is_sound = url.netloc in ("", "localhost") and not (url.query or url.fragment)
        except ValueError:  # which names the host, and what stands before it
            url, is_sound = urlsplit(""), False
        if not is_sound:
            raise ValueError(
                f"{urls.hidden(path)}: a file:// URL has three slashes and then the path, with "
                "%3F for ? and %23 for #; or give the path itself"
            )
        return unquote(url.path)
    if "://" in path:
        return urls.check(path)
    urls.refuse_malformed(path)
    return os.path.expanduser(path)


def resolve(
    paths: Iterable[str], options: StorageOptions = NO_OPTIONS, retries: int = 5
) -> list[str]:
    """The shards that the paths stand for.

    A directory stands for the `*.arrow` and `*.parquet` files in it and a glob pattern for its
    matches (`**` for any number of folders), both sorted by name, without names that begin with a
    dot, such as the `._x.arrow` that macOS writes beside files; a URL stands for itself, and so
    does a file, also if its name looks like a pattern. A directory that Hugging Face `datasets` has
    written stands for the data set alone: cached results of `map` are left out. Folders and
    patterns of object stores and the Hub are listed likewise. Anything but a file with such a name
    in a directory, or one that matches a pattern, is left out and logged once.

    Raises:
        FileNotFoundError: A path does not exist, a pattern matches nothing, or a directory has no
            shards.
        ValueError: A directory holds several splits as `datasets` or the Hub names them, or a file
            in it that names the shards is broken.
    """
    shards: list[str] = []
    given = list(paths)
    local = [path for path in given if not urls.is_url(path)]
    # Asked all at once, since on network storage each is a round trip.
    kind_of = dict(zip(local, path_kinds(local), strict=True))
    for path in given:
        kind = kind_of.get(path)
        if urls.is_store(path):
            shards += _in_store(path, options, retries)
        elif urls.is_url(path):
            urls.refuse_many(path)
            shards.append(path)
        elif kind == "folder":
            names = _shards_in(path)
            if not names:
                what = f"No .arrow or .parquet shards in this directory{what_is_in(path)}"
                raise FileNotFoundError(2, what, path)
            shards += [os.path.join(path, name) for name in names]
        elif glob.has_magic(path) and not os.path.exists(path):
            found = sorted(set(glob.glob(path, recursive=True)))
            kinds = path_kinds(found)
            matches = [match for match, kind in zip(found, kinds, strict=True) if kind == "file"]
            _left_out(match for match, kind in zip(found, kinds, strict=True) if kind is None)
            if not matches:
                raise explain(FileNotFoundError(2, "No shards match this pattern", path))
            shards += matches
        else:
            shards.append(path)
    return shards


def _in_store(path: str, options: StorageOptions, retries: int) -> list[str]:
    """The shards of a path of an object store or the Hub."""
    if glob.has_magic(path):
        found = matches(path, options, retries)
        if not found:
            what = "No shards match this pattern"
            raise explain(FileNotFoundError(2, what, urls.shown_path(path)))
        return found
    if path.endswith(EXTENSIONS):
        return [path]
    folder = Folder(path, options, retries)
    if not folder.is_there and not path.endswith("/") and "/" in path.split("://", 1)[1]:
        return [path]  # a shard without an extension
    names = _shards_of(folder.url, _RemoteFiles(folder))
    if not names:
        what = f"No .arrow or .parquet shards in this folder{what_is_in_store(folder.folders)}"
        raise FileNotFoundError(2, what, urls.shown_path(path))
    return [f"{folder.url}/{name}" for name in names]


class _Files(Protocol):
    """What a directory holds."""

    def shards(self) -> list[str]: ...
    def json(self, name: str) -> dict[str, Any]: ...


class _LocalFiles:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def shards(self) -> list[str]:
        return _files_in(self._directory)

    def json(self, name: str) -> dict[str, Any]:
        path = os.path.join(self._directory, name)
        if not os.path.isfile(path):
            return {}
        with open(path, "rb") as file:
            return _object(path, file.read())


class _RemoteFiles:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def shards(self) -> list[str]:
        return self._folder.shards()

    def json(self, name: str) -> dict[str, Any]:
        if name not in self._folder.files:
            return {}
        return _object(f"{self._folder.url}/{name}", self._folder.read(name))


def _shards_in(directory: str) -> list[str]:
    """The names of a directory's shards."""
    return _shards_of(directory, _LocalFiles(directory))


def _shards_of(directory: str, files: _Files) -> list[str]:
    splits = files.json("dataset_dict.json").get("splits")
    if isinstance(splits, list):
        listed = [str(split) for split in cast("list[object]", splits)]
        raise _several(directory, listed, os.path.join(directory, "<split>"))
    saved = files.json("state.json").get("_data_files", _NOTHING)
    if saved is not _NOTHING:
        return _saved(os.path.join(directory, "state.json"), saved)
    names = files.shards()
    splits = files.json("dataset_info.json").get("splits")
    if not isinstance(splits, dict):
        _check_one_split(directory, names)
        return names
    # A cache directory has the results of `map` and `filter` as well.
    names = [name for name in names if not name.startswith("cache-")]
    of_split = {
        split: [name for name in names if re.search(rf"-{re.escape(split)}(-\d+-of-\d+)?\.", name)]
        for split in cast("dict[str, Any]", splits)
    }
    present = sorted(split for split, found in of_split.items() if found)
    if len(present) > 1:
        raise _several(
            directory,
            present,
            os.path.join(directory, f"*-{present[0]}*{os.path.splitext(names[0])[1]}"),
        )
    return names


def _check_one_split(directory: str, names: Sequence[str]) -> None:
    """Refuses Parquet of several splits, as the Hub has them in one folder."""
    found = [re.match(r"(.+?)-\d{5}-of-\d{5}\b.*\.parquet$", name) for name in names]
    splits = sorted({match[1] for match in found if match})
    if len(splits) > 1:
        raise _several(directory, splits, os.path.join(directory, f"{splits[0]}-*.parquet"))


def _files_in(directory: str) -> list[str]:
    """The files with a shard's extension, links followed."""
    with os.scandir(directory) as entries:
        found = {entry.name: _is_file(entry) for entry in entries if is_shard_name(entry.name)}
    _left_out(os.path.join(directory, name) for name, is_file in found.items() if not is_file)
    return sorted(name for name, is_file in found.items() if is_file)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link that leads back to itself
            raise
        return False


def _left_out(paths: Iterable[str]) -> None:
    """Logs once for each path that it is no shard."""
    for path in sorted(set(paths) - _logged):
        _logged.add(path)
        what = "a link to nothing" if os.path.islink(path) else "no regular file"
        logger.warning("%s is %s and is left out; name the shards to have this refused", path, what)


def _saved(path: str, saved: object) -> list[str]:
    """The names in `_data_files` of a data set that was saved."""
    names: list[str] = []
    for entry in cast("list[object]", saved) if isinstance(saved, list) else [saved]:
        name = cast("dict[str, object]", entry).get("filename") if isinstance(entry, dict) else None
        if not (isinstance(name, str) and name and is_path(name)):
            raise ValueError(
                f"{path} is not as datasets writes it: _data_files is a list of "
                f'{{"filename": "..."}}, and has {shown(cast("Any", entry))}; save the data set '
                "again, or name its shards"
            )
        if os.path.isabs(name) or ".." in name.split("/"):
            raise ValueError(
                f"{path} names the shard {name!r}, which is not in its own folder; name the shards "
                "if they are to be read"
            )
        names.append(name)
    return names


def _several(directory: str, splits: Sequence[str], example: str) -> ValueError:
    return ValueError(
        f"{directory} contains several splits of a data set ({', '.join(splits)}); name one: "
        f"{example}"
    )


def _object(path: str, data: bytes) -> dict[str, Any]:
    """The object in a file; empty where something else is in it."""
    try:
        content: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON, as datasets writes it: {error}") from error
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}
