"""Several data sets in one stream of native batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from itertools import chain
from typing import Any, Final

import grain
import numpy as np

from gristmill import _core, checks
from gristmill.bad_rows.policy import OnError
from gristmill.batch_options import BatchOptions, checked_batches
from gristmill.columns import (
    Binary,
    FillValue,
    Labels,
    MultiHot,
    Ragged,
    Remainder,
    checked_labels,
)
from gristmill.dataset import ArrowIterDataset, element_spec, options_of
from gristmill.errors import SchemaError
from gristmill.iterator import ArrowIterator, Element
from gristmill.mixing import Mixing, Stop, checked_weights, listed_weights
from gristmill.options import ReadOptions
from gristmill.row_options import RowOptions
from gristmill.signature import call_text
from gristmill.slips import Guided
from gristmill.stream_options import StreamOptions

_WRITE: Final = "gm.Mixture([field, xeno_canto], weights=[0.7, 0.3], batch_size=64)"


class Mixture(Guided, grain.IterDataset[Element]):
    """Rows of several data sets in turn, in proportion to weights: one stream of native batches.

    A fixed schedule decides which data set delivers the row at each position: after any number of
    rows, each data set has delivered its share, give or take less than one row. Each data set
    delivers the same rows and crops, in the same order, as it would alone, with its own shards,
    filters, crops, order and epochs. Threads, the memory budget, the state and the verdict are the
    mixture's. `docs/mixtures.md` has more.

    Columns are joined by name: all data sets deliver the same ones, each with one type, and in the
    order of the first. Audio has one rate, shape and dtype. The ids of a `ClassLabel` become those
    of all classes together: those of the first data set, then those of the second that are new, and
    so on; `class_names` has them. Ids that are none of a data set's classes become -1.

    Args:
        datasets: At least one `ArrowIterDataset`, each with options of its rows only: `paths`,
            `storage_options`, `labels`, `columns`, `audio`, `filters`, `rows`, `split`, `sampling`,
            `shuffle`, `epochs` and `exclude`. None of them may be a mixture.
        weights: A number of at least 0 for each data set; only ratios count. `None` weighs all
            equally. A data set of weight 0 is never delivered.
        stop: `"first"`: the stream ends when the first data set that has run out would have its
            turn. `"all"`: it ends when all have run out; until then finished data sets start
            another epoch, so that the weights stay true to the end. The stream is endless if no
            data set ends (`epochs=None`), and with `"all"` if one does not.
        batch_size: As in `ArrowIterDataset`, and so are all that follow.
        drop_remainder: See there.
        remainder: See there.
        shard_options: See there.
        allow_changed: See there.
        on_error: See there. A substitute is a row of the same data set.
        max_bad_rows: See there. It counts the rows of all data sets together.
        quarantine: See there.
        binary: See there.
        ragged: See there.
        fill_value: See there.
        multi_hot: See there. Classes that are not given are those of all data sets.
        labels: How to handle data sets that list different classes, or in a different order.
            `"map"`: their ids become those of all classes. `"strict"`: `SchemaError`, with both
            lists. Each data set has this option too, for its shards.
        with_row_id: Whether elements also contain `"dataset"` (int32, its number in `datasets`),
            `"shard"` (int32, the number of the shard in that data set) and `"row"` (int64).
        with_crop: See there. `"window"` and `"n_windows"`, or `"event"` and `"n_events"`, are added
            if all data sets have them.
        read: See there. The threads and the memory are for all data sets together.

    Raises:
        ValueError: An option is out of range. What is wrong with the data is raised by the first
            `next` of an iterator.
    """

    def __init__(
        self,
        datasets: Sequence[ArrowIterDataset],
        *,
        weights: Sequence[float] | np.ndarray[Any, np.dtype[Any]] | None = None,
        stop: Stop = "first",
        batch_size: int | None = None,
        drop_remainder: bool = False,
        remainder: Remainder = "keep",
        shard_options: grain.sharding.ShardOptions | None = None,
        allow_changed: bool = False,
        on_error: OnError = "raise",
        max_bad_rows: float | None = None,
        quarantine: str | os.PathLike[str] | None = None,
        binary: Binary = "bytes",
        ragged: Ragged = "object",
        fill_value: FillValue = None,
        multi_hot: MultiHot = (),
        labels: Labels = "map",
        with_row_id: bool = False,
        with_crop: bool = False,
        read: ReadOptions | None = None,
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._datasets = _checked_datasets(datasets)
        self._weights = listed_weights(weights)
        parts = [options_of(dataset) for dataset in self._datasets]
        for k, part in enumerate(parts):
            _refuse_batch_options(k, part.batches)
        sources = tuple(part.sources[0] for part in parts)
        _check_audio(sources)
        batches = checked_batches(
            batch_size=batch_size,
            drop_remainder=drop_remainder,
            remainder=remainder,
            shard_options=shard_options,
            allow_changed=allow_changed,
            on_error=on_error,
            max_bad_rows=max_bad_rows,
            quarantine=quarantine,
            excluded=[item for rows in sources for item in rows.exclude],
            binary=binary,
            ragged=ragged,
            fill_value=fill_value,
            multi_hot=multi_hot,
            with_row_id=with_row_id,
            with_crop=with_crop,
            read=read,
        )
        self._mixing = Mixing(
            weights=checked_weights(self._weights, len(sources)),
            stop=checks.choice("stop", stop, ("first", "all"), write='write stop="first"'),
            labels=checked_labels(labels),
        )
        self._options = StreamOptions(sources=sources, batches=batches, mixing=self._mixing)

    def __iter__(self) -> ArrowIterator:
        return ArrowIterator(self._options, self)

    def __str__(self) -> str:
        return f"Mixture({len(self._datasets)} data sets)"

    def __repr__(self) -> str:
        batches = self._options.batches
        partition = batches.partition
        weights = self._weights if self._weights is None else list(self._weights)
        named = {**batches.shown, **vars(self._mixing), "weights": weights}
        is_part = partition.stream_stride > 1
        listed = ", ".join(map(repr, self._datasets))
        rest = f"partition={partition}" if is_part else ""
        return call_text(Mixture, f"[{listed}]", named, rest)

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keeps every n-th row of the stream, in place: Grain shares it among workers by this.

        Args:
            sl: `slice(k, None, n)` with k below n: the k-th row and every n-th after it.
            sequential_slice: `False`: the blocks of a mixture are none of its data sets'.

        Raises:
            ValueError: For other slices, since a mixture has no epoch whose rows are counted.
        """
        checks.instance("sl", sl, slice, write="set_slice(slice(0, None, 2))")
        sequential = checks.flag("sequential_slice", sequential_slice)
        narrowed = self._options.batches.partition.narrow(sl, sequential)
        if narrowed.slices:
            raise ValueError(
                f"set_slice({sl}, sequential_slice={sequential}) takes a part of each epoch, and "
                "the epochs of a mixture's data sets end at other places: write set_slice(slice(k, "
                "None, n)), or choose rows of the data sets by split=gm.Split(...), filters= or "
                "rows="
            )
        self._options = self._options.with_partition(narrowed)

    @property
    def _element_spec(self) -> Any:
        """Shapes and dtypes of the elements, from the headers of the data sets' shards."""
        return element_spec(self._options)

    def class_names(self, column: str) -> tuple[str, ...]:
        """The names of a column's classes, in the order of the ids; reads the shards' headers.

        Args:
            column: As in `ArrowIterDataset.class_names`.

        Raises:
            SchemaError: A data set has no names for them, or others with `labels="strict"`.
        """
        checks.text("column", column, write='class_names("label")')
        given = dict(self._options.batches.multi_hot).get(column)
        if isinstance(given, tuple):
            return given
        lists = [dataset.class_names(column) for dataset in self._datasets]
        if self._mixing.labels == "strict" and len(set(lists)) > 1:
            raise SchemaError(
                f"column {column!r}: data sets of the mixture list different classes, and "
                'labels="strict" refuses that; write labels="map"',
                column=column,
            )
        return lists[0] if len(set(lists)) == 1 else tuple(dict.fromkeys(chain(*lists)))

    def rows_per_epoch(self) -> int:
        """Rows after which each data set has come to the end of its first epoch.

        For all hosts and workers together. Reads the shards' headers, and may count windows and
        events, as the method of `ArrowIterDataset` does.
        """
        return self._order().rows_per_epoch()

    def steps_per_epoch(self) -> int:
        """Elements on this host for the rows of `rows_per_epoch`: batches, or single rows."""
        return self._options.batches.steps_of(self.rows_per_epoch())

    def total_rows(self) -> int | None:
        """Rows of the whole stream, for all hosts and workers together; `None` without end.

        Reads what `rows_per_epoch` does.
        """
        return self._order().total()

    def _order(self) -> _core.Order:
        return _core.Order(self._options.of_all_hosts())


def mixture_options_of(mixture: Mixture) -> StreamOptions:
    """The options of a mixture, for modules of this package."""
    return mixture._options  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _checked_datasets(datasets: Any) -> tuple[ArrowIterDataset, ...]:
    if isinstance(datasets, (ArrowIterDataset, str, bytes, dict)):
        listed = None
    else:
        listed = checks.items(checks.in_order("datasets", datasets))
    if not listed:
        raise checks.wrong("datasets", "a list of gm.ArrowIterDataset", datasets, _WRITE)
    for k, dataset in enumerate(listed):
        if isinstance(dataset, Mixture):
            raise ValueError(
                f"data set {k} of the mixture is a mixture itself: list its data sets in this one, "
                "with its weights times the weight that it has here"
            )
        if not isinstance(dataset, ArrowIterDataset):
            raise ValueError(
                f"data set {k} of the mixture is a gm.ArrowIterDataset, not "
                f"{checks.shown(dataset)}: write {_WRITE}"
            )
    return listed


_BATCHES: Final = checked_batches()
"""The options of batches where none are given."""


def _refuse_batch_options(k: int, batches: BatchOptions) -> None:
    """Refuses a data set that has options which are the mixture's."""
    names = [field.name for field in fields(BatchOptions)]
    given = [name for name in names if getattr(batches, name) != getattr(_BATCHES, name)]
    if not given:
        return
    called = {
        "partition": "shard_options= or set_slice()",
        "policy": "on_error=, max_bad_rows= or quarantine=",
    }
    listed = ", ".join(called.get(name, f"{name}=") for name in given)
    raise ValueError(
        f"data set {k} of the mixture has {listed}, and batches are made of all data sets: leave "
        "that out there, and give it to gm.Mixture(...)"
    )


def _check_audio(sources: Sequence[RowOptions]) -> None:
    """Refuses audio of several rates or shapes, as far as the options tell."""
    first: dict[str, tuple[int, object]] = {}
    for k, rows in enumerate(sources):
        audio = rows.decoded
        if audio is None:
            continue
        found: dict[str, object] = {
            "sample_rate": audio.sample_rate,
            "channels": audio.channels,
            "dtype": audio.dtype,
            "crop seconds": getattr(audio.crop, "seconds", None),
        }
        if audio.sample_rate == "auto":
            # Known when the shards are open, and checked then.
            del found["sample_rate"]
        for name, value in found.items():
            other, expected = first.setdefault(name, (k, value))
            if value != expected:
                raise ValueError(
                    f"data sets {other} and {k} of the mixture have {name.replace(' ', ' of ')} "
                    f"{expected!r} and {value!r} in gm.Audio(...): rows of a batch have one rate "
                    "and shape, so give both the same"
                )
