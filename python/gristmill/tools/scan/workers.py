"""The threads of a scan: each takes the next row, and checks it without the GIL."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, cast

from gristmill import _core
from gristmill.bad_rows.rows import BadRow
from gristmill.errors import DecodeError, LimitError, SchemaError
from gristmill.iterator import ArrowIterator, pipeline_of
from gristmill.options import Limits
from gristmill.report import DecodeReport
from gristmill.tools.scan.report import Finding
from gristmill.tools.shards import ShardHeader
from gristmill.urls import is_url, shown_path

_MARK_ONLY = {"partial_frame"}
_WAKE_SECONDS = 1.0
"""How long the collecting thread waits before it looks at the clock."""


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """What checking one row found."""

    bytes: int
    audio_seconds: float
    is_marked: bool
    finding: Finding | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """How rows are checked."""

    headers: list[ShardHeader]
    column: str
    decode: bool
    limits: Limits
    recordings: _core.Recordings

    def check(self, element: dict[str, Any], pipeline: _core.Pipeline | None) -> RowOutcome:
        """Checks a row of encoded audio, as an iterator delivers it by its pipeline."""
        number, row = int(element["shard"]), int(element["row"])
        header = self.headers[number]
        # What is found is printed and kept: of a URL without its password and its query.
        shard = shown_path(header.path)
        # The core takes a local path as Python has it, and `shard` is UTF-8 whatever the locale.
        named = shard if is_url(header.path) else header.path
        data, path = self._audio(element[self.column])
        n_bytes = None if data is None else len(data)

        def finding(error: Exception, report: DecodeReport | None) -> Finding:
            limit = cast("str", getattr(error, "limit", ""))
            bad = BadRow(
                shard=shard,
                row=row,
                path=path,
                codec=cast("str | None", getattr(error, "codec", None)),
                reason=limit or cast("str", getattr(error, "reason", "")),
                message=str(error),
                bytes=n_bytes,
                shard_rows=header.rows,
            )
            if report is None:
                return Finding("undecodable", bad)
            missing, damage = report.frames_missing, dict(report.damage)
            return Finding("damaged", bad, report.frames_promised, missing, damage)

        # A recording that is a file of its own has no place in its shard's audio index.
        learner = None if data is None or pipeline is None else (pipeline, number)
        try:
            if data is None:
                data = self.recordings.read(path, limits=self.limits, shard=named, row=row)
                n_bytes = len(data)
            found = _core.check(
                data,
                decode=self.decode,
                limits=self.limits,
                shard=named,
                row=row,
                learner=learner,
            )
        except (DecodeError, LimitError) as error:
            return RowOutcome(n_bytes or 0, 0.0, False, finding(error, None))
        bad = None if found.error is None else finding(found.error, found.report)
        is_marked = bad is None and set(found.report.damage) == _MARK_ONLY
        notes = tuple(found.report.notes)
        return RowOutcome(n_bytes or 0, found.info.duration, is_marked, bad, notes)

    def _audio(self, value: Any) -> tuple[bytes | None, str | None]:
        """The bytes of a row, and the path beside them."""
        path: object = None
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            value, path = fields.get("bytes"), fields.get("path")
        if value is not None and not isinstance(value, bytes):
            what = type(value).__name__
            raise SchemaError(
                f"column {self.column!r} contains {what}, not audio bytes; name another",
                column=self.column,
            )
        return value, path if isinstance(path, str) else None


class Workers:
    """Threads that share an iterator over the rows at `places`: the shard and the row of each.

    `results` gives their outcomes, in order. They have ended when it has, or soon after `stop`:
    each finishes its row.
    """

    def __init__(
        self, rows: ArrowIterator, places: Iterator[tuple[int, int]], job: Job, n_threads: int
    ) -> None:
        self._rows = rows
        self._places = places
        self._job = job
        self._lock = threading.Lock()
        self._n_taken = 0
        self._is_ended = False
        self._failure: BaseException | None = None
        self._outcomes: SimpleQueue[tuple[int, RowOutcome] | None] = SimpleQueue()
        # Daemons, since an exit cannot wait for a long recording.
        self._threads = [
            threading.Thread(target=self._work, name=f"gristmill-scan-{k}", daemon=True)
            for k in range(n_threads)
        ]

    def results(self) -> Generator[RowOutcome | None]:
        """The outcome of each row, in order; `None` now and then while there is none.

        Raises:
            BaseException: What ended the iterator or a thread, after all rows before it.
        """
        for thread in self._threads:
            thread.start()
        early: dict[int, RowOutcome] = {}
        n_given, n_alive = 0, len(self._threads)
        while n_alive:
            try:
                entry = self._outcomes.get(timeout=_WAKE_SECONDS)
            except Empty:
                yield None
                continue
            if entry is None:
                n_alive -= 1
                continue
            number, outcome = entry
            early[number] = outcome
            while n_given in early:
                yield early.pop(n_given)
                n_given += 1
        if self._failure is not None:
            raise self._failure

    def stop(self, seconds: float = 0.0) -> None:
        """Lets the threads take no further row, and waits for them for at most `seconds`."""
        self._is_ended = True
        end = time.monotonic() + seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        try:
            while (taken := self._take()) is not None:
                number, element, pipeline = taken
                self._outcomes.put((number, self._job.check(element, pipeline)))
        except BaseException as error:  # noqa: BLE001 - raised again by `results`
            self._fail(error)
        finally:
            self._outcomes.put(None)

    def _take(self) -> tuple[int, dict[str, Any], _core.Pipeline | None] | None:
        with self._lock:
            # Asked for more, the iterator would end its pipeline, and the others have yet to tell
            # it what they learn of their rows.
            place = None if self._is_ended else next(self._places, None)
            if place is None:
                return None
            element = next(self._rows, None)
            if element is None or (int(element["shard"]), int(element["row"])) != place:
                # By their headers, rows behind these would be left out, or waited for without end.
                number = place[0] if element is None else min(place[0], int(element["shard"]))
                raise ValueError(
                    f"{shown_path(self._job.headers[number].path)}, or a shard before it, was "
                    "written again with other rows since the scan began; leave the shards "
                    "alone, and start the scan again"
                )
            number = self._n_taken
            self._n_taken += 1
            return number, element, pipeline_of(self._rows)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._is_ended = True
            self._failure = self._failure or error
