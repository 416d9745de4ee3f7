"""The crop job on a user's own shards, beside the bare decode loop: `gristmill bench`."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gristmill import _core
from gristmill.config import Audio, RandomCrop, ReadOptions, Shuffle
from gristmill.dataset import ArrowIterDataset
from gristmill.doctoring.loops import decode_crop
from gristmill.errors import SchemaError
from gristmill.headers import audio_column, read_headers
from gristmill.inspection import draw
from gristmill.limits import Limits
from gristmill.paths import Paths
from gristmill.stats import Stats
from gristmill.verdict import Verdict

_SAMPLE_ROWS = 64
_SAMPLE_SHARE = 0.25
"""Of the time that goes to the bare loop."""


@dataclass(frozen=True)
class BenchReport:
    """How fast batches of crops come when nothing else is done.

    Attributes:
        batches: Measured, after the first.
        batch_size: Rows in each.
        seconds: In this time.
        first_batch_seconds: What the first one took, opening the shards included.
        wait_p50_seconds: Half of the batches were waited for less.
        wait_p90_seconds: 90 % of them.
        wait_p99_seconds: 99 % of them.
        read_bytes: Read from the storage.
        bare_rows_per_second: The same decode calls on rows of a sample in memory, on as many
            threads, and nothing else.
        verdict: What limits it.
        stats: Everything that was measured.
    """

    batches: int
    batch_size: int
    seconds: float
    first_batch_seconds: float
    wait_p50_seconds: float
    wait_p90_seconds: float
    wait_p99_seconds: float
    read_bytes: int
    bare_rows_per_second: float
    verdict: Verdict
    stats: Stats

    @property
    def rows_per_second(self) -> float:
        """Crops a second."""
        return self.batches * self.batch_size / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """What was read of the storage a second."""
        return self.read_bytes / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return {
            **asdict(self),
            "rows_per_second": self.rows_per_second,
            "bytes_per_second": self.bytes_per_second,
            "verdict": self.verdict.to_dict(),
            "stats": self.stats.to_dict(),
        }


def bench(
    paths: Paths,
    *,
    batch_size: int = 64,
    crop_seconds: float = 5.0,
    sample_rate: int | None = None,
    column: str | None = None,
    seconds: float = 10.0,
    read: ReadOptions | None = None,
    on_batch: Callable[[float, int], None] | None = None,
) -> BenchReport:
    """Takes shuffled batches of random crops as fast as they come.

    Args:
        paths: As in `ArrowIterDataset`.
        batch_size: Rows in a batch.
        crop_seconds: Length of the crops.
        sample_rate: Their rate in Hz; `None` keeps each file's own, and gives single crops.
        column: The audio column; `None` takes the one that the Hugging Face features call audio.
        seconds: What measuring takes, about.
        read: Threads, memory and look-ahead.
        on_batch: Is told the seconds that have passed, and the rows that have come.

    Raises:
        OSError: A shard cannot be read.
        SchemaError: There is no audio column, or nothing in it can be decoded.
        ValueError: A number is out of range.
    """
    if batch_size < 1 or seconds <= 0:
        raise ValueError("batch_size is at least 1, and seconds above 0")
    options = read or ReadOptions()
    headers, _ = read_headers(paths, options)
    name = audio_column(headers, column)
    _, rows = draw(headers, name, _SAMPLE_ROWS, options)
    if not rows:
        raise SchemaError(f"nothing in a sample of column {name!r} can be decoded", column=name)
    rate = sample_rate or _most_frequent_rate(rows)
    audio = Audio(name, rate, crop=RandomCrop(crop_seconds), strict=False)
    bare = _bare(rows, audio, options, _SAMPLE_SHARE * seconds)
    dataset = ArrowIterDataset(
        [header.path for header in headers],
        columns=[],
        audio=audio,
        shuffle=Shuffle(0),
        batch_size=batch_size,
        epochs=None,
        read=options,
    )
    waits: list[float] = []
    began = time.perf_counter()
    with contextlib.closing(iter(dataset)) as batches:
        next(batches)
        start = now = time.perf_counter()
        read_before = batches.stats().storage.bytes
        while not waits or now - start < (1 - _SAMPLE_SHARE) * seconds:
            next(batches)
            before, now = now, time.perf_counter()
            waits.append(now - before)
            if on_batch:
                on_batch(now - start, len(waits) * batch_size)
        stats, verdict = batches.stats(), batches.verdict()
    p50, p90, p99 = np.percentile(waits, [50, 90, 99])
    return BenchReport(
        batches=len(waits),
        batch_size=batch_size,
        seconds=now - start,
        first_batch_seconds=start - began,
        wait_p50_seconds=float(p50),
        wait_p90_seconds=float(p90),
        wait_p99_seconds=float(p99),
        read_bytes=stats.storage.bytes - read_before,
        bare_rows_per_second=bare,
        verdict=verdict,
        stats=stats,
    )


def _most_frequent_rate(rows: Sequence[bytes]) -> int:
    rates = [_core.probe(data, limits=Limits())[1] for data in rows]
    return max(sorted(set(rates)), key=rates.count)


def _bare(rows: Sequence[bytes], audio: Audio, read: ReadOptions, seconds: float) -> float:
    """Crops a second of threads that do nothing but decode rows in memory."""
    n_threads = read.num_threads or _core.usable_cpus()
    crop = audio.crop.seconds if audio.crop else 0.0
    infos = [_core.probe(data, limits=Limits()) for data in rows]
    last = [max(frames / rate - crop, 0.0) for _, rate, _, frames in infos]
    counts = [0] * n_threads
    end = time.perf_counter() + seconds

    def work(thread: int) -> None:
        draw = random.Random(thread)
        while time.perf_counter() < end:
            k = draw.randrange(len(rows))
            decode_crop(rows[k], draw.random() * last[k], crop, audio.sample_rate)
            counts[thread] += 1

    began = time.perf_counter()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)
