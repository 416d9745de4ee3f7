"""Jobs that read Parquet, and the same rows from Arrow; in CPU time of all threads.

Crops of 5 s at 32 kHz mono out of Ogg Vorbis recordings, and rows of tokens. Peers that give rows
seek in a recording by `soundfile`, as in `peers.py`.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grain
import material
import numpy as np
import peers
import pyarrow as pa
import pyarrow.parquet as pq

import gristmill as gm
import parquet_files

import oracle

BATCH, WINDOW, TOKENS = 64, 200, 2_048
"""Rows of a batch; of a shuffle window, which is `datasets`' buffer; tokens of a row."""

LAYOUTS: dict[str, dict[str, Any]] = {
    "uncompressed": {**parquet_files.NEW, "use_content_defined_chunking": True},
    "snappy, page index": {**parquet_files.CHUNKED, "use_content_defined_chunking": True},
    "snappy": parquet_files.OLD,
}
"""As `datasets` writes audio: 4.6 and later, 4.1 to 4.5, 3.x."""

Batches = Iterator[dict[str, Any]]


def crop_shards(data: Path, n_rows: int, layouts: Iterable[str]) -> dict[str, Path]:
    """One table as Arrow and in these layouts, under one name, so that crops are the same."""
    name = f"crops-{n_rows}.shard"
    arrow = data / "parquet-arrow" / name

    def recording(k: int) -> bytes:
        seconds = np.random.default_rng([5, k]).uniform(10, 30)
        return material.encode(
            material.field_like(seconds, peers.RATE, 1, k), peers.RATE, "OGG", "VORBIS"
        )

    if not arrow.exists():
        # No two alike: a dictionary would have one of them.
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            rows = list(pool.map(recording, range(n_rows)))
        material.audio_shard(arrow, rows, 100)

    def write(layout: str) -> Path:
        options = {**LAYOUTS[layout], "row_group_size": 100}
        table = oracle.read_table(arrow)
        path = data / f"parquet-{layout.replace(', ', '-').replace(' ', '-')}" / name
        if "use_dictionary" in options:
            options["use_dictionary"] = ["audio.path"]
        return material.once(
            path, lambda part: parquet_files.write(part, table, **options) and None
        )

    return {"arrow": arrow, **{layout: write(layout) for layout in layouts}}


def token_shard(data: Path, n_rows: int, kind: str) -> Path:
    """Rows of 2,048 tokens of this type, 1,000 to a row group, by pyarrow's defaults."""

    def write(path: Path) -> None:
        values = np.random.default_rng(3).integers(0, 50_000, n_rows * TOKENS, kind)
        offsets = np.arange(n_rows + 1, dtype=np.int32) * TOKENS
        table = pa.table({"tokens": pa.ListArray.from_arrays(offsets, values)})
        pq.write_table(table, path, row_group_size=1_000)

    return material.once(data / f"tokens-{kind}-{n_rows}.parquet", write)


def crops(path: Path, window: int | None = None, **options: Any) -> gm.ArrowIterDataset:
    """Random crops, shuffled globally or in windows."""
    return gm.ArrowIterDataset(
        path,
        audio=gm.Audio(sample_rate=peers.RATE, crop=gm.RandomCrop(peers.SECONDS)),
        shuffle=gm.Shuffle(peers.SEED, window=window),
        batch_size=BATCH,
        **options,
    )


def encoded(path: Path, window: int | None = None, **options: Any) -> gm.ArrowIterDataset:
    """Rows as `bytes`."""
    shuffle = gm.Shuffle(peers.SEED, window=window)
    return gm.ArrowIterDataset(path, audio=None, shuffle=shuffle, batch_size=BATCH, **options)


def tokens(path: Path, **options: Any) -> gm.ArrowIterDataset:
    """Rows of tokens in file order, which is all that Grain's source has."""
    return gm.ArrowIterDataset(path, audio=None, batch_size=BATCH, ragged="error", **options)


def _batched(rows: Iterable[dict[str, Any]]) -> Batches:
    while batch := list(itertools.islice(rows, BATCH)):
        yield {name: [row[name] for row in batch] for name in batch[0]}


def _cropped(rows: Iterable[dict[str, Any]]) -> Batches:
    """Crops of rows, batched as arrays."""
    rng = np.random.default_rng(peers.SEED)
    made = (
        peers.seek_decode({"data": row["audio"]["bytes"], "label": row["label"]}, rng)
        for row in rows
    )
    for batch in _batched(made):
        yield {name: np.stack(values) for name, values in batch.items()}


def grain_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Grain's source, shuffled in windows, epoch after epoch."""
    for seed in itertools.count():
        rows = grain.experimental.ParquetIterDataset(str(path))
        yield from grain.experimental.WindowShuffleIterDataset(rows, window_size=WINDOW, seed=seed)


def datasets_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The stream of `datasets`, shuffled in its buffer, epoch after epoch."""
    os.environ |= {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    import datasets

    datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0.05  # 5 s at the end of each epoch
    rows = datasets.load_dataset(
        "parquet", data_files=[str(path)], split="train", streaming=True
    ).cast_column("audio", datasets.Audio(decode=False))
    for seed in itertools.count():
        yield from rows.shuffle(seed=seed, buffer_size=WINDOW)


def grain_tokens(path: Path) -> Batches:
    rows: Any = grain.experimental.ParquetIterDataset(str(path)).batch(BATCH)
    while True:
        yield from rows


def endless(make: Callable[..., gm.ArrowIterDataset], path: Path, **options: Any) -> Batches:
    return iter(make(path, epochs=None, **options))


JOBS: dict[str, Callable[[Path], Batches]] = {
    "crops": functools.partial(endless, crops),
    "crops in windows": functools.partial(endless, crops, window=WINDOW),
    "crops, Grain": lambda path: _cropped(grain_rows(path)),
    "crops, datasets": lambda path: _cropped(datasets_rows(path)),
    "bytes": functools.partial(endless, encoded),
    "bytes in windows": functools.partial(endless, encoded, window=WINDOW),
    "bytes, Grain": lambda path: _batched(grain_rows(path)),
    "bytes, datasets": lambda path: _batched(datasets_rows(path)),
    "tokens": functools.partial(endless, tokens),
    "tokens, Grain": grain_tokens,
}


def check_same(one: Path, other: Path) -> None:
    """Crops from two formats are the same, bit for bit, and so are encoded rows."""
    for make in (crops, encoded):
        for window in (None, WINDOW):
            for a, b in zip(make(one, window), make(other, window), strict=True):
                np.testing.assert_equal(a, b)


def check_rows(name: str, path: Path) -> None:
    """One epoch of a job has every row once, with its own bytes or crops that are no silence."""
    table = pq.read_table(path, partitioning=None)
    if name.startswith("tokens"):
        rows = table["tokens"].combine_chunks().flatten().to_numpy().reshape(-1, TOKENS)
        starts = range(0, len(rows) - BATCH, BATCH)
        for start, batch in zip(starts, JOBS[name](path), strict=False):
            np.testing.assert_array_equal(np.stack(batch["tokens"]), rows[start:][:BATCH])
        return
    expected = {row["label"]: row["audio"]["bytes"] for row in table.to_pylist()}
    seen: list[int] = []
    for batch in JOBS[name](path):
        labels = np.asarray(batch["label"]).tolist()[: len(expected) - len(seen)]
        for k, label in enumerate(labels):
            audio = batch["audio"]
            if name.startswith("crops"):
                assert audio[k].shape == (peers.FRAMES,)
                assert np.abs(audio[k]).max() > 0
            else:
                row = audio["bytes"][k] if isinstance(audio, dict) else audio[k]["bytes"]
                assert bytes(row) == expected[label]
        seen += labels
        if len(seen) == len(expected):
            break
    assert sorted(seen) == sorted(expected)


def measure(name: str, path: Path, n_rows: int, n_warm: int) -> dict[str, float]:
    """CPU seconds of a row, after a first pass that opens files, fills caches and fits memory."""
    batches = JOBS[name](path)

    def take(n_wanted: int) -> int:
        n = 0
        for batch in batches:
            n += len(batch["label" if "label" in batch else "tokens"])
            if n >= n_wanted:
                break
        return n

    take(n_warm)
    cpu, begin = time.process_time(), time.perf_counter()
    n = take(n_rows)
    cpu, took = time.process_time() - cpu, time.perf_counter() - begin
    getattr(batches, "close", lambda: None)()
    return {"seconds": cpu / n, "rows/s": n / took}


def read_amplification(path: Path) -> float:
    """Bytes read for each byte of a row, in epochs after the first, which finds rows out."""

    def totals(epochs: int) -> tuple[int, int]:
        it: Any = iter(encoded(path, epochs=epochs, read=gm.ReadOptions(index_dir=None)))
        n_read = n_bytes = 0
        for batch in it:
            n_bytes += sum(map(len, batch["audio"]["bytes"]))
            n_read = it.stats().storage.bytes
        it.close()
        return n_read, n_bytes

    (first, first_bytes), (read, n_bytes) = totals(1), totals(4)
    return (read - first) / (n_bytes - first_bytes)
