"""How well an order shuffles, compared with an ideal shuffle."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill import checks
from gristmill.dataset import ArrowIterDataset, options_of
from gristmill.metrics.text import Printed, count_text
from gristmill.order import global_order

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ShuffleQuality(Printed):
    """How well an epoch's order mixes rows in batches. An ideal shuffle has 1.0 everywhere.

    Attributes:
        score: Effective share of a batch's rows: a batch of 64 with a score of 0.25 varies as much
            from the whole as 16 rows drawn at random. 1 over the largest of 1, `shards` and
            `labels`.
        shards: How far the batches' rows cluster by shard: the mean of chi-squared over its degrees
            of freedom. Above 1 is clustered, below 1 is more even than chance.
        labels: Likewise by label; `None` where no label was asked for.
        neighbours: Pairs of rows that are neighbours in a shard and in one batch, over what
            chance gives.
        distance: Mean distance in the order of rows that are neighbours in a shard, over what
            chance gives, which is a third of the epoch.
        batch_rows: Rows in a batch, of all hosts together.
        n_rows: Rows of the epoch.
    """

    score: float
    shards: float
    labels: float | None
    neighbours: float
    distance: float
    batch_rows: int
    n_rows: int

    @classmethod
    def of(
        cls, shard: _Array, row: _Array, *, batch_rows: int, labels: _Array | None = None
    ) -> ShuffleQuality:
        """The quality of any order of an epoch, Gristmill's or not.

        Args:
            shard: Number of each row's shard, `(rows,)` of integers, in the order.
            row: Its number in the shard, likewise.
            batch_rows: Rows in a batch, at least 2. A short last batch is left out.
            labels: Each row's label, likewise, of any type that can be sorted.

        Raises:
            ValueError: There is less than one batch, or arrays differ in length.
        """
        shard, row = _numbers("shard", shard), _numbers("row", row)
        n = len(shard)
        batch_rows = _checked_rows(batch_rows, n)
        by_label = None
        if labels is not None:
            labels = _coded(labels)
        if len(row) != n or (labels is not None and len(labels) != n):
            raise ValueError("shard, row and labels have one entry for each row of the epoch")
        by_shard = _clustering(shard, batch_rows)
        if labels is not None:
            by_label = _clustering(labels, batch_rows)
        neighbours, distance = _neighbours(shard, row, batch_rows)
        return cls(
            score=1 / max(1.0, by_shard, by_label or 0.0),
            shards=by_shard,
            labels=by_label,
            neighbours=neighbours,
            distance=distance,
            batch_rows=batch_rows,
            n_rows=n,
        )

    def __str__(self) -> str:
        labels = "" if self.labels is None else f", by label {self.labels:.2f}"
        return (
            f"score {self.score:.2f}: batches of {self.batch_rows} of {self.n_rows} rows clump by "
            f"shard {self.shards:.2f}{labels} (ideal: 1.00 each). Not in the score: rows that are "
            f"neighbours in a shard meet in a batch {self.neighbours:.2f} times as often as by "
            f"chance, and are {self.distance:.2f} times as far apart; it matters where neighbours "
            "resemble each other"
        )


def shuffle_quality(
    dataset: ArrowIterDataset,
    *,
    label: str | None = None,
    batch_rows: int | None = None,
    epoch: int = 0,
) -> ShuffleQuality:
    """How well the data set's own options shuffle one epoch, without reading audio.

    Reads the shards' headers and, with `label`, that column. Takes about 60 bytes of memory and
    under 2 microseconds a row.

    Args:
        dataset: The data set, as it is trained on.
        label: Name of a column of labels: integers, strings, booleans.
        batch_rows: Rows in a batch of all hosts together; `None` takes the data set's batch size
            times its hosts, or 64 for single rows.
        epoch: The epoch to look at.

    Raises:
        ValueError: The epoch has less than one batch, or the data set has not that many epochs.
        SchemaError: There is no such column.
    """
    checks.instance("dataset", dataset, ArrowIterDataset, write="shuffle_quality(dataset)")
    label = checks.text("label", label, write='label="species"', none=True)
    epoch = checks.integer("epoch", epoch, 0, 2**31, write="epoch=0")
    batch_rows = checks.integer("batch_rows", batch_rows, 2, write="batch_rows=64", none=True)
    epochs = options_of(dataset).sources[0].epochs
    if epochs is not None and epoch >= epochs:
        raise ValueError(
            f"epoch counts from 0, and the data set has {count_text(epochs, 'epoch')}, not "
            f"{epoch + 1}: write epoch={epochs - 1}, or give it more epochs"
        )
    whole = dataset.rows_per_epoch()
    _, shard, row = global_order(dataset, epoch * whole, (epoch + 1) * whole)
    if batch_rows is None:
        batches = options_of(dataset).batches
        batch_rows = batches.rows_per_element * batches.partition.hosts
        batch_rows = batch_rows if batch_rows > 1 else 64
    labels = None if label is None else _labels(dataset, label, shard, row)
    return ShuffleQuality.of(shard, row, batch_rows=batch_rows, labels=labels)


def _numbers(name: str, values: Any) -> _Array:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} is an array of one integer for each row of the epoch, as "
            f"gm.global_order(...).{name} gives it, not {checks.shown(values)}"
        )
    return array


def _coded(labels: Any) -> _Array:
    """Labels as NumPy can sort them: objects that it cannot, such as `None`, as numbers."""
    told = "labels are one value a row, such as integers or strings, and no lists"
    try:
        array = np.asarray(labels)
    except ValueError:  # lists of several lengths
        array = np.empty(())
    if array.ndim != 1:
        raise ValueError(f"{told}; name another column")
    with contextlib.suppress(TypeError, ValueError):
        np.unique(array)
        return array
    codes: dict[Any, int] = {}
    try:
        return np.array([codes.setdefault(value, len(codes)) for value in array], np.int64)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in array})
        raise ValueError(f"{told}: these are {', '.join(kinds)}; name another column") from None


def _checked_rows(batch_rows: Any, n: int) -> int:
    count = checks.as_int(batch_rows)
    if count is None or not 2 <= count <= n:
        raise ValueError(
            f"batch_rows is 2 to {n}, the rows of an epoch, not {checks.shown(batch_rows)}"
        )
    return count


def _labels(dataset: ArrowIterDataset, column: str, shard: _Array, row: _Array) -> _Array:
    """The label of each row of the order; reads the column in file order."""
    options = options_of(dataset)
    rows = options.sources[0]
    once = ArrowIterDataset(
        rows.paths,
        columns=[column],
        audio=None,
        batch_size=4096,
        exclude=rows.exclude,
        with_row_id=True,
        read=options.batches.read,
        storage_options=rows.storage_options,
    )
    with contextlib.closing(iter(once)) as batches:
        parts = [(b["shard"], b["row"], b[column]) for b in batches]
    if parts and isinstance(parts[0][2], dict):
        raise ValueError(
            f"labels are one value a row, and no structs; name another column than {column!r}"
        )
    if not parts:
        return np.empty(0)
    of_shard, of_row, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    width = int(max(of_row.max(initial=0), row.max(initial=0))) + 1
    place = of_shard.astype(np.int64) * width + of_row
    return values[np.searchsorted(place, shard * width + row)]


def _clustering(kind: _Array, batch_rows: int) -> float:
    """The mean over batches of chi-squared by its degrees of freedom, against the whole epoch.

    Drawn without replacement, counts vary less by `(n - b) / (n - 1)`, which is taken out.
    """
    kinds, index, totals = np.unique(kind, return_inverse=True, return_counts=True)
    n, n_batches = len(kind), len(kind) // batch_rows
    if len(kinds) < 2 or n == batch_rows:
        return 1.0
    # The sum over batches and kinds of count**2 / expected, from the pairs that occur.
    batch = np.arange(n_batches * batch_rows) // batch_rows
    pairs, counts = np.unique(batch * len(kinds) + index[: len(batch)], return_counts=True)
    expected = batch_rows * totals[pairs % len(kinds)] / n
    chi2 = (counts**2 / expected).sum() / n_batches - batch_rows
    return float(chi2 / (len(kinds) - 1) * (n - 1) / (n - batch_rows))


def _neighbours(shard: _Array, row: _Array, batch_rows: int) -> tuple[float, float]:
    """Neighbours within a batch, and how far apart neighbours are, over what chance gives."""
    n = len(shard)
    place = np.lexsort((row, shard))  # the places of the rows, in file order
    pair = (np.diff(shard[place]) == 0) & (np.diff(row[place]) == 1)
    first, second = place[:-1][pair], place[1:][pair]
    if not len(first):
        return 1.0, 1.0
    in_full = np.maximum(first, second) < n // batch_rows * batch_rows
    together = (first // batch_rows == second // batch_rows) & in_full
    chance = len(first) * (n // batch_rows) * batch_rows * (batch_rows - 1) / (n * (n - 1))
    distance = np.abs(first.astype(np.int64) - second).mean() / ((n + 1) / 3)
    return float(together.sum() / chance), float(distance)
