"""Jobs that read rows and decode nothing, and the shards that they read."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from material import SCHEMA, once, write_stream

import gristmill as gm

ROW_BYTES, SMALL_BYTES, BATCH, TOKENS = 1_400_000, 8_192, 64, 2_048
SLOW = ("to_pylist", "Grain Parquet")
"""Peers of one pass: they take a second for it, and are no faster in a later one."""
SHUFFLED = {"shuffle": gm.Shuffle(1), "read": gm.ReadOptions(memory_budget="64MiB")}
"""A quarter of the budget, which is for record batches, is less than a shard of tokens."""


class Sparse:
    """A file that leaves a hole where it is told to write many zeros."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if len(view) > 1 << 20:
            self._file.seek(len(view), os.SEEK_CUR)
        else:
            self._file.write(view)
        return len(view)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.truncate()
        self._file.close()
        self.closed = True


def audio_shard(
    folder: Path, n_rows: int, batch_rows: int, *, row_bytes: int = ROW_BYTES, sparse: bool = False
) -> Path:
    """Rows of one size, all alike, or holes."""
    batch_rows = min(batch_rows, n_rows)

    def write(path: Path) -> None:
        data = np.zeros(batch_rows * row_bytes, np.uint8)
        if not sparse:
            data[:] = np.arange(len(data), dtype=np.uint64).view(np.uint8)[: len(data)]
        offsets = np.arange(batch_rows + 1, dtype=np.int32) * row_bytes
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        binary = pa.Array.from_buffers(pa.binary(), batch_rows, buffers)
        names = pa.array([f"recording-{i}" for i in range(batch_rows)])
        audio = pa.StructArray.from_arrays([binary, names], fields=list(SCHEMA.field(0).type))
        sink: Any = pa.PythonFile(Sparse(path), "w") if sparse else pa.OSFile(str(path), "wb")
        with sink, pa.ipc.new_stream(sink, SCHEMA) as out:
            for start in range(0, n_rows, batch_rows):
                labels = pa.array(np.arange(start, start + batch_rows))
                out.write_batch(pa.record_batch([audio, labels], schema=SCHEMA))

    kind = "sparse" if sparse else "read"
    return once(folder / f"{kind}-{row_bytes}-{batch_rows}-{n_rows}.arrow", write)


def token_shards(folder: Path, n_rows: int) -> list[Path]:
    """The same rows of 2,048 tokens as Arrow IPC and Parquet, 1,000 to a record batch or group."""
    import pyarrow.parquet as pq

    values = np.random.default_rng(3).integers(0, 50_000, n_rows * TOKENS, np.int32)
    offsets = np.arange(n_rows + 1, dtype=np.int32) * TOKENS
    tokens = pa.table({"tokens": pa.ListArray.from_arrays(offsets, values)})
    batches = tokens.to_batches(max_chunksize=1_000)
    return [
        once(folder / f"tokens-{n_rows}.arrow", lambda path: write_stream(path, batches)),
        once(
            folder / f"tokens-{n_rows}.parquet",
            lambda path: pq.write_table(tokens, path, row_group_size=1_000),
        ),
    ]


def rows_of(path: Path) -> int:
    """What the name tells of a shard's rows."""
    return int(path.stem.split("-")[-1])


def row_bytes_of(path: Path) -> int:
    """What the name tells of the size of a shard's rows of audio."""
    return int(path.stem.split("-")[1])


def gristmill(path: Path, **options: Any) -> Iterator[dict[str, Any]]:
    return iter(gm.ArrowIterDataset(path, audio=None, batch_size=BATCH, epochs=None, **options))


def audio_rows(path: Path, *, binary: Any = "bytes") -> Iterator[int]:
    for batch in gristmill(path, columns=["audio"], binary=binary, shuffle=gm.Shuffle(1)):
        yield sum(map(len, batch["audio"]["bytes"]))


def random_rows(path: Path) -> Iterator[int]:
    """Places in the file, pass after pass, each in some random order."""
    row_bytes = row_bytes_of(path)
    n_rows = path.stat().st_size // row_bytes
    for seed in itertools.count():
        yield from (np.random.default_rng(seed).permutation(n_rows - 1) * row_bytes).tolist()


def audio_pread(path: Path, *, n_buffers: int = 1) -> Iterator[int]:
    """One thread that reads into one buffer, or into as many as a batch has rows, in turn."""
    buffers = itertools.cycle([bytearray(ROW_BYTES) for _ in range(n_buffers)])
    with path.open("rb", buffering=0) as f:
        for offset, buffer in zip(random_rows(path), buffers, strict=False):
            yield os.preadv(f.fileno(), [buffer], offset)


def audio_bytes(path: Path) -> Iterator[int]:
    """The same as `bytes`, which is what batches of encoded rows hold, 64 kept at a time."""
    offsets, row_bytes = random_rows(path), row_bytes_of(path)
    with path.open("rb", buffering=0) as f:
        while True:
            rows = itertools.islice(offsets, BATCH)
            batch = [os.pread(f.fileno(), row_bytes, offset) for offset in rows]
            yield sum(map(len, batch))


def tokens_gristmill(arrow: Path, _: Path, *, ragged: Any = "object") -> Iterator[int]:
    for batch in gristmill(arrow, ragged=ragged):
        yield len(batch["tokens"])


def tokens_shuffled(arrow: Path, _: Path) -> Iterator[int]:
    for batch in gristmill(arrow, ragged="error", **SHUFFLED):
        yield len(batch["tokens"])


def mapped_batches(arrow: Path) -> Iterator[np.ndarray]:
    """Copies rows in a random order out of pyarrow's memory map."""
    tokens = pa.ipc.open_stream(pa.memory_map(str(arrow))).read_all()["tokens"]
    chunks = [chunk.flatten().to_numpy().reshape(-1, TOKENS) for chunk in tokens.chunks]
    for seed in itertools.count():
        order = np.random.default_rng(seed).permutation(rows_of(arrow))
        for start in range(0, len(order) - BATCH, BATCH):
            rows = [chunks[k // 1_000][k % 1_000] for k in order[start:][:BATCH].tolist()]
            yield np.stack(rows)


def tokens_mapped(arrow: Path, _: Path) -> Iterator[int]:
    yield from map(len, mapped_batches(arrow))


def tokens_pylist(arrow: Path, _: Path) -> Iterator[int]:
    with pa.OSFile(str(arrow)) as source:
        for record_batch in pa.ipc.open_stream(source):
            yield len(record_batch.to_pylist())


def tokens_grain(_: Path, parquet: Path) -> Iterator[int]:
    import grain

    for row in grain.experimental.ParquetIterDataset(str(parquet)):
        assert len(row["tokens"]) == TOKENS
        yield 1


def copies(arrow: Path, _: Path) -> Iterator[int]:
    """Copies as many rows, 64 at a time, from one place in memory to another."""
    source = np.ones((rows_of(arrow), TOKENS), np.int32)
    into = np.ones((BATCH, TOKENS), np.int32)
    while True:
        for start in range(0, len(source) - BATCH, BATCH):
            into[:] = source[start : start + BATCH]
            yield BATCH


def tokens_pread(arrow: Path, _: Path) -> Iterator[int]:
    """Reads as many bytes in file order, 64 rows at a time, into one buffer."""
    buffer = bytearray(BATCH * TOKENS * 4)
    with arrow.open("rb", buffering=0) as f:
        while True:
            for start in range(0, rows_of(arrow) - BATCH, BATCH):
                assert os.preadv(f.fileno(), [buffer], start * TOKENS * 4) == len(buffer)
                yield BATCH


JOBS: dict[str, Callable[..., Iterator[int]]] = {
    "audio, bytes": audio_rows,
    "pread of small rows": audio_bytes,
    "audio, arrays": partial(audio_rows, binary="numpy"),
    "pread into bytes": audio_bytes,
    "pread into 64 buffers": partial(audio_pread, n_buffers=BATCH),
    "pread into one buffer": audio_pread,
    "tokens": tokens_gristmill,
    "tokens, one array": partial(tokens_gristmill, ragged="error"),
    "tokens, shuffled": tokens_shuffled,
    "memory map, shuffled": tokens_mapped,
    "to_pylist": tokens_pylist,
    "Grain Parquet": tokens_grain,
    "copying": copies,
    "reading": tokens_pread,
}


def all_tokens(arrow: Path) -> np.ndarray:
    with pa.OSFile(str(arrow)) as source:
        tokens = pa.ipc.open_stream(source).read_all()["tokens"]
    return tokens.combine_chunks().flatten().to_numpy().reshape(-1, TOKENS)


def check(name: str, paths: list[Path]) -> None:
    """What ours and the memory map deliver is what pyarrow reads: tokens, and the bytes of rows."""
    if name.startswith("memory map"):
        rows = all_tokens(paths[0])
        order = np.random.default_rng(0).permutation(len(rows))
        for at, batch in enumerate(itertools.islice(mapped_batches(paths[0]), 20)):
            np.testing.assert_array_equal(batch, rows[order[at * BATCH :][:BATCH]])
    elif name.startswith("tokens"):
        options: dict[str, Any] = {"ragged": "object" if name == "tokens" else "error"}
        rows = all_tokens(paths[0])
        if name == "tokens, shuffled":
            options |= SHUFFLED
            ds = gm.ArrowIterDataset(paths[0], audio=None, **SHUFFLED)
            rows = rows[gm.global_order(ds).row]
        batches = gristmill(paths[0], **options)
        for start in range(0, len(rows) - BATCH, BATCH):
            np.testing.assert_array_equal(np.stack(next(batches)["tokens"]), rows[start:][:BATCH])
    elif name.startswith("audio"):
        binary = "numpy" if "arrays" in name else "bytes"
        with pa.OSFile(str(paths[0])) as source:
            batch = pa.ipc.open_stream(source).read_next_batch()
        rows = {row["path"]: row["bytes"] for row in batch["audio"].to_pylist()}
        for found in itertools.islice(gristmill(paths[0], binary=binary, shuffle=gm.Shuffle(1)), 4):
            for data, path in zip(found["audio"]["bytes"], found["audio"]["path"], strict=True):
                assert bytes(data) == rows[path]


def measure(name: str, paths: list[Path], n_passes: int) -> dict[str, float]:
    """Seconds of a row in the passes after the first; and in the first."""
    for module in ("grain", "pyarrow.parquet", "gristmill"):  # what is loaded once is not counted
        importlib.import_module(module)

    unit = row_bytes_of(paths[0]) if paths[0].stem.startswith("read") else 1
    one_pass = rows_of(paths[0]) * unit
    batches = JOBS[name](*paths)

    def take(n_wanted: int) -> float:
        begin, total = time.perf_counter(), 0
        for n in batches:
            total += n
            if total >= n_wanted:
                break
        return (time.perf_counter() - begin) / total * unit

    first = take(one_pass)
    running = first if name in SLOW else take(n_passes * one_pass)
    return {"seconds": running, "us a row in the first pass": 1e6 * first}
