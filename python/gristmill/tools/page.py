"""The page of text that a command prints, and that a result is in `print`."""

from __future__ import annotations

import textwrap
import unicodedata

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
        self.lines.append(printable(text))

    def section(self, title: str) -> None:
        """Adds an empty line, and a line."""
        self.say()
        self.say(title)

    def paragraph(self, text: str, first: str = "", rest: str = "") -> None:
        """Adds text as lines of at most 80 columns, with these prefixes."""
        wrapped = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest)
        for line in wrapped or [""]:
            self.say(line)

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
    text = printable(text)
    return text if len(text) <= width else text[: width - 3] + "..."


def printable(text: str) -> str:
    """The text with escapes for what would do something to a terminal: names come from files."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or unicodedata.category(one) == "Zs" else _escaped(one)
        for one in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
