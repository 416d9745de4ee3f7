"""Reads and checks recordings, several at a time, and gives them in order."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import cast

from gristmill import _core
from gristmill.bad_rows.line_file import open_regular
from gristmill.errors import DecodeError, LimitError
from gristmill.options import Limits
from gristmill.tools.pack.convert import REASONS, ConversionError, to_flac
from gristmill.tools.pack.report import BadFile
from gristmill.tools.pack.source import Recording

_AHEAD_BYTES = 256 << 20
"""Recordings that are read, or being read, and wait for their turn."""
_SIGNAL_CHECK_SECONDS = 0.05
_MOST_BYTES = 2**31 - 1
"""Of a value of Arrow's type binary, which is what `datasets` writes."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A recording that was read; without bytes it is left out."""

    row: int
    data: bytes | None
    audio_seconds: float = 0.0
    bad: BadFile | None = None
    is_converted: bool = False


class Pool:
    """Threads that load recordings. They are daemons: an exit cannot wait for a long recording."""

    def __init__(self, n_threads: int) -> None:
        self._jobs: SimpleQueue[tuple[Future[Loaded], Callable[[], Loaded]] | None] = SimpleQueue()
        self._n_threads = n_threads
        for k in range(n_threads):
            name = f"gristmill-pack-{k}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, job: Callable[[], Loaded]) -> Future[Loaded]:
        """Does a job when a thread is free, unless it is cancelled before."""
        future: Future[Loaded] = Future()
        self._jobs.put((future, job))
        return future

    def close(self) -> None:
        """Lets each thread end after its recording. Nothing is waited for."""
        for _ in range(self._n_threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (taken := self._jobs.get()) is not None:
            future, job = taken
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - raised again by `result`
                future.set_exception(error)


class Reader:
    """Reads recordings in a pool of threads, which decode without the GIL."""

    def __init__(
        self,
        pool: Pool,
        n_threads: int,
        limits: Limits,
        *,
        fast: bool,
        keep: bool,
        convert: bool = False,
    ) -> None:
        self._pool = pool
        self._n_threads = n_threads
        self._limits = limits
        self._fast = fast
        self._keep = keep
        self._convert = convert

    def in_order(self, recordings: Iterable[tuple[int, Recording]]) -> Generator[Loaded]:
        """Each recording with its row, in the order given.

        Raises:
            OSError: A file cannot be read, though it was there a moment ago.
            ValueError: A file has changed since it was found.
        """
        waiting: deque[tuple[Future[Loaded], int]] = deque()
        n_bytes = 0
        try:
            for row, recording in recordings:
                while waiting and (
                    n_bytes + recording.size > _AHEAD_BYTES or len(waiting) > 2 * self._n_threads
                ):
                    job, size = waiting.popleft()
                    yield _result(job)
                    n_bytes -= size
                waiting.append(
                    (self._pool.submit(partial(self._load, row, recording)), recording.size)
                )
                n_bytes += recording.size
            while waiting:
                yield _result(waiting.popleft()[0])
        finally:
            for job, _ in waiting:
                job.cancel()

    def _load(self, row: int, recording: Recording) -> Loaded:
        name = recording.name
        most = min(self._limits.max_bytes, _MOST_BYTES)
        if recording.size > most:
            message = f"it has {recording.size:,} bytes, and the limit is {most:,}"
            return Loaded(row, None, bad=BadFile(name, "max_bytes", message))
        try:
            data = _read(recording)
        except PermissionError as error:
            return Loaded(row, None, bad=BadFile(name, "permission", str(error.strerror)))
        seconds, bad = self._check(name, data)
        if bad is not None and self._convert and bad.reason in REASONS:
            try:
                flac = to_flac(data, self._limits)
            except ConversionError as error:
                bad = replace(bad, message=f"{bad.message}; it was not converted: {error}")
            else:
                seconds, flac_bad = self._check(name, flac)
                if flac_bad is None:
                    return Loaded(row, flac, seconds, is_converted=True)
                bad = replace(bad, message=f"{bad.message}; as FLAC: {flac_bad.message}")
        if bad is not None and not self._keep:
            return Loaded(row, None, bad=bad)
        return Loaded(row, data, seconds, None if bad is None else replace(bad, kept=True))

    def _check(self, name: str, data: bytes) -> tuple[float, BadFile | None]:
        """Its length in seconds, and what is wrong with it."""
        seconds = 0.0
        try:
            found = _core.check(data, decode=not self._fast, limits=self._limits)
            seconds = found.info.duration
            if found.error is None:
                return seconds, None
            raise found.error
        except (DecodeError, LimitError) as error:
            limit = cast("str", getattr(error, "limit", ""))
            reason = limit or cast("str", getattr(error, "reason", ""))
            return seconds, BadFile(name, reason, str(error), error.codec)


def _result(job: Future[Loaded]) -> Loaded:
    """Waits a little at a time: other libraries' handlers of Ctrl-C let one long wait go on."""
    while not wait([job], timeout=_SIGNAL_CHECK_SECONDS).done:
        pass
    return job.result()


def _read(recording: Recording) -> bytes:
    with open_regular(recording.file) as file:
        file.seek(recording.offset)
        data = file.read(recording.size)
        # A file of its own must end here as well.
        is_whole = len(data) == recording.size and (
            recording.name != recording.path or os.fstat(file.fileno()).st_size == recording.size
        )
    if not is_whole:
        raise ValueError(f"{recording.file} was changed while it was packed; start again")
    return data
