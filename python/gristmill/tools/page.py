"""The page of text that a command prints, and that a result is in `print`."""

from __future__ import annotations

import textwrap

WIDTH = 80
"""Columns that text is kept within."""
MOST_LISTED = 20
"""Rows or shards that are listed one by one."""


class Page:
    """Lines of text; `bar` is what bars are drawn with."""

    def __init__(self, bar: str = "#") -> None:
        self.lines: list[str] = []
        self._bar = bar

    def __str__(self) -> str:
        return "\n".join(self.lines).strip("\n")

    def say(self, text: str = "") -> None:
        """Adds a line."""
        self.lines.append(text)

    def section(self, title: str) -> None:
        """Adds an empty line, and a line."""
        self.lines += ["", title]

    def paragraph(self, text: str, first: str = "", rest: str = "") -> None:
        """Adds text as lines of at most 80 columns, with these prefixes."""
        self.say(textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest))

    def table(self, title: str, rows: list[tuple[str, str]]) -> None:
        """Adds names and values in two columns."""
        width = max(len(name) for name, _ in rows)
        self.section(title)
        for name, value in rows:
            self.say(f"  {name:<{width}}  {value}")

    def bars(self, rows: list[tuple[str, int]], width: int = 40) -> None:
        """Adds counts as bars."""
        most = max((count for _, count in rows), default=0)
        names = max((len(name) for name, _ in rows), default=0)
        digits = max((len(f"{count:,}") for _, count in rows), default=0)
        for name, count in rows:
            bar = self._bar * max(round(width * count / most), count > 0) if most else ""
            self.say(f"  {name:>{names}}  {count:>{digits},}  {bar}".rstrip())


def cut(text: str, width: int) -> str:
    """The text, or its beginning and three dots where it is wider."""
    return text if len(text) <= width else text[: width - 3] + "..."
