"""The options of batches, which data sets and mixtures have in common."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import grain

from gristmill import _core, checks
from gristmill.bad_rows.exclude import Item
from gristmill.bad_rows.policy import BadRowPolicy, OnError, quarantine_path
from gristmill.columns import (
    Binary,
    Classes,
    FillValue,
    MultiHot,
    PerColumn,
    Ragged,
    Remainder,
    checked_binary,
    checked_fill,
    checked_multi_hot,
    checked_ragged,
    checked_remainder,
)
from gristmill.options import ReadOptions, read_options
from gristmill.partition import Partition
from gristmill.state import Position


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """The options of `ArrowIterDataset` of the same names, checked. The core reads them by name."""

    batch_size: int | None
    remainder: Remainder
    partition: Partition
    allow_changed: bool
    policy: BadRowPolicy
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

    def start(self, position: Position) -> _core.Start:
        """Where the core starts the stream."""
        return _core.Start(
            epoch=position.epoch,
            next_index=position.next_index,
            fingerprint=position.fingerprint or None,
            allow_changed=self.allow_changed,
        )

    @property
    def shown(self) -> dict[str, Any]:
        """The options by their names, as they would be typed."""
        return {
            **vars(self),
            **vars(self.policy),
            "ragged": self.ragged.shown,
            "fill_value": self.fill_value.shown,
            "multi_hot": dict(self.multi_hot) or (),
        }


def checked_batches(
    *,
    batch_size: int | None = None,
    drop_remainder: bool = False,
    remainder: Remainder = "keep",
    shard_options: grain.sharding.ShardOptions | None = None,
    allow_changed: bool = False,
    on_error: OnError = "raise",
    max_bad_rows: float | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    excluded: Iterable[Item] = (),
    binary: Binary = "bytes",
    ragged: Ragged = "object",
    fill_value: FillValue = None,
    multi_hot: MultiHot = (),
    with_row_id: bool = False,
    with_crop: bool = False,
    read: ReadOptions | None = None,
) -> BatchOptions:
    """The options as they were given, checked."""
    written = quarantine_path(quarantine, excluded)
    batch_size = checks.integer(
        "batch_size", batch_size, 1, 2**31 - 1, write="batch_size=64", none=True
    )
    remainder = checked_remainder(remainder, drop_remainder, batch_size)
    if remainder == "pad" and on_error == "skip":
        raise ValueError(
            "remainder='pad' keeps batches at their full shape, and on_error='skip' makes them "
            "shorter: write on_error='mask'"
        )
    may_leave_rows = remainder == "drop" and batch_size is not None
    return BatchOptions(
        batch_size=batch_size,
        remainder=remainder,
        partition=_host(shard_options, may_leave_rows),
        allow_changed=checks.flag("allow_changed", allow_changed),
        policy=BadRowPolicy(on_error, max_bad_rows, written),
        binary=checked_binary(binary),
        ragged=checked_ragged(ragged),
        fill_value=checked_fill(fill_value),
        multi_hot=checked_multi_hot(multi_hot),
        with_row_id=checks.flag("with_row_id", with_row_id),
        with_crop=checks.flag("with_crop", with_crop),
        read=read_options(read),
    )


def _host(shard_options: Any, may_leave_rows: bool) -> Partition:
    """The rows of this host."""
    checks.instance(
        "shard_options",
        shard_options,
        grain.sharding.ShardOptions,
        write="shard_options=grain.sharding.ShardOptions(0, 2)",
        none=True,
    )
    if shard_options is None:
        return Partition()
    most = 2**31
    return Partition(
        checks.integer("shard_index", shard_options.shard_index, 0, most, write="0"),
        checks.integer("shard_count", shard_options.shard_count, 1, most, write="2"),
        bool(shard_options.drop_remainder) or may_leave_rows,
    )
