"""What commands show: bars on terminals, lines in pipes, JSON for machines."""

import json
import sys
import textwrap
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from gristmill.cli.common import WIDTH

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Progress of one long piece of work; see `Console.progress`."""

    def __init__(self, what: str, total: int, unit: str, *, quiet: bool) -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._done = 0
        self._notes = ""
        # Both streams are missing where the shell has closed them.
        self._on_terminal = bool(sys.stderr and sys.stderr.isatty())
        self._lines = not quiet and not self._on_terminal
        self._began = time.monotonic()
        self._before = 0
        self._next_line = self._began + _SECONDS_BETWEEN_LINES
        self._bar: Any = tqdm(
            total=total,
            desc=what,
            unit=f" {unit}",
            disable=quiet or not self._on_terminal,
            dynamic_ncols=True,
        )

    def expect(self, total: int, done: int = 0) -> None:
        """Says how much there is to do, and how much was done before this began."""
        self._total = self._bar.total = total
        self._done = self._before = self._bar.n = self._bar.initial = done
        self._bar.refresh()

    def advance(self, **notes: str) -> None:
        """Counts one more; `notes` are shown beside the count."""
        self.reach(self._done + 1, **notes)

    def reach(self, done: int, **notes: str) -> None:
        """Counts up to `done`."""
        self._notes = "".join(f", {name} {value}" for name, value in notes.items())
        self._bar.set_postfix(notes, refresh=False)
        self._bar.update(done - self._done)
        self._done = done
        if self._lines and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            self._line()

    def close(self) -> None:
        """Leaves the last count on the screen, if there is one. Safe to call again."""
        self._bar.close()
        if self._lines and self._done:
            self._line()
        self._lines = False

    def _line(self) -> None:
        text = f"{self._what}: {self._done}/{self._total} {self._unit}{self._pace()}{self._notes}"
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the terminal's one door

    def _pace(self) -> str:
        """The rate and the time left, as soon as they can be told."""
        elapsed = time.monotonic() - self._began
        n_new = self._done - self._before
        if elapsed < 1 or n_new <= 0 or self._done >= self._total:
            return ""
        left = (self._total - self._done) * elapsed / n_new
        rate = n_new / elapsed
        # Of a few long pieces of work the rate says nothing.
        pace = f", {rate:,.0f} {self._unit}/s" if rate >= 10 else ""
        return f"{pace}, {time_text(left)} left"


def time_text(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bytes_text(n_bytes: float) -> str:
    """Bytes in the unit that gives one to four digits before the point."""
    units = ("B", "kB", "MB", "GB", "TB")
    power = 0
    while n_bytes >= 1000 and power + 1 < len(units):
        n_bytes, power = n_bytes / 1000, power + 1
    digits = 0 if power == 0 or n_bytes >= 100 else 1
    return f"{n_bytes:,.{digits}f} {units[power]}"


def _print(text: str) -> None:
    """To standard output; an error of the system names it, since it has no name there."""
    try:
        print(text, flush=True)  # noqa: T201 - the terminal's one door
    except OSError as error:
        error.filename = error.filename or "standard output"
        raise


class Page:
    """What `Console` would say, kept: results of the functions print the page of the command."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str = "") -> None:
        """Keeps a line."""
        self.lines.append(text)

    def __str__(self) -> str:
        return "\n".join(self.lines).strip("\n")

    def paragraph(self, text: str, first: str = "", rest: str = "") -> None:
        """Text in lines of at most 80 columns, with this before the first and the rest."""
        self.say(textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest))

    def table(self, title: str, rows: list[tuple[str, str]]) -> None:
        """Names and values in two columns."""
        width = max(len(name) for name, _ in rows)
        self.say()
        self.say(title)
        for name, value in rows:
            self.say(f"  {name:<{width}}  {value}")

    def bars(self, rows: list[tuple[str, int]], width: int = 40) -> None:
        """Counts as bars."""
        most = max((count for _, count in rows), default=0)
        names = max((len(name) for name, _ in rows), default=0)
        digits = max((len(f"{count:,}") for _, count in rows), default=0)
        for name, count in rows:
            bar = self.block() * max(round(width * count / most), count > 0) if most else ""
            self.say(f"  {name:>{names}}  {count:>{digits},}  {bar}".rstrip())

    def block(self) -> str:
        """What bars are made of."""
        return "#"


class Console(Page):
    """Where a command says what it does. Results go to stdout, progress to stderr."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        super().__init__()
        self._as_json = as_json
        self._quiet = quiet

    def say(self, text: str = "") -> None:
        """Prints a line for people; nothing where a machine reads."""
        if not self._as_json:
            # A name of a class or a shard must not end a command on a terminal without its letters.
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            shown = text.encode(encoding, "replace").decode(encoding)
            _print(shown)

    def block(self) -> str:
        """Blocks where the terminal has them, number signs elsewhere."""
        encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
        return "\N{FULL BLOCK}" if encoding == "utf8" and sys.stdout.isatty() else "#"

    def warn(self, text: str) -> None:
        """Prints a line to stderr, whatever was asked for."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the terminal's one door

    def summary(self, values: dict[str, Any]) -> None:
        """Prints the result as JSON, if JSON was asked for."""
        if self._as_json:
            _print(json.dumps(values, indent=2))

    @contextmanager
    def progress(self, what: str, total: int, unit: str) -> Generator[Progress]:
        """A bar on a terminal, a line every few seconds elsewhere."""
        progress = Progress(what, total, unit, quiet=self._quiet)
        try:
            yield progress
        finally:
            progress.close()
