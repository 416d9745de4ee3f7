"""The same job done by Gristmill and by what people write today: endless shuffled batches.

The job: a random crop of 5 s at 32 kHz mono of every row, in batches of 64.
"""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pyarrow as pa
import soundfile
import soxr
from absl import flags

import gristmill as gm

RATE, SECONDS, BATCH = 32_000, 5, 64
FRAMES = RATE * SECONDS
SEED = 42

Batches = Iterator[dict[str, np.ndarray]]


def gristmill(paths: list[Path], n_threads: int) -> Batches:
    """This project."""
    return iter(
        gm.ArrowIterDataset(
            paths,
            audio=gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(SECONDS)),
            shuffle=gm.Shuffle(SEED),
            batch_size=BATCH,
            epochs=None,
            read=gm.ReadOptions(num_threads=n_threads),
        )
    )


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


def _grain(paths: list[Path], crop: Callable[..., Any], n_threads: int) -> grain.IterDataset:
    rows = grain.MapDataset.source(MappedRows(paths)).shuffle(seed=SEED).repeat()
    read = grain.ReadOptions(num_threads=n_threads, prefetch_buffer_size=max(2 * n_threads, BATCH))
    return rows.random_map(crop, seed=SEED).to_iter_dataset(read).batch(BATCH)


def whole_file(paths: list[Path], n_threads: int) -> Batches:
    """(a) Whole recordings, decoded in two worker processes of Grain, of so many threads each."""
    flags.FLAGS.mark_as_parsed()  # Grain's workers read absl's flags
    ds = _grain(paths, whole_decode, n_threads)
    return iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))


def seek(paths: list[Path], n_threads: int) -> Batches:
    """(b) Memory map, soundfile's seek and soxr, in Grain's reading threads."""
    return iter(_grain(paths, seek_decode, n_threads))


def bare_loop(paths: list[Path], n_threads: int) -> Batches:
    """(c) Gristmill's own decode calls on bytes in memory, on as many threads, and no more."""
    source = MappedRows(paths)
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
            while len(running) < 2 * BATCH:
                draw = next(todo)
                running.append((draw[0], pool.submit(crop, draw)))
            done = [(i, job.result()) for i, job in itertools.islice(running, BATCH)]
            del running[:BATCH]
            yield {
                "audio": [audio for _, audio in done],  # not one array: assembly is not its work
                "label": np.array([rows[i][1] for i, _ in done]),
            }


PEERS: dict[str, Callable[[list[Path], int], Batches]] = {
    "gristmill": gristmill,
    "whole file": whole_file,
    "seek": seek,
    "bare loop": bare_loop,
}
