"""Figures as people read them."""

from __future__ import annotations

import html
import math


def rate_text(rows_per_second: float) -> str:
    """Two or three digits: an estimate has no more."""
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


def time_text(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def mb_text(n_bytes: float) -> str:
    """Megabytes of 10^6, with a digit after the point below ten."""
    return f"{n_bytes / 1e6:,.{1 if n_bytes < 1e7 else 0}f} MB"


def bytes_text(n_bytes: float) -> str:
    """Bytes in the unit that gives one to four digits before the point."""
    units = ("B", "kB", "MB", "GB", "TB")
    power = 0
    while n_bytes >= 1000 and power + 1 < len(units):
        n_bytes, power = n_bytes / 1000, power + 1
    digits = 0 if power == 0 or n_bytes >= 100 else 1
    return f"{n_bytes:,.{digits}f} {units[power]}"


def plural(n: int, one: str, many: str | None = None) -> str:
    """The noun for this count."""
    return one if n == 1 else many or f"{one}s"


def count_text(n: int, one: str, many: str | None = None) -> str:
    """The count with its noun."""
    return f"{n:,} {plural(n, one, many)}"


class Printed:
    """A result that notebooks show as the page that `print` shows."""

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
