"""Checks the rows of a data set, and finds the bad ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gristmill import _core, checks
from gristmill.bad_rows.quarantine import QuarantineFile, read_quarantine
from gristmill.dataset import ArrowIterDataset
from gristmill.errors import CorruptShardError
from gristmill.options import (
    Limits,
    ReadOptions,
    check_limits,
    check_root,
    read_options,
)
from gristmill.paths import Paths, as_list
from gristmill.storage import Given, checked_storage_options
from gristmill.tools.headers import OnShard, OnShards, read_headers
from gristmill.tools.parts import checked_part
from gristmill.tools.scan.log import SUFFIX, Checkpoint, ScanLog
from gristmill.tools.scan.report import Finding, ScanReport
from gristmill.tools.scan.workers import Job, RowOutcome, Workers
from gristmill.tools.shards import ShardHeader, UnreadableShard, audio_column
from gristmill.urls import base_name, is_url, shown_path

OnRows = Callable[[int, int, int], None]
"""Called with the number of rows done, of rows in this part, and of bad ones: at the start, about
ten times a second, and at the end."""

_SAVE_SECONDS = 2.0
_TELL_SECONDS = 0.1
_GRACE_SECONDS = 0.5
"""How long threads get to finish their rows when a scan is stopped."""


class Scan:
    """One scan: `run` does it, and `report` tells at any time what was found.

    Args:
        paths: As in `ArrowIterDataset`.
        quarantine: The file that bad rows are written to, as `exclude=` reads it; the file beside
            it stores what an interrupted scan resumes from. `None` keeps nothing.
        column: The audio column; `None` takes the one that is found, as `ArrowIterDataset` does.
        part: `(i, n)`: the i-th of n equal runs of rows in file order, counted from 1. Each part
            writes files of its own; `merge_scans` joins them.
        fast: Checks headers, framing and checksums, and decodes nothing.
        limits: What a recording may ask for; `None` is `Limits()`.
        read: Threads, requests, and where sidecars are; `num_threads` decode.
        restart: Discards what an earlier scan found.
        root: The folder of the recordings, if rows contain paths, as in `Audio`.
        storage_options: As in `ArrowIterDataset`, for shards behind URLs.

    Raises:
        ValueError: There is no such part.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        quarantine: str | os.PathLike[str] | None = None,
        column: str | None = None,
        part: tuple[int, int] = (1, 1),
        fast: bool = False,
        limits: Limits | None = None,
        read: ReadOptions | None = None,
        restart: bool = False,
        root: str | os.PathLike[str] | None = None,
        storage_options: Given | None = None,
    ) -> None:
        self._paths = as_list(paths)
        self._column = checks.text("column", column, write='column="audio"', none=True)
        self._part = checked_part(part)
        self._fast = checks.flag("fast", fast)
        self._limits = check_limits(limits)
        self._read = read_options(read)
        self._restart = checks.flag("restart", restart)
        self._root = check_root("root", root)
        self._storage = checked_storage_options(storage_options)
        file = checks.file_path("quarantine", quarantine, none=True)
        self.quarantine: str | None = None if file is None else part_path(file, self._part)
        """The file that this part writes bad rows to."""
        self._headers: list[ShardHeader] = []
        self._checkpoint = Checkpoint()
        self._before = 0.0
        self._began: float | None = None
        self._findings: list[Finding] = []
        self._unreadable: list[UnreadableShard] = []
        self._log: ScanLog | None = None
        self._known: set[tuple[str, int]] = set()
        self._next_save = self._next_tell = 0.0

    def report(self) -> ScanReport:
        """What has been found so far."""
        done = self._checkpoint
        start, end = self._range()
        return ScanReport(
            shards=len(self._headers),
            rows=done.rows,
            rows_to_scan=end - start,
            bytes=done.bytes,
            audio_seconds=done.audio_seconds,
            marked=done.marked,
            noted=done.noted,
            notes=dict(done.notes),
            findings=tuple(self._findings),
            unreadable=tuple(sorted(self._unreadable, key=lambda shard: shard.shard)),
            fast=self._fast,
            part=self._part,
            is_finished=done.is_finished,
            seconds=self._seconds(),
        )

    def run(
        self,
        on_rows: OnRows | None = None,
        on_shards: OnShards | None = None,
        on_shard: OnShard | None = None,
    ) -> ScanReport:
        """Scans, or resumes a scan that was interrupted.

        Args:
            on_rows: Is told the progress.
            on_shards: Is told the number of shards, before they are opened.
            on_shard: Is called after each of them.

        Raises:
            OSError: A shard cannot be read, or nothing more can be written. What was written stays,
                and the next scan into the same file resumes from there.
            SchemaError: There is no audio column, or shards differ.
            ValueError: The files to write to belong to something else, or two shards have one name.
        """
        checks.function("on_rows", on_rows)
        self._headers, broken = read_headers(
            self._paths, self._read, on_shards, on_shard, storage=self._storage
        )
        column = audio_column(self._headers, self._column) if self._headers else ""
        with contextlib.ExitStack() as files:
            quarantine = self._open(files, column, broken)
            if self._checkpoint.is_finished:
                return self.report()
            self._began = time.monotonic()
            try:
                recordings = _core.Recordings(self._root, retries=self._read.retries)
                job = Job(self._headers, column, not self._fast, self._limits, recordings)
                self._scan(job, quarantine, on_rows)
                self._checkpoint.is_finished = True
            finally:
                self._before, self._began = self._seconds(), None
                with contextlib.suppress(OSError):
                    self._save()
        return self.report()

    def _open(
        self, files: contextlib.ExitStack, column: str, broken: Sequence[UnreadableShard]
    ) -> QuarantineFile | None:
        """Opens the files that are written to, and takes over what an earlier run left."""
        self._unreadable = list(broken)
        if self.quarantine is None:
            return None
        _refuse_equal_names(
            [shown_path(header.path) for header in self._headers]
            + [shard.shard for shard in broken]
        )
        header = {
            "data": _signature(self._headers, broken),
            "shards": len(self._headers) + len(broken),
            "rows": sum(header.rows for header in self._headers),
            "column": column,
            "fast": self._fast,
            "root": None if self._root is None else os.path.realpath(self._root),
            "limits": asdict(self._limits),
            "part": list(self._part),
            "written": _times(self._headers),
        }
        quarantine = files.enter_context(QuarantineFile(self.quarantine))
        self._known = self._known_in(self.quarantine)
        log = ScanLog(self.quarantine + SUFFIX, header, restart=self._restart)
        self._log = files.enter_context(log)
        before = log.content
        self._checkpoint = before.checkpoint
        self._before = before.checkpoint.seconds
        self._findings = list(before.findings)
        for finding in self._findings:
            self._quarantine(finding, quarantine)
        if before.unreadable:
            self._unreadable = list(before.unreadable)
        else:
            for shard in broken:
                log.unreadable(shard)
        return quarantine

    def _known_in(self, path: str) -> set[tuple[str, int]]:
        """The rows in the quarantine file, also of shards that are not scanned here."""
        counts = {_name_of(header): header.rows for header in self._headers}
        known = read_quarantine(path)
        for row in known:
            if counts.get(row.shard, row.shard_rows) != row.shard_rows:
                raise ValueError(
                    f"{path} belongs to another data set: it says that {row.shard!r} has "
                    f"{row.shard_rows} rows, and here it has {counts[row.shard]}; give another "
                    "file to write to"
                )
        return {(row.shard, row.row) for row in known}

    def _scan(self, job: Job, quarantine: QuarantineFile | None, on_rows: OnRows | None) -> None:
        start, end = self._range()
        self._tell(on_rows, end - start)
        while (position := start + self._checkpoint.done) < end:
            dataset = ArrowIterDataset(
                [header.path for header in self._headers],
                columns=[job.column],
                audio=None,
                with_row_id=True,
                # The pipeline's own threads only hand rows over.
                read=replace(self._read, num_threads=1, num_requests=self._n_requests()),
                storage_options=self._storage,
            )
            dataset.set_slice(slice(position, end))
            with contextlib.closing(iter(dataset)) as rows:
                workers = Workers(rows, self._places(position, end), job, self._n_threads())
                try:
                    for outcome in workers.results():
                        if outcome is not None:
                            self._count(outcome, quarantine)
                        self._tell(on_rows, end - start)
                except CorruptShardError as error:
                    self._skip(error, start + self._checkpoint.done, end)
                finally:
                    workers.stop(_GRACE_SECONDS)
        self._tell(on_rows, end - start, is_last=True)

    def _count(self, outcome: RowOutcome, quarantine: QuarantineFile | None) -> None:
        if outcome.finding is not None:
            # Written before it counts as done: a kill in between only finds it again.
            self._quarantine(outcome.finding, quarantine)
            if self._log:
                self._log.finding(outcome.finding)
            self._findings.append(outcome.finding)
        done = self._checkpoint
        done.done += 1
        done.rows += 1
        done.bytes += outcome.bytes
        done.audio_seconds += outcome.audio_seconds
        done.marked += outcome.is_marked
        done.noted += bool(outcome.notes)
        for note in outcome.notes:
            done.notes[note] = done.notes.get(note, 0) + 1

    def _quarantine(self, finding: Finding, quarantine: QuarantineFile | None) -> None:
        key = (base_name(finding.row.shard), finding.row.row)
        if quarantine is not None and key not in self._known:
            quarantine.append([finding.row])
            self._known.add(key)

    def _skip(self, error: CorruptShardError, position: int, end: int) -> None:
        """Leaves out the rest of a shard whose record batches are corrupt."""
        first = 0
        for header in self._headers:
            if position < first + header.rows:
                break
            first += header.rows
        else:
            raise error
        if error.shard != shown_path(header.path):
            raise error
        shard = UnreadableShard(shown_path(header.path), position - first, str(error))
        self._unreadable.append(shard)
        if self._log:
            self._log.unreadable(shard)
        self._checkpoint.done += min(first + header.rows, end) - position
        self._save()

    def _tell(self, on_rows: OnRows | None, total: int, *, is_last: bool = False) -> None:
        """Tells the progress, and saves it, where it is time for it."""
        now = time.monotonic()
        if now >= self._next_tell or is_last:
            self._next_tell = now + _TELL_SECONDS
            if on_rows:
                on_rows(self._checkpoint.done, total, len(self._findings))
        if now >= self._next_save:
            self._next_save = now + _SAVE_SECONDS
            self._save()

    def _save(self) -> None:
        self._checkpoint.seconds = self._seconds()
        if self._log:
            self._log.checkpoint(self._checkpoint)

    def _seconds(self) -> float:
        running = 0.0 if self._began is None else time.monotonic() - self._began
        return self._before + running

    def _range(self) -> tuple[int, int]:
        """The rows of this part, in file order."""
        n_rows = sum(header.rows for header in self._headers)
        number, count = self._part
        return n_rows * (number - 1) // count, n_rows * number // count

    def _places(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The shard and the row of each of these rows, by the headers that were read."""
        first = 0
        for number, header in enumerate(self._headers):
            for row in range(max(start - first, 0), min(end - first, header.rows)):
                yield number, row
            first += header.rows

    def _n_threads(self) -> int:
        return self._read.num_threads or _core.usable_cpus()

    def _n_requests(self) -> int:
        return self._read.num_requests or _core.default_requests(self._n_threads())


def scan(
    paths: Paths,
    *,
    quarantine: str | os.PathLike[str] | None = None,
    column: str | None = None,
    part: tuple[int, int] = (1, 1),
    fast: bool = False,
    limits: Limits | None = None,
    read: ReadOptions | None = None,
    restart: bool = False,
    root: str | os.PathLike[str] | None = None,
    on_rows: OnRows | None = None,
    storage_options: Given | None = None,
) -> ScanReport:
    """Decodes every row, in one thread per CPU, and reports the bad ones.

    A row is bad if `Audio(strict=True)` would raise. Rows are read in file order, each once; the
    result does not depend on threads. With `quarantine`, a scan that was stopped, or killed,
    resumes when it is started again in the same way.

    Args:
        paths: As in `ArrowIterDataset`.
        quarantine: As in `Scan`, like the others.
        column: The audio column.
        part: `(i, n)` is the i-th of n parts.
        fast: Whether to decode nothing.
        limits: What a recording may ask for.
        read: Threads, requests, and where sidecars are.
        restart: Discards what an earlier scan found.
        root: The folder of the recordings, if rows contain paths.
        on_rows: Is called with the progress, about ten times a second.
        storage_options: As in `ArrowIterDataset`.

    Raises:
        OSError: A shard cannot be read, or nothing more can be written.
        SchemaError: There is no audio column, or shards differ.
        ValueError: The files to write to belong to something else.
    """
    one = Scan(
        paths,
        quarantine=quarantine,
        column=column,
        part=part,
        fast=fast,
        limits=limits,
        read=read,
        restart=restart,
        root=root,
        storage_options=storage_options,
    )
    return one.run(on_rows)


def part_path(quarantine: str | os.PathLike[str], part: tuple[int, int]) -> str:
    """The file of one part: `bad.part-3-of-16.jsonl` for `bad.jsonl`."""
    path = Path(quarantine)
    number, count = part
    if count == 1:
        return str(path)
    return str(path.with_name(f"{path.stem}.part-{number}-of-{count}{path.suffix}"))


def _name_of(header: ShardHeader) -> str:
    """A shard's name in files, which is the same in any locale."""
    return base_name(shown_path(header.path))


def _signature(headers: Sequence[ShardHeader], broken: Sequence[UnreadableShard]) -> str:
    """A hash of the names, sizes and row counts of all shards."""
    names: list[Any] = [
        *((_name_of(header), header.rows, header.bytes) for header in headers),
        *(base_name(shard.shard) for shard in broken),
    ]
    return hashlib.blake2b(repr(names).encode(), digest_size=8).hexdigest()


def _times(headers: Sequence[ShardHeader]) -> str:
    """A hash of when the shards on disks were written."""
    times = [
        (_name_of(header), Path(header.path).stat().st_mtime_ns)
        for header in headers
        if not is_url(header.path)
    ]
    return hashlib.blake2b(repr(times).encode(), digest_size=8).hexdigest()


def _refuse_equal_names(shards: Sequence[str]) -> None:
    """Refuses what a quarantine file, which names shards without folders, cannot tell apart."""
    by_name: dict[str, str] = {}
    for shard in shards:
        other = by_name.setdefault(base_name(shard), shard)
        if other != shard:
            raise ValueError(
                f"{other} and {shard} have the same name, which identifies shards in a "
                "quarantine file; scan them separately, each into its own file"
            )
