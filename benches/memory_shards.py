"""The shards on which memory is hardest to bound, made once into a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from material import audio_shard, encode, field_like, once, write_stream

N_COLUMNS = 200


def heavy(folder: Path, n_batches: int, batch_rows: int) -> Path:
    """WAV rows of 1.5 MB, in full in record batches of 100 rows, 150 MB each."""
    data = encode(field_like(750_000 / 32_000, 32_000, 1, 0), 32_000, "WAV", "PCM_16")
    path = folder / f"heavy-{n_batches}-of-{batch_rows}.arrow"
    return path if path.exists() else audio_shard(path, [data] * n_batches * batch_rows, batch_rows)


def compressed(folder: Path, n_batches: int = 12) -> Path:
    """Blobs of 150 kB, 100 to a ZSTD-compressed record batch of 15 MB, which becomes 20 MB."""

    def batches() -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(1)
        for k in range(n_batches):
            noise = rng.integers(0, 64, (100, 200_000), np.uint8)  # six bits of eight
            blobs = pa.array([row.tobytes() for row in noise], pa.binary())
            audio = pa.StructArray.from_arrays([blobs], names=["bytes"])
            labels = pa.array(np.arange(100 * k, 100 * k + 100))
            yield pa.record_batch({"audio": audio, "label": labels})

    path = folder / f"memory-compressed-{n_batches}.arrow"
    return once(path, lambda part: write_stream(part, batches(), compression="zstd"))


def columns(folder: Path, n_batches: int = 12) -> Path:
    """200 columns of float64, 10,000 rows to a record batch: 16 MB of 80 kB columns."""

    def batches() -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(2)
        for k in range(n_batches):
            values = {f"x{c:03}": rng.standard_normal(10_000) for c in range(N_COLUMNS - 1)}
            yield pa.record_batch({"label": np.arange(10_000 * k, 10_000 * k + 10_000), **values})

    return once(
        folder / f"memory-columns-{n_batches}.arrow", lambda part: write_stream(part, batches())
    )


def objects(folder: Path, n_batches: int = 30) -> Path:
    """Strings of 600 characters, and lists of 20 strings, 4,000 rows to a record batch of 4 MB."""

    def batches() -> Iterator[pa.RecordBatch]:
        for k in range(n_batches):
            rows = range(4_000 * k, 4_000 * k + 4_000)
            text = pa.array([f"{row:06} ".ljust(600, "abcdefghij"[row % 10]) for row in rows])
            words = pa.array([[f"word {row} {i}" for i in range(20)] for row in rows])
            yield pa.record_batch({"label": np.array(rows), "text": text, "words": words})

    return once(
        folder / f"memory-objects-{n_batches}.arrow", lambda part: write_stream(part, batches())
    )
