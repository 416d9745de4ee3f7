"""What commands show: bars on terminals, lines in pipes, JSON for machines."""

import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Progress of one long piece of work; see `Console.progress`."""

    def __init__(self, what: str, total: int, unit: str, *, quiet: bool) -> None:
        self._what = what
        self._total = total
        self._unit = unit
        self._done = 0
        self._notes = ""
        self._on_terminal = sys.stderr.isatty()
        self._lines = not quiet and not self._on_terminal
        self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
        self._bar: Any = tqdm(
            total=total, desc=what, unit=unit, disable=quiet or not self._on_terminal
        )

    def advance(self, **notes: str) -> None:
        """Counts one more; `notes` are shown beside the count."""
        self._done += 1
        self._notes = "".join(f", {name} {value}" for name, value in notes.items())
        self._bar.set_postfix(notes, refresh=False)
        self._bar.update()
        if self._lines and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            self._line()

    def close(self) -> None:
        """Leaves the last count on the screen."""
        self._bar.close()
        if self._lines:
            self._line()

    def _line(self) -> None:
        text = f"{self._what}: {self._done}/{self._total} {self._unit}{self._notes}"
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the terminal's one door


class Console:
    """Where a command says what it does. Results go to stdout, progress to stderr."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self._as_json = as_json
        self._quiet = quiet

    def say(self, text: str = "") -> None:
        """Prints a line for people; nothing where a machine reads."""
        if not self._as_json:
            print(text, flush=True)  # noqa: T201 - the terminal's one door

    def table(self, title: str, rows: list[tuple[str, str]]) -> None:
        """Prints names and values in two columns."""
        width = max(len(name) for name, _ in rows)
        self.say()
        self.say(title)
        for name, value in rows:
            self.say(f"  {name:<{width}}  {value}")

    def summary(self, values: dict[str, Any]) -> None:
        """Prints the result as JSON, if JSON was asked for."""
        if self._as_json:
            print(json.dumps(values, indent=2), flush=True)  # noqa: T201 - the terminal's one door

    @contextmanager
    def progress(self, what: str, total: int, unit: str) -> Generator[Progress]:
        """A bar on a terminal, a line every few seconds elsewhere."""
        progress = Progress(what, total, unit, quiet=self._quiet)
        try:
            yield progress
        finally:
            progress.close()
