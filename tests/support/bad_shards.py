"""Shards with bad rows of every kind, and a naive loader that deals with them by each policy.

The loader follows `docs/order.md` and `docs/bad-rows.md` and shares nothing with Gristmill.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import gristmill as gm
import shards
from signals import encode

from oracle import Job, crop_start, fnv1a, hash_words, permutation, row_ids

RATE = 32_000
N_FRAMES = 640
N_CROP = 320
COUNTS = (40, 0, 33, 47)
AUDIO = gm.Audio(
    sample_rate=RATE,
    crop=gm.RandomCrop(N_CROP / RATE),
    limits=gm.Limits(max_seconds=2 * N_FRAMES / RATE),
)

Row = tuple[int, int]


def frames(i: int) -> np.ndarray:
    return (i + np.arange(N_FRAMES) / 1_024).astype(np.float32)


def recording(i: int) -> bytes:
    return encode(frames(i)[:, None], RATE, "wavf32")


LONG = encode(np.zeros((3 * N_FRAMES, 1), np.float32), RATE, "wavf32")
# By the reason that it is to have.
KINDS: dict[str, bytes | None] = {
    "null": None,
    "empty": b"",
    "unknown_format": b"no recording",
    "truncated": recording(0)[:-400],
    "max_seconds": LONG,
}


@dataclass(frozen=True)
class Bad:
    """A data set with some bad rows: `reasons` has them."""

    paths: list[Path]
    reasons: dict[Row, str]

    def job(self, shuffle: gm.Shuffle | None, exclude: tuple[Row, ...] = ()) -> Job:
        seed, window = (shuffle.seed, shuffle.window) if shuffle else (None, None)
        streams = shuffle.streams if shuffle else 16
        return Job(self.paths, seed=seed, window=window, streams=streams, exclude=exclude)

    def number(self, row: Row) -> int:
        """The number of a row from the first on, which its audio tells."""
        return sum(COUNTS[: row[0]]) + row[1]

    def bad_row(self, row: Row) -> tuple[str, int, str | None, str, int | None, int]:
        """`(shard, row, path, reason, bytes, rows)` of a bad row."""
        reason = self.reasons[row]
        data = KINDS[reason]
        size = None if data is None else len(data)
        name = self.paths[row[0]].name
        return (name, row[1], f"recording-{self.number(row)}", reason, size, COUNTS[row[0]])

    @cached_property
    def n_rows(self) -> int:
        return sum(COUNTS)


def make(folder: Path, share: float, **options: Any) -> Bad:
    """Shards of which `share` of the rows are bad, of all kinds in turn."""
    everything = [(s, r) for s, n in enumerate(COUNTS) for r in range(n)]
    chosen = np.random.default_rng(5).permutation(len(everything))[: round(share * 120)]
    reasons = dict(zip((everything[i] for i in chosen), itertools.cycle(KINDS), strict=False))
    made = Bad([folder / f"part-{s}.arrow" for s in range(len(COUNTS))], reasons)
    for s, n in enumerate(COUNTS):
        ids = [(s, r) for r in range(n)]
        data = [KINDS[reasons[i]] if i in reasons else recording(made.number(i)) for i in ids]
        rows = [shards.row(made.number(i), d) for i, d in zip(ids, data, strict=True)]
        shards.write(made.paths[s], rows, batch_rows=7, **options)
    return made


@dataclass(frozen=True)
class Expected:
    """One place of the stream."""

    row: Row | None  # None is skipped
    audio: np.ndarray
    valid: bool
    bad: tuple[Row, ...]  # as they are met


def crop(bad: Bad, row: Row, epoch: int, seed: int) -> np.ndarray:
    name = bad.paths[row[0]].name
    start = crop_start(seed, epoch, name, row[1], N_FRAMES - N_CROP + 1)
    return frames(bad.number(row))[start : start + N_CROP]


def substitutes(bad: Bad, job: Job, epoch: int, place: int) -> Iterator[Row]:
    """Candidates for a place of an epoch, by the words of `docs/order.md`."""
    order = row_ids(job, epoch)
    own = order[place]
    seed = job.seed or 0
    key = hash_words(seed, epoch, fnv1a(bad.paths[own[0]].name), own[1])
    shard = sorted(row for row in order if row[0] == own[0])
    n_tried = 0
    if job.window is not None:
        near = sorted(set(window_of(job, order, epoch, place)) & set(shard))
        if near != shard:
            others = [row for row in near if row != own]
            for i in permutation(len(others), key, 16)[:16]:
                n_tried += 1
                yield others[i]
    others = [row for row in shard if row != own]
    for i in permutation(len(others), key, 17)[: 32 - n_tried]:
        yield others[i]


def window_of(job: Job, order: list[Row], epoch: int, place: int) -> list[Row]:
    """The rows that are shuffled among each other with the one at this place."""
    assert job.window is not None
    stream, i = place % job.streams, place // job.streams
    size = -(-job.window // job.streams)
    phase = hash_words(job.seed or 0, epoch, 15, stream) * size >> 64
    lane = order[stream :: job.streams]
    block = (i + phase) // size
    return lane[max(block * size - phase, 0) : (block + 1) * size - phase]


def expected(
    bad: Bad, policy: str, shuffle: gm.Shuffle | None, epoch: int = 0, exclude: tuple[Row, ...] = ()
) -> list[Expected]:
    """What an epoch delivers, place by place."""
    job = bad.job(shuffle, exclude)
    seed = job.seed or 0
    result = []
    for place, row in enumerate(row_ids(job, epoch)):
        if row not in bad.reasons:
            result.append(Expected(row, crop(bad, row, epoch, seed), True, ()))
        elif policy == "mask":
            result.append(Expected(row, np.zeros(N_CROP, np.float32), False, (row,)))
        elif policy == "skip":
            result.append(Expected(None, np.empty(0, np.float32), False, (row,)))
        else:
            met = [row]
            for candidate in substitutes(bad, job, epoch, place):
                if candidate not in bad.reasons:
                    audio = crop(bad, candidate, epoch, seed)
                    result.append(Expected(candidate, audio, True, tuple(met)))
                    break
                met.append(candidate)
            else:
                raise LookupError(row)
    return result
