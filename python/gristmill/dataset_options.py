"""What one data set was asked for, checked, and as the native core takes it."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from gristmill import _core, paths
from gristmill.bad_rows import exclude
from gristmill.bad_rows.policy import BadRowPolicy
from gristmill.columns import Binary, Classes, Labels, PerColumn, Remainder
from gristmill.crops import EventCrop, Windows, crop_seed, native_events
from gristmill.datasets_table import DatasetsTable
from gristmill.filters import Checked as Filters
from gristmill.metrics.stats import Stats
from gristmill.options import Audio, ReadOptions, Shuffle, native_audio, native_shuffle
from gristmill.partition import Partition
from gristmill.sampling import Sampling, native_sampling
from gristmill.selection import RowChoice, Split, native_selection
from gristmill.state import Position
from gristmill.storage import StorageOptions

Columns: TypeAlias = dict[str, bool]
"""Names, and whether the values are Python objects rather than arrays of numbers."""


@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """The options of `ArrowIterDataset` of the same names, and the partition."""

    paths: tuple[str, ...]
    labels: Labels
    storage_options: StorageOptions
    columns: tuple[str, ...] | None
    audio: Audio | Literal["auto"] | None
    table: DatasetsTable | None
    rows: RowChoice | None
    filters: Filters
    split: Split | None
    sampling: Sampling | None
    shuffle: Shuffle | None
    batch_size: int | None
    remainder: Remainder
    epochs: int | None
    partition: Partition
    allow_changed: bool
    policy: BadRowPolicy
    exclude: tuple[exclude.Item, ...]
    binary: Binary
    ragged: PerColumn
    fill_value: PerColumn
    multi_hot: tuple[tuple[str, Classes], ...]
    with_row_id: bool
    with_crop: bool
    read: ReadOptions

    @property
    def rows_per_element(self) -> int:
        """Rows in a full element."""
        return self.batch_size or 1

    @property
    def may_leave_rows(self) -> bool:
        """Whether rows may be left over at the end."""
        return self.remainder == "drop" and self.batch_size is not None

    @property
    def pads(self) -> bool:
        """Whether all hosts have as many batches, the last ones filled up."""
        return self.remainder == "pad"

    def steps_of(self, rows: int) -> int:
        """The elements that are delivered here of a stream of so many rows."""
        partition = self.partition
        if partition.is_even:
            rows -= rows % partition.hosts
        own = partition.n_before(rows)
        if self.pads:
            own = -(-rows // partition.stream_stride)
        size = self.rows_per_element
        return own // size if self.may_leave_rows else -(-own // size)

    @property
    def shown(self) -> dict[str, Any]:
        """The options by their names, as they would be typed."""
        return {
            "columns": None if self.columns is None else list(self.columns),
            "audio": self.audio,
            "filters": [list(map(tuple, group)) for group in self.filters] or None,
            "rows": self.rows,
            "split": self.split,
            "sampling": self.sampling,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "remainder": self.remainder,
            "epochs": self.epochs,
            "allow_changed": self.allow_changed,
            "on_error": self.policy.on_error,
            "max_bad_rows": self.policy.max_bad_rows,
            "quarantine": self.policy.quarantine,
            "binary": self.binary,
            "ragged": self.ragged.named or self.ragged.default,
            "fill_value": self.fill_value.named or self.fill_value.default,
            "multi_hot": dict(self.multi_hot) or (),
            "labels": self.labels,
            "with_row_id": self.with_row_id,
            "with_crop": self.with_crop,
            "storage_options": self.storage_options.shown,
            "read": self.read,
        }

    def native(self) -> _core.Options:
        """The options as the core takes them. Looks at the file system for the shards."""
        shards = paths.resolve(self.paths, self.storage_options, self.read.retries)
        excluded = exclude.resolve(self.exclude, shards)
        audio = self.audio if isinstance(self.audio, Audio) else None
        crop = audio.crop if audio else None
        seeds = (
            crop_seed(crop),
            self.shuffle.seed if self.shuffle else None,
        )
        return _core.Options(
            paths=shards,
            labels=self.labels,
            storage_options=self.storage_options.native(shards),
            columns=None if self.columns is None else list(self.columns),
            audio=native_audio(self.audio) if isinstance(self.audio, Audio) else self.audio,
            audio_rates=None if self.table is None else list(self.table.audio_rates),
            root=os.fspath(audio.root) if audio and audio.root else None,
            events=native_events(crop),
            order=native_order(self.shuffle, self.epochs, self.partition),
            crop_seed=next((seed for seed in seeds if seed is not None), 0),
            selection=native_selection(self.table, self.rows, self.filters, self.split),
            sampling=native_sampling(self.sampling, self.shuffle),
            exclude=[(shard, rows.tobytes()) for shard, rows in excluded.rows.items()],
            expected_rows=excluded.counts,
            on_error=self.policy.on_error,
            max_missing=audio.max_missing if audio else None,
            batch_size=self.batch_size,
            remainder=self.remainder,
            binary=self.binary,
            ragged=self.ragged.default,
            ragged_columns=list(self.ragged.named.items()),
            fill_value=self.fill_value.default,
            fill_values=list(self.fill_value.named.items()),
            multi_hot=[
                (name, list(classes) if isinstance(classes, tuple) else classes)
                for name, classes in self.multi_hot
            ],
            with_row_id=self.with_row_id,
            with_crop=self.with_crop,
            num_threads=self.read.num_threads,
            num_requests=self.read.num_requests,
            memory_budget=self.read.memory_budget_bytes,
            prefetch_batches=self.read.prefetch_batches,
            index_dir=self.read.resolved_index_dir,
            audio_index=self.read.audio_index,
            cache_dir=self.read.resolved_cache_dir,
            cache_limit=self.read.cache_limit,
            retries=self.read.retries,
            page_cache=self.read.page_cache,
        )

    def start(self, position: Position) -> _core.Start:
        """Where the core takes the stream up."""
        return _core.Start(
            epoch=position.epoch,
            next_index=position.next_index,
            fingerprint=position.fingerprint or None,
            allow_changed=self.allow_changed,
        )

    @property
    def row_seconds(self) -> float | None:
        """Seconds of audio in each row, where all have as many."""
        audio = self.audio if isinstance(self.audio, Audio) else None
        if audio is None or audio.crop is None or audio.pad is None:
            return None
        return audio.crop.seconds

    def with_settings(self, stats: Stats, columns: Columns, row_tokens: int | None) -> Stats:
        """The figures, with the settings that they were measured with."""
        # Columns that are ours and not the data's.
        added = {"shard", "row"} if self.with_row_id else set[str]()
        if self.with_crop:
            added |= {"crop_start", "crop_frames"}
            crop = self.audio.crop if isinstance(self.audio, Audio) else None
            if isinstance(crop, Windows):
                added |= {"window", "n_windows"}
            if isinstance(crop, EventCrop):
                added |= {"event", "n_events"}
        if self.policy.on_error == "mask" or self.remainder == "pad":
            added.add("valid")
        audio = self.audio if isinstance(self.audio, Audio) else None
        own = {name: is_object for name, is_object in columns.items() if name not in added}
        settings = replace(
            stats.settings,
            prefetch_batches=self.read.prefetch_batches,
            memory_budget_bytes=self.read.memory_budget_bytes,
            batch_size=self.batch_size,
            resampler=audio.resampler if audio and audio.sample_rate is not None else None,
            columns=tuple(own),
            object_columns=tuple(name for name, is_object in own.items() if is_object),
            machine_cpus=os.cpu_count() or 1,
            is_worker=multiprocessing.parent_process() is not None,
            audio_index=self.read.audio_index and self.read.resolved_index_dir is not None,
            row_seconds=self.row_seconds,
            row_tokens=row_tokens,
        )
        return replace(stats, settings=settings)


def native_order(
    shuffle: Shuffle | None, epochs: int | None, partition: Partition
) -> _core.OrderSpec:
    """The order, and the partition of it, as the core takes them."""
    return _core.OrderSpec(
        shuffle=native_shuffle(shuffle),
        slices=list(partition.slices),
        epochs=epochs,
        offset=partition.stream_offset,
        stride=partition.stream_stride,
        multiple_of=partition.hosts if partition.is_even else 1,
    )
