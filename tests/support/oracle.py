"""A naive loader of one thread: pyarrow, soundfile and NumPy, nothing of Gristmill.

Everything that Gristmill delivers is compared with this. The order and the crops follow
`docs/order.md`, version 1, written down here a second time in plain Python.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
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
        h = extend(h, word)
    return h


def extend(h: int, word: int) -> int:
    return mix64(((h + GAMMA) & U64) ^ word)


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


Alias = tuple[list[float], list[int]]


def alias_table(weights: Sequence[float]) -> Alias:
    """Walker's table of shares and aliases, built as Vose does."""
    shares = [weight * (len(weights) / sum(weights)) for weight in weights]
    alias = list(range(len(shares)))
    small = [i for i, share in enumerate(shares) if share < 1]
    large = [i for i, share in enumerate(shares) if share >= 1]
    while small and large:
        less, more = small.pop(), large.pop()
        alias[less] = more
        shares[more] = (shares[more] + shares[less]) - 1
        (small if shares[more] < 1 else large).append(more)
    for i in small + large:
        shares[i] = 1
    return shares, alias


def draw(table: Alias, key: int, i: int) -> int:
    """The i-th draw by `key`, itself a hash."""
    shares, alias = table
    cell = extend(extend(key, 20), i) * len(shares) >> 64
    side = (extend(extend(key, 21), i) >> 11) / 2**53
    return cell if side < shares[cell] else alias[cell]


def draws(weights: Sequence[float], seed: int, epoch: int, n: int) -> list[int]:
    """The rows of `n` draws by weight."""
    table = alias_table(weights)
    return [draw(table, hash_words(seed, epoch), i) for i in range(n)]


def part_draws(
    weights: Sequence[float], counts: Sequence[int], seed: int, epoch: int, n: int
) -> list[tuple[int, int]]:
    """The rows of `n` draws by weight, and which of its parts: all of a row are equally likely."""
    table = alias_table([weight if of else 0.0 for weight, of in zip(weights, counts, strict=True)])
    key = hash_words(seed, epoch)
    rows = [draw(table, key, i) for i in range(n)]
    return [(row, extend(extend(key, 24), i) * counts[row] >> 64) for i, row in enumerate(rows)]


def schedule(weights: Sequence[int], n: int) -> list[int]:
    """The data sets of the first `n` positions of a mixture: of those whose next turn may come, the
    one with the earliest deadline, worked out for each position anew."""
    divisor = math.gcd(*weights)
    weights = [weight // divisor for weight in weights]
    total, found = sum(weights), []
    for r in range(-(-min(n, -(-(1 << 14) // total) * total) // total)):
        ranked = sorted(range(len(weights)), key=lambda k: hash_words(25, r, k))
        left, lead = total - 1, {}
        for k in ranked:
            lead[k] = hash_words(26, r, k) * (left + 1) >> 64
            left -= lead[k]
        turns = [0] * len(weights)
        for i in range(total):
            _, _, k = min(
                (-((lead[k] - (turns[k] + 1) * total) // weights[k]), ranked.index(k), k)
                for k in ranked
                if weights[k] and turns[k] * total // weights[k] <= i
            )
            turns[k] += 1
            found.append(k)
    return [found[i % len(found)] for i in range(n)]


def split_hash(seed: int, value: object) -> int:
    """The hash of a row's key: a value, or (name of the shard, row) where a tuple."""
    if isinstance(value, tuple):
        return hash_words(seed, 22, fnv1a(value[0]), value[1])
    if value is None:
        word = hash_words(0)
    elif isinstance(value, str):
        word = hash_words(3, fnv1a(value))
    elif isinstance(value, float) and not value.is_integer():
        word = hash_words(2, int.from_bytes(np.float64(value + 0.0).tobytes(), "little"))
    else:
        word = hash_words(1, int(value) & U64)  # type: ignore[call-overload]
    return hash_words(seed, 23, word)


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
    rows: tuple[int, ...] | None = None  # counted over all shards; None is all of them
    weights: tuple[float, ...] | None = None  # of the rows that are left; None is each once
    n_draws: int | None = None

    @property
    def has_repeats(self) -> bool:
        rows = self.rows or ()
        return self.weights is not None or len(set(rows)) < len(rows)


def read_table(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as source:
        if source.read(6) == b"ARROW1":
            return pa.ipc.open_file(source).read_all()
        source.seek(0)
        return pa.ipc.open_stream(source).read_all()


def row_ids(job: Job, epoch: int) -> list[tuple[int, int]]:
    counts = [read_table(path).num_rows for path in job.paths]
    rows = [(s, r) for s, n in enumerate(counts) for r in range(n)]
    if job.rows is not None:
        rows = [rows[ordinal] for ordinal in job.rows]
    is_list = any(a >= b for a, b in pairwise(rows))
    rows = [row for row in rows if row not in job.exclude]
    if job.weights is not None:
        n = len(rows) if job.n_draws is None else job.n_draws
        return [rows[i] for i in draws(job.weights, job.seed or 0, epoch, n)]
    if job.seed is None:
        return rows
    if job.window is None:
        return [rows[i] for i in permutation(len(rows), job.seed, epoch)]
    kept = [sum(row[0] == s for row in rows) for s in range(len(counts))]
    kept = [len(rows)] if is_list else kept
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


def crop_start(
    seed: int, epoch: int, name: str, row: int, n_positions: int, repeat: int | None = None
) -> int:
    words = (seed, epoch, fnv1a(name), row, *(() if repeat is None else (repeat,)))
    return hash_words(*words) * n_positions >> 64


def load(job: Job, epoch: int = 0) -> Iterator[dict[str, Any]]:
    """The rows of one epoch, short recordings padded with zeros."""
    tables = [read_table(path) for path in job.paths]
    for position, (shard, row) in enumerate(row_ids(job, epoch)):
        element = {name: tables[shard][name][row].as_py() for name in tables[shard].column_names}
        data = element["audio"]["bytes"]
        audio = decode(data, job.sample_rate, job.channels)
        if job.seconds is not None:
            rate = job.sample_rate or soundfile.info(io.BytesIO(data)).samplerate
            n_crop = round(job.seconds * rate)
            seed = next((s for s in (job.crop_seed, job.seed) if s is not None), 0)
            n_positions = max(audio.shape[-1] - n_crop + 1, 1)
            repeat = position if job.has_repeats else None
            start = crop_start(seed, epoch, job.paths[shard].name, row, n_positions, repeat)
            audio = audio[..., start : start + n_crop]
            missing = n_crop - audio.shape[-1]
            audio = np.pad(audio, [(0, 0)] * (audio.ndim - 1) + [(0, missing)])
        yield {**element, "audio": audio, "shard": shard, "row": row}
