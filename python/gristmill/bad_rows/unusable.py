"""Raises where not one row of a whole epoch can be used, instead of searching for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gristmill.bad_rows.rows import BadRow
from gristmill.errors import NoUsableRowsError

_BY_CHANCE = 16
"""A part of fewer rows may have none that can be used while the other parts have many."""


class UnusableRows:
    """Counts the rows that were left out since the last one that was delivered."""

    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()
        self._first: BadRow | None = None
        self._n_rows = 0
        self._delivered_any = False
        self.is_whole = False
        """Whether the stream was seen from its start."""

    def delivered(self) -> None:
        """A row could be used."""
        self._delivered_any = True
        if self._n_rows:
            self._n_rows, self._first = 0, None
            self._reasons.clear()

    def left_out(self, n_rows: int, found: Iterable[BadRow], n_different: int) -> None:
        """The next `n_rows` rows were left out, since none of them could be used.

        Args:
            n_rows: How many.
            found: What is known of them.
            n_different: Rows after which the same ones come again.

        Raises:
            NoUsableRowsError: Nor could any of the others.
        """
        for row in found:
            self._first = self._first or row
            self._reasons[row.reason] += 1
        self._n_rows += n_rows
        # Twice as many contain all of them wherever they begin. Fewer may miss the usable row, as
        # the first of one epoch and the last of the next.
        if self._n_rows >= 2 * n_different:
            raise self._error("a whole epoch and more")

    def ended(self, *, is_part: bool) -> None:
        """The stream has ended; `is_part` says whether other hosts or workers have the other rows.

        Raises:
            NoUsableRowsError: It was seen from its start, and none of its rows could be used.
        """
        if not self.is_whole or not self._n_rows or self._delivered_any:
            return
        if not is_part:
            raise self._error("all that there are")
        if self._n_rows >= _BY_CHANCE:
            raise self._error("all of this host's or worker's part")

    def _error(self, which: str) -> NoUsableRowsError:
        first = self._first
        ((reason, count),) = self._reasons.most_common(1) or [("unknown", 0)]
        cause = f"the most common reason is {reason!r}, of {count:,} rows" if count else "no reason"
        text = f"not one of {self._n_rows:,} rows could be used ({which}): {cause}"
        if first is not None:
            text += f"; the first: {first.message}"
        if first is not None and first.reason == "null" and first.path:
            text += (
                f". That row contains a path ({first.path}) instead of the bytes of the file: "
                "write the shards again with the bytes in them (datasets: "
                'embed_external_files), or name another column with gm.Audio("column")'
            )
        else:
            text += (
                '. Name another column with gm.Audio("column") if this is not the audio, or leave '
                "the shard out; bad_rows() of the iterator lists the rows, and "
                '"gristmill scan --quarantine bad.jsonl" writes what exclude= reads'
            )
        return NoUsableRowsError(
            text + ".",
            shard=first and first.shard,
            row=first and first.row,
            codec=first and first.codec,
            reason=reason,
        )
