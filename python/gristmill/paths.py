"""From what a user calls his data to a list of shards."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence

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
    sorted by name; a file stands for itself, also where its name looks like a pattern.

    Raises:
        FileNotFoundError: A path does not exist, a pattern matches nothing, or a directory has no
            shards.
    """
    shards: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            names = sorted(name for name in os.listdir(path) if name.endswith(".arrow"))
            if not names:
                raise FileNotFoundError(2, "No .arrow shards in this directory", path)
            shards += [os.path.join(path, name) for name in names]
        elif glob.has_magic(path) and not os.path.exists(path):
            matches = sorted(match for match in glob.glob(path) if os.path.isfile(match))
            if not matches:
                raise FileNotFoundError(2, "No shards match this pattern", path)
            shards += matches
        else:
            shards.append(path)
    return shards


def exclusions(
    exclude: Iterable[tuple[int | str | os.PathLike[str], int]], shards: Sequence[str]
) -> list[tuple[int, int]]:
    """The excluded rows by shard number, where a user may name a shard by its path instead."""
    by_name: dict[str, list[int]] = {}
    for number, shard in enumerate(shards):
        for name in {shard, os.path.basename(shard)}:
            by_name.setdefault(name, []).append(number)
    rows: list[tuple[int, int]] = []
    for named, row in exclude:
        shard = os.fspath(named) if isinstance(named, os.PathLike) else named
        if isinstance(shard, str):
            numbers = by_name.get(shard, [])
            if len(numbers) != 1:
                raise ValueError(
                    f"exclude names shard {shard!r}, which fits {len(numbers)} of the "
                    f"{len(shards)} shards; name it by its path"
                )
            shard = numbers[0]
        if shard < 0 or row < 0:
            raise ValueError(f"exclude names {(shard, row)}: shards and rows count from 0")
        rows.append((shard, row))
    return rows
