"""Figures as people read them."""

from __future__ import annotations

import math


def rate_text(rows_per_second: float) -> str:
    """Two or three digits, as far as an estimate goes."""
    if rows_per_second < 10:
        return f"{rows_per_second:.1f}"
    digits = 10 ** max(math.floor(math.log10(rows_per_second)) - 1, 0)
    return f"{round(rows_per_second / digits) * digits:,}"


def ms_text(seconds: float) -> str:
    """Milliseconds, finer below one."""
    return f"{1e3 * seconds:.{2 if seconds < 1e-3 else 1}f} ms"


def seconds_text(seconds: float) -> str:
    """Seconds, or milliseconds below one."""
    return f"{seconds:.1f} s" if seconds >= 1 else ms_text(seconds)


def mb_text(n_bytes: float) -> str:
    """Megabytes of 10^6, with a digit after the point below ten."""
    return f"{n_bytes / 1e6:,.{1 if n_bytes < 1e7 else 0}f} MB"


def count_text(n: int, thing: str) -> str:
    """The count with its noun."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"
