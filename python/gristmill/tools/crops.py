"""Takes batches of random crops as fast as they come, past rows that cannot be decoded."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gristmill.dataset import ArrowIterDataset
from gristmill.errors import SchemaError
from gristmill.metrics.questions import decide
from gristmill.metrics.stats import Stats
from gristmill.metrics.verdict import Verdict
from gristmill.options import Audio, ReadOptions, Shuffle
from gristmill.tools.headers import ShardHeader

OnBatch = Callable[[float, int], None]
"""Called after each batch with the seconds that have passed, and the rows that have come."""


@dataclass
class Crops:
    """What came, and how long each batch was waited for.

    Attributes:
        waits: Seconds of each batch, the first left out.
        rows: In these batches, without those that could not be decoded.
        first_seconds: What the first batch took, opening the shards included.
        read_bytes: Read from the storage for the batches in `waits`.
        stats: Of the iterator.
    """

    waits: list[float] = field(default_factory=list[float])
    rows: int = 0
    first_seconds: float = 0.0
    read_bytes: int = 0
    stats: Stats = field(default_factory=Stats)

    @property
    def seconds(self) -> float:
        """Of all batches together."""
        return sum(self.waits)

    @property
    def verdict(self) -> Verdict:
        """What limited the iterator."""
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

    Rows that cannot be decoded take their places in batches, as zeros, and do not count.

    Raises:
        SchemaError: None of the rows that came can be decoded.
    """
    crops = Crops()
    dataset = ArrowIterDataset(
        [header.path for header in headers],
        columns=[],
        audio=audio,
        shuffle=Shuffle(0),
        batch_size=batch_size,
        epochs=None,
        on_error="mask",
        read=read,
    )
    with contextlib.closing(iter(dataset)) as batches:
        began = time.perf_counter()
        n_good = int(np.count_nonzero(next(batches)["valid"]))
        before = time.perf_counter()
        crops.first_seconds = before - began
        read_before = batches.stats().storage.bytes
        while crops.seconds < seconds:
            valid = next(batches)["valid"]
            crops.waits.append(time.perf_counter() - before)
            crops.rows += int(np.count_nonzero(valid))
            if on_batch:
                on_batch(crops.seconds, crops.rows)
            before = time.perf_counter()
        crops.stats = batches.stats()
        crops.read_bytes = crops.stats.storage.bytes - read_before
        if n_good + crops.rows == 0:
            bad = batches.bad_rows()[-1]
            raise SchemaError(
                f"none of {crops.stats.bad_rows} rows can be decoded; the last: {bad.message}",
                column=audio.column or "",
            )
    return crops
