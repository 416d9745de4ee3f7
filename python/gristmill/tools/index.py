"""`gristmill index`: sidecars written ahead of time."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gristmill import _core
from gristmill.options import ReadOptions, read_options
from gristmill.paths import Paths
from gristmill.tools.headers import OnShard, OnShards, read_headers
from gristmill.tools.inspection import list_unreadable
from gristmill.tools.page import Page
from gristmill.tools.shards import UnreadableShard

_PROBE_BYTES = 1 << 16
_SETTLED_SECONDS = _core.SETTLED_SECONDS + 0.1


@dataclass(frozen=True)
class IndexReport:
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
    """

    shards: int
    written: int
    not_written: int
    rows: int
    requests: int
    index_dir: str
    unreadable: tuple[UnreadableShard, ...] = ()
    why_not_written: str = ""

    def __str__(self) -> str:
        page = page_of(self)
        if self.not_written:
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
        f"{report.shards} shards of {report.rows:,} rows: {report.written} indexes are new, "
        f"{n_there} were there"
    )
    if report.written or n_there:
        is_beside = report.index_dir == "beside"
        page.say(f"They are {'beside the shards.' if is_beside else f'in {report.index_dir}'}")
    list_unreadable(report.unreadable, page)
    return page


def not_written(report: IndexReport) -> str:
    """Why some shards have no index."""
    place = "beside the shards" if report.index_dir == "beside" else f"in {report.index_dir}"
    why = report.why_not_written or "nothing keeps them from it now; try again"
    return f"{report.not_written} indexes could not be written {place}: {why}"


def build_indexes(
    paths: Paths,
    *,
    read: ReadOptions | None = None,
    on_shards: OnShards | None = None,
    on_shard: OnShard | None = None,
) -> IndexReport:
    """Reads the headers of all shards and keeps them in sidecars, which later runs find.

    Of Parquet, where each large value of an uncompressed column is as well.

    Shards that changed within the last two seconds, and so may change again without a trace, are
    waited for. Where the folder cannot be written to there will be none: sidecars are never needed.

    Args:
        paths: As in `ArrowIterDataset`.
        read: `index_dir` says where to, `retries` how often to try.
        on_shards: Is told the number of shards first.
        on_shard: Is called after each of them.

    Raises:
        ValueError: `index_dir` is `None`, or there is no home to keep a cache in.
        OSError: A shard cannot be read.
    """
    options = read_options(read)
    index_dir = options.resolved_index_dir
    if index_dir is None:
        raise ValueError("there is nowhere to keep indexes: name a folder with index_dir=")
    headers, unreadable = read_headers(paths, options, on_shards, on_shard, complete=True)
    if any(not header.is_indexed and _is_new(header.path) for header in headers):
        time.sleep(_SETTLED_SECONDS)
        waiting = [header.path for header in headers if not header.is_indexed]
        settled, broken = read_headers(waiting, options, complete=True)
        headers = [header for header in headers if header.is_indexed] + settled
        unreadable += broken
    not_written = [header.path for header in headers if not header.is_indexed]
    return IndexReport(
        shards=len(headers),
        written=sum(header.requests > 0 and header.is_indexed for header in headers),
        not_written=len(not_written),
        rows=sum(header.rows for header in headers),
        requests=sum(header.requests for header in headers),
        index_dir=index_dir,
        unreadable=tuple(unreadable),
        why_not_written=_refusal(index_dir, not_written[0]) if not_written else "",
    )


def _refusal(index_dir: str, shard: str) -> str:
    """Why nothing can be written there; empty where it can now."""
    folder = Path(shard).parent if index_dir == "beside" else Path(index_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _is_new(shard: str) -> bool:
    return time.time() - Path(shard).stat().st_mtime < _SETTLED_SECONDS
