"""Shards whose rows tell whether they are whole, read through a cache folder."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import gristmill as gm

AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
N_ROWS, ROW_BYTES = 12, 30_000


def write_shard(path: Path, seed: int, *, n_rows: int = N_ROWS, age: float = 60) -> Path:
    """A shard that was written some time ago; each row has the checksum of its bytes."""
    rng = np.random.default_rng(seed)
    made = [rng.bytes(ROW_BYTES + 1000 * k) for k in range(n_rows)]
    table = pa.table(
        {
            "audio": pa.array([{"bytes": data, "path": None} for data in made], AUDIO),
            "sum": pa.array([zlib.crc32(data) for data in made], pa.int64()),
        }
    )
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def check(row: dict[str, Any]) -> None:
    """Raises where a row is not as it was written."""
    assert zlib.crc32(row["audio"]["bytes"]) == row["sum"], "wrong bytes"


def dataset(
    paths: list[str], cache: Path | None, *, seed: int = 1, **read: Any
) -> gm.ArrowIterDataset:
    """The rows of these shards, shuffled, without sidecars: headers come from the cache, too."""
    size = read.pop("cache_size", None)
    options = gm.ReadOptions(
        index_dir=None, num_threads=2, retries=0, cache_dir=cache, cache_size=size, **read
    )
    epochs = None if seed < 0 else 1
    shuffle = gm.Shuffle(abs(seed))
    return gm.ArrowIterDataset(paths, audio=None, shuffle=shuffle, epochs=epochs, read=options)


def read_all(paths: list[str], cache: Path | None, **options: Any) -> gm.Stats:
    """Reads one epoch and checks each row."""
    it = iter(dataset(paths, cache, **options))
    sums: list[int] = []
    for row in it:
        check(row)
        sums.append(int(row["sum"]))
    assert len(set(sums)) == len(sums)
    return it.stats()


def files(cache: Path, extension: str) -> list[Path]:
    """The files of a cache folder with this extension."""
    return sorted(cache.glob(f"*.{extension}"))


def allocated(cache: Path) -> int:
    """The bytes that a cache folder takes of the disk."""
    return sum(512 * path.stat().st_blocks for path in cache.iterdir())


def read_as_a_process(paths: list[str], cache: str, seed: int, size: str) -> None:
    """Reads three epochs."""
    for k in range(3):
        read_all(paths, Path(cache), seed=seed + k, cache_size=size)
