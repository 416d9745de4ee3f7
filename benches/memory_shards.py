"""The shards on which memory is hardest to bound, made once into a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

N_COLUMNS = 200


def _write(path: Path, batches: Iterator[pa.RecordBatch], compression: str | None) -> Path:
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    options = pa.ipc.IpcWriteOptions(compression=compression)
    first = next(batches)
    with (
        pa.OSFile(str(part), "wb") as sink,
        pa.ipc.new_stream(sink, first.schema, options=options) as out,
    ):
        out.write_batch(first)
        for batch in batches:
            out.write_batch(batch)
    return part.rename(path)


def compressed(folder: Path) -> Path:
    """Blobs of 150 kB, 100 to a ZSTD-compressed record batch of 15 MB, which becomes 20 MB."""

    def batches() -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(1)
        for k in range(12):
            noise = rng.integers(0, 64, (100, 200_000), np.uint8)  # six bits of eight
            blobs = pa.array([row.tobytes() for row in noise], pa.binary())
            audio = pa.StructArray.from_arrays([blobs], names=["bytes"])
            labels = pa.array(np.arange(100 * k, 100 * k + 100))
            yield pa.record_batch({"audio": audio, "label": labels})

    return _write(folder / "memory-compressed.arrow", batches(), "zstd")


def columns(folder: Path) -> Path:
    """200 columns of float64, 10,000 rows to a record batch: 16 MB of 80 kB columns."""

    def batches() -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(2)
        for k in range(12):
            values = {f"x{c:03}": rng.standard_normal(10_000) for c in range(N_COLUMNS - 1)}
            yield pa.record_batch({"label": np.arange(10_000 * k, 10_000 * k + 10_000), **values})

    return _write(folder / "memory-columns.arrow", batches(), None)


def objects(folder: Path) -> Path:
    """Strings of 600 characters, and lists of 20 strings, 4,000 rows to a record batch of 4 MB."""

    def batches() -> Iterator[pa.RecordBatch]:
        for k in range(30):
            rows = range(4_000 * k, 4_000 * k + 4_000)
            text = pa.array([f"{row:06} ".ljust(600, "abcdefghij"[row % 10]) for row in rows])
            words = pa.array([[f"word {row} {i}" for i in range(20)] for row in rows])
            yield pa.record_batch({"label": np.array(rows), "text": text, "words": words})

    return _write(folder / "memory-objects.arrow", batches(), None)
