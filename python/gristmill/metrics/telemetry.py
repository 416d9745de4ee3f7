"""Passes on what an iterator measures: to `logging`, and to Grain's telemetry."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from gristmill import _core
from gristmill._grain import record_reads
from gristmill.metrics.stats import Stats
from gristmill.metrics.verdict import Verdict

logger = logging.getLogger("gristmill")

_LOOK_SECONDS = 1.0
"""How often anything is passed on at most: other elements cost one reading of the clock."""
_DEBUG_SECONDS = 60.0
"""How often a line is logged where no other interval was asked for."""


class _Source(Protocol):
    """The iterator."""

    def stats(self) -> Stats: ...
    def verdict(self) -> Verdict: ...


def pass_on_warnings(native: _core.Pipeline | _core.RandomAccess) -> None:
    """Logs what users have to know, once.

    `cache_dir` failed, recordings have another rate than their files', or `memory_budget` is too
    small.
    """
    if (problem := native.take_cache_problem()) is not None:
        logger.warning("%s", problem)
    # At the end of the interpreter nothing of a module may be left, so nothing is used in vain.
    if (notice := native.take_rate_notice()) is not None:
        _tell(logging.WARNING, notice)
    take_budget_notice = getattr(native, "take_budget_notice", None)
    if take_budget_notice is not None and (notice := take_budget_notice()) is not None:
        _tell(logging.INFO, notice)


def _tell(level: int, notice: str) -> None:
    # Each epoch of an evaluation may have an iterator of its own.
    if notice not in _told:
        _told.add(notice)
        logger.log(level, "%s", notice)


_told: set[str] = set()


class Telemetry:
    """Belongs to one iterator and is told of each element."""

    def __init__(self, log_every_seconds: float | None) -> None:
        """`log_every_seconds` is that of `ReadOptions`."""
        self._level = logging.DEBUG if log_every_seconds is None else logging.INFO
        self._every = _DEBUG_SECONDS if log_every_seconds is None else log_every_seconds
        self._pause = min(_LOOK_SECONDS, self._every)
        self._next_look = 0.0
        self._next_line = 0.0
        self._reads = (0, 0, 0.0)

    def starts(self) -> None:
        """A pipeline has started, whose counters begin at 0."""
        now = time.monotonic()
        self._next_look, self._next_line = now + self._pause, now + self._every
        self._reads = (0, 0, 0.0)

    def element(self, source: _Source, pipeline: _core.Pipeline) -> None:
        """An element was delivered."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._pause
        (requests, n_bytes, seconds), reads = self._reads, pipeline.reads()
        self._reads = (reads.requests, reads.bytes, reads.seconds)
        pass_on_warnings(pipeline)
        record_reads(reads.requests - requests, reads.bytes - n_bytes, reads.seconds - seconds)
        if now >= self._next_line:
            self._next_line = now + self._every
            self._log(source)

    def _log(self, source: _Source) -> None:
        """Logs the throughput and the verdict, if the level is enabled."""
        if not logger.isEnabledFor(self._level):
            return
        stats, verdict = source.stats(), source.verdict()
        logger.log(
            self._level,
            "%s: %d rows%s, %.0f rows/s, waiting %.1f %%. %s",
            source,
            stats.rows,
            f" ({stats.bad_rows} bad)" if stats.bad_rows else "",
            stats.rows_per_second,
            100 * stats.waiting_share,
            verdict.text,
            extra={"verdict": verdict},
        )
