"""`gristmill index`: sidecars written ahead of time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gristmill.options import ReadOptions, read_options
from gristmill.paths import Paths
from gristmill.tools.headers import OnShard, UnreadableShard, read_headers


@dataclass(frozen=True)
class IndexReport:
    """What `build_indexes` did.

    Attributes:
        shards: Shards that have been opened.
        written: Those among them that had no sidecar that fits, and have one now.
        not_written: Those that have none now either, since nothing can be written there.
        rows: In all of them.
        requests: To the storage.
        index_dir: Where the sidecars are: a folder, or `"beside"`.
        unreadable: Shards that are no sound Arrow IPC.
        why_not_written: What the system says of writing there, where it says something.
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
        from gristmill.cli import pages  # noqa: PLC0415 - the command line speaks of this module

        return pages.index(self)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return asdict(self)


_PROBE_BYTES = 1 << 16
_SETTLED_SECONDS = 2.1
"""A shard that changed less than two seconds ago gets no sidecar."""


def build_indexes(
    paths: Paths,
    *,
    read: ReadOptions | None = None,
    on_shards: Callable[[int], None] | None = None,
    on_shard: OnShard | None = None,
) -> IndexReport:
    """Reads the headers of all shards and keeps them in sidecars, which later runs find.

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
    headers, unreadable = read_headers(paths, options, on_shards, on_shard)
    if any(not header.is_indexed and _is_new(header.path) for header in headers):
        time.sleep(_SETTLED_SECONDS)
        waiting = [header.path for header in headers if not header.is_indexed]
        settled, broken = read_headers(waiting, options)
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
