"""The crop job on a user's own shards, beside the bare decode loop: `gristmill bench`."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gristmill import _core, checks
from gristmill.errors import SchemaError
from gristmill.metrics.stats import Stats
from gristmill.metrics.verdict import Verdict
from gristmill.options import Audio, Limits, RandomCrop, ReadOptions, read_options
from gristmill.paths import Paths
from gristmill.tools.crops import OnBatch, take
from gristmill.tools.doctor.loops import decode_crop
from gristmill.tools.headers import audio_column, read_headers
from gristmill.tools.inspect import draw

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
        rows: In these batches, without those that could not be decoded.
        bad_rows: Those, each time that one came.
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
    rows: int
    bad_rows: int
    verdict: Verdict
    stats: Stats

    @property
    def rows_per_second(self) -> float:
        """Crops a second."""
        return self.rows / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """What was read of the storage a second."""
        return self.read_bytes / self.seconds

    def __str__(self) -> str:
        from gristmill.cli import pages  # noqa: PLC0415 - the command line speaks of this module

        return pages.bench(self)

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
    on_batch: OnBatch | None = None,
) -> BenchReport:
    """Takes shuffled batches of random crops as fast as they come.

    Args:
        paths: As in `ArrowIterDataset`.
        batch_size: Rows in a batch.
        crop_seconds: Length of the crops.
        sample_rate: Their rate in Hz; `None` takes the one that most rows of a sample have.
        column: The audio column; `None` takes the one that the Hugging Face features call audio.
        seconds: What measuring takes, about.
        read: Threads, memory and look-ahead.
        on_batch: Is told how far it is, after each batch.

    Raises:
        OSError: A shard cannot be read.
        SchemaError: There is no audio column, or nothing in it can be decoded.
        ValueError: A number is out of range.
    """
    batch_size = checks.integer("batch_size", batch_size, 1, 2**31 - 1, write="batch_size=64")
    crop_seconds = checks.number(
        "crop_seconds", crop_seconds, 0, 86_400, above=True, write="crop_seconds=5"
    )
    sample_rate = checks.integer(
        "sample_rate", sample_rate, 1, 768_000, write="sample_rate=32_000, in Hz", none=True
    )
    column = checks.text("column", column, write='column="audio"', none=True)
    seconds = checks.number("seconds", seconds, 0, 1e9, above=True, write="seconds=10")
    checks.function("on_batch", on_batch)
    options = read_options(read)
    headers, _ = read_headers(paths, options)
    name = audio_column(headers, column)
    sample, rows = draw(headers, name, _SAMPLE_ROWS, options)
    if not rows:
        raise SchemaError(f"nothing in a sample of column {name!r} can be decoded", column=name)
    rate = sample_rate or next(iter(sample.sample_rates))
    audio = Audio(name, rate, crop=RandomCrop(crop_seconds), strict=False)
    bare = _bare(rows, audio, options, _SAMPLE_SHARE * seconds)
    crops = take(headers, audio, batch_size, options, (1 - _SAMPLE_SHARE) * seconds, on_batch)
    p50, p90, p99 = np.percentile(crops.waits, [50, 90, 99])
    return BenchReport(
        batches=len(crops.waits),
        batch_size=batch_size,
        seconds=crops.seconds,
        first_batch_seconds=crops.first_seconds,
        wait_p50_seconds=float(p50),
        wait_p90_seconds=float(p90),
        wait_p99_seconds=float(p99),
        read_bytes=crops.read_bytes,
        bare_rows_per_second=bare,
        rows=crops.rows,
        bad_rows=crops.stats.bad_rows,
        verdict=crops.verdict,
        stats=crops.stats,
    )


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
