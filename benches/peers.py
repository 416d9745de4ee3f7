"""The crop job as Gristmill does it, and as people write it today: endless shuffled batches.

The job: a random crop of 5 s at 32 kHz mono of every row.
"""

from __future__ import annotations

import functools
import io
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grain
import numpy as np
import processes
import pyarrow as pa
import soundfile
import soxr
from absl import flags

import gristmill as gm

RATE, SECONDS = 32_000, 5
FRAMES = RATE * SECONDS
SEED = 42

Batches = Iterator[dict[str, np.ndarray]]


@dataclass(frozen=True)
class Crops:
    """What is cropped."""

    paths: list[Path]
    batch_size: int = 64


def dataset(crops: Crops, **options: Any) -> gm.ArrowIterDataset:
    """The job as this project does it."""
    audio = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(SECONDS))
    return gm.ArrowIterDataset(
        crops.paths,
        audio=audio,
        shuffle=gm.Shuffle(SEED),
        batch_size=crops.batch_size,
        **options,
    )


def gristmill(crops: Crops, n_threads: int) -> Batches:
    """This project."""
    return iter(dataset(crops, epochs=None, read=gm.ReadOptions(num_threads=n_threads)))


class MappedRows:
    """Random access to the rows of memory-mapped shards; each process maps them for itself."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self.counts = [table.num_rows for table in self.tables]

    @functools.cached_property
    def tables(self) -> list[pa.Table]:
        return [pa.ipc.open_stream(pa.memory_map(str(path))).read_all() for path in self.paths]

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths, "counts": self.counts}

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        for table, count in zip(self.tables, self.counts, strict=True):
            if index < count:
                data = table["audio"][index]["bytes"].as_buffer()
                return {"data": data, "label": table["label"][index].as_py()}
            index -= count
        raise IndexError(index)


def whole_decode(row: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Decodes and resamples the recording, then keeps the crop."""
    frames, rate = soundfile.read(io.BytesIO(row["data"]), dtype="float32", always_2d=True)
    mono = frames.mean(axis=1)
    if rate != RATE:
        mono = soxr.resample(mono, rate, RATE, quality="HQ")
    start = rng.integers(0, max(len(mono) - FRAMES, 0) + 1)
    return _fitted(mono[start : start + FRAMES], row["label"])


def seek_decode(row: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Seeks to the crop, then decodes and resamples no more than that."""
    with soundfile.SoundFile(io.BytesIO(row["data"])) as f:
        n = SECONDS * f.samplerate
        f.seek(int(rng.integers(0, max(f.frames - n, 0) + 1)))
        mono = f.read(n, dtype="float32", always_2d=True).mean(axis=1)
        if f.samplerate != RATE:
            mono = soxr.resample(mono, f.samplerate, RATE, quality="HQ")
    return _fitted(mono, row["label"])


def _fitted(mono: np.ndarray, label: int) -> dict[str, np.ndarray]:
    audio = np.zeros(FRAMES, np.float32)
    audio[: min(len(mono), FRAMES)] = mono[:FRAMES]
    return {"audio": audio, "label": np.int64(label)}


def _grain(crops: Crops, crop: Callable[..., Any], n_threads: int) -> grain.IterDataset:
    rows = grain.MapDataset.source(MappedRows(crops.paths)).shuffle(seed=SEED).repeat()
    ahead = max(2 * n_threads, crops.batch_size)
    read = grain.ReadOptions(num_threads=n_threads, prefetch_buffer_size=ahead)
    return rows.random_map(crop, seed=SEED).to_iter_dataset(read).batch(crops.batch_size)


def whole_file(crops: Crops, n_threads: int) -> Batches:
    """Whole recordings, decoded in two worker processes of Grain, of so many threads each."""
    flags.FLAGS.mark_as_parsed()  # Grain's workers read absl's flags
    ds = _grain(crops, whole_decode, n_threads)
    return iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))


def seek(crops: Crops, n_threads: int) -> Batches:
    """Memory map, soundfile's seek and soxr, in Grain's reading threads."""
    return iter(_grain(crops, seek_decode, n_threads))


def bare_loop(crops: Crops, n_threads: int) -> Batches:
    """Gristmill's own decode calls on bytes in memory, on as many threads, and no more."""
    source, n = MappedRows(crops.paths), crops.batch_size
    rows = [
        (bytes(row["data"]), row["label"]) for row in map(source.__getitem__, range(len(source)))
    ]
    last = [max(gm.probe(data).duration - SECONDS, 0.0) for data, _ in rows]

    def crop(draw: tuple[int, float]) -> np.ndarray:
        i, where = draw
        return gm.decode(rows[i][0], sample_rate=RATE, start=where * last[i], seconds=SECONDS)

    def draws() -> Iterator[tuple[int, float]]:
        rng = np.random.default_rng(SEED)
        while True:
            for i in rng.permutation(len(rows)).tolist():
                yield i, rng.random()

    with ThreadPoolExecutor(n_threads) as pool:
        todo, running = draws(), []
        while True:
            # Two batches under way: the threads never wait for the loop.
            while len(running) < 2 * n:
                draw = next(todo)
                running.append((draw[0], pool.submit(crop, draw)))
            done = [(i, job.result()) for i, job in itertools.islice(running, n)]
            del running[:n]
            yield {
                "audio": [audio for _, audio in done],  # not one array: assembly is not its work
                "label": np.array([rows[i][1] for i, _ in done]),
            }


def interleaved(crops: Crops, n_threads: int) -> Batches:
    """One source a shard, as Grain mixes them."""
    audio = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(SECONDS))
    read = gm.ReadOptions(num_threads=n_threads)
    sources = [
        gm.ArrowIterDataset(path, audio=audio, shuffle=gm.Shuffle(SEED), epochs=None, read=read)
        for path in crops.paths
    ]
    mixed = grain.experimental.InterleaveIterDataset(sources, cycle_length=4)
    mixed = grain.experimental.WindowShuffleIterDataset(mixed, window_size=200, seed=SEED)
    return iter(mixed.batch(crops.batch_size))


def random_access(crops: Crops, n_threads: int) -> Batches:
    """Rows by their number, in 16 of Grain's threads.

    The rows are repeated to as many as training data has. Grain draws a permutation of n indices
    out of one of at least 2**16, so that of 100 rows each takes it 0.5 ms to shuffle.
    """
    audio = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(SECONDS))
    source = gm.ArrowDataSource(
        crops.paths,
        rows=np.resize(np.arange(sum(MappedRows(crops.paths).counts)), 2**16),
        audio=audio,
        read=gm.ReadOptions(num_threads=n_threads),
    )
    rows = grain.MapDataset.source(source).shuffle(seed=SEED).repeat()
    read = grain.ReadOptions(num_threads=16, prefetch_buffer_size=2 * crops.batch_size)
    return iter(rows.to_iter_dataset(read).batch(crops.batch_size))


COMPOSED: dict[str, Callable[[Crops, int], Batches]] = {
    "gristmill": gristmill,
    "Interleave of a source a shard": interleaved,
    "ArrowDataSource in a MapDataset": random_access,
}
"""Ways to put this project's sources into Grain's pipelines."""

PEERS: dict[str, Callable[[Crops, int], Batches]] = {
    "gristmill": gristmill,
    "whole file": whole_file,
    "seek": seek,
    "bare loop": bare_loop,
}


def check(crops: Crops) -> None:
    """The results before their speed: every row once, and crops that are what soundfile reads."""
    source = MappedRows(crops.paths)
    seen, n_compared = [], 0
    for batch in dataset(crops, with_row_id=True):
        assert batch["audio"].shape[1:] == (FRAMES,)
        assert batch["audio"].dtype == np.float32
        assert np.isfinite(batch["audio"]).all()
        places = list(zip(batch["shard"].tolist(), batch["row"].tolist(), strict=True))
        seen += places
        for (shard, row), crop in zip(places, batch["audio"], strict=True):
            data = bytes(source[sum(source.counts[:shard]) + row]["data"])
            if n_compared >= 8 or soundfile.info(io.BytesIO(data)).samplerate != RATE:
                continue
            whole, _ = soundfile.read(io.BytesIO(data), dtype="float32")
            starts = np.flatnonzero(np.abs(whole - crop[0]) <= 1e-6)
            found = (whole[s : s + FRAMES] for s in starts)
            assert any(w.shape == crop.shape and np.abs(w - crop).max() <= 1e-6 for w in found)
            n_compared += 1
    assert sorted(seen) == [(s, r) for s, n in enumerate(source.counts) for r in range(n)]
    assert n_compared > 0
    for one, two in itertools.islice(zip(gristmill(crops, 1), gristmill(crops, 2), strict=True), 3):
        np.testing.assert_equal(one, two)


def measure(name: str, crops: Crops, n_threads: int, seconds: float) -> dict[str, float]:
    """Seconds a row after the first batch, over at least so many seconds; and other figures."""
    n, begin = crops.batch_size, time.perf_counter()
    batches = (PEERS | COMPOSED)[name](crops, n_threads)
    next(batches)
    now = begin_steady = time.perf_counter()
    cpu = time.process_time()
    n_rows = 0
    # Two worker processes deliver in turn, and so two batches at a time.
    while now - begin_steady < seconds or n_rows % (2 * n) or n_rows == 0:
        batch = next(batches)
        assert len(batch["audio"]) == len(batch["label"]) == n
        n_rows += n
        now = time.perf_counter()
    cpu = time.process_time() - cpu
    getattr(batches, "close", lambda: None)()
    del batches
    n_children = 2 if name == "whole file" else 0
    return {
        "seconds": (now - begin_steady) / n_rows,
        "first batch, s": begin_steady - begin,
        "CPU of this process a row, ms": 1e3 * cpu / n_rows,
        "peak memory, MiB": processes.peak_rss(n_children) / processes.MIB,
    }
