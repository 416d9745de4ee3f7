"""From what a user calls his data to a list of shards."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from gristmill._core import path_kinds

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def as_list(paths: Paths) -> tuple[str, ...]:
    """The paths as given, without a look at the file system."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    listed = tuple(os.fspath(path) for path in given)
    if not listed:
        raise ValueError("there are no shards: paths is empty")
    for path in listed:
        if "://" in path:
            raise ValueError(f"{path}: gristmill reads local paths only, not URLs")
    return listed


def resolve(paths: Iterable[str]) -> list[str]:
    """The shards that the paths stand for.

    A directory stands for the `*.arrow` files in it and a glob pattern for what it matches, both
    sorted by name; a file stands for itself, also where its name looks like a pattern. Of what
    Hugging Face `datasets` writes, a directory stands for the data set alone: results of `map`
    that were cached beside it are left out.

    Raises:
        FileNotFoundError: A path does not exist, a pattern matches nothing, or a directory has no
            shards.
        ValueError: A directory of `datasets` holds several splits.
    """
    shards: list[str] = []
    given = list(paths)
    # Asked at once, since on remote storage each is a round trip.
    for path, kind in zip(given, path_kinds(given), strict=True):
        if kind == "folder":
            names = _shards_in(path)
            if not names:
                raise FileNotFoundError(2, "No .arrow shards in this directory", path)
            shards += [os.path.join(path, name) for name in names]
        elif glob.has_magic(path) and not os.path.exists(path):
            found = sorted(glob.glob(path))
            kinds = path_kinds(found)
            matches = [match for match, kind in zip(found, kinds, strict=True) if kind == "file"]
            if not matches:
                raise FileNotFoundError(2, "No shards match this pattern", path)
            shards += matches
        else:
            shards.append(path)
    return shards


def _shards_in(directory: str) -> list[str]:
    """The names of a directory's shards."""
    splits = _json(directory, "dataset_dict.json").get("splits")
    if isinstance(splits, list):
        raise _several(directory, cast("list[str]", splits), os.path.join(directory, "<split>"))
    saved = _json(directory, "state.json").get("_data_files")
    if isinstance(saved, list):
        return [str(file["filename"]) for file in cast("list[dict[str, Any]]", saved)]
    names = sorted(name for name in os.listdir(directory) if name.endswith(".arrow"))
    splits = _json(directory, "dataset_info.json").get("splits")
    if not isinstance(splits, dict):
        return names
    # A cache directory: the results of `map` and `filter` lie beside the data set.
    names = [name for name in names if not name.startswith("cache-")]
    of_split = {
        split: [name for name in names if re.search(rf"-{re.escape(split)}(-\d+-of-\d+)?\.", name)]
        for split in cast("dict[str, Any]", splits)
    }
    present = sorted(split for split, found in of_split.items() if found)
    if len(present) > 1:
        raise _several(directory, present, os.path.join(directory, f"*-{present[0]}*.arrow"))
    return names


def _several(directory: str, splits: Sequence[str], example: str) -> ValueError:
    return ValueError(
        f"{directory} holds several splits of a data set ({', '.join(splits)}); name one: {example}"
    )


def _json(directory: str, name: str) -> dict[str, Any]:
    """The object in this file; empty where there is no file, or something else in it."""
    path = os.path.join(directory, name)
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        try:
            content: object = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is not JSON, as datasets writes it: {error}") from error
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}
