"""A naive loader of one thread: pyarrow, soundfile and NumPy, nothing of Gristmill.

Everything that Gristmill delivers is compared with this. The order and the crops follow
`docs/order.md`, version 1, written down here a second time in plain Python.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile

import resample_reference

U64 = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix64(z: int) -> int:
    """The finaliser of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & U64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & U64
    return z ^ (z >> 31)


def hash_words(*words: int) -> int:
    h = 0
    for word in words:
        h = mix64(((h + GAMMA) & U64) ^ word)
    return h


def fnv1a(name: str) -> int:
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & U64
    return h


def permutation(n: int, seed: int, epoch: int) -> list[int]:
    """The rows in the order of this epoch: a Feistel network over Z_a x Z_a, walking cycles."""
    if n == 0:
        return []
    a = math.isqrt(n - 1) + 1
    keys = [hash_words(seed, epoch, j) for j in range(12)]

    flip = hash_words(seed, epoch, 12) & 1

    def walk(x: int) -> int:
        if n > 1 and x < 2:
            x ^= flip
        while True:
            left, right = divmod(x, a)
            for key in keys:
                left, right = right, (left + (mix64((right + key) & U64) * a >> 64)) % a
            x = left * a + right
            if x < n:
                return x

    return [walk(x) for x in range(n)]


def windowed(counts: Sequence[int], seed: int, epoch: int, window: int, streams: int) -> list[int]:
    """The rows in the windowed order of this epoch, made stream by stream as lists."""
    starts = [sum(counts[:s]) for s in range(len(counts))]
    sequence = []
    for s in permutation(len(counts), hash_words(seed, epoch, 13), 0):
        sequence += range(starts[s], starts[s] + counts[s])
    size = -(-window // streams)
    lanes, share, extra = [], *divmod(len(sequence), streams)
    for stream in range(streams):
        n = share + (stream < extra)
        run, sequence = sequence[:n], sequence[n:]
        phase = hash_words(seed, epoch, 15, stream) * size >> 64
        key = hash_words(seed, epoch, 14, stream)
        lane, block = [], 0
        while run:
            cut = size - phase if block == 0 else size
            part, run = run[:cut], run[cut:]
            lane += [part[i] for i in permutation(len(part), key, block)]
            block += 1
        lanes.append(lane)
    taken = zip_longest(*lanes)
    return [row for turn in taken for row in turn if row is not None]


@dataclass(frozen=True)
class Job:
    """What to load; the names are those of `gm.ArrowIterDataset` and `gm.Audio`."""

    paths: Sequence[Path]
    sample_rate: int | None = None
    channels: str = "mono"
    seconds: float | None = None  # of a random crop; None is the whole recording
    seed: int | None = None  # of the shuffle; None is file order
    crop_seed: int | None = None
    exclude: tuple[tuple[int, int], ...] = ()
    window: int | None = None
    streams: int = 16


def read_table(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as source:
        if source.read(6) == b"ARROW1":
            return pa.ipc.open_file(source).read_all()
        source.seek(0)
        return pa.ipc.open_stream(source).read_all()


def row_ids(job: Job, epoch: int) -> list[tuple[int, int]]:
    counts = [read_table(path).num_rows for path in job.paths]
    rows = [(s, r) for s, n in enumerate(counts) for r in range(n) if (s, r) not in job.exclude]
    if job.seed is None:
        return rows
    if job.window is None:
        return [rows[i] for i in permutation(len(rows), job.seed, epoch)]
    kept = [sum(row[0] == s for row in rows) for s in range(len(counts))]
    return [rows[i] for i in windowed(kept, job.seed, epoch, job.window, job.streams)]


def decode(data: bytes, sample_rate: int | None, channels: str = "mono") -> np.ndarray:
    """The whole recording as (frames,) for mono, else (channels, frames)."""
    frames, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    signal = frames.T
    if channels == "mono":
        signal = signal.mean(axis=0, dtype=np.float32)[None]
    if sample_rate is not None and sample_rate != rate:
        signal = resample_reference.resample(signal, rate, sample_rate)
    return signal[0] if channels == "mono" else signal


def crop_start(seed: int, epoch: int, name: str, row: int, n_positions: int) -> int:
    return hash_words(seed, epoch, fnv1a(name), row) * n_positions >> 64


def load(job: Job, epoch: int = 0) -> Iterator[dict[str, Any]]:
    """The rows of one epoch, short recordings padded with zeros."""
    tables = [read_table(path) for path in job.paths]
    for shard, row in row_ids(job, epoch):
        element = {name: tables[shard][name][row].as_py() for name in tables[shard].column_names}
        data = element["audio"]["bytes"]
        audio = decode(data, job.sample_rate, job.channels)
        if job.seconds is not None:
            rate = job.sample_rate or soundfile.info(io.BytesIO(data)).samplerate
            n_crop = round(job.seconds * rate)
            seed = next((s for s in (job.crop_seed, job.seed) if s is not None), 0)
            n_positions = max(audio.shape[-1] - n_crop + 1, 1)
            start = crop_start(seed, epoch, job.paths[shard].name, row, n_positions)
            audio = audio[..., start : start + n_crop]
            missing = n_crop - audio.shape[-1]
            audio = np.pad(audio, [(0, 0)] * (audio.ndim - 1) + [(0, missing)])
        yield {**element, "audio": audio, "shard": shard, "row": row}
