"""The iterator over an `ArrowIterDataset`: a native pipeline and a position in its stream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import grain

from gristmill import _core
from gristmill._grain import IDLE_STATS, recorded
from gristmill.bad_rows.quarantine import BadRow
from gristmill.bad_rows.tracker import BadRows
from gristmill.checks import shown
from gristmill.metrics.questions import decide
from gristmill.metrics.stats import Stats, from_native
from gristmill.metrics.telemetry import Reporter
from gristmill.metrics.verdict import Verdict
from gristmill.report import DamagedRow, DecodeReport
from gristmill.state import ANY_DATA, Opened, Position

if TYPE_CHECKING:
    from gristmill.dataset import ArrowIterDataset

Element = dict[str, Any]
Columns = dict[str, bool]
"""Names, and whether the values are Python objects."""

MAX_DAMAGED_ROWS = 10_000


def _columns_of(element: Element) -> Columns:
    """The columns, and whether they are Python objects rather than arrays of numbers."""
    return {name: _is_object(value) for name, value in element.items()}


def _is_object(value: Any) -> bool:
    if isinstance(value, dict):
        children = cast("dict[str, Any]", value)
        return any(map(_is_object, children.values()))
    dtype = getattr(value, "dtype", None)
    return dtype is None or dtype.kind == "O"


class ArrowIterator(grain.DatasetIterator[Element]):
    """Iterates over an `ArrowIterDataset`. Made by `iter(dataset)`.

    Native threads start with the first `next` or `start_prefetch`, and have ended when `close`
    returns, when the iterator is collected, at the end of the data, and when `next` raises; those
    that decode, which all iterators share, a fifth of a second after the last of them. After an
    error, the next call tries the same element again.

    One thread at a time may use it, and it need not be the same one; `close` may be called from
    any thread at any time.
    """

    def __init__(self, dataset: ArrowIterDataset) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._dataset = dataset
        self._part = dataset.part
        self._position = Position.start_of(self._part)
        # What `set_state` was given; `None` once the position says more.
        self._given: dict[str, Any] | None = None
        self._pipeline: _core.Pipeline | None = None
        self._pid = 0
        self._opened: Opened | None = None
        self._ended = False
        self._damaged: dict[tuple[str, int], DamagedRow] = {}
        self._bad = BadRows(dataset.policy)
        # What holds once the element of this call is handed over.
        self._next_position = self._position
        self._next_counts = self._bad.counts
        # Whether pipeline and position agree: not inside `next`, nor once an interrupt has left it.
        self._is_settled = True
        self._columns: Columns = {}
        self._reporter = Reporter(dataset.log_every_seconds)
        self._measured: dict[str, Any] | None = None

    def __next__(self) -> Element:
        element = self._next()
        # A signal is answered where a function begins or returns to, so from here to the end of the
        # call nothing may be called: the element is handed over and counted, or neither.
        self._position, self._given, self._bad.counts = self._next_position, None, self._next_counts
        self._is_settled = True
        return element

    @recorded
    def _next(self) -> Element:
        stats: Any = self._stats
        if type(stats) is IDLE_STATS:
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
            while True:
                delivered = pipeline.next()
                opened = self._learned(pipeline)
                if delivered is None or opened is None:
                    break
                n_rows, element = delivered
                self._took(n_rows, pipeline, opened, is_empty=element is None)
                if element is not None:
                    if not self._columns:
                        self._columns = _columns_of(element)
                    self._reporter.element(self, pipeline)
                    return element
                self._position, self._given = self._next_position, None
                self._bad.counts = self._next_counts
            self._bad.ended()
        except BaseException:
            self._stop()
            self._assert_not_closed()
            raise
        position = self._position
        if opened is not None and not self._dataset.drops_remainder:
            position = position.ended(opened)
        self._stop()
        self._position, self._ended = position, True
        if opened is not None and not self._dataset.drops_remainder:
            self._given = None
        raise StopIteration

    def _took(
        self, n_rows: int, pipeline: _core.Pipeline, opened: Opened, *, is_empty: bool
    ) -> None:
        """The next `n_rows` rows were taken from the pipeline."""
        for shard, row, report in pipeline.take_damaged():
            self._remember(DamagedRow(shard, row, DecodeReport(*report)))
        own_rows = opened.rows_per_epoch // self._part.stream_stride
        self._next_counts = self._bad.delivered(
            n_rows, pipeline.take_bad(), own_rows, is_empty=is_empty
        )
        if n_rows < self._dataset.rows_per_element:
            self._next_position = self._position.ended(opened)
        else:
            self._next_position = self._position.after(n_rows, opened, self._part)

    def _running(self) -> _core.Pipeline:
        # Of a call that was interrupted, the pipeline may be closed, or ahead of the state.
        if not self._is_settled:
            self._stop()
        # Threads do not survive a fork: a child starts its own from the same position.
        if self._pipeline is None or self._pid != os.getpid():
            start = Position.from_state(self.get_state(), part=self._part)
            self._bad.check_file()
            pipeline = _core.Pipeline(**self._dataset.native_options(start))
            self._pid = os.getpid()
            self._position = start
            self._opened = None
            self._reporter.starts()
            self._pipeline = pipeline
            # `close` marks the iterator before it looks for a pipeline: one of the two sees the
            # other, and no thread is left.
            if self._closed:
                self._stop()
                self._assert_not_closed()
            return pipeline
        return self._pipeline

    def _learned(self, pipeline: _core.Pipeline) -> Opened | None:
        if self._opened is None and (found := pipeline.opened()) is not None:
            opened = Opened(*found)
            position = self._position.normalized(opened, self._part)
            self._bad.opened(at_start=opened.start == (0, 0))
            self._opened, self._position = opened, position
        return self._opened

    def _remember(self, damaged: DamagedRow) -> None:
        key = (damaged.shard, damaged.row)
        self._damaged.pop(key, None)
        self._damaged[key] = damaged
        if len(self._damaged) > MAX_DAMAGED_ROWS:
            del self._damaged[next(iter(self._damaged))]

    def damaged_rows(self) -> list[DamagedRow]:
        """The damaged rows that this iterator delivered: one record a row, the latest last.

        With `Audio(strict=False)` these are rows with zeros where nothing could be decoded. With
        `strict=True` they can only be MPEG streams that end inside a frame. Rows that are read
        ahead and not delivered yet are not among them. Of more than 10,000 rows the latest are
        kept. In Grain's worker processes each has its own list, out of reach of the main process.
        """
        return list(self._damaged.values())

    def bad_rows(self) -> list[BadRow]:
        """The rows that could not be used, in the places of those delivered: one record a row.

        The latest comes last, and of more than 10,000 these are kept. Rows that were tried in the
        place of another and could not be used either are among them. As in `damaged_rows`, rows
        that are read ahead are not, and worker processes have lists of their own.
        """
        return self._bad.rows()

    def get_state(self) -> dict[str, Any]:
        """The position, as plain integers and one string: safe for JSON, always of one shape."""
        given = self._given
        return self._position.to_state() if given is None else dict(given)

    def set_state(self, state: dict[str, Any]) -> None:
        """Moves to the position of `state`. Whether it fits the data, the next `next` tells.

        A state of another data set, version or slice raises `ValueError` there, nothing here.

        Raises:
            ValueError: `state` is no dictionary, and so from nothing of this kind.
        """
        if not isinstance(state, Mapping):
            raise ValueError(
                f"a state is a dictionary, as get_state() gives it, not {shown(state)}"
            )
        given = dict(state)
        self._stop()
        self._bad.restart()
        self._given, self._ended, self._opened = given, False, None

    def stats(self) -> Stats:
        """What has been measured since the native threads started; from any thread, at any time.

        After the end, an error or `close`, what had been measured until then.
        """
        pipeline = self._pipeline
        native = self._measured if pipeline is None else pipeline.stats()
        return from_native(native, self._dataset.settings(native, self._columns))

    def verdict(self) -> Verdict:
        """What limits this iterator and what would help, from its `stats()`; print it."""
        return decide(self.stats())

    def start_prefetch(self) -> None:
        """Starts the native threads now, so that the first elements are ready when asked for."""
        if not (self._closed or self._ended):
            self._running()

    def close(self) -> None:
        """Ends all threads and frees all memory. Safe to call again, and from any thread."""
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
            finally:
                pipeline.close()
        self._pipeline, self._is_settled = None, True

    def _get_next_index(self) -> int:
        state = self.get_state()
        rows = state["next_index"]
        if state["epoch"]:
            opened = self._opened
            if opened is None:
                self._assert_not_closed()
                pipeline = self._running()
                pipeline.wait_open()
                opened = self._learned(pipeline)
            if opened is None:
                raise ValueError(
                    "the index of a state in a later epoch takes the number of rows, but the "
                    "shards could not be opened; the next `next` says why"
                )
            rows += state["epoch"] * opened.rows_per_epoch
        return -(-self._part.n_before(rows) // self._dataset.rows_per_element)

    def _set_next_index(self, index: int) -> None:
        rows = index * self._dataset.rows_per_element * self._part.stream_stride
        start = Position.start_of(self._part)
        # It fits any data: what there is, is not known before the first `next`.
        position = start._replace(next_index=rows, fingerprint=ANY_DATA) if rows else start
        self.set_state(position.to_state())

    def __str__(self) -> str:
        return f"ArrowIterator({self._dataset})"

    def __repr__(self) -> str:
        return f"ArrowIterator({self._dataset!r})"
