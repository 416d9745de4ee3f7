"""Parts of a scan or of an index, as objects that batch engines send to their workers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gristmill import checks
from gristmill.options import Limits, ReadOptions, check_limits, check_root, read_options
from gristmill.paths import Paths, as_list, resolve
from gristmill.storage import Given, checked_storage_options
from gristmill.tools.audio_index import AudioCoverage, OnRows
from gristmill.tools.index import IndexReport, build_indexes
from gristmill.tools.scan import run as scanning
from gristmill.tools.scan.summary import ScanSummary, joined, summary_of
from gristmill.urls import is_url

_Result = TypeVar("_Result", ScanSummary, IndexReport)


@dataclass(frozen=True, kw_only=True)
class ScanPart:
    """One part of a scan. Pickle it, send it anywhere, call it; `scan_parts` makes it.

    A part that is called again after its worker was lost resumes from its files, and returns the
    result at once if it was finished. While another process still works on it, it raises
    `ValueError`.

    Attributes:
        part: `(i, n)`: the i-th of n parts, counted from 1.
        paths: The shards of the whole scan.
        quarantine: The file of the whole scan; this part's files are beside it.
        column: The audio column; `None` if there is only one.
        fast: Whether the audio is checked without decoding it.
        limits: What a recording may cost.
        read: How shards are read.
        root: The folder of the recordings, if rows contain paths.
        storage_options: Of stores behind URLs.
    """

    part: tuple[int, int]
    paths: tuple[str, ...] = field(repr=False)
    quarantine: str
    column: str | None = None
    fast: bool = False
    limits: Limits = field(default_factory=Limits)
    read: ReadOptions = field(default_factory=ReadOptions)
    root: str | None = None
    storage_options: Given | None = field(default=None, repr=False)

    def __call__(self, on_rows: scanning.OnRows | None = None) -> ScanSummary:
        """Scans this part.

        Args:
            on_rows: As in `scan`.

        Raises:
            OSError: A shard cannot be read, or nothing can be written.
            ValueError: The files belong to another scan, or another process writes them.
            SchemaError: There is no audio column, or shards differ.
        """
        one = scanning.Scan(
            self.paths,
            quarantine=self.quarantine,
            column=self.column,
            part=self.part,
            fast=self.fast,
            limits=self.limits,
            read=self.read,
            root=self.root,
            storage_options=self.storage_options,
        )
        return summary_of(one.run(on_rows), one.quarantine)


@dataclass(frozen=True, kw_only=True)
class IndexPart:
    """One part of the indexes of a data set. Pickle it, send it anywhere, call it.

    A part that is called again resumes.

    Attributes:
        part: `(i, n)`: the i-th of n parts, counted from 1.
        paths: The shards of all parts.
        audio: Whether audio indexes are made too.
        column: The audio column; `None` if there is only one.
        read: How shards are read.
        storage_options: Of stores behind URLs.
    """

    part: tuple[int, int]
    paths: tuple[str, ...] = field(repr=False)
    audio: bool = False
    column: str | None = None
    read: ReadOptions = field(default_factory=ReadOptions)
    storage_options: Given | None = field(default=None, repr=False)

    def __call__(self, on_rows: OnRows | None = None) -> IndexReport:
        """Writes the indexes of this part.

        Args:
            on_rows: As in `build_indexes`.

        Raises:
            OSError: A shard cannot be read.
            SchemaError: There is no such column.
        """
        return build_indexes(
            self.paths,
            read=self.read,
            audio=self.audio,
            column=self.column,
            part=self.part,
            on_rows=on_rows,
            storage_options=self.storage_options,
        )


def scan_parts(
    paths: Paths,
    n: int,
    *,
    quarantine: str | os.PathLike[str],
    column: str | None = None,
    fast: bool = False,
    limits: Limits | None = None,
    read: ReadOptions | None = None,
    root: str | os.PathLike[str] | None = None,
    storage_options: Given | None = None,
) -> tuple[ScanPart, ...]:
    """The parts of a scan, for an engine that runs them: Slurm, Ray, Dask, or any other.

    Each part is a callable that can be pickled. It scans one of `n` equal runs of rows, writes
    files of its own beside `quarantine`, and returns a `ScanSummary`, which `merge_parts` adds up.
    `merge_scans` joins the files. Patterns and folders are listed here, once, and local paths
    become absolute: workers need the same files under the same paths.

    Args:
        paths: As in `ArrowIterDataset`.
        n: The number of parts.
        quarantine: As in `scan`, on storage that all workers share.
        column: The audio column.
        fast: Whether to decode nothing.
        limits: What a recording may ask for.
        read: Threads, requests, and where sidecars are, on each worker.
        root: The folder of the recordings, if rows contain paths.
        storage_options: As in `ArrowIterDataset`. They travel with the parts: for secrets, set the
            workers' environment instead.

    Raises:
        ValueError: `n` is less than 1, or an option is wrong.
        OSError: The shards cannot be listed.
    """
    file = os.path.abspath(checks.file_path("quarantine", quarantine))  # noqa: PTH100 - a string
    folder = check_root("root", root)
    part = ScanPart(
        part=(1, 1),
        paths=_listed(paths, storage_options, read),
        quarantine=file,
        column=checks.text("column", column, write='column="audio"', none=True),
        fast=checks.flag("fast", fast),
        limits=check_limits(limits),
        read=read_options(read),
        root=None if folder is None else os.path.abspath(folder),  # noqa: PTH100 - as above
        storage_options=storage_options,
    )
    return tuple(replace(part, part=(k, n)) for k in _numbers(n))


def index_parts(
    paths: Paths,
    n: int,
    *,
    audio: bool = False,
    column: str | None = None,
    read: ReadOptions | None = None,
    storage_options: Given | None = None,
) -> tuple[IndexPart, ...]:
    """The parts of `build_indexes`, for an engine that runs them.

    Each part is a callable that can be pickled. It writes the indexes of each n-th shard, and
    returns an `IndexReport`, which `merge_parts` adds up.

    Args:
        paths: As in `ArrowIterDataset`. Listed here, once; local paths become absolute.
        n: The number of parts.
        audio: Whether to make audio indexes too.
        column: The audio column.
        read: `index_dir` is a folder that all workers share, or `"beside"`.
        storage_options: As in `scan_parts`.

    Raises:
        ValueError: `n` is less than 1, or an option is wrong.
        OSError: The shards cannot be listed.
    """
    part = IndexPart(
        part=(1, 1),
        paths=_listed(paths, storage_options, read),
        audio=checks.flag("audio", audio),
        column=checks.text("column", column, write='column="audio"', none=True),
        read=read_options(read),
        storage_options=storage_options,
    )
    return tuple(replace(part, part=(k, n)) for k in _numbers(n))


def merge_parts(results: Iterable[_Result]) -> _Result:
    """Adds up the results of parts, in any order.

    Only totals are kept, so that memory does not grow with the rows.

    Args:
        results: Of all parts of one scan, or of one index.

    Raises:
        ValueError: A part is missing or given twice, or there are none.
    """
    write = "gm.merge_parts(part() for part in parts)"
    kinds = "ScanSummary or IndexReport of each part"
    given: Any = results
    if not isinstance(given, Iterable):
        raise checks.wrong("results", kinds, given, write)
    total: Any = None
    seen: set[int] = set()
    count = 0
    for result in results:
        one: Any = result
        if not isinstance(one, (ScanSummary, IndexReport)):
            raise checks.wrong("results", kinds, one, write)
        number, count_here = result.part
        if total is not None and count_here != count:
            raise ValueError(
                f"a part is of {count_here} and another of {count}; give the parts of one job"
            )
        if number in seen:
            raise ValueError(f"part {number} of {count_here} comes twice; give each once")
        seen.add(number)
        count = count_here
        total = result if total is None else _joined(total, result)
    if total is None:
        raise ValueError("there are no results of parts to merge")
    missing = next((k for k in range(1, count + 1) if k not in seen), None)
    if missing is not None:
        raise ValueError(f"part {missing} of {count} is missing; run it, and merge again")
    return replace(total, part=(1, 1))


def _joined(total: Any, result: Any) -> Any:
    if isinstance(total, ScanSummary):
        return joined(total, result)
    return _joined_indexes(total, result)


def _joined_indexes(one: IndexReport, other: IndexReport) -> IndexReport:
    audio = [found for found in (one.audio, other.audio) if found is not None]
    return replace(
        one,
        shards=one.shards + other.shards,
        written=one.written + other.written,
        not_written=one.not_written + other.not_written,
        rows=one.rows + other.rows,
        requests=one.requests + other.requests,
        unreadable=(*one.unreadable, *other.unreadable),
        why_not_written=one.why_not_written or other.why_not_written,
        audio=AudioCoverage(
            rows=sum(found.rows for found in audio),
            known=sum(found.known for found in audio),
            in_parts=sum(found.in_parts for found in audio),
            compressed=sum(found.compressed for found in audio),
        )
        if audio
        else None,
        audio_not_written=one.audio_not_written or other.audio_not_written,
    )


def _numbers(n: int) -> Iterator[int]:
    count = checks.integer("n", n, 1, write="gm.scan_parts(paths, 16, ...)")
    yield from range(1, count + 1)


def _listed(paths: Paths, storage: Given | None, read: ReadOptions | None) -> tuple[str, ...]:
    options = checked_storage_options(storage)
    found = resolve(as_list(paths), options, read_options(read).retries)
    return tuple(path if is_url(path) else os.path.abspath(path) for path in found)  # noqa: PTH100
