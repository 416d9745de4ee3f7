"""What is done about rows whose audio cannot be used, and what an iterator remembers of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from gristmill import checks
from gristmill.bad_rows.exclude import File, Pair
from gristmill.bad_rows.quarantine import BadRow, QuarantineFile
from gristmill.bad_rows.unusable import UnusableRows
from gristmill.errors import LimitError

OnError: TypeAlias = Literal["raise", "substitute", "mask", "skip"]

MAX_KEPT_ROWS = 10_000
"""Bad rows that an iterator remembers: some megabytes."""
_N_LOGGED = 5
_FIRST_ROWS = 1_000
"""A share is judged as if at least so many rows had come: of a few, one bad row is a large part."""

logger = logging.getLogger("gristmill")


@dataclass(frozen=True)
class Policy:
    """The options of `ArrowIterDataset` of the same names."""

    on_error: OnError = "raise"
    max_bad_rows: float | None = None
    quarantine: str | None = None

    def __post_init__(self) -> None:
        checks.choice("on_error", self.on_error, get_args(OnError))
        most = self.max_bad_rows
        count, share = checks.as_int(most), checks.as_float(most)
        is_share = count is None and share is not None and 0 <= share <= 1
        if not (most is None or is_share or (count is not None and count >= 0)):
            raise ValueError(
                f"max_bad_rows is a number of rows, or a share of 0.0 to 1.0, or None, not "
                f"{checks.shown(most)}: write max_bad_rows=100, or 0.01"
            )
        object.__setattr__(self, "max_bad_rows", share if count is None else count)
        if self.on_error == "raise" and not (most is None and self.quarantine is None):
            raise ValueError(
                "with on_error='raise' the first bad row is the end; max_bad_rows= and quarantine= "
                "go with 'substitute', 'mask' or 'skip' (max_bad_rows=0 raises at the first, too)"
            )


class BadRows:
    """Belongs to one iterator, and is told of each element."""

    def __init__(self, policy: Policy) -> None:
        """Touches no file yet."""
        self.counts: tuple[int, int] = (0, 0)
        """Rows whose turn has come, and the bad ones among them."""
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

    def delivered(
        self,
        n_rows: int,
        found: Iterable[tuple[tuple[Any, ...], bool]],
        rows_per_epoch: int,
        *,
        is_empty: bool,
    ) -> tuple[int, int]:
        """The turn of `n_rows` rows has come; `found` is what the native core tells of the bad.

        `is_empty` says that all of them are left out.

        Returns:
            What `counts` is once they have been handed over.

        Raises:
            LimitError: They are more than `max_bad_rows` allows. The rows do not count then.
            NoUsableRowsError: No row of a whole epoch could be used.
        """
        n_bad = 0
        bad: list[BadRow] = []
        for fields, is_substitute in found:
            bad.append(BadRow(*fields))
            n_bad += not is_substitute
            self._remember(bad[-1])
        if bad:
            self._write()
            self._check(bad[-1], n_rows, n_bad, min(_FIRST_ROWS, rows_per_epoch))
        if is_empty:
            self._unusable.left_out(n_rows, bad, rows_per_epoch)
        else:
            self._unusable.delivered()
        return self.counts[0] + n_rows, self.counts[1] + n_bad

    def opened(self, *, at_start: bool) -> None:
        """The stream is taken up, at its start or anywhere else."""
        if at_start:
            self._unusable = UnusableRows()
            self._unusable.is_whole = True

    def ended(self) -> None:
        """The stream has ended.

        Raises:
            NoUsableRowsError: Not one of its rows could be used.
        """
        self._unusable.ended()

    def rows(self) -> list[BadRow]:
        """One record a row, the latest last."""
        return list(self._kept.values())

    def _remember(self, row: BadRow) -> None:
        key = (row.shard, row.row)
        if self._kept.pop(key, None) is None:
            self._log(row)
            if self._policy.quarantine is not None:
                self._unwritten.append(row)
        self._kept[key] = row
        if len(self._kept) > MAX_KEPT_ROWS:
            del self._kept[next(iter(self._kept))]
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
                    "bad rows could not be written and are kept in memory: %s; it is tried again "
                    "with the next, and nothing more is said about it",
                    error,
                )
        else:
            self._unwritten.clear()

    def _check(self, last: BadRow, n_rows: int, n_bad: int, first_rows: int) -> None:
        most = self._policy.max_bad_rows
        if most is None:
            return
        n_rows += self.counts[0]
        n_bad += self.counts[1]
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


def quarantine_path(
    quarantine: str | os.PathLike[str] | None, exclude: Iterable[Pair | File]
) -> str | None:
    """Where bad rows are written, as an absolute path.

    Raises:
        ValueError: It is read by `exclude=` at the same time.
    """
    named = checks.file_path("quarantine", quarantine, none=True)
    if named is None:
        return None
    path = os.path.abspath(named)  # noqa: PTH100 (a worker may have another folder)
    files = [os.fspath(item) for item in exclude if not isinstance(item, tuple)]
    if path in map(os.path.abspath, files):
        raise ValueError(
            f"{path} is both quarantine= and exclude=: rows that are found would change the order "
            "under the states of this run; write to another file, and exclude that in the next run"
        )
    return path
