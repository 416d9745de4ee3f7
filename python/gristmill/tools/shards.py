"""What the headers of one shard say; the rows themselves are not read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

from gristmill.errors import SchemaError
from gristmill.urls import shown_path


@dataclass(frozen=True)
class ShardHeader:
    """What the headers of one shard say.

    Attributes:
        path: As it was given or found.
        rows: In all record batches.
        record_batches: Number of record batches, empty ones included; of Parquet, the number of
            row groups, or of the parts of them that are read at a time.
        bytes: Size of the file.
        format: `"stream"` or `"file"` of Arrow IPC, or `"parquet"`.
        compression: Of the first record batch: `"lz4"`, `"zstd"` or `None`. Of Parquet, that of the
            largest column: also `"snappy"`, `"gzip"`, `"brotli"` or `"lzo"`.
        columns: `(name, Arrow type)` of each column, in order.
        metadata: Of the schema.
        audio_columns: Columns that the Hugging Face features call audio.
        requests: To the storage; 0 where a sidecar was found.
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

    def __repr__(self) -> str:
        # The path is what opens the shard; of a URL it may have a password and a query.
        named = {part.name: getattr(self, part.name) for part in fields(self) if part.repr}
        named["path"] = shown_path(self.path)
        return f"ShardHeader({', '.join(f'{name}={value!r}' for name, value in named.items())})"


@dataclass(frozen=True)
class UnreadableShard:
    """A shard that is not valid Arrow IPC or Parquet.

    Attributes:
        shard: Its path.
        from_row: The first row that cannot be read; 0 where the headers themselves are broken.
        message: What is wrong.
    """

    shard: str
    from_row: int
    message: str


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
                f"{shown_path(first.path)} has no column {column!r}; it has {have}", column=column
            )
        return column
    if len(first.audio_columns) == 1:
        return first.audio_columns[0]
    if not first.audio_columns:
        what = "no column is marked as audio in the schema's Hugging Face features"
    else:
        what = f"several columns are audio ({', '.join(first.audio_columns)})"
    raise SchemaError(f"{shown_path(first.path)}: {what}; name one (--column, column=)", column="")


def features(header: ShardHeader) -> dict[str, Any]:
    """The Hugging Face features in a schema's metadata, by column; empty without any."""
    try:
        found: Any = json.loads(header.metadata.get("huggingface", ""))
        found = found["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def joined_class_names(headers: Sequence[ShardHeader]) -> dict[str, list[str]]:
    """The names of the classes of each column that is a `ClassLabel` and in all shards.

    Where shards list other classes: those of the first, then those of the second that are new, and
    so on, as `labels="map"` joins them.
    """
    joined: dict[str, list[str]] = {}
    # Shards without features have the classes of the others.
    for names in map(class_names, headers):
        for column, own in names.items():
            known = joined.setdefault(column, own)
            if known != own:
                joined[column] = list(dict.fromkeys([*known, *own]))
    columns = [{name for name, _ in header.columns} for header in headers]
    return {name: of for name, of in joined.items() if all(name in have for have in columns)}


def class_names(header: ShardHeader) -> dict[str, list[str]]:
    """The names of the classes of each column that is a `ClassLabel`."""
    names: dict[str, list[str]] = {}
    for column, feature in features(header).items():
        described = cast("dict[str, Any]", feature) if isinstance(feature, dict) else {}
        found = described.get("names")
        # A struct may have a field that is called so.
        if described.get("_type") == "ClassLabel" and isinstance(found, list):
            names[column] = [str(name) for name in cast("list[Any]", found)]
    return names
