"""Shards as a random access source of Grain's: rows by their index."""

from __future__ import annotations

import copy
import hashlib
import operator
import os
import threading
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, SupportsIndex

from gristmill import _core, checks
from gristmill import paths as _paths
from gristmill.audio_columns import AudioOption
from gristmill.bad_rows import exclude as _exclude
from gristmill.bad_rows.rows import BadRow
from gristmill.bad_rows.tracker import BadRowTracker
from gristmill.batch_options import checked_batches
from gristmill.columns import Binary, Labels, MultiHot
from gristmill.datasets_table import DatasetsObject
from gristmill.errors import InternalError
from gristmill.filters import Filters
from gristmill.iterator import Element
from gristmill.metrics.telemetry import pass_on_warnings
from gristmill.options import ReadOptions
from gristmill.row_options import checked_row_options
from gristmill.selection import Rows, Split
from gristmill.signature import are_shown, call_text
from gristmill.storage import Given
from gristmill.stream_options import StreamOptions
from gristmill.urls import shown_path

_WRITE_EPOCH = "epoch=0"
_NOT_SHOWN = ("quarantine", "storage_options", "read")


class ArrowDataSource:
    """Rows of Arrow IPC shards by their index, with their audio decoded.

    For `grain.MapDataset.source` and `grain.DataLoader`, which shuffle, batch and divide among
    workers by index themselves. `source[i]` is what `ArrowIterDataset` delivers as a single row: a
    dictionary by column name. Rows are numbered over all shards in their order, of those that
    `rows`, `filters`, `split` and `exclude` leave; `source[-1]` is the last.

    The same index gives the same row, and the same crop, each time, on any machine: a random crop
    is drawn by `RandomCrop.seed`, the epoch and the row, and is the crop that `ArrowIterDataset`
    with that seed draws in that epoch. Grain does not tell a source the epoch, so a pipeline with
    `repeat` repeats the crops, unless each epoch has its own source:

        epochs = [grain.MapDataset.source(source.at_epoch(e)).shuffle(seed=e) for e in range(10)]
        dataset = grain.MapDataset.concatenate(epochs)

    Any number of threads may use a source at once. Rows are read and decoded in native threads,
    without the GIL: those of one call of `__getitems__`, and of several threads' calls, at the same
    time. The shards are opened by the first row, or `len`; a pickled copy opens them again.

    Args:
        paths: As in `ArrowIterDataset`. Of a `datasets.Dataset`, `source[i]` is the row `ds[i]`.
        columns: As in `ArrowIterDataset`.
        audio: As in `ArrowIterDataset`, except `Windows` and `EventCrop(pick="all")`, which make
            several elements of a row: an index stands for one row.
        filters: As in `ArrowIterDataset`. The remaining rows are numbered without gaps.
        rows: As in `ArrowIterDataset`: `source[i]` is the i-th of these rows.
        split: As in `ArrowIterDataset`.
        epoch: The epoch whose random crops and substitutes are drawn, from 0.
        on_error: How to handle a row whose audio cannot be used. `"raise"`: `DecodeError` or
            `LimitError`. `"substitute"`: another row of the same shard in its place, drawn by seed,
            epoch and row. `"mask"`: zeros for audio, and every element has `"valid"`. There is no
            `"skip"`, since every index must return a row.
        quarantine: As in `ArrowIterDataset`.
        exclude: As in `ArrowIterDataset`. The other rows are numbered without gaps.
        binary: As in `ArrowIterDataset`.
        multi_hot: As in `ArrowIterDataset`.
        labels: As in `ArrowIterDataset`.
        with_row_id: As in `ArrowIterDataset`.
        with_crop: As in `ArrowIterDataset`.
        storage_options: As in `ArrowIterDataset`.
        read: Threads and memory. Grain's own read threads (`grain.ReadOptions`) wait for rows, so
            take at least as many of them as there are CPUs.

    Raises:
        ValueError: An option is out of range. What is wrong with the data is raised by `len` and by
            the rows: `FileNotFoundError`, `CorruptShardError`, `DecodeError`, ...
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
        epoch: int = 0,
        on_error: Literal["raise", "substitute", "mask"] = "raise",
        quarantine: str | os.PathLike[str] | None = None,
        exclude: _exclude.Exclude = (),
        binary: Binary = "bytes",
        multi_hot: MultiHot = (),
        labels: Labels = "map",
        with_row_id: bool = False,
        with_crop: bool = False,
        storage_options: Given | None = None,
        read: ReadOptions | None = None,
    ) -> None:
        checks.choice(
            "on_error",
            on_error,
            ("raise", "substitute", "mask"),
            write='an index has to give a row; leave rows out with exclude="bad.jsonl", which '
            "gristmill scan writes",
        )
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
        )
        batches = checked_batches(
            on_error=on_error,
            quarantine=quarantine,
            excluded=rows_read.exclude,
            binary=binary,
            multi_hot=multi_hot,
            with_row_id=with_row_id,
            with_crop=with_crop,
            read=read,
        )
        self._epoch = _check_epoch(epoch)
        self._opened = _Opened(StreamOptions(sources=(rows_read,), batches=batches))

    def __len__(self) -> int:
        return self._opened.native().n_rows()

    def __getitem__(self, index: SupportsIndex) -> Element:
        """The row at an index, from the end where it is negative.

        Raises:
            IndexError: There is no such row.
        """
        return self.__getitems__((index,))[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Element]:
        """The rows at these indices, in their order, read and decoded at the same time.

        Raises:
            IndexError: There is no such row as one of them.
        """
        opened = self._opened
        native = opened.native()
        n_rows = native.n_rows()
        rows = native.take([_place(index, n_rows) for index in indices], self._epoch)
        pass_on_warnings(native)
        return [opened.columns(row) for row in rows]

    _getitems = __getitems__
    """The name by which Grain reads several rows at once."""

    def __repr__(self) -> str:
        # Grain's `DataLoader` writes this text into its states, and refuses one with another text.
        # So options that change no row are left out, and what is too long to show has a hash.
        options = self._opened.options
        rows = options.sources[0]
        shown = {**rows.shown, **options.batches.shown, "epoch": self._epoch}
        return call_text(
            ArrowDataSource,
            rows.source_text,
            {name: value for name, value in shown.items() if name not in _NOT_SHOWN},
            rest=self._opened.choice,
        )

    @property
    def paths(self) -> Sequence[str]:
        """The paths as they were given, which Grain records."""
        return self._opened.options.sources[0].paths

    @property
    def epoch(self) -> int:
        """The epoch whose random crops and substitutes are drawn."""
        return self._epoch

    def at_epoch(self, epoch: int) -> ArrowDataSource:
        """The same rows with the random crops and substitutes of another epoch.

        It shares threads, memory and open files with this one, and its list of bad rows.
        """
        other = copy.copy(self)
        other._epoch = _check_epoch(epoch)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        return other

    def bad_rows(self) -> list[BadRow]:
        """The rows that could not be used so far, one record a row, as `ArrowIterator.bad_rows`."""
        return self._opened.bad_rows()

    def close(self) -> None:
        """Ends the threads and frees all memory; rows that others wait for raise `ValueError`.

        That happens by itself when the source is collected. The next row opens the shards again.
        """
        self._opened.close()


class _Opened:
    """The open shards of a source and of its copies for other epochs, in this process."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self.forget()
        _sources.add(self)

    def forget(self) -> None:
        """Leaves what is open alone: after a fork it is the parent's."""
        self._native: _core.RandomAccess | None = None
        self._lock = threading.Lock()
        self._bad = BadRowTracker(self.options.batches.policy)
        self._bad_lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_Opened], tuple[StreamOptions]]:
        return _Opened, (self.options,)

    @cached_property
    def choice(self) -> str:
        """A hash of the paths and rows, where a `repr` shows only how many there are."""
        options = self.options.sources[0]
        table, rows = options.table, options.rows
        if not (table or rows or options.exclude) and are_shown(options.paths):
            return ""
        paths = [shown_path(path) for path in options.paths]
        excluded = [
            [*map(str, item)] if isinstance(item, tuple) else os.fsdecode(item)
            for item in options.exclude
        ]
        listed = repr((paths, excluded, table and table.runs, rows and rows.is_mask))
        found = hashlib.sha256(listed.encode())
        for data in (table and table.indices, rows and rows.data):
            found.update(data or b"")
        return f"choice={found.hexdigest()[:16]}"

    def native(self) -> _core.RandomAccess:
        native = self._native
        if native is None:
            with self._lock:
                native = self._native
                if native is None:
                    self._bad.check_file()
                    native = _core.RandomAccess(self.options)
                    self._native = native
        return native

    def columns(self, row: _core.Element) -> Element:
        """What is delivered of a row, once its bad rows are noted."""
        if row.bad_rows:
            with self._bad_lock:
                self._bad.delivered(row, own_rows=1, n_different=1)
        if row.columns is None:
            raise InternalError("a row was left out that was asked for by its index")
        return row.columns

    def bad_rows(self) -> list[BadRow]:
        with self._bad_lock:
            return self._bad.rows()

    def close(self) -> None:
        with self._lock:
            native, self._native = self._native, None
        if native is not None:
            native.close()


_sources: weakref.WeakSet[_Opened] = weakref.WeakSet()


def _forget_the_parents() -> None:
    for opened in list(_sources):
        opened.forget()


# Threads do not survive a fork, and one of the parent's may hold a lock.
os.register_at_fork(after_in_child=_forget_the_parents)


def _place(index: SupportsIndex, n_rows: int) -> int:
    try:
        place = operator.index(index)
    except TypeError:
        raise TypeError(
            f"a row's index is an integer, not {checks.shown(index)}; for several rows write "
            "source.__getitems__([3, 1, 2])"
        ) from None
    if not -n_rows <= place < n_rows:
        raise IndexError(f"there is no row {place}: the source has {n_rows}")
    return place + n_rows if place < 0 else place


def _check_epoch(epoch: Any) -> int:
    return checks.integer("epoch", epoch, 0, 2**31 - 1, write=_WRITE_EPOCH)
