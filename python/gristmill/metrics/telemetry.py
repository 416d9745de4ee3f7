"""Passes on what an iterator measures: to `logging`, and to Grain's telemetry."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from gristmill import _core
from gristmill._grain import record_reads

if TYPE_CHECKING:  # the iterator has one of these, and this one speaks of the iterator
    from gristmill.iterator import ArrowIterator

logger = logging.getLogger("gristmill")

_LOOK_SECONDS = 1.0
"""How often anything is passed on at most: an element more costs one look at the clock."""
_DEBUG_SECONDS = 60.0
"""How often a line is logged where nobody asked for another interval."""


class Reporter:
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

    def element(self, iterator: ArrowIterator, pipeline: _core.Pipeline) -> None:
        """An element was delivered."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._pause
        before = self._reads
        self._reads = (*pipeline.reads(), pipeline.read_seconds())
        requests, n_bytes, seconds = (b - a for a, b in zip(before, self._reads, strict=True))
        # Requests that take microseconds are sampled: there may be none that was timed.
        seconds = seconds or requests * self._reads[2] / max(self._reads[0], 1)
        record_reads(int(requests), int(n_bytes), seconds)
        if now >= self._next_line:
            self._next_line = now + self._every
            self.line(iterator)

    def line(self, iterator: ArrowIterator) -> None:
        """Logs the rate and the verdict, if anybody listens."""
        if not logger.isEnabledFor(self._level):
            return
        stats = iterator.stats()
        logger.log(
            self._level,
            "%s: %d rows%s, %.0f rows/s, waiting %.1f %%. %s",
            iterator,
            stats.rows,
            f" ({stats.bad_rows} bad)" if stats.bad_rows else "",
            stats.rows_per_second,
            100 * stats.waiting_share,
            iterator.verdict(),
        )
