"""Parts of a job that an array of jobs shares."""

from __future__ import annotations

from typing import Any, cast

from gristmill import checks


def checked_part(part: Any) -> tuple[int, int]:
    """`(i, n)`, the i-th of n parts, counted from 1.

    Raises:
        ValueError: There is no such part.
    """
    pair = cast("tuple[object, ...]", part) if isinstance(part, (tuple, list)) else ()
    number, count = map(checks.as_int, pair) if len(pair) == 2 else (None, None)
    if number is None or count is None or not 1 <= number <= count:
        raise ValueError(f"a part is (i, n), with i from 1 to n, not {checks.shown(part)}")
    return number, count
