"""Any part of an order, without reading the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from gristmill import _core, checks
from gristmill.dataset import ArrowIterDataset, options_of
from gristmill.mixture import Mixture, mixture_options_of
from gristmill.options import Shuffle
from gristmill.row_options import check_epochs

_Array = np.ndarray[Any, np.dtype[np.int64]]


class GlobalOrder(NamedTuple):
    """A part of an order: one entry a position, each array `(positions,)` of int64.

    Attributes:
        epoch: The pass over the data, from 0.
        shard: Number of the shard in the resolved paths.
        row: Index of the row in its shard.
    """

    epoch: _Array
    shard: _Array
    row: _Array


class MixtureOrder(NamedTuple):
    """A part of the order of a mixture: one entry a position, each array `(positions,)` of int64.

    Attributes:
        epoch: The pass over the data set, from 0.
        dataset: Number of the data set.
        shard: Number of the shard in the resolved paths of the data set.
        row: Index of the row in its shard.
    """

    epoch: _Array
    dataset: _Array
    shard: _Array
    row: _Array


@overload
def global_order(
    rows: ArrowIterDataset | Sequence[int],
    start: int = 0,
    stop: int | None = None,
    step: int = 1,
    *,
    shuffle: Shuffle | None = None,
    epochs: int | None = 1,
    of_this_host: bool = False,
) -> GlobalOrder: ...
@overload
def global_order(
    rows: Mixture,
    start: int = 0,
    stop: int | None = None,
    step: int = 1,
    *,
    of_this_host: bool = False,
) -> MixtureOrder: ...
def global_order(
    rows: ArrowIterDataset | Mixture | Sequence[int],
    start: int = 0,
    stop: int | None = None,
    step: int = 1,
    *,
    shuffle: Shuffle | None = None,
    epochs: int | None = 1,
    of_this_host: bool = False,
) -> GlobalOrder | MixtureOrder:
    """The rows at the positions `range(start, stop, step)`, counted over all epochs.

    Only the shards' headers are read, and nothing where row counts are given.

    Args:
        rows: A data set, a mixture, or the row counts of shards.
        start: First position, at least 0.
        stop: Position to stop before; `None` is the end, which then there must be.
        step: Distance of positions, not 0; downward it takes a `stop` or ends at position 0.
        shuffle: As for `ArrowIterDataset`; only for row counts, a data set has its own.
        epochs: Likewise.
        of_this_host: Whether positions count the rows of the data set's own host and worker
            (`shard_options`, `set_slice`), instead of those of all together.

    Raises:
        ValueError: An argument is out of range. Shards that do not open raise what the first
            `next` of an iterator would.
    """
    most = 2**63 - 1
    start = checks.integer("start", start, 0, most, write="start=0")
    stop = checks.integer("stop", stop, 0, most, write="stop=1000", none=True)
    step = checks.integer("step", step, -most, most, write="step=1")
    if step == 0:
        raise ValueError("step is not 0: write step=1")
    of_this_host = checks.flag("of_this_host", of_this_host)
    order = _open(rows, shuffle, epochs, of_this_host=of_this_host)
    total = order.total()
    if stop is None and step > 0 and total is None:
        raise ValueError("an order without end takes a stop")
    end = (total if step > 0 else -1) if stop is None else stop
    if total is not None:
        end = min(end or 0, total)
        if start >= total and step < 0:
            start -= -(-(start - total + 1) // -step) * -step
    positions = range(start, end or 0, step)
    rows_there = order.take(start if positions else 0, step, len(positions))
    if isinstance(rows, Mixture):
        return MixtureOrder(rows_there.epoch, rows_there.dataset, rows_there.shard, rows_there.row)
    return GlobalOrder(rows_there.epoch, rows_there.shard, rows_there.row)


def _open(
    rows: ArrowIterDataset | Mixture | Sequence[int],
    shuffle: Shuffle | None,
    epochs: int | None,
    *,
    of_this_host: bool,
) -> _core.Order:
    if isinstance(rows, (ArrowIterDataset, Mixture)):
        if shuffle is not None or epochs != 1:
            raise ValueError("shuffle and epochs are the data set's own; give them for row counts")
        options = mixture_options_of(rows) if isinstance(rows, Mixture) else options_of(rows)
        return _core.Order(options if of_this_host else options.of_all_hosts())
    write = "global_order([1000, 1000], shuffle=gm.Shuffle(seed=42))"
    checks.in_order("rows", rows)
    listed = None if isinstance(rows, (str, bytes)) else checks.items(rows)
    if listed is None:
        raise checks.wrong("rows", "a data set, or a list of row counts", rows, write)
    counts = [checks.integer("a row count", count, 0, 2**63 - 1, write=write) for count in listed]
    epochs = check_epochs(epochs)
    checks.instance("shuffle", shuffle, Shuffle, write="shuffle=gm.Shuffle(seed=42)", none=True)
    return _core.Order.of_counts(counts, shuffle, epochs)
