"""The job that `gristmill bench` and `gristmill doctor` measure: shuffled batches of crops."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gristmill import _core, checks
from gristmill.crops import RandomCrop, check_crop_seconds
from gristmill.dataset import ArrowIterDataset
from gristmill.errors import DecodeError, LimitError, SchemaError
from gristmill.metrics.stats import Stats
from gristmill.options import (
    MIN_SAMPLE_RATE,
    Audio,
    ReadOptions,
    Shuffle,
    check_root,
    check_sample_rate,
)
from gristmill.storage import NO_OPTIONS, StorageOptions
from gristmill.tools.sample import AudioSample
from gristmill.tools.shards import ShardHeader

OnBatch = Callable[[float, int], None]
"""Called after each batch with the seconds that have passed, and the rows delivered."""


@dataclass(frozen=True)
class CropJob:
    """The options that both tools take, checked. `sample_rate` is `None` for that of most rows."""

    batch_size: int
    crop_seconds: float
    sample_rate: int | None
    column: str | None
    seconds: float
    root: str | None = None

    def __post_init__(self) -> None:
        checks.settle(
            self,
            batch_size=checks.within(1, 2**31 - 1, "batch_size=64"),
            crop_seconds=partial(check_crop_seconds, write="crop_seconds=5"),
            sample_rate=check_sample_rate,
            column=partial(checks.text, write='column="audio"', none=True),
            seconds=checks.above_0(1e9, "seconds=10"),
            root=check_root,
        )

    def audio(self, column: str, sample: AudioSample) -> Audio:
        """The crops, at the rate that was asked for or that most rows of the sample have."""
        rate = self.sample_rate or max(next(iter(sample.sample_rates)), MIN_SAMPLE_RATE)
        crop = RandomCrop(self.crop_seconds)
        return Audio(column, rate, crop=crop, strict=False, root=self.root)


@dataclass
class Crops:
    """What was delivered, and how long each batch was waited for.

    Attributes:
        waits: Seconds of each batch, the first left out.
        rows: In these batches, without those that could not be decoded.
        first_seconds: Time for the first batch, opening the shards included.
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


def take(
    headers: Sequence[ShardHeader],
    audio: Audio,
    batch_size: int,
    read: ReadOptions,
    seconds: float,
    on_batch: OnBatch | None = None,
    storage: StorageOptions = NO_OPTIONS,
) -> Crops:
    """Takes shuffled batches as fast as they are delivered, for `seconds` after the first.

    Rows that cannot be decoded are delivered as zeros, and do not count.

    Raises:
        SchemaError: None of the rows can be decoded.
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
        storage_options=storage,
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


def decode_crop(data: bytes, audio: _core.AudioSpec, start: float, seconds: float) -> None:
    """Decodes a crop as a training pipeline does; of a damaged recording what is left."""
    with contextlib.suppress(DecodeError, LimitError):
        _core.decode(data, audio, start=start, seconds=seconds)
