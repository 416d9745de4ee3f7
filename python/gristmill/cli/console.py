"""The output of commands: bars on terminals, lines in pipes, JSON for machines."""

import json
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

from tqdm import tqdm

from gristmill.metrics.text import time_text
from gristmill.tools.page import Page, printable

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
        """Sets the total, and what was done before this began."""
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
        tell(f"{self._what}: {self._done}/{self._total} {self._unit}{self._pace()}{self._notes}")

    def _pace(self) -> str:
        """The rate and the time left, as soon as they are known."""
        elapsed = time.monotonic() - self._began
        n_new = self._done - self._before
        if elapsed < 1 or n_new <= 0 or self._done >= self._total:
            return ""
        left = (self._total - self._done) * elapsed / n_new
        rate = n_new / elapsed
        # The rate of a few long pieces of work means nothing.
        pace = f", {rate:,.0f} {self._unit}/s" if rate >= 10 else ""
        return f"{pace}, {time_text(left)} left"


def tell(text: str) -> None:
    """Prints to standard error, with escapes for what would do something to a terminal.

    Where there is none, or its disk is full, nothing is said: a command has more to do than that.

    Raises:
        BrokenPipeError: Its reader has gone.
    """
    if sys.stderr is None:  # `print` would take standard output
        return
    try:
        shown = "\n".join(map(printable, text.split("\n")))
        print(shown, file=sys.stderr, flush=True)  # noqa: T201 - the terminal's one door
    except BrokenPipeError:
        raise
    except OSError:
        drop_output(sys.stderr)


def drop_output(stream: TextIO) -> None:
    """Discards what a stream still holds: a failure at exit would change the status."""
    if stream:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print(text: str) -> None:
    """Prints to standard output, and names it in an `OSError`, which has no file name then."""
    try:
        print(text, flush=True)  # noqa: T201 - the terminal's one door
    except OSError as error:
        error.filename = error.filename or "standard output"
        raise


class Console:
    """The output of a command: results on stdout, progress on stderr."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self._as_json = as_json
        self._quiet = quiet

    @property
    def bar(self) -> str:
        """What bars are drawn with: blocks where the terminal has them, number signs elsewhere."""
        encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
        return "\N{FULL BLOCK}" if encoding == "utf8" and sys.stdout.isatty() else "#"

    def show(self, page: Page, values: dict[str, Any]) -> None:
        """Prints the result: the page for people, or the values as JSON if that was asked for."""
        if self._as_json:
            _print(json.dumps(values, indent=2))
            return
        # A name of a class or a shard must not end a command on a terminal without its letters.
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        for line in page.lines:
            _print(line.encode(encoding, "replace").decode(encoding))

    def warn(self, text: str) -> None:
        """Prints a line to stderr, with `--json` and `--quiet` too."""
        tell(text)

    @contextmanager
    def progress(self, what: str, total: int, unit: str) -> Generator[Progress]:
        """A bar on a terminal, a line every few seconds elsewhere."""
        progress = Progress(what, total, unit, quiet=self._quiet)
        try:
            yield progress
        finally:
            progress.close()
