"""Writes one shard: under its own name only once it is whole and on the disk."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from gristmill.tools.pack.columns import AUDIO
from gristmill.tools.pack.plan import Plan
from gristmill.tools.pack.reader import Loaded
from gristmill.tools.pack.report import BadFile

_ROWS_PER_RECORD_BATCH = 100
"""What `datasets` writes for audio."""
_BYTES_PER_RECORD_BATCH = 64 << 20
"""Of audio; a longer recording has a record batch of its own."""


@dataclass
class Written:
    """What went into a shard."""

    rows: int = 0
    converted: int = 0
    bytes: int = 0
    audio_seconds: float = 0.0
    bad: list[BadFile] = field(default_factory=list[BadFile])


def write_shard(
    path: Path, plan: Plan, loaded: Iterable[Loaded], on_file: Callable[[Loaded], None]
) -> Written:
    """Writes a shard to `path`, which must not be where it is looked for, and to the disk.

    Raises:
        OSError: It cannot be written, and nothing is left of it.
    """
    written = Written()
    try:
        with path.open("wb") as file:
            with pa.ipc.new_stream(file, plan.schema) as writer:
                for batch in _batches(loaded, on_file, written):
                    writer.write_batch(_record_batch(plan, batch))
            file.flush()
            os.fsync(file.fileno())
            written.bytes = file.tell()
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise
    return written


def _batches(
    loaded: Iterable[Loaded], on_file: Callable[[Loaded], None], written: Written
) -> Iterable[list[Loaded]]:
    """The rows that stay, by record batch."""
    batch: list[Loaded] = []
    n_bytes = 0
    for one in loaded:
        on_file(one)
        if one.bad is not None:
            written.bad.append(one.bad)
        if one.data is None:
            continue
        if batch and (
            len(batch) == _ROWS_PER_RECORD_BATCH
            or n_bytes + len(one.data) > _BYTES_PER_RECORD_BATCH
        ):
            yield batch
            batch, n_bytes = [], 0
        batch.append(one)
        n_bytes += len(one.data)
        written.rows += 1
        written.converted += one.is_converted
        written.audio_seconds += one.audio_seconds
    if batch:
        yield batch


def _record_batch(plan: Plan, batch: list[Loaded]) -> pa.RecordBatch:
    data = pa.array([one.data for one in batch], pa.binary())
    paths = pa.array([plan.recording(one.row).path for one in batch], pa.string())
    arrays: list[pa.Array] = []
    if plan.source.columns is not None:
        rows = plan.source.columns.take(pa.array([one.row for one in batch], pa.int64()))
        arrays = [pa.concat_arrays(column.chunks) for column in rows.columns]
    audio = pa.StructArray.from_arrays([data, paths], fields=list(AUDIO))
    arrays.insert(plan.source.audio_at, audio)
    return pa.record_batch(arrays, schema=plan.schema)
