"""`gristmill index --audio`: audio indexes made ahead of time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from gristmill import _core
from gristmill.crops import StartCrop
from gristmill.dataset import ArrowIterDataset
from gristmill.options import Audio, ReadOptions
from gristmill.storage import NO_OPTIONS, StorageOptions
from gristmill.tools.shards import ShardHeader, audio_column

CanKeep = Callable[[str], bool]
"""Tells whether what is learned of a shard can be written."""
OnRows = Callable[[int, int], None]
"""Called with the number of rows done and of all rows, now and then and at the end."""

_READERS = 16
_BATCH_SIZE = 32
_CROP_SECONDS = 0.01
_RATE_HZ = 8000


@dataclass(frozen=True)
class AudioCoverage:
    """How much audio indexes know of a data set.

    Attributes:
        rows: In all shards; rows without a recording are among them.
        known: Recordings that were looked at.
        in_parts: Those among them of which a crop can be read without the rest.
        compressed: Rows of shards that are compressed, which are read as a whole in any case.
    """

    rows: int
    known: int
    in_parts: int
    compressed: int


def audio_coverage(
    headers: Sequence[ShardHeader], read: ReadOptions, storage: StorageOptions = NO_OPTIONS
) -> AudioCoverage:
    """How much the audio indexes of these shards know."""
    known = _known(headers, read, storage)
    return AudioCoverage(
        rows=sum(header.rows for header in headers),
        known=sum(n for n, _ in known),
        in_parts=sum(n for _, n in known),
        compressed=sum(header.rows for header in headers if header.compression),
    )


def learn(
    headers: Sequence[ShardHeader],
    column: str | None,
    read: ReadOptions,
    on_rows: OnRows | None = None,
    storage: StorageOptions = NO_OPTIONS,
    can_keep: CanKeep = lambda _: True,
) -> AudioCoverage:
    """Reads the recordings that the audio indexes of these shards do not know, and keeps theirs.

    Shards that are known as a whole are passed over, and of others a few bytes of what is known are
    read, so that it goes on where it was stopped. Where nothing can be kept, nothing is read.

    Raises:
        SchemaError: There is no such column.
        OSError: A shard cannot be read.
    """
    known = zip(headers, _known(headers, read, storage), strict=True)
    todo = [header for header, (n, _) in known if n < header.rows and header.compression is None]
    todo = [header for header in todo if can_keep(header.path)]
    total, done = sum(header.rows for header in todo), 0
    if todo:
        dataset = ArrowIterDataset(
            [header.path for header in todo],
            columns=[],
            # A crop of next to nothing: to find it the recording is walked, and little is decoded.
            audio=Audio(
                audio_column(headers, column),
                # Recordings of several rates share a batch.
                sample_rate=_RATE_HZ,
                crop=StartCrop(_CROP_SECONDS),
                strict=False,
            ),
            on_error="mask",
            batch_size=_BATCH_SIZE,
            with_row_id=True,
            read=replace(read, audio_index=True),
            storage_options=storage,
        )
        with contextlib.closing(iter(dataset)) as batches:
            for batch in batches:
                done += len(batch["row"])
                if on_rows:
                    on_rows(done, total)
    return audio_coverage(headers, read, storage)


def _known(
    headers: Sequence[ShardHeader], read: ReadOptions, storage: StorageOptions
) -> list[tuple[int, int]]:
    reached = storage.native(header.path for header in headers)

    def of_shard(header: ShardHeader) -> tuple[int, int]:
        return _core.audio_coverage(
            header.path,
            index_dir=read.resolved_index_dir,
            retries=read.retries,
            storage_options=reached,
        )

    with ThreadPoolExecutor(_READERS, thread_name_prefix="gristmill-headers") as pool:
        return list(pool.map(of_shard, headers))
