"""What is done about bad rows: the options `on_error`, `max_bad_rows` and `quarantine`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from gristmill import checks
from gristmill.bad_rows.exclude import Item

OnError: TypeAlias = Literal["raise", "substitute", "mask", "skip"]


@dataclass(frozen=True)
class BadRowPolicy:
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
                "with on_error='raise' the first bad row ends the run; use max_bad_rows= and "
                "quarantine= with 'substitute', 'mask' or 'skip' (max_bad_rows=0 raises at the "
                "first, too)"
            )


def quarantine_path(
    quarantine: str | os.PathLike[str] | None, exclude: Iterable[Item]
) -> str | None:
    """The file that bad rows are written to, as an absolute path.

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
