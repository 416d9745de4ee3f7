"""Which recordings go to which shard: from names and sizes alone, before anything is read."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from gristmill.tools.pack import folder, shards, tar
from gristmill.tools.pack.columns import encode_classes, schema_of
from gristmill.tools.pack.metadata import with_metadata
from gristmill.tools.pack.source import (
    ORDER_OF_SPLITS,
    Recording,
    Source,
    lone_splits,
    name_of,
    splits_of,
)

FORMAT = 1
"""Of what is written: another number, and shards of an earlier version are not continued."""


@dataclass(frozen=True)
class PackOptions:
    """The options of `gm.pack` that the shards depend on."""

    shard_size: int
    keep_bad: bool
    fast: bool
    class_columns: tuple[str, ...]
    follow_links: bool
    limits: tuple[tuple[str, Any], ...]
    convert: bool = field(default=False, repr=False)  # so that earlier folders keep their hash


@dataclass(frozen=True)
class ShardPlan:
    """One shard: these rows of the source, in this order."""

    file: str
    split: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """All that is to be written, and a hash of what it depends on; of recordings, name and size."""

    source: Source
    schema: pa.Schema
    features: dict[str, Any]
    shards: tuple[ShardPlan, ...]
    digest: str

    def recording(self, row: int) -> Recording:
        """The recording of a row."""
        return self.source.recordings[row]

    def stamp(self, shard: ShardPlan) -> str:
        """A hash of a shard's recordings and of when they changed."""
        hasher = hashlib.blake2b(digest_size=16)
        for row in shard.rows:
            one = self.recording(row)
            hasher.update(repr((one.name, one.offset, one.size, one.changed_ns)).encode())
        return hasher.hexdigest()


def make_plan(sources: Sequence[str], out: str, options: PackOptions) -> Plan:
    """Looks through the source, a folder or tars, and plans the shards.

    Raises:
        FileNotFoundError: There is no such source, or no recording in it.
        OSError: It cannot be read.
        SchemaError: Its metadata contradict themselves.
        ValueError: It holds recordings and tars, or compressed tars.
    """
    paths = _matches(sources)
    is_folder = len(paths) == 1 and not Path(paths[0]).is_file()
    source = _in_folder(paths[0], out, options) if is_folder else _in_files(paths, options)
    if not source.recordings:
        first = next(iter(source.bad), None)
        why = f" that can be packed: {first.file}: {first.message}" if first else ""
        raise FileNotFoundError(2, f"No recordings here{why}", sources[0])
    if mixed := lone_splits(source.recordings):
        source.notes.append(
            f"There are no splits: some recordings are beside the folders {', '.join(mixed)}."
        )
    encode_classes(source, options.class_columns)
    if source.columns is not None:
        # Taking rows out of many chunks joins all of them, each time.
        source.columns = source.columns.combine_chunks()
    schema, features = schema_of(source)
    planned = _shards(source.recordings, options.shard_size)
    return Plan(source, schema, features, planned, _digest(source, schema, options))


def _matches(sources: Sequence[str]) -> list[str]:
    """The paths that are given, patterns replaced by what they match."""
    paths: list[str] = []
    for source in sources:
        if glob.has_magic(source) and not Path(source).exists():
            # pathlib would change the paths, which stay as they are given.
            matches = sorted(set(glob.glob(source, recursive=True)))  # noqa: PTH207
            if not matches:
                raise FileNotFoundError(2, "Nothing matches this pattern", source)
            paths += matches
        else:
            paths.append(source)
    return paths


def _in_files(paths: Sequence[str], options: PackOptions) -> Source:
    """What tars or shards hold, called by their paths from the folder that they share."""
    are_shards = options.convert and all(path.endswith(".arrow") for path in paths)
    for path in paths:
        if Path(path).is_dir():
            raise ValueError(f"{path} is a folder among several sources; pack it by itself")
        if not are_shards and not folder.is_tar(path):
            raise ValueError(f"{path} is neither a folder nor a tar of recordings")
    absolute = {Path(path).absolute() for path in paths}
    root = os.path.commonpath([path.parent for path in absolute])
    names = sorted(name_of(path.relative_to(root).as_posix()) for path in absolute)
    if are_shards:
        return shards.with_rows(root, [os.path.relpath(path, root) for path in sorted(absolute)])
    return tar.with_samples(root, names, Source())


def _in_folder(path: str, out: str, options: PackOptions) -> Source:
    """What a folder holds: recordings, or tars."""
    found = folder.walk(path, left_out=os.path.realpath(out), follow_links=options.follow_links)
    if found.tars and (found.recordings or found.metadata):
        one = next(iter(found.recordings), found.metadata[0] if found.metadata else "")
        raise ValueError(
            f"{path} contains recordings ({one}) and tars ({found.tars[0]}); pack them one after "
            "the other, from folders of their own"
        )
    if found.tars:
        return tar.with_samples(path, found.tars, found.source)
    if options.convert and not found.recordings and not found.metadata:
        return shards.with_rows(path, shards.shards_in(path, os.path.realpath(out)))
    return with_metadata(found) if found.metadata else folder.with_classes(found)


def _shards(recordings: list[Recording], shard_size: int) -> tuple[ShardPlan, ...]:
    """Runs of rows of one split, each of at most `shard_size` bytes of audio, or one recording."""
    of_split: dict[str, list[list[int]]] = {}
    filled: dict[str, int] = {}
    for row, split in enumerate(splits_of(recordings)):
        runs = of_split.setdefault(split, [])
        size = recordings[row].size
        if not runs or filled[split] + size > shard_size:
            runs.append([])
            filled[split] = 0
        runs[-1].append(row)
        filled[split] += size
    planned: list[ShardPlan] = []
    for split in ORDER_OF_SPLITS:
        runs = of_split.get(split, [])
        prefix = f"{split}/" if len(of_split) > 1 else ""
        for number, rows in enumerate(runs):
            name = f"{prefix}data-{number:05d}-of-{len(runs):05d}.arrow"
            planned.append(ShardPlan(name, split, tuple(rows)))
    return tuple(planned)


def _digest(source: Source, schema: pa.Schema, options: PackOptions) -> str:
    """A hash of names, sizes, columns and options."""
    hasher = hashlib.blake2b(digest_size=16)
    hasher.update(repr((FORMAT, options, [bad.file for bad in source.bad])).encode())
    if options.convert:
        hasher.update(b"convert")
    for recording in source.recordings:
        hasher.update(repr((recording.name, recording.offset, recording.size)).encode())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, schema.remove(schema.get_field_index(source.audio_name))
    ) as writer:
        if source.columns is not None:
            writer.write_table(source.columns.replace_schema_metadata(schema.metadata))
    hasher.update(sink.getvalue())
    return hasher.hexdigest()
