"""Shards that exist, as a source: their rows' recordings, where they lie in the files."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from gristmill.errors import SchemaError
from gristmill.tools.pack.report import BadFile
from gristmill.tools.pack.source import Recording, Source, is_hidden, name_of


def shards_in(root: str, left_out: str) -> list[str]:
    """The Arrow files of a folder, by their paths in it, sorted."""
    found: list[str] = []
    for path in Path(root).rglob("*.arrow"):
        inside = path.relative_to(root)
        is_output = path.resolve().is_relative_to(left_out)
        if is_output or any(map(is_hidden, inside.parts)):
            continue
        found.append(str(inside))
    return sorted(found)


def with_rows(root: str, shards: list[str]) -> Source:
    """The rows of Arrow shards, in their order. Recordings are read where they lie in the files.

    Raises:
        OSError: A shard cannot be read.
        SchemaError: One is no Arrow file, is compressed, has no column of `struct<bytes, path>` or
            other columns than the first.
    """
    source = Source()
    tables: list[pa.Table] = []
    for shard in shards:
        path = Path(root, shard)
        try:
            with pa.memory_map(str(path)) as file:
                tables += _tables(source, file, path, name_of(shard))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(f"{path} cannot be read as Arrow: {error}; repair it") from error
    try:
        columns = pa.concat_tables(tables) if tables else None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(f"shards have different columns: {error}") from error
    source.columns = columns if columns is not None and columns.num_columns else None
    return source


def _tables(source: Source, file: Any, path: Path, name: str) -> Iterator[pa.Table]:
    """Adds the recordings of a shard; gives what stands beside them, by record batch."""
    start, size = file.read_buffer().address, file.size()
    changed_ns = path.stat().st_mtime_ns
    file.seek(0)
    first_row = 0
    for batch in _batches(file):
        batch.validate(full=True)
        at = _describe(source, batch.schema, path)
        kept: list[int] = []
        for k, (address, n_bytes, recorded) in enumerate(_rows(batch.column(at))):
            where = f"{name} row {first_row + k}"
            if address is None:
                why = "the row has no bytes of a recording"
                source.bad.append(BadFile(where, "no_audio", why))
                continue
            if n_bytes and not start <= address <= start + size - n_bytes:
                raise SchemaError(f"{path} is compressed; write it without compression first")
            offset = address - start if n_bytes else 0
            kept.append(k)
            source.recordings.append(
                Recording(where, recorded, str(path), offset, n_bytes, changed_ns)
            )
        first_row += batch.num_rows
        rest = pa.Table.from_batches([batch]).remove_column(at).replace_schema_metadata(None)
        yield rest.take(pa.array(kept, pa.int64()))  # a copy, which outlives the mapped file


def _batches(file: Any) -> Iterator[pa.RecordBatch]:
    if file.read_at(6, 0) == b"ARROW1":
        reader = pa.ipc.open_file(file)
        yield from (reader.get_batch(k) for k in range(reader.num_record_batches))
    else:
        yield from pa.ipc.open_stream(file)


def _rows(column: pa.StructArray) -> Iterator[tuple[int | None, int, str | None]]:
    """Where each recording lies in memory, its length, and its path."""
    values = column.field("bytes")
    paths = cast("list[str | None]", column.field("path").to_pylist())
    there = zip(column.is_valid().to_pylist(), values.is_valid().to_pylist(), strict=True)
    _, ends, data = values.buffers()
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    offsets: list[int] = []
    if len(values):
        offsets = np.frombuffer(ends, width)[values.offset :][: len(values) + 1].tolist()
    base = data.address if data is not None else 0
    for k, (has_row, has_bytes) in enumerate(there):
        begin, end = offsets[k], offsets[k + 1]
        yield (base + begin if has_row and has_bytes else None), end - begin, paths[k]


def _describe(source: Source, schema: pa.Schema, path: Path) -> int:
    """Finds the column of recordings, and keeps what the first schema says about the columns."""
    candidates = [k for k, field in enumerate(schema) if _is_audio(field.type)]
    named = [k for k in candidates if schema.field(k).name == "audio"] or candidates
    if len(named) != 1 or (source.recordings and schema.field(named[0]).name != source.audio_name):
        what = "several columns" if len(named) > 1 else "no such column"
        raise SchemaError(f"{path}: there must be one column of struct<bytes, path>: {what}")
    (at,) = named
    if not source.recordings:
        source.audio_name, source.audio_at = schema.field(at).name, at
        try:
            features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
            known = {name: one for name, one in features.items() if name in schema.names}
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
            known = {}
        audio = known.pop(source.audio_name, None)
        if isinstance(audio, dict) and cast("dict[str, Any]", audio).get("_type") == "Audio":
            source.audio_feature = cast("dict[str, Any]", audio)
        source.features = known
    return at


def _is_audio(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind) or {field.name for field in kind} != {"bytes", "path"}:
        return False
    data = kind.field("bytes").type
    return pa.types.is_binary(data) or pa.types.is_large_binary(data)
