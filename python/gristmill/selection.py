"""Which rows take part: the options `rows` and `split`, and how the core takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from gristmill import checks

Rows: TypeAlias = Sequence[bool] | Sequence[int] | np.ndarray[Any, np.dtype[Any]]
"""A mask, or row numbers."""

_WRITE_ROWS: Final = "rows=[0, 5, 7], or a mask such as rows=labels == 3"
_WRITE_SPLIT: Final = 'gm.Split("train", {"train": 0.9, "valid": 0.1})'


@dataclass(frozen=True)
class Split:
    """One part of a split of the rows into parts, such as train and valid.

    A row's part depends on a hash of its key and on nothing else: new, removed and reordered shards
    move no other row. Parts have about their shares, as a fair coin would give them.
    `docs/splits.md` has more.

    Args:
        name: The part that takes part, one of `shares`.
        shares: The share of each part, above 0; together 1. All data sets that belong together
            have the same ones, in the same order.
        by: The column whose value is a row's key, so that rows of one recordist or site are in one
            part; the null is a key as well. It may be the dotted path of a struct's field.
            `None`: the base name of the shard and the number of the row in it, so that renaming a
            shard moves its rows.
        seed: 0 to 2**64 - 1. Another seed is another split.
    """

    name: str
    shares: Mapping[str, float]
    by: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        given = dict(self.shares) if isinstance(self.shares, Mapping) else None
        if not given or not all(map(checks.is_text, given)):
            raise checks.wrong("shares", "a mapping of names to shares", self.shares, _WRITE_SPLIT)
        rule = checks.above_0(1, _WRITE_SPLIT)
        shares = {part: rule(f"the share of {part!r}", share) for part, share in given.items()}
        total = math.fsum(float(share) for share in shares.values())
        if abs(total - 1) > 1e-9:
            raise ValueError(
                f"the shares of gm.Split add up to {total:g}, and together are 1: write "
                f"{_WRITE_SPLIT}"
            )
        object.__setattr__(self, "shares", {part: float(share) for part, share in shares.items()})
        checks.settle(
            self,
            name=partial(checks.choice, choices=tuple(shares)),
            by=partial(checks.text, write='by="recordist"', none=True),
            seed=checks.within(0, 2**64 - 1, "seed=0"),
        )

    def native(self) -> tuple[str, int, str | None, int, int]:
        """As the core takes it, with the first and the last hash of the part."""
        parts = list(self.shares)
        place = parts.index(self.name)
        shares = [self.shares[part] for part in parts]
        first = int(math.fsum(shares[:place]) * 2**64)
        end = 2**64 if place == len(parts) - 1 else int(math.fsum(shares[: place + 1]) * 2**64)
        return self.name, self.seed, self.by, first, min(max(end - 1, first), 2**64 - 1)


class RowChoice(NamedTuple):
    """What `rows` chooses: a byte a row, or 64-bit integers."""

    is_mask: bool
    data: bytes

    @property
    def is_list(self) -> bool:
        """Whether the rows are in another order than that of the files, or some come twice."""
        return not self.is_mask and not _rises(np.frombuffer(self.data, np.uint64))

    def __repr__(self) -> str:
        return f"<mask of {len(self.data)}>" if self.is_mask else f"<{len(self.data) // 8} rows>"


def checked_rows(rows: Rows | None) -> RowChoice | None:
    """The rows that were chosen."""
    if rows is None:
        return None
    try:
        array = np.asarray(rows)
    except ValueError:  # lists of several lengths
        array = np.empty((0, 0))
    if isinstance(rows, (str, bytes, Mapping)) or array.ndim != 1:
        raise checks.wrong("rows", "a mask or row numbers", rows, _WRITE_ROWS)
    if array.dtype == np.bool_:
        return RowChoice(True, array.astype(np.uint8).tobytes())
    if array.size and array.dtype.kind not in "iu":
        raise checks.wrong("rows", "a mask or row numbers", rows, _WRITE_ROWS)
    is_list = isinstance(rows, (list, tuple))
    if is_list and any(isinstance(row, (bool, np.bool_)) for row in rows):
        # NumPy makes integers of both.
        raise checks.wrong("rows", "a mask or row numbers, and not both", rows, _WRITE_ROWS)
    below = array[array < 0]
    if below.size:
        raise ValueError(f"rows has {below[0]}, and row numbers count from 0: write {_WRITE_ROWS}")
    return RowChoice(False, array.astype(np.uint64).tobytes())


def checked_split(split: Split | None) -> Split | None:
    """The part of a split that was chosen."""
    return checks.instance("split", split, Split, write=f"split={_WRITE_SPLIT}", none=True)


def _rises(numbers: Any) -> bool:
    """Whether each number is above the one before it."""
    array = cast("np.ndarray[Any, np.dtype[np.uint64]]", numbers)
    return bool(np.all(array[1:] > array[:-1]))
