"""`gristmill bench`: crops from a user's own shards, compared with a bare decode loop."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gristmill import _core, checks
from gristmill.errors import SchemaError
from gristmill.metrics import decide
from gristmill.metrics.stats import Stats
from gristmill.metrics.text import Printed
from gristmill.metrics.verdict import Verdict
from gristmill.options import Audio, ReadOptions, check_root, read_options
from gristmill.paths import Paths
from gristmill.report import AudioInfo
from gristmill.storage import Given, checked_storage_options
from gristmill.tools.crops import CropJob, OnBatch, decode_crop, take
from gristmill.tools.headers import read_headers
from gristmill.tools.inspection import list_unreadable
from gristmill.tools.page import Page
from gristmill.tools.sample import draw
from gristmill.tools.shards import UnreadableShard, audio_column

_SAMPLE_ROWS = 64
SAMPLE_SHARE = 0.25
"""The part of the time that goes to the bare loop."""


@dataclass(frozen=True)
class BenchReport(Printed):
    """Throughput of batches of crops when nothing else is done.

    Attributes:
        batches: Measured, after the first.
        batch_size: Rows in each.
        seconds: In this time.
        first_batch_seconds: Time for the first batch, opening the shards included.
        wait_p50_seconds: Half of the batches were waited for less.
        wait_p90_seconds: 90 % of them.
        wait_p99_seconds: 99 % of them.
        read_bytes: Read from the storage.
        bare_rows_per_second: The same decode calls on rows of a sample in memory, on as many
            threads, and nothing else.
        rows: In these batches, without those that could not be decoded.
        bad_rows: Rows that could not be decoded, each time that one was delivered.
        verdict: What limits it.
        stats: Everything that was measured.
        unreadable: Shards that are not valid Arrow IPC or Parquet, and were left out.
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
    unreadable: tuple[UnreadableShard, ...] = ()

    @property
    def rows_per_second(self) -> float:
        """Crops a second."""
        return self.rows / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes read from the storage a second."""
        return self.read_bytes / self.seconds

    def __str__(self) -> str:
        return str(page_of(self))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return {
            **asdict(self),
            "rows_per_second": self.rows_per_second,
            "bytes_per_second": self.bytes_per_second,
            "verdict": self.verdict.to_dict(),
            "stats": self.stats.to_dict(),
        }


def page_of(report: BenchReport) -> Page:
    """The page that `gristmill bench` prints."""
    page = Page()
    waits = (report.wait_p50_seconds, report.wait_p90_seconds, report.wait_p99_seconds)
    share = report.rows_per_second / max(report.bare_rows_per_second, 1e-9)
    page.table(
        f"{report.batches:,} batches of {report.batch_size} crops in {report.seconds:.1f} s",
        [
            ("rows/s", f"{report.rows_per_second:,.0f}"),
            ("read", f"{report.bytes_per_second / 1e6:,.1f} MB/s"),
            ("first batch after", f"{report.first_batch_seconds:.2f} s"),
            ("a batch takes", " / ".join(f"{1e3 * wait:,.1f}" for wait in waits) + " ms"),
            ("", "(half, 90 % and 99 % of the batches take less)"),
            ("bare decode loop", f"{report.bare_rows_per_second:,.0f} rows/s; this is {share:.2f}"),
        ],
    )
    if report.bad_rows:
        share = report.bad_rows / max(report.stats.rows, 1)
        page.say(f"  {share:.1%} of the rows cannot be decoded; gristmill scan names them")
    list_unreadable(report.unreadable, page)
    page.say()
    page.paragraph(report.verdict.text)
    if report.verdict.help:
        page.say(f"Help: gristmill help {report.verdict.case}")
    return page


def bench(
    paths: Paths,
    *,
    batch_size: int = 64,
    crop_seconds: float = 5.0,
    sample_rate: int | None = None,
    column: str | None = None,
    root: str | os.PathLike[str] | None = None,
    seconds: float = 10.0,
    read: ReadOptions | None = None,
    on_batch: OnBatch | None = None,
    storage_options: Given | None = None,
) -> BenchReport:
    """Takes shuffled batches of random crops as fast as they are delivered.

    Args:
        paths: As in `ArrowIterDataset`.
        batch_size: Rows in a batch.
        crop_seconds: Length of the crops.
        sample_rate: Their rate in Hz; `None` takes the one that most rows of a sample have.
        column: The audio column; `None` takes the one that is found, as `ArrowIterDataset` does.
        root: The folder of the recordings, if rows contain paths, as in `Audio`.
        seconds: How long to measure, about.
        read: Threads, memory, readahead and the cache of ranges.
        on_batch: Is told the progress after each batch.
        storage_options: As in `ArrowIterDataset`, for shards behind URLs.

    Raises:
        OSError: A shard cannot be read.
        SchemaError: There is no audio column, or nothing in it can be decoded.
        ValueError: A number is out of range.
    """
    job = CropJob(batch_size, crop_seconds, sample_rate, column, seconds, check_root("root", root))
    checks.function("on_batch", on_batch)
    options = read_options(read)
    storage = checked_storage_options(storage_options)
    headers, unreadable = read_headers(paths, options, storage=storage)
    name = audio_column(headers, job.column)
    sample, rows = draw(headers, name, _SAMPLE_ROWS, options, job.root, storage)
    if not rows:
        raise SchemaError(f"nothing in a sample of column {name!r} can be decoded", column=name)
    audio = job.audio(name, sample)
    bare = _bare(rows, audio, job.crop_seconds, options, SAMPLE_SHARE * job.seconds)
    rest = (1 - SAMPLE_SHARE) * job.seconds
    crops = take(headers, audio, job.batch_size, options, rest, on_batch, storage)
    p50, p90, p99 = np.percentile(crops.waits, [50, 90, 99])
    return BenchReport(
        batches=len(crops.waits),
        batch_size=job.batch_size,
        seconds=crops.seconds,
        first_batch_seconds=crops.first_seconds,
        wait_p50_seconds=float(p50),
        wait_p90_seconds=float(p90),
        wait_p99_seconds=float(p99),
        read_bytes=crops.read_bytes,
        bare_rows_per_second=bare,
        rows=crops.rows,
        bad_rows=crops.stats.bad_rows,
        verdict=decide(crops.stats),
        unreadable=tuple(unreadable),
        stats=crops.stats,
    )


def _bare(
    rows: Sequence[tuple[bytes, AudioInfo]],
    audio: Audio,
    crop_seconds: float,
    read: ReadOptions,
    seconds: float,
) -> float:
    """Crops a second of threads that do nothing but decode rows in memory."""
    spec = _core.AudioSpec(audio)
    n_threads = read.num_threads or _core.usable_cpus()
    last_starts = [max(info.duration - crop_seconds, 0.0) for _, info in rows]
    began = time.perf_counter()
    end = began + seconds

    def work(thread: int) -> int:
        draw, count = random.Random(thread), 0
        while time.perf_counter() < end:
            k = draw.randrange(len(rows))
            decode_crop(rows[k][0], spec, draw.random() * last_starts[k], crop_seconds)
            count += 1
        return count

    with ThreadPoolExecutor(n_threads) as pool:
        count = sum(pool.map(work, range(n_threads)))
    return count / (time.perf_counter() - began)
