"""What the headers of shards say, one shard at a time: the rows themselves are not read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, cast

from gristmill import _core, checks
from gristmill import paths as _paths
from gristmill.errors import CorruptShardError, LimitError, SchemaError
from gristmill.options import ReadOptions, read_options

OnShard = Callable[[], None]
"""Called after each shard, from one thread at a time."""

_READERS = 16
"""Shards that are opened at a time: waiting for storage takes the time, not the CPU."""


@dataclass(frozen=True)
class ShardHeader:
    """What the headers of one shard say.

    Attributes:
        path: As it was given or found.
        rows: In all record batches.
        record_batches: How many, empty ones included.
        bytes: Size of the file.
        format: `"stream"` or `"file"`.
        compression: Of the first record batch: `"lz4"`, `"zstd"` or `None`.
        columns: `(name, Arrow type)` of each column, in order.
        metadata: Of the schema.
        audio_columns: Those that the Hugging Face features call audio.
        requests: To the storage; 0 where a sidecar was there.
        is_indexed: Whether there is a sidecar now.
    """

    path: str
    rows: int
    record_batches: int
    bytes: int
    format: str
    compression: str | None
    columns: tuple[tuple[str, str], ...]
    metadata: Mapping[str, str] = field(repr=False)
    audio_columns: tuple[str, ...]
    requests: int
    is_indexed: bool


@dataclass(frozen=True)
class UnreadableShard:
    """A shard that is not sound Arrow IPC.

    Attributes:
        shard: Its path.
        from_row: The first row that cannot be read; 0 where its headers are broken already.
        message: What is wrong.
    """

    shard: str
    from_row: int
    message: str


def read_header(path: str, read: ReadOptions) -> ShardHeader:
    """The headers of one shard; its sidecar is written if it had none."""
    found = _core.read_header(path, index_dir=read.resolved_index_dir, retries=read.retries)
    # Arrow writes microseconds with a sign that not every terminal has.
    columns = ((name, kind.replace("\N{MICRO SIGN}", "u")) for name, kind in found["columns"])
    found["columns"] = tuple(columns)
    found["audio_columns"] = tuple(found["audio_columns"])
    return ShardHeader(**found)


def read_headers(
    paths: _paths.Paths,
    read: ReadOptions | None = None,
    on_shards: Callable[[int], None] | None = None,
    on_shard: OnShard | None = None,
) -> tuple[list[ShardHeader], list[UnreadableShard]]:
    """The headers of all shards, in order, and the shards that are no sound Arrow IPC.

    Args:
        paths: As in `ArrowIterDataset`.
        read: Where sidecars are kept, and how often a request is sent again.
        on_shards: Is told the number of shards first.
        on_shard: Is called after each of them.

    Raises:
        OSError: A shard cannot be read.
    """
    options = read_options(read)
    for name, told in (("on_shards", on_shards), ("on_shard", on_shard)):
        checks.function(name, told)
    shards = _paths.resolve(_paths.as_list(paths))
    if on_shards:
        on_shards(len(shards))
    found: dict[int, ShardHeader | UnreadableShard] = {}
    stop = threading.Event()

    def one(shard: str) -> ShardHeader | UnreadableShard | None:
        if stop.is_set():
            return None
        try:
            return read_header(shard, options)
        except (CorruptShardError, LimitError, SchemaError) as error:
            return UnreadableShard(shard, 0, str(error))

    with ThreadPoolExecutor(_READERS, thread_name_prefix="gristmill-headers") as pool:
        jobs = {pool.submit(one, shard): number for number, shard in enumerate(shards)}
        try:
            for job in as_completed(jobs):
                header = job.result()
                if header is not None:
                    found[jobs[job]] = header
                if on_shard:
                    on_shard()
        except BaseException:
            stop.set()
            raise
    ordered = [found[number] for number in sorted(found)]
    headers = [header for header in ordered if isinstance(header, ShardHeader)]
    return headers, [header for header in ordered if isinstance(header, UnreadableShard)]


def audio_column(headers: Sequence[ShardHeader], column: str | None) -> str:
    """The column that holds audio: the one named, or the one that the features call audio.

    Raises:
        SchemaError: There is none, or more than one.
    """
    if not headers:
        raise SchemaError(
            "none of the shards can be read; gristmill inspect says what is wrong with each",
            column=column or "",
        )
    first = headers[0]
    names = [name for name, _ in first.columns]
    if column is not None:
        if column not in names:
            have = ", ".join(names)
            raise SchemaError(
                f"{first.path} has no column {column!r}; it has {have}", column=column
            )
        return column
    if len(first.audio_columns) == 1:
        return first.audio_columns[0]
    if not first.audio_columns:
        what = "no column is marked as audio in the schema's Hugging Face features"
    else:
        what = f"several columns are audio ({', '.join(first.audio_columns)})"
    raise SchemaError(f"{first.path}: {what}; name one (--column, column=)", column="")


def features(header: ShardHeader) -> dict[str, Any]:
    """The Hugging Face features in a schema's metadata, by column; empty without any."""
    try:
        found: Any = json.loads(header.metadata.get("huggingface", ""))
        found = found["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def class_names(header: ShardHeader) -> dict[str, list[str]]:
    """The names of the classes of each column that is a `ClassLabel`."""
    names: dict[str, list[str]] = {}
    for column, feature in features(header).items():
        if isinstance(feature, dict):
            found = cast("dict[str, Any]", feature).get("names")
            if isinstance(found, list):
                names[column] = [str(name) for name in cast("list[Any]", found)]
    return names
