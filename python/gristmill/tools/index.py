"""`gristmill index`: sidecars, and audio indexes, written ahead of time."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gristmill import _core, checks
from gristmill.metrics.text import Printed, count_text, plural
from gristmill.options import ReadOptions, read_options
from gristmill.paths import Paths, as_list, resolve
from gristmill.storage import Given, checked_storage_options
from gristmill.tools.audio_index import AudioCoverage, OnRows, learn
from gristmill.tools.headers import OnShard, OnShards, read_headers
from gristmill.tools.inspection import list_unreadable
from gristmill.tools.page import Page
from gristmill.tools.parts import checked_part
from gristmill.tools.shards import UnreadableShard
from gristmill.urls import is_url, shown_path

_PROBE_BYTES = 1 << 16
_SETTLED_SECONDS = _core.SETTLED_SECONDS + 0.1


@dataclass(frozen=True)
class IndexReport(Printed):
    """What `build_indexes` did.

    Attributes:
        shards: Shards that have been opened.
        written: Those among them that had no valid sidecar, and have one now.
        not_written: Those that have none now either, since nothing can be written there.
        rows: In all of them.
        requests: To the storage.
        index_dir: Where the sidecars are: a folder, or `"beside"`.
        unreadable: Shards that are not valid Arrow IPC or Parquet.
        why_not_written: Why the system refuses to write there, if it does.
        audio: What the audio indexes know now, where they were asked for.
        audio_not_written: Why the system refuses to write some of these, if it does.
        part: `(i, n)`: the i-th of n parts; `(1, 1)` is all.
    """

    shards: int
    written: int
    not_written: int
    rows: int
    requests: int
    index_dir: str
    unreadable: tuple[UnreadableShard, ...] = ()
    why_not_written: str = ""
    audio: AudioCoverage | None = None
    audio_not_written: str = ""
    part: tuple[int, int] = (1, 1)

    def __str__(self) -> str:
        page = page_of(self)
        if self.not_written or self.audio_not_written:
            page.say(not_written(self))
        return str(page)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return asdict(self)


def page_of(report: IndexReport) -> Page:
    """The page that `gristmill index` prints."""
    page = Page()
    n_there = report.shards - report.written - report.not_written
    page.say(
        f"{count_text(report.shards, 'shard')} of {count_text(report.rows, 'row')}: "
        f"{count_text(report.written, 'index is', 'indexes are')} new, {n_there:,} "
        f"{plural(n_there, 'was', 'were')} there"
    )
    if report.written or n_there:
        is_beside = report.index_dir == "beside"
        page.say(f"They are {'beside the shards.' if is_beside else f'in {report.index_dir}'}")
    if report.audio is not None:
        _say_audio(report.audio, page)
    list_unreadable(report.unreadable, page)
    return page


def _say_audio(audio: AudioCoverage, page: Page) -> None:
    page.say(
        f"{audio.known:,} of {audio.rows:,} recordings are known; crops of {audio.in_parts:,} are "
        "read without the rest"
    )
    if audio.compressed:
        page.say(
            f"{audio.compressed:,} rows are in compressed shards, which are read whole; write "
            "them again without compression"
        )


def not_written(report: IndexReport) -> str:
    """Why some shards have no index."""
    place = "beside the shards" if report.index_dir == "beside" else f"in {report.index_dir}"
    if not report.not_written:
        return f"audio indexes could not be written {place}: {report.audio_not_written}"
    why = report.why_not_written or "it would work now; try again"
    n = count_text(report.not_written, "index", "indexes")
    return f"{n} could not be written {place}: {why}"


def build_indexes(
    paths: Paths,
    *,
    read: ReadOptions | None = None,
    on_shards: OnShards | None = None,
    on_shard: OnShard | None = None,
    audio: bool = False,
    column: str | None = None,
    part: tuple[int, int] = (1, 1),
    on_rows: OnRows | None = None,
    storage_options: Given | None = None,
) -> IndexReport:
    """Reads the headers of all shards and stores them in sidecars, which later runs use.

    For Parquet, sidecars also store the place of each large value of an uncompressed column.

    It waits for shards that changed within the last two seconds, since they may change again
    without a trace. If the folder cannot be written to, Gristmill works without sidecars.

    Args:
        paths: As in `ArrowIterDataset`.
        read: `index_dir` is the folder, `retries` how often to try.
        on_shards: Is called first, with the number of shards.
        on_shard: Is called after each of them.
        audio: Whether to build audio indexes too, which reads each new recording once. A run that
            was stopped resumes.
        column: The audio column; `None` takes the one that is found, as `ArrowIterDataset` does.
        part: `(i, n)`: every n-th shard from the i-th on, counted from 1. Parts are independent.
        on_rows: Is called with the rows done and all rows, while recordings are read.
        storage_options: As in `ArrowIterDataset`, for shards behind URLs.

    Raises:
        ValueError: `index_dir` is `None`, the user has no home folder, or there is no such part.
        OSError: A shard cannot be read.
        SchemaError: There is no such column.
    """
    options = read_options(read)
    storage = checked_storage_options(storage_options)
    checks.flag("audio", audio)
    column = checks.text("column", column, write='column="audio"', none=True)
    checks.function("on_rows", on_rows)
    number, count = checked_part(part)
    index_dir = options.resolved_index_dir
    if index_dir is None:
        raise ValueError("there is no folder for indexes: name one with index_dir=")
    mine = resolve(as_list(paths), storage, options.retries)[number - 1 :: count]
    if not mine:
        return IndexReport(0, 0, 0, 0, 0, index_dir, part=(number, count))
    headers, unreadable = read_headers(
        mine, options, on_shards, on_shard, complete=True, storage=storage
    )
    if any(not header.is_indexed and _is_new(header.path) for header in headers):
        time.sleep(_SETTLED_SECONDS)
        waiting = [header.path for header in headers if not header.is_indexed]
        settled, broken = read_headers(waiting, options, complete=True, storage=storage)
        headers = [header for header in headers if header.is_indexed] + settled
        unreadable += broken
    not_written = [header.path for header in headers if not header.is_indexed]
    places = _Places(index_dir)
    if audio and headers:
        learned = learn(headers, column, options, on_rows, storage, places.can_keep)
        if learned.known < learned.rows - learned.compressed:
            places.try_again()
    else:
        learned = None
    return IndexReport(
        shards=len(headers),
        written=sum(header.requests > 0 and header.is_indexed for header in headers),
        not_written=len(not_written),
        rows=sum(header.rows for header in headers),
        requests=sum(header.requests for header in headers),
        index_dir=index_dir,
        unreadable=tuple(unreadable),
        why_not_written=_refusal(index_dir, not_written[0]) if not_written else "",
        audio=learned,
        audio_not_written=places.refusal,
        part=(number, count),
    )


class _Places:
    """The folders of audio indexes; each is tried before recordings are read for it."""

    def __init__(self, index_dir: str) -> None:
        self._index_dir = index_dir
        self._refusals: dict[str, str] = {}
        self._shards: dict[str, str] = {}

    @property
    def refusal(self) -> str:
        """Why nothing can be written to one of them; empty where all can be."""
        return next(filter(None, self._refusals.values()), "")

    def can_keep(self, shard: str) -> bool:
        """Whether the index of this shard can be written."""
        place = str(Path(shard).parent) if self._index_dir == "beside" else self._index_dir
        if place not in self._refusals:
            self._shards[place] = shard
            self._refusals[place] = _unwritable(self._index_dir, shard)
        return not self._refusals[place]

    def try_again(self) -> None:
        """Looks whether a disk is full by now."""
        for place, shard in self._shards.items():
            self._refusals[place] = _unwritable(self._index_dir, shard)


def _refusal(index_dir: str, shard: str) -> str:
    """Why a shard has no index; empty where nothing keeps it from one now."""
    if why := _unwritable(index_dir, shard):
        return why
    if not is_url(shard) and _is_new(shard):
        return (
            f"by its time {shown_path(shard)} was changed just now, or will be; wait, or give it "
            "the time of now with touch, and try again"
        )
    return ""


def _unwritable(index_dir: str, shard: str) -> str:
    """Why nothing can be written there; empty where it can now."""
    if index_dir == "beside" and is_url(shard):
        return "shards behind a URL have no folder of their own here; name one: --index-dir FOLDER"
    folder = Path(shard).parent if index_dir == "beside" else Path(index_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _is_new(shard: str) -> bool:
    # When a server says that a file was modified is not known here.
    return is_url(shard) or time.time() - Path(shard).stat().st_mtime < _SETTLED_SECONDS
