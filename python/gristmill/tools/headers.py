"""Reads the headers of all shards, many at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import Empty, SimpleQueue

from gristmill import _core, checks, paths
from gristmill.errors import CorruptShardError, LimitError, SchemaError
from gristmill.options import ReadOptions, read_options
from gristmill.storage import NO_OPTIONS, StorageOptions
from gristmill.tools.shards import ShardHeader, UnreadableShard
from gristmill.urls import shown_path

OnShards = Callable[[int], None]
"""Called once, with the number of shards."""
OnShard = Callable[[], None]
"""Called after each shard, from one thread at a time."""

_READERS = 16
"""Shards that are opened at a time: storage latency takes the time, not the CPU."""
_SIGNAL_CHECK_SECONDS = 0.05


def read_headers(
    shards: paths.Paths,
    read: ReadOptions | None = None,
    on_shards: OnShards | None = None,
    on_shard: OnShard | None = None,
    *,
    complete: bool = False,
    storage: StorageOptions = NO_OPTIONS,
) -> tuple[list[ShardHeader], list[UnreadableShard]]:
    """The headers of all shards, in order, and the shards that are not valid Arrow IPC or Parquet.

    A shard without a sidecar gets one.

    Args:
        shards: As `paths` in `ArrowIterDataset`.
        read: Where sidecars are kept, and how often a request is retried.
        on_shards: Is told the number of shards first.
        on_shard: Is called after each of them.
        complete: Whether sidecars are to have all that they can: of Parquet, also where each large
            value is.
        storage: How shards behind URLs are reached.

    Raises:
        OSError: A shard cannot be read.
    """
    options = read_options(read)
    for name, told in (("on_shards", on_shards), ("on_shard", on_shard)):
        checks.function(name, told)
    found = paths.resolve(paths.as_list(shards), storage, options.retries)
    reached = storage.native(found)
    if on_shards:
        on_shards(len(found))
    headers: dict[int, ShardHeader] = {}
    broken: dict[int, UnreadableShard] = {}
    cancel = _core.Cancel()

    def read_one(number: int, shard: str) -> None:
        if cancel.is_cancelled():
            return
        try:
            header = _core.read_header(
                shard,
                index_dir=options.resolved_index_dir,
                retries=options.retries,
                complete=complete,
                storage_options=reached,
                cancel=cancel,
            )
            # It has the path as UTF-8, which the locale may not have.
            headers[number] = replace(header, path=shard)
        except (CorruptShardError, LimitError, SchemaError) as error:
            broken[number] = UnreadableShard(shown_path(shard), 0, str(error))

    done: SimpleQueue[Future[None]] = SimpleQueue()
    pool = ThreadPoolExecutor(_READERS, thread_name_prefix="gristmill-headers")
    try:
        for number, shard in enumerate(found):
            pool.submit(read_one, number, shard).add_done_callback(done.put)
        for _ in found:
            _next(done).result()
            if on_shard:
                on_shard()
    finally:
        cancel.cancel()  # what is left, after an error or Ctrl-C
        pool.shutdown()
    return [headers[k] for k in sorted(headers)], [broken[k] for k in sorted(broken)]


def _next(done: SimpleQueue[Future[None]]) -> Future[None]:
    """The next that is done, waited for a little at a time, so that Ctrl-C is answered.

    Polars has a handler of its own for Ctrl-C, under which one long wait would go on.
    """
    while True:
        try:
            return done.get(timeout=_SIGNAL_CHECK_SECONDS)
        except Empty:
            continue
