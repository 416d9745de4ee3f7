"""What a stream was asked for: the data sets, their batches, and how they are mixed."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass, replace
from typing import TypeAlias

from gristmill.batch_options import BatchOptions
from gristmill.metrics.stats import Stats
from gristmill.mixing import Mixing
from gristmill.partition import Partition
from gristmill.row_options import RowOptions

Columns: TypeAlias = dict[str, bool]
"""Names, and whether the values are Python objects rather than arrays of numbers."""


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What the core takes: it reads these groups, and the options in them, by their names.

    Attributes:
        sources: The data set, or those of a mixture.
        batches: The options that they have in common.
        mixing: How they are mixed; `None` for one that is not.
    """

    sources: tuple[RowOptions, ...]
    batches: BatchOptions
    mixing: Mixing | None = None

    def with_partition(self, partition: Partition) -> StreamOptions:
        """The same of another part of the stream."""
        return replace(self, batches=replace(self.batches, partition=partition))

    def of_all_hosts(self) -> StreamOptions:
        """The same of the whole stream, or of the slices of it that were taken."""
        return self.with_partition(Partition(slices=self.batches.partition.slices))

    def with_settings(self, stats: Stats, columns: Columns, row_tokens: int | None) -> Stats:
        """The figures, with the settings that they were measured with.

        The columns are those of the data.
        """
        read = self.batches.read
        audio = self.sources[0].decoded
        seconds = {rows.row_seconds for rows in self.sources}
        settings = replace(
            stats.settings,
            prefetch_batches=read.prefetch_batches,
            memory_budget_bytes=read.memory_budget_bytes,
            batch_size=self.batches.batch_size,
            resampler=audio.resampler if audio and audio.sample_rate is not None else None,
            columns=tuple(columns),
            object_columns=tuple(name for name, is_object in columns.items() if is_object),
            machine_cpus=os.cpu_count() or 1,
            is_worker=multiprocessing.parent_process() is not None,
            audio_index=read.audio_index and read.resolved_index_dir is not None,
            row_seconds=seconds.pop() if len(seconds) == 1 else None,
            row_tokens=row_tokens,
        )
        return replace(stats, settings=settings)
