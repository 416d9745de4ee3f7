"""The bad rows that one iterator has met: counted, logged, remembered and written to a file."""

from __future__ import annotations

import logging
from typing import TypeVar

from gristmill import _core
from gristmill.bad_rows.policy import BadRowPolicy
from gristmill.bad_rows.quarantine import QuarantineFile
from gristmill.bad_rows.rows import BadRow
from gristmill.bad_rows.unusable import UnusableRows
from gristmill.errors import LimitError

MAX_KEPT_ROWS = 10_000
"""Bad rows that an iterator remembers, and damaged ones: some megabytes."""
_N_LOGGED = 5
_FIRST_ROWS = 1_000
"""A share is judged as if at least this many rows had been seen: of a few, one is a large part."""

logger = logging.getLogger("gristmill")

_Key = TypeVar("_Key")
_Row = TypeVar("_Row")


class BadRowTracker:
    """Belongs to one iterator, and is told of each element."""

    def __init__(self, policy: BadRowPolicy) -> None:
        """Touches no file yet."""
        self.counts: tuple[int, int] = (0, 0)
        """Rows of the stream that were delivered, and the bad ones among them."""
        self._policy = policy
        self._kept: dict[tuple[str, int], BadRow] = {}
        self._n_logged = 0
        self._unwritten: list[BadRow] = []
        self._has_warned = False
        self.restart()

    def restart(self) -> None:
        """Begins to count anew."""
        self.counts = (0, 0)
        self._counted: set[tuple[str, int]] = set()
        self._unusable = UnusableRows()

    def check_file(self) -> None:
        """Raises what would keep the quarantine file from being written.

        Raises:
            OSError: It cannot be opened or written.
            ValueError: It is another file.
        """
        if self._policy.quarantine is not None:
            QuarantineFile(self._policy.quarantine).close()

    def opened(self, *, at_start: bool) -> None:
        """The stream was opened, at its start or anywhere else."""
        if at_start:
            self._unusable = UnusableRows()
            self._unusable.is_whole = True

    def delivered(self, element: _core.Element, own_rows: int, n_different: int) -> tuple[int, int]:
        """An element is about to be handed over.

        Args:
            element: What was taken.
            own_rows: Rows that come here in an epoch.
            n_different: Rows after which the same ones come again.

        Returns:
            The value of `counts` once it has been.

        Raises:
            LimitError: More rows are bad than `max_bad_rows` allows. The element does not count.
            NoUsableRowsError: None of the rows that come here could be used.
        """
        bad = element.bad_rows
        n_rows, n_bad = self.counts[0] + element.n_rows, self.counts[1] + element.n_bad
        for row in bad:
            self._remember(row)
        if bad:
            self._write()
            self._check(bad[-1], n_rows, n_bad, min(_FIRST_ROWS, own_rows))
        if element.columns is None:
            self._unusable.left_out(element.n_rows, bad, n_different)
        else:
            self._unusable.delivered()
        return n_rows, n_bad

    def ended(self, *, is_part: bool) -> None:
        """The stream has ended, which `is_part` of one that others share.

        Raises:
            NoUsableRowsError: Not one of its rows could be used.
        """
        self._unusable.ended(is_part=is_part)

    def rows(self) -> list[BadRow]:
        """One record a row, the latest last."""
        return list(self._kept.values())

    def _remember(self, row: BadRow) -> None:
        key = (row.shard, row.row)
        if key not in self._kept:
            self._log(row)
            if self._policy.quarantine is not None:
                self._unwritten.append(row)
        keep_latest(self._kept, key, row)
        most = self._policy.max_bad_rows
        if isinstance(most, int) and len(self._counted) <= most:
            self._counted.add(key)

    def _log(self, row: BadRow) -> None:
        self._n_logged += 1
        if self._n_logged <= _N_LOGGED:
            logger.warning("bad row (%s): %s", row.reason, row.message)
        elif self._n_logged == _N_LOGGED + 1:
            logger.warning("more bad rows are not logged; bad_rows() of the iterator has them")

    def _write(self) -> None:
        if self._policy.quarantine is None or not self._unwritten:
            return
        try:
            with QuarantineFile(self._policy.quarantine) as file:
                file.append(self._unwritten)
        except (OSError, ValueError) as error:
            # The training is worth more than the list, which is in memory still.
            del self._unwritten[:-MAX_KEPT_ROWS]
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "bad rows could not be written and are kept in memory: %s; they are written "
                    "with the next ones, and this is not logged again",
                    error,
                )
        else:
            self._unwritten.clear()

    def _check(self, last: BadRow, n_rows: int, n_bad: int, first_rows: int) -> None:
        most = self._policy.max_bad_rows
        if most is None:
            return
        if isinstance(most, int):
            is_too_many = len(self._counted) > most
            what = f"more than {most} rows"
        else:
            is_too_many = n_bad > most * max(n_rows, first_rows)
            what = f"{n_bad} of {n_rows} rows"
        if is_too_many:
            raise LimitError(
                f"{what} cannot be used, and max_bad_rows={most!r} allows no more; bad_rows() of "
                f"the iterator has them, and this is the last: {last.message}",
                limit="max_bad_rows",
                shard=last.shard,
                row=last.row,
                codec=last.codec,
            )


def keep_latest(kept: dict[_Key, _Row], key: _Key, row: _Row) -> None:
    """Adds a row as the latest, and forgets the oldest beyond `MAX_KEPT_ROWS`."""
    kept.pop(key, None)
    kept[key] = row
    if len(kept) > MAX_KEPT_ROWS:
        del kept[next(iter(kept))]
