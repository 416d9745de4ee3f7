"""Takes batches of random crops as fast as they come, past rows that cannot be decoded."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gristmill.config import Audio, ReadOptions, Shuffle
from gristmill.dataset import ArrowIterDataset
from gristmill.errors import DecodeError, LimitError
from gristmill.headers import ShardHeader
from gristmill.iterator import ArrowIterator
from gristmill.stats import Stats
from gristmill.verdict import Verdict, decide

_PATIENCE_SECONDS = 20.0
"""How much longer than asked for rows that cannot be decoded may make it."""

OnBatch = Callable[[float, int], None]
"""Called after each batch with the seconds that have passed, and the rows that have come."""


@dataclass
class Crops:
    """What came, and how long each batch was waited for.

    Attributes:
        waits: Seconds of each batch, the first of each life of the iterator left out.
        first_seconds: What the first batch of all took, opening the shards included.
        read_bytes: Read from the storage for the batches in `waits`.
        left_out: Rows that could not be decoded.
        stats: Of the iterator's last life.
    """

    waits: list[float] = field(default_factory=list[float])
    first_seconds: float = 0.0
    read_bytes: int = 0
    left_out: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    stats: Stats = field(default_factory=Stats)

    @property
    def seconds(self) -> float:
        """Of all batches together."""
        return sum(self.waits)

    @property
    def verdict(self) -> Verdict:
        """What limited the iterator's last life."""
        return decide(self.stats)


def take(
    headers: Sequence[ShardHeader],
    audio: Audio,
    batch_size: int,
    read: ReadOptions,
    seconds: float,
    on_batch: OnBatch | None = None,
) -> Crops:
    """Takes shuffled batches for so long, after the first.

    Raises:
        DecodeError, LimitError: So many rows cannot be decoded that there is nothing to measure.
    """
    crops = Crops()
    end = time.monotonic() + seconds + _PATIENCE_SECONDS
    while crops.seconds < seconds:
        dataset = ArrowIterDataset(
            [header.path for header in headers],
            columns=[],
            audio=audio,
            shuffle=Shuffle(len(crops.left_out)),
            batch_size=batch_size,
            epochs=None,
            exclude=crops.left_out,
            read=read,
        )
        with contextlib.closing(iter(dataset)) as batches:
            try:
                _take(batches, crops, batch_size, seconds, on_batch)
            except (DecodeError, LimitError) as error:
                if error.shard is None or error.row is None or time.monotonic() > end:
                    raise
                crops.left_out.append((error.shard, error.row))
    return crops


def _take(
    batches: ArrowIterator,
    crops: Crops,
    batch_size: int,
    seconds: float,
    on_batch: OnBatch | None,
) -> None:
    began = time.perf_counter()
    next(batches)
    before = time.perf_counter()
    crops.first_seconds = crops.first_seconds or before - began
    read_before = batches.stats().storage.bytes
    try:
        while crops.seconds < seconds:
            next(batches)
            now = time.perf_counter()
            crops.waits.append(now - before)
            if on_batch:
                on_batch(crops.seconds, len(crops.waits) * batch_size)
            before = time.perf_counter()
    finally:
        crops.stats = batches.stats()
        crops.read_bytes += crops.stats.storage.bytes - read_before
