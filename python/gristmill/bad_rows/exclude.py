"""The option `exclude`: from quarantine files and pairs to rows by number."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias, cast

from gristmill.bad_rows.quarantine import read_fields
from gristmill.checks import as_int, is_path, items, shown
from gristmill.urls import base_name, shown_path

Pair: TypeAlias = tuple[int | str | os.PathLike[str], int]
File: TypeAlias = str | os.PathLike[str]
Item: TypeAlias = Pair | File
Exclude: TypeAlias = File | Iterable[Item]
"""A quarantine file, `(shard, row)` pairs, or several of both."""


class Exclusions(NamedTuple):
    """The excluded rows, and what must hold for them to be about this data.

    Attributes:
        rows: By the number of the shard: eight bytes a row, for there may be millions.
        counts: `(number of the shard, rows that it must have)`, where a file tells.
    """

    rows: dict[int, array[int]]
    counts: list[tuple[int, int]]


def as_items(exclude: Exclude) -> tuple[Item, ...]:
    """The items as given, without access to the file system."""
    what = "(shard, row) pairs and paths of quarantine files"
    is_one = isinstance(exclude, (str, os.PathLike))
    given = (exclude,) if is_one else items(exclude)
    if given is None:
        raise ValueError(f"exclude takes {what}, not {shown(exclude)}: write exclude='bad.jsonl'")
    for item in given:
        is_pair = isinstance(item, tuple) and len(cast("tuple[object, ...]", item)) == 2
        is_file = isinstance(item, (str, os.PathLike)) and is_path(os.fsdecode(cast("File", item)))
        if not (is_pair or is_file):
            pairs = "; a pair is in a list: exclude=[(0, 5)]" if as_int(item) is not None else ""
            raise ValueError(f"exclude takes {what}, not {shown(item)}{pairs}")
    return given


def resolve(exclude: Iterable[Item], shards: Sequence[str]) -> Exclusions:
    """The excluded rows by the numbers of their shards.

    Raises:
        FileNotFoundError: A quarantine file is not there.
        ValueError: A shard or row cannot be, or a quarantine file is of other data.
    """
    found = Exclusions({}, [])
    items = list(exclude)
    if not items:
        return found
    by_name: dict[str, list[int]] = {}
    for number, shard in enumerate(shards):
        path = shown_path(shard)  # as UTF-8, whatever the locale
        for name in {shard, path, base_name(shard), base_name(path)}:
            by_name.setdefault(name, []).append(number)
    for item in items:
        if isinstance(item, tuple):
            shard, row = _pair(item, by_name, len(shards))
            _add(found, shard, row)
        else:
            _add_file(os.fsdecode(item), by_name, found)
    return found


def _pair(pair: Pair, by_name: dict[str, list[int]], n_shards: int) -> tuple[int, int]:
    named, row = pair
    shard = os.fspath(named) if isinstance(named, os.PathLike) else named
    if isinstance(shard, str):
        numbers = by_name.get(shard, [])
        if len(numbers) != 1:
            raise ValueError(
                f"exclude names shard {shown_path(shard)!r}, which fits {len(numbers)} of the "
                f"{n_shards} shards; name it by its path"
            )
        shard = numbers[0]
    shard, row = as_int(shard), as_int(row)
    if shard is None or row is None:
        raise ValueError(
            f"exclude names {shown(pair)}: a shard is a number or a path, and a row is a number"
        )
    if not (0 <= shard < n_shards and 0 <= row < 2**63):
        raise ValueError(
            f"exclude names {(shard, row)}: shards count from 0 to {n_shards - 1}, rows from 0"
        )
    return shard, row


def _add_file(path: str, by_name: dict[str, list[int]], found: Exclusions) -> None:
    counts: dict[int, int] = {}
    another = None
    for fields in read_fields(path):
        shard, n_rows = base_name(fields["shard"]), fields["rows"]
        # Shards that are missing here belong to a part of the data that is not wanted now.
        numbers = by_name.get(shard)
        if numbers is None:
            another = another or shard
            continue
        if len(numbers) > 1:
            raise ValueError(
                f"{path} names shard {shard!r}, and {len(numbers)} of the shards have that name; "
                "exclude its rows as pairs of path and row"
            )
        number = numbers[0]
        if counts.setdefault(number, n_rows) != n_rows:
            raise ValueError(
                f"{path} says both that {shard!r} has {counts[number]} rows and that it has "
                f"{n_rows}: it mixes several data sets; delete the lines of the others"
            )
        _add(found, number, fields["row"])
    if another is not None and not counts:
        raise ValueError(
            f"{path} belongs to another data set: it names shards such as {another!r}, none of "
            "which are given; if each shard is a data set of its own, give each its own pairs "
            "of path and row"
        )
    found.counts.extend(counts.items())


def _add(found: Exclusions, shard: int, row: int) -> None:
    rows = found.rows.get(shard)
    if rows is None:
        rows = found.rows[shard] = array("Q")
    rows.append(row)
