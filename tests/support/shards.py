"""Writes shards as Hugging Face `datasets` does, with pyarrow."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NEW_YEAR = dt.datetime.fromisoformat("2026-01-01")
AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FIELDS = {
    "audio": AUDIO,
    "label": pa.int64(),
    "count": pa.int32(),
    "level": pa.float32(),
    "good": pa.bool_(),
    "when": pa.timestamp("us"),
    "name": pa.string(),
    "tags": pa.list_(pa.int32()),
    "box": pa.list_(pa.float32(), 4),
    "place": pa.struct([("lat", pa.float64()), ("lon", pa.float64())]),
}
FEATURES = {
    "audio": {"_type": "Audio"},
    "label": {"names": ["wren", "crow"], "_type": "ClassLabel"},
    "count": {"dtype": "int32", "_type": "Value"},
    "level": {"dtype": "float32", "_type": "Value"},
    "good": {"dtype": "bool", "_type": "Value"},
    "when": {"dtype": "timestamp[us]", "_type": "Value"},
    "name": {"dtype": "string", "_type": "Value"},
    "tags": {"feature": {"dtype": "int32", "_type": "Value"}, "_type": "List"},
    "box": {"feature": {"dtype": "float32", "_type": "Value"}, "length": 4, "_type": "List"},
    "place": {
        "lat": {"dtype": "float64", "_type": "Value"},
        "lon": {"dtype": "float64", "_type": "Value"},
    },
}


def row(i: int, data: bytes | None, path: str | None = None) -> dict[str, Any]:
    """A row of every kind of column, its values told by its number."""
    return {
        "audio": {"bytes": data, "path": path or f"recording-{i}"},
        "label": i % 2,
        "count": i - 3,
        "level": i / 4,
        "good": i % 3 == 0,
        "when": NEW_YEAR + dt.timedelta(hours=i, microseconds=i),
        "name": None if i % 4 == 1 else f"row {i} \N{BIRD}",
        "tags": list(range(i % 5)),
        "box": [i, i + 0.5, i + 1, -i],
        "place": {"lat": i / 8, "lon": -i / 8},
    }


def schema(fields: dict[str, pa.DataType] | None = None, *, features: bool = True) -> pa.Schema:
    """The schema; with the features in its metadata, as `datasets` writes them."""
    plain = pa.schema(list((FIELDS if fields is None else fields).items()))
    if not features:
        return plain
    info = {
        "info": {"features": {name: FEATURES[name] for name in plain.names if name in FEATURES}}
    }
    return plain.with_metadata({"huggingface": json.dumps(info)})


def write(
    path: Path,
    rows: Sequence[dict[str, Any]],
    *,
    form: str = "stream",
    batch_rows: int = 3,
    of: pa.Schema | None = None,
) -> Path:
    """Writes one shard, in record batches of `batch_rows` rows."""
    of = schema() if of is None else of
    make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as sink, make(sink, of) as writer:
        for start in range(0, len(rows), batch_rows):
            part = rows[start : start + batch_rows]
            columns = [pa.array([r[f.name] for r in part], f.type) for f in of]
            writer.write_batch(pa.record_batch(columns, schema=of))
    return path


def write_table(
    path: Path,
    table: pa.Table,
    batch_rows: int | None = None,
    *,
    form: str = "stream",
    codec: str | None = None,
) -> Path:
    """Writes one shard of a table, in record batches of at most `batch_rows` rows.

    As Parquet where it is called so, in row groups of as many rows.
    """
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=batch_rows)
        return path
    make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def with_features(table: pa.Table, features: dict[str, Any]) -> pa.Table:
    """The table with these features in its metadata, as `datasets` writes them."""
    info = json.dumps({"info": {"features": features}})
    return table.replace_schema_metadata({"huggingface": info})


def write_audio(path: Path, recordings: Sequence[bytes | None], **options: Any) -> Path:
    """A shard of these recordings, each with a row of every other kind of column."""
    return write(path, [row(i, data) for i, data in enumerate(recordings)], **options)
