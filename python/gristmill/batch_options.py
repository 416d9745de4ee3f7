"""The options of batches, which data sets and mixtures have in common."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import grain

from gristmill import checks
from gristmill.bad_rows.exclude import Item
from gristmill.bad_rows.policy import BadRowPolicy, OnError, quarantine_path
from gristmill.columns import (
    Binary,
    FillValue,
    MultiHot,
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


def checked_batches(
    *,
    batch_size: int | None,
    drop_remainder: bool,
    remainder: Remainder,
    shard_options: grain.sharding.ShardOptions | None,
    allow_changed: bool,
    on_error: OnError,
    max_bad_rows: float | None,
    quarantine: str | os.PathLike[str] | None,
    excluded: Iterable[Item],
    binary: Binary,
    ragged: Ragged,
    fill_value: FillValue,
    multi_hot: MultiHot,
    with_row_id: bool,
    with_crop: bool,
    read: ReadOptions | None,
) -> dict[str, Any]:
    """These fields of `DatasetOptions`."""
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
    return {
        "batch_size": batch_size,
        "remainder": remainder,
        "partition": _host(shard_options, may_leave_rows),
        "allow_changed": checks.flag("allow_changed", allow_changed),
        "policy": BadRowPolicy(on_error, max_bad_rows, written),
        "binary": checked_binary(binary),
        "ragged": checked_ragged(ragged),
        "fill_value": checked_fill(fill_value),
        "multi_hot": checked_multi_hot(multi_hot),
        "with_row_id": checks.flag("with_row_id", with_row_id),
        "with_crop": checks.flag("with_crop", with_crop),
        "read": read_options(read),
    }


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
