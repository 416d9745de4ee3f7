"""The iterator over a data set or a mixture: a native pipeline and a position in its stream."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import grain
import numpy as np

from gristmill import _core
from gristmill._grain import RECORDING_STATS, recorded
from gristmill.bad_rows.rows import BadRow, DamagedRow
from gristmill.bad_rows.tracker import BadRowTracker, keep_latest
from gristmill.checks import as_int, shown
from gristmill.elastic import from_shard_states, to_shard_states
from gristmill.errors import InternalError
from gristmill.metrics import decide
from gristmill.metrics.stats import Stats
from gristmill.metrics.telemetry import Telemetry, pass_on_warnings
from gristmill.metrics.verdict import Verdict
from gristmill.slips import Closing
from gristmill.state import ANY_DATA, Position
from gristmill.stream_options import Columns, StreamOptions

Element = dict[str, Any]


class ArrowIterator(grain.DatasetIterator[Element], Closing):
    """Iterates over an `ArrowIterDataset` or a `Mixture`. Made by `iter(dataset)`.

    Native threads start with the first `next` or `start_prefetch`, and have ended when `close`
    returns, when the iterator is collected, at the end of the data, and when `next` raises; those
    that read and decode, which all iterators share, end a fifth of a second after the last of them.
    After an error, the next call tries the same element again.

    Any thread may use it: calls of several threads wait for each other, and each gets the next
    element. A call inside another one of the same thread, as from a signal handler, raises
    `ValueError`. `close` may be called from any thread at any time; `with iter(dataset) as it:`
    closes it at the end.
    """

    def __init__(self, options: StreamOptions, dataset: object) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._options = options
        self._batches = options.batches
        self._dataset = dataset
        self._partition = options.batches.partition
        self._position = Position.start_of(self._partition)
        # What `set_state` was given; `None` once the position has moved on.
        self._given: dict[str, Any] | None = None
        self._pipeline: _core.Pipeline | None = None
        self._turns = _core.Turns()
        self._pid = 0
        self._opened: _core.Opened | None = None
        self._ended = False
        self._damaged: dict[tuple[str, int, str | None], DamagedRow] = {}
        self._bad = BadRowTracker(options.batches.policy)
        # What holds once the element of this call is handed over.
        self._next_position = self._position
        self._next_counts = self._bad.counts
        # Whether pipeline and position agree: not inside `next`, nor after an interrupt in it.
        self._is_settled = True
        self._columns: Columns = {}
        self._row_tokens: int | None = None
        self._telemetry = Telemetry(options.batches.read.log_every_seconds)
        self._measured: Stats | None = None

    def __next__(self) -> Element:
        turn = self._turns.take()
        try:
            element = self._next()
        except BaseException:
            turn.end()  # the traceback would keep it
            raise
        # A signal is answered where a function begins or returns to, so from here to the end of the
        # call nothing may be called: the element is handed over and counted, or neither.
        self._position, self._given, self._bad.counts = self._next_position, None, self._next_counts
        self._is_settled = True
        del turn  # ends it, and calls nothing
        return element

    @recorded
    def _next(self) -> Element:
        stats: Any = self._stats
        if not isinstance(stats, RECORDING_STATS):
            return self._advance()
        with stats.record_self_time():
            return stats.record_output_spec(self._advance())

    def _advance(self) -> Element:
        self._assert_not_closed()
        if self._ended:
            raise StopIteration
        pipeline = self._running()
        self._is_settled = False
        try:
            while (element := pipeline.next()) is not None:
                columns = element.columns
                opened = self._opened or self._require_opened(pipeline)
                self._take(element, opened)
                if columns is not None:
                    if not self._columns:
                        self._columns = {
                            name: _is_object(value)
                            for name, value in columns.items()
                            if name not in opened.added_columns
                        }
                        self._row_tokens = _tokens_of_row(columns, element.n_rows)
                    self._telemetry.element(self, pipeline)
                    return columns
                self._position, self._given = self._next_position, None
                self._bad.counts = self._next_counts
            opened = self._learn(pipeline)
            self._bad.ended(is_part=self._partition.stream_stride > 1)
        except BaseException:
            self._stop()
            self._assert_not_closed()
            raise
        position = self._position
        may_leave_rows = self._batches.may_leave_rows
        if opened is not None and not may_leave_rows:
            position = position.ended(opened)
        self._stop()
        self._position, self._ended = position, True
        if opened is not None and not may_leave_rows:
            self._given = None
        raise StopIteration

    def _take(self, element: _core.Element, opened: _core.Opened) -> None:
        """Accounts for an element that was taken from the pipeline."""
        for row in element.damaged_rows:
            keep_latest(self._damaged, (row.shard, row.row, row.column), row)
        n_rows, stride = opened.rows_per_epoch, self._partition.stream_stride
        # Where the stride does not divide the epoch, other rows come here in the next one.
        n_different = n_rows // math.gcd(n_rows, stride)
        self._next_counts = self._bad.delivered(element, n_rows // stride, n_different)
        if element.n_rows < self._batches.rows_per_element:
            self._next_position = self._position.ended(opened)
        else:
            self._next_position = self._position.after(element.n_rows, opened, self._partition)

    def _running(self) -> _core.Pipeline:
        # Of a call that was interrupted, the pipeline may be closed, or ahead of the state.
        if not self._is_settled:
            self._stop()
        # Threads do not survive a fork: a child starts its own from the same position.
        if self._pipeline is None or self._pid != os.getpid():
            start = Position.from_state(self.get_state(), partition=self._partition)
            self._bad.check_file()
            pipeline = _core.Pipeline(self._options, self._batches.start(start))
            self._pid = os.getpid()
            self._position = start
            self._opened = None
            self._telemetry.starts()
            self._pipeline = pipeline
            # `close` marks the iterator before it looks for a pipeline: one of the two sees the
            # other, and no thread is left.
            if self._closed:
                self._stop()
                self._assert_not_closed()
            return pipeline
        return self._pipeline

    def _learn(self, pipeline: _core.Pipeline) -> _core.Opened | None:
        if self._opened is None and (opened := pipeline.opened()) is not None:
            position = self._position.normalized(opened, self._partition)
            self._bad.opened(at_start=opened.start_epoch == opened.start_index == 0)
            self._opened, self._position = opened, position
        return self._opened

    def _require_opened(self, pipeline: _core.Pipeline) -> _core.Opened:
        opened = self._learn(pipeline)
        if opened is None:
            raise InternalError("an element was delivered before the shards were open")
        return opened

    def damaged_rows(self) -> list[DamagedRow]:
        """The damaged rows that this iterator delivered: one record a row, the latest last.

        Of several audio columns, each that is damaged has a record. With `Audio(strict=False)`
        these are rows with zeros where nothing could be decoded. With `strict=True` they can only
        be MPEG streams that end inside a frame. Rows that are read ahead but not delivered yet are
        not listed. The list contains the latest 10,000. Each of Grain's worker processes has its
        own list, which the main process cannot see.
        """
        return list(self._damaged.values())

    def bad_rows(self) -> list[BadRow]:
        """The rows that could not be used, in the order of delivery: one record a row.

        The list contains the latest 10,000, the latest one last, including bad rows that were tried
        as substitutes. As in `damaged_rows`, rows that are read ahead are not listed, and worker
        processes have their own lists.
        """
        return self._bad.rows()

    def get_state(self) -> dict[str, Any]:
        """The position, as plain integers and one string: safe for JSON, always of one shape."""
        given = self._given
        return self._position.to_state() if given is None else dict(given)

    def set_state(self, state: dict[str, Any]) -> None:
        """Moves to the position of `state`. The next `next` checks that it fits the data.

        A state of another data set, version or slice raises `ValueError` then, not here.

        Raises:
            ValueError: `state` is not a dictionary with a version.
        """
        if not isinstance(state, Mapping) or "version" not in state:
            raise ValueError(
                "a state is a dictionary with a version, as get_state() gives it, not "
                f"{shown(state)}"
            )
        # Checkpoint libraries bring integers back as NumPy's, which are not safe for JSON.
        given = {
            key: value if (whole := as_int(value)) is None else whole
            for key, value in state.items()
        }
        with self._turns.take():
            self._stop()
            self._bad.restart()
            self._given, self._ended, self._opened = given, False, None

    def get_shard_states(self) -> list[dict[str, Any]]:
        """The position by shard, as Grain's elastic iterator saves it for other numbers of hosts.

        Hosts must be in step, as they are after each global batch.
        """
        return to_shard_states(self.get_state(), self._partition, exhausted=self._ended)

    def set_shard_states(self, shard_states: Sequence[Any]) -> None:
        """Moves to the position that these shards have, on any number of hosts.

        As in `set_state`, the next `next` checks that it fits the data.

        Raises:
            ValueError: There are none, or they are of hosts that were not in step.
        """
        self.set_state(from_shard_states(shard_states, self._partition))

    def stats(self) -> Stats:
        """The measurements since the native threads started. Any thread may call it at any time.

        After the end, an error or `close`, it returns the measurements until then.
        """
        pipeline = self._pipeline
        measured = self._measured if pipeline is None else pipeline.stats()
        return self._options.with_settings(measured or Stats(), self._columns, self._row_tokens)

    def verdict(self) -> Verdict:
        """What limits this iterator and what would help, from its `stats()`; print it."""
        return decide(self.stats())

    def start_prefetch(self) -> None:
        """Starts the native threads now, so that the first elements are ready when asked for."""
        with self._turns.take():
            if not (self._closed or self._ended):
                self._running()

    def close(self) -> None:
        """Ends all work and frees all memory. Safe to call again, and from any thread.

        The threads that read and decode end soon after, if no other iterator needs them.
        """
        super().close()
        self._stop()

    def _stop(self) -> None:
        # Attributes may be missing where __init__ failed and the collector calls. They are set at
        # the end: what an interrupt leaves undone, the next call does.
        pipeline = self.__dict__.get("_pipeline")
        if pipeline is not None:
            self._is_settled = False
            try:
                self._measured = pipeline.stats()
                pass_on_warnings(pipeline)
            finally:
                pipeline.close()
        self._pipeline, self._is_settled = None, True

    def _get_next_index(self) -> int:
        state = self.get_state()
        rows = state["next_index"]
        if state["epoch"]:
            opened = self._opened
            if opened is None:
                with self._turns.take():
                    self._assert_not_closed()
                    pipeline = self._running()
                    pipeline.wait_open()
                    opened = self._learn(pipeline)
            if opened is None:
                raise ValueError(
                    "the index of a state in a later epoch takes the number of rows, but the "
                    "shards could not be opened; the next `next` says why"
                )
            rows += state["epoch"] * opened.rows_per_epoch
        own_rows = self._partition.n_before(rows)
        if self._batches.pads:
            # At the end all hosts have as many batches as the one with the most rows.
            own_rows = -(-rows // self._partition.stream_stride)
        return -(-own_rows // self._batches.rows_per_element)

    def _set_next_index(self, index: int) -> None:
        rows = index * self._batches.rows_per_element * self._partition.stream_stride
        start = Position.start_of(self._partition)
        # It fits any data: how much there is, is not known before the first `next`.
        position = start._replace(next_index=rows, fingerprint=ANY_DATA) if rows else start
        self.set_state(position.to_state())

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has threads of its own, and goes on from the same position.
        return _restored, (self._options, self._dataset, self.get_state())

    def __str__(self) -> str:
        return f"ArrowIterator({self._dataset})"

    def __repr__(self) -> str:
        return f"ArrowIterator({self._dataset!r})"


def _restored(options: StreamOptions, dataset: object, state: dict[str, Any]) -> ArrowIterator:
    """An iterator at the position of `state`."""
    iterator = ArrowIterator(options, dataset)
    iterator.set_state(state)
    return iterator


def pipeline_of(iterator: ArrowIterator) -> _core.Pipeline | None:
    """The pipeline of an iterator while it runs, for modules of this package."""
    return iterator._pipeline  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _is_object(value: Any) -> bool:
    """Whether a value is Python objects, rather than an array of numbers."""
    if isinstance(value, dict):
        children = cast("dict[str, Any]", value)
        return any(map(_is_object, children.values()))
    dtype = getattr(value, "dtype", None)
    return dtype is None or dtype.kind == "O"


def _tokens_of_row(columns: Element, n_rows: int) -> int | None:
    """The integers in the lists of a row, where all rows of a batch have as many.

    They are of 32 bits or more: audio may be of 16, and images of 8.
    """
    n = 0
    for name, value in columns.items():
        if not isinstance(value, np.ndarray) or f"{name}_lengths" in columns:
            continue
        array = cast("np.ndarray[Any, np.dtype[Any]]", value)
        is_list = array.ndim == 2 and len(array) == n_rows
        if is_list and array.dtype.kind in "iu" and array.dtype.itemsize >= 4:
            n += array.shape[1]
    return n or None
