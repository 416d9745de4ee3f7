"""Shards as a Grain `IterDataset`: order, reading, decoding and batching in native threads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import grain
import numpy as np

from gristmill import _core, checks
from gristmill import paths as _paths
from gristmill._grain import ElementSpec
from gristmill.audio_columns import AudioOption
from gristmill.bad_rows import exclude as _exclude
from gristmill.bad_rows.policy import OnError
from gristmill.batch_options import checked_batches
from gristmill.columns import (
    Binary,
    FillValue,
    Labels,
    MultiHot,
    Ragged,
    Remainder,
)
from gristmill.datasets_table import DatasetsObject, DatasetsTable
from gristmill.features import Features, class_names, joined_features
from gristmill.filters import Filters
from gristmill.iterator import ArrowIterator, Element
from gristmill.options import ReadOptions, Shuffle
from gristmill.row_options import RowOptions, checked_row_options
from gristmill.sampling import Balanced, Weighted
from gristmill.selection import Rows, Split
from gristmill.signature import call_text, short
from gristmill.slips import Guided
from gristmill.storage import Given
from gristmill.stream_options import StreamOptions
from gristmill.urls import shown_path


class ArrowIterDataset(Guided, grain.IterDataset[Element]):
    """Rows of Arrow IPC or Parquet shards, with their audio decoded, in a reproducible order.

    Each element is a dictionary by column name. In batches, numbers, booleans and times are arrays
    `(batch,)` of the column's dtype; audio is `(batch, frames)`, or `(batch, channels, frames)`, of
    `Audio.dtype`; fixed-size lists are `(batch, width)`; strings and binary are object arrays
    `(batch,)`, lists what `ragged` says; structs are nested dictionaries. Single rows contain the
    values themselves: NumPy scalars, `str`, `bytes`, arrays, dictionaries, and `None` for null. A
    null number in a batch raises `SchemaError`, unless there is a `fill_value`. `docs/columns.md`
    has the table of all types.

    Nothing is opened and no thread starts before the first `next` of an iterator (or its
    `start_prefetch`). The order depends on the seed, the epoch and the position alone: not on
    threads, workers, the batch size, or where a run was stopped and resumed.

    Args:
        paths: Shards, in IPC stream or file format or Parquet: a path, a glob pattern or a
            directory (its `*.arrow` and `*.parquet` files), or several of these. Patterns and
            directories are sorted by name. URLs (`https://`, `s3://`, `gs://`, `az://`, `hf://`:
            `docs/remote.md`) and entries of the `cache_files` of a `datasets.Dataset` are paths
            too. Or a `datasets.Dataset` itself: its rows, in its order, are read from the files
            behind it.
            Shards may have other schemas: columns are joined by name, and types of one family
            become the widest; `docs/columns.md` has the rules.
        columns: The columns to deliver, which all shards must have; `None` for all. Elements have
            them in the first shard's order.
        audio: What to decode, and how. `"auto"` decodes the column that the Hugging Face features
            in the schema call audio, or without features the one `struct<bytes, path>`, if there is
            one: whole recordings, mono, at their own rate. `None` leaves audio encoded, as
            `{"bytes": ..., "path": ...}`. `{"mic1": gm.Audio(...), "mic2": gm.Audio(...)}` decodes
            several columns of a row in step, all with one `crop`: its place is chosen in the first
            of them, and the others begin at the same second. A recording that ends sooner is padded
            as a short one is. Windows, event crops and `duration` go by the first column. A row is
            bad if one of its recordings is.
        filters: Conditions on the rows that take part, over any small columns, as pyarrow, pandas
            and `datasets` take them: `[("quality", "in", ["A", "B"]), ("length", ">", 3)]` must all
            be true; of a list of such lists, one must. Operators are `==`, `!=`, `<`, `<=`, `>`,
            `>=`, `in` and `not in`. A class is a name or a number. A null matches no comparison;
            ask for it by `== None` and `!= None`. `duration`, if it is not a column, is the length
            of the recording in seconds. Filters are computed once, from these columns alone;
            `docs/splits.md` has more.
        rows: The rows that take part, counted in file order over all shards (of a
            `datasets.Dataset`, over its rows): a boolean mask with a value for each, or their
            numbers. Numbers give the order, and a row may be given twice; in a windowed shuffle
            they are one run of rows.
        split: One part of a split of the rows, such as `gm.Split("train", {"train": 0.9, "valid":
            0.1}, by="recordist")`. A row takes part if `rows`, `filters`, `split` and `exclude` all
            keep it.
        sampling: `gm.Balanced("species")` or `gm.Weighted(...)`: rows are drawn with replacement,
            by weight, instead of once an epoch. `None`: each row once.
        shuffle: A global or windowed shuffle; `None` is file order. With `sampling`, only its seed
            counts, and whether epochs differ.
        batch_size: Rows in a batch, on this host; `None` gives single rows. Batches run across the
            ends of epochs.
        drop_remainder: Whether to leave out a last batch that is short, as `remainder="drop"` does.
        remainder: How to handle a short last batch. `"keep"` delivers it. `"drop"` leaves it out.
            `"pad"` fills it up with rows whose audio is zeros and whose other columns repeat a row;
            every element then has `"valid"`, bool `(batch,)`, False for these rows. With `"drop"`
            and `"pad"`, all hosts of `shard_options` deliver equally many batches.
        epochs: Passes over the data; `None` is endless.
        shard_options: This host's number and the number of hosts:
            `grain.sharding.ShardOptions(...)` or `ShardByJaxProcess()`. Hosts take alternate rows
            of the stream, so that the hosts' batches of one step together are the same rows for any
            number of hosts that divides the global batch. Its `drop_remainder` gives all hosts
            equally many rows.
        allow_changed: Whether a state of changed data (other shards, row counts, shuffle, seeds or
            exclusions) is restored to the same position in the same epoch, instead of refused.
            Some rows of that epoch may then be lost or repeated.
        on_error: How to handle a row whose audio cannot be used (it is damaged, exceeds a limit, or
            more of it is missing than `Audio(max_missing=...)` allows). `"raise"`: `DecodeError` or
            `LimitError`. `"substitute"`: another row of the same shard, or window, is delivered in
            its place, drawn by seed, epoch and row; shapes and steps do not change, on all hosts.
            `"mask"`: the row is delivered with zeros for audio (with no frames, where single
            recordings are whole), and every element has `"valid"`, bool `(batch,)`. `"skip"`: its
            batch is shorter, so hosts may get different batch sizes; empty elements are left out.
            Shards that are corrupt or cannot be read raise in any case. See `docs/bad-rows.md`.
        max_bad_rows: The number of bad rows above which `LimitError` is raised: an int counts
            different rows; a float is a share of the rows so far, counted as at least 1,000 (or an
            epoch, if that is less). Counting begins when the iterator is made or its state set.
            `None` is any number.
        quarantine: A file to which bad rows are appended as they are delivered, and from which
            another run may `exclude=` them. The first `next` opens it, and raises if that fails. If
            writing fails later, that is logged once, and `bad_rows()` still has the rows.
        exclude: Rows to leave out, which are never read: the path of a quarantine file (as
            `quarantine=` and `gristmill scan` write them), or `(shard, row)` pairs, or a list of
            both. In a pair a shard is its number in the resolved paths, its path, or its base name
            where that is unique. A file may name other shards too, but not only those.
        binary: The type of binary values, encoded audio among them. `"bytes"`: `bytes`, each a
            copy. `"numpy"`: arrays `(length,)` of uint8, which may be written to. Those of encoded
            audio are the memory that the row was read into, without a copy: for rows of a megabyte
            that is several times as fast. It counts for `memory_budget` while the array or a view
            of it exists.
        ragged: What a batch makes of lists of variable length. `"object"`: an object array with an
            array for each row. `"pad"`: one array `(batch, longest)`, rows padded with `fill_value`
            or 0, and another column `"<column>_lengths"`, int32 `(batch,)`. A number: likewise, but
            each row is padded or cut to this length, so that all batches have one shape. `"error"`:
            one array `(batch, length)`; rows of unequal lengths raise `SchemaError`. Or a mapping
            by column, `"object"` for the others.
        fill_value: A number that replaces nulls in batches, and pads rows; NaN or NaT for times; or
            a mapping by column. It has to be a value of the dtype of each column in which it is
            needed. `None`: a null raises `SchemaError`. Strings and other objects keep their
            `None`.
        multi_hot: Columns of lists of classes, ids or names, that become float32 `(batch, classes)`
            of 0 and 1. The classes are those of the Hugging Face features; where these name none,
            give a mapping by column to the number of classes, or to their names in the order of the
            ids. A null, or a class that is none of these, raises `SchemaError`.
        labels: How to handle shards that list different classes of a `ClassLabel`, or in a
            different order. `"map"`: ids become those of all classes together: those of the first
            shard, then the new ones of the second, and so on, as `class_names` has them. Ids
            outside a shard's own classes become -1. `"strict"`: `SchemaError`, with both lists.
            Shards that list the same classes are read as they are.
        with_row_id: Whether elements also contain `"shard"` (int32, the number of the shard) and
            `"row"` (int64, the number of the row in its shard).
        with_crop: Whether elements also say which part of the recording their audio is:
            `"crop_start"`, float64, its start in seconds, and `"crop_frames"`, int32, the frames in
            it that are not padding. Both are 0 if `"valid"` is False. Of several audio columns
            these are the first one's, and the others have their own, such as `"mic2_crop_frames"`.
            With `Windows` also `"window"` and `"n_windows"`, int32: the number of the window, and
            of all windows of the recording; with `EventCrop` likewise `"event"` and `"n_events"`.
            `gm.events_in` takes these.
        storage_options: Credentials, addresses and time-outs for the URLs among the paths, with the
            keys that polars and delta-rs take: `{"aws_region": "eu-west-1"}`; or a store of
            `obstore`, such as an `S3Store`. The rest is read from the environment and the user's
            files. Values are never shown.
        read: Threads, memory and readahead.

    Raises:
        ValueError: An option is out of range. What is wrong with the data is raised by the first
            `next` of an iterator: `FileNotFoundError`, `CorruptShardError`, `SchemaError`, ...
    """

    def __init__(
        self,
        paths: _paths.Paths | DatasetsObject,
        *,
        columns: Sequence[str] | None = None,
        audio: AudioOption = "auto",
        filters: Filters | None = None,
        rows: Rows | None = None,
        split: Split | None = None,
        sampling: Weighted | Balanced | None = None,
        shuffle: Shuffle | None = None,
        batch_size: int | None = None,
        drop_remainder: bool = False,
        remainder: Remainder = "keep",
        epochs: int | None = 1,
        shard_options: grain.sharding.ShardOptions | None = None,
        allow_changed: bool = False,
        on_error: OnError = "raise",
        max_bad_rows: float | None = None,
        quarantine: str | os.PathLike[str] | None = None,
        exclude: _exclude.Exclude = (),
        binary: Binary = "bytes",
        ragged: Ragged = "object",
        fill_value: FillValue = None,
        multi_hot: MultiHot = (),
        labels: Labels = "map",
        with_row_id: bool = False,
        with_crop: bool = False,
        storage_options: Given | None = None,
        read: ReadOptions | None = None,
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        rows_read = checked_row_options(
            paths,
            columns=columns,
            audio=audio,
            filters=filters,
            rows=rows,
            split=split,
            labels=labels,
            storage_options=storage_options,
            exclude=exclude,
            sampling=sampling,
            shuffle=shuffle,
            epochs=epochs,
        )
        batches = checked_batches(
            batch_size=batch_size,
            drop_remainder=drop_remainder,
            remainder=remainder,
            shard_options=shard_options,
            allow_changed=allow_changed,
            on_error=on_error,
            max_bad_rows=max_bad_rows,
            quarantine=quarantine,
            excluded=rows_read.exclude,
            binary=binary,
            ragged=ragged,
            fill_value=fill_value,
            multi_hot=multi_hot,
            with_row_id=with_row_id,
            with_crop=with_crop,
            read=read,
        )
        self._options = StreamOptions(sources=(rows_read,), batches=batches)

    @property
    def _rows(self) -> RowOptions:
        return self._options.sources[0]

    def __iter__(self) -> ArrowIterator:
        return ArrowIterator(self._options, self)

    def __str__(self) -> str:
        paths = self._rows.table or self._rows.paths
        if isinstance(paths, DatasetsTable):
            return f"ArrowIterDataset({paths!r})"
        text = shown_path(paths[0]) if len(paths) == 1 else f"{len(paths)} paths"
        return f"ArrowIterDataset({text})"

    def __repr__(self) -> str:
        rows, batches = self._rows, self._options.batches
        partition = batches.partition
        is_part = partition.stream_stride > 1 or partition.slices
        return call_text(
            ArrowIterDataset,
            rows.source_text,
            {**rows.shown, **batches.shown},
            rest=f"partition={short(partition)}" if is_part else "",
        )

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keeps a part of the rows, in place: Grain divides a data set among workers by this.

        `slice(k, None, n)` with k below n takes every n-th row of the stream of all epochs. Of any
        other slice, position `i` of each epoch is position `range(rows)[sl][i]` of the whole one;
        with `sequential_slice`, `slice(k, None, n)` stands for the k-th of n contiguous blocks.
        Slices compose, and one that leaves no rows gives an empty data set.

        Not for holding rows out, as for validation: a slice of positions has other rows in each
        epoch of a shuffle. `split=gm.Split(...)`, `filters=` and `rows=` choose rows.

        Warns:
            UserWarning: The slice takes positions of each epoch, and a shuffle puts other rows
                there in each epoch.
        """
        checks.instance("sl", sl, slice, write="set_slice(slice(0, None, 2))")
        sequential = checks.flag("sequential_slice", sequential_slice)
        rows, partition = self._rows, self._options.batches.partition
        narrowed = partition.narrow(sl, sequential)
        shuffle = rows.shuffle
        is_new = len(narrowed.slices) > len(partition.slices)
        differs = shuffle is not None and shuffle.reshuffle_each_epoch and rows.epochs != 1
        if is_new and differs and not sequential:
            warnings.warn(
                f"set_slice({sl}) takes positions, and Shuffle(reshuffle_each_epoch=True) puts "
                "other rows there in each epoch; to hold rows out, write split=gm.Split(...), "
                "filters= or rows=",
                stacklevel=2,
            )
        self._options = self._options.with_partition(narrowed)

    @property
    def _element_spec(self) -> Any:
        """Shapes and dtypes of the elements, from the headers of the shards."""
        return element_spec(self._options)

    @property
    def features(self) -> Features:
        """What Hugging Face `datasets` wrote about the columns, by name; reads the headers.

        As its JSON has it, and empty for shards of other writers:
        `datasets.Features.from_dict(dataset.features)` makes it an object of `datasets`. Of shards
        that differ, the columns that all of them have, with the classes and types of all.
        """
        columns = self._rows.columns
        features = self._features(None)
        return {name: f for name, f in features.items() if columns is None or name in columns}

    def class_names(self, column: str) -> tuple[str, ...]:
        """The names of a column's classes, in the order of their ids; reads the headers.

        Args:
            column: A `ClassLabel`, or a list of them; of a struct's field, a dotted path. Of a
                column in `multi_hot=` these are the names that were given there.

        Raises:
            SchemaError: Its classes have no names, or shards list other classes whose ids cannot
                become those of all.
        """
        checks.text("column", column, write='class_names("label")')
        given = dict(self._options.batches.multi_hot).get(column)
        if isinstance(given, tuple):
            return given
        return class_names(self._features(column), column, shown_path(self._rows.paths[0]))

    def _features(self, column: str | None) -> Features:
        """The features of all shards; refuses a column that they do not have in common."""
        rows, read = self._rows, self._options.batches.read
        shards = _paths.resolve(rows.paths, rows.storage_options, read.retries)
        metadata, columns, names = _core.read_joint_header(
            shards,
            labels=rows.labels,
            column=column,
            index_dir=read.resolved_index_dir,
            retries=read.retries,
            storage_options=rows.storage_options.native(shards),
        )
        return joined_features(metadata, columns, names)

    def rows_per_epoch(self) -> int:
        """Rows in an epoch, for all hosts and workers together. Reads the shards' headers.

        Where elements are windows or single events, these are counted instead. The first time that
        may take a pass over the recordings' headers; see `Windows`.
        """
        return _core.Order(self._options).rows_per_epoch()

    def steps_per_epoch(self) -> int:
        """Elements of one epoch on this host: batches, or rows without `batch_size`.

        It is what an iterator with `epochs=1` yields, unless `on_error="skip"` leaves empty ones
        out. Over several epochs batches run across their ends, so that an epoch may take a step
        less than this. Reads what `rows_per_epoch` reads.
        """
        return self._options.batches.steps_of(self.rows_per_epoch())


def options_of(dataset: ArrowIterDataset) -> StreamOptions:
    """The options of a data set, for modules of this package."""
    return dataset._options  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def element_spec(options: StreamOptions) -> Any:
    """Shapes and dtypes of the elements, as Grain has them. Reads the shards' headers."""
    return {name: _spec(column) for name, column in _core.element_spec(options).items()}


def _spec(column: Any) -> Any:
    if isinstance(column, _core.ColumnSpec):
        return ElementSpec(shape=tuple(column.shape), dtype=np.dtype(column.dtype))
    return {name: _spec(child) for name, child in column.items()}
