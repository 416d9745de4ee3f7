"""From what a user names for exclusion to rows by number."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from gristmill.quarantine import read_quarantine

Pair: TypeAlias = tuple[int | str | os.PathLike[str], int]
File: TypeAlias = str | os.PathLike[str]
Exclude: TypeAlias = File | Iterable[Pair | File]
"""A quarantine file, `(shard, row)` pairs, or several of both."""


@dataclass(frozen=True)
class Exclusions:
    """What the native core is told.

    Attributes:
        rows: `(number of the shard, row)` pairs.
        counts: `(number of the shard, rows that it must have)`, where a file says so.
    """

    rows: list[tuple[int, int]]
    counts: list[tuple[int, int]]


def as_items(exclude: Exclude) -> tuple[Pair | File, ...]:
    """What was given, one after the other, without a look at the file system."""
    items = (exclude,) if isinstance(exclude, (str, os.PathLike)) else tuple(exclude)
    for item in items:
        is_pair = isinstance(item, tuple) and len(cast("tuple[object, ...]", item)) == 2
        if not (is_pair or isinstance(item, (str, os.PathLike))):
            raise ValueError(
                f"exclude takes (shard, row) pairs and paths of quarantine files, not {item!r}"
            )
    return items


def resolve(exclude: Iterable[Pair | File], shards: Sequence[str]) -> Exclusions:
    """The excluded rows by the numbers of their shards.

    Raises:
        FileNotFoundError: A quarantine file is not there.
        ValueError: A shard or row cannot be, or a quarantine file is of other data.
    """
    found = Exclusions([], [])
    items = list(exclude)
    if not items:
        return found
    by_name: dict[str, list[int]] = {}
    for number, shard in enumerate(shards):
        for name in {shard, Path(shard).name}:
            by_name.setdefault(name, []).append(number)
    for item in items:
        if isinstance(item, tuple):
            found.rows.append(_pair(item, by_name, len(shards)))
        else:
            _add_file(os.fspath(item), by_name, found)
    return found


def _pair(pair: Pair, by_name: dict[str, list[int]], n_shards: int) -> tuple[int, int]:
    named, row = pair
    shard = os.fspath(named) if isinstance(named, os.PathLike) else named
    if isinstance(shard, str):
        numbers = by_name.get(shard, [])
        if len(numbers) != 1:
            raise ValueError(
                f"exclude names shard {shard!r}, which fits {len(numbers)} of the "
                f"{n_shards} shards; name it by its path"
            )
        shard = numbers[0]
    if shard < 0 or row < 0:
        raise ValueError(f"exclude names {(shard, row)}: shards and rows count from 0")
    return shard, row


def _add_file(path: str, by_name: dict[str, list[int]], found: Exclusions) -> None:
    quarantined = read_quarantine(path)
    counts: dict[int, int] = {}
    for bad in quarantined:
        # Shards that are not there are of a part of the data that is not wanted now.
        numbers = by_name.get(bad.shard, [])
        if len(numbers) > 1:
            raise ValueError(
                f"{path} names shard {bad.shard!r}, and {len(numbers)} of the shards are called "
                "so; exclude its rows as pairs of path and row"
            )
        for number in numbers:
            if counts.setdefault(number, bad.shard_rows) != bad.shard_rows:
                raise ValueError(
                    f"{path} says both that {bad.shard!r} has {counts[number]} rows and that it "
                    f"has {bad.shard_rows}: it is of several data sets; delete the lines of others"
                )
            found.rows.append((number, bad.row))
    if quarantined and not counts:
        raise ValueError(
            f"{path} is of another data set: of the shards that it names, such as "
            f"{quarantined[0].shard!r}, none is among those given"
        )
    found.counts.extend(counts.items())
