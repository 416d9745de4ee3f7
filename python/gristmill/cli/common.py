"""What the commands share: exit codes, options, and how failures are reported."""

from __future__ import annotations

import functools
import math
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click

from gristmill.cli.console import Console, drop_output, tell
from gristmill.errors import GristmillError
from gristmill.options import ReadOptions
from gristmill.troubleshooting import is_pointer

FINDINGS = 1
"""Exit status of a command that did its work and found something bad; 0 is all well."""
FAILED = 3
"""Exit status of a command that was asked for properly and could not be done; 2 is bad usage."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""
READER_GONE = 141
"""Exit status where standard output is a pipe whose reader has gone, as shells have it."""


class Seconds(click.FloatRange):
    """A time above 0, which NaN is not: it is in every range, since it compares with nothing."""

    name = "float range"

    def __init__(self, low: float = 0, high: float = 1e9) -> None:
        super().__init__(low, high, min_open=low == 0)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, as `click` has it."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail("it is not a number", param, ctx)
        return found


paths_argument = click.argument("paths", nargs=-1, required=True)
column_option = click.option(
    "--column",
    metavar="NAME",
    show_default="found in the schema",
    help="The audio column.",
)

root_option = click.option(
    "--root",
    metavar="DIR",
    help="Folder of the recordings, if rows contain paths.",
)


def read_part(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, int]:
    """`3/16`."""
    number, slash, count = value.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise click.BadParameter(f"{value!r} is not like 3/16")
    if not 1 <= int(number) <= int(count):
        raise click.BadParameter(f"a part is 1 to n of n, not {value}")
    return int(number), int(count)


def _read_storage_options(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """`KEY=VALUE`, or `KEY` with its value in the environment. What was given is not shown."""
    options: dict[str, str] = {}
    for number, text in enumerate(given, 1):
        key, equals, value = text.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9_]+", key):
            raise click.BadParameter(f"number {number} of them is not like KEY=VALUE")
        found = value if equals else os.environ.get(key, os.environ.get(key.upper()))
        if found is None:
            raise click.BadParameter(
                f"number {number} of them is KEY alone, and no environment variable has that name: "
                "write KEY=VALUE, or set the variable"
            )
        options[key] = found
    return options


storage_option = click.option(
    "--storage-option",
    "storage_options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_read_storage_options,
    help="How to reach URLs, as in storage_options=; KEY alone takes its value from the "
    "environment variable of that name. Repeat it for more keys.",
)


def cache_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--cache-dir` and `--cache-size`, and refuses what cannot be as bad usage."""

    @functools.wraps(command)
    def checked(*args: Any, cache_dir: str | None, cache_size: str | None, **options: Any) -> Any:
        try:
            ReadOptions(cache_dir=cache_dir, cache_size=cache_size)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        return command(*args, cache_dir=cache_dir, cache_size=cache_size, **options)

    size = click.option(
        "--cache-size",
        metavar="SIZE",
        show_default="80%",
        help='Most space that the cache takes: "200GB", or a share of the free space.',
    )
    folder = click.option(
        "--cache-dir",
        metavar="DIR",
        show_default="none",
        help="Local folder that caches what is read of shards, for later runs.",
    )
    return folder(size(checked))


index_dir_option = click.option(
    "--index-dir",
    metavar="DIR",
    show_default="the user's cache folder",
    help='Folder of the indexes, or "beside" for the folder of each shard.',
)

# Options are called as in Python.
threads_option = click.option(
    "--num-threads",
    "threads",
    type=click.IntRange(min=1),
    show_default="the CPUs that this process may use",
    help="Threads that decode.",
)


def with_console(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `--json` and `--quiet`, gives the command its console, and reports its failures."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
    @click.option("--quiet", is_flag=True, help="Show no progress.")
    @functools.wraps(command)
    def run(*, as_json: bool, quiet: bool, **options: Any) -> None:
        with failures_reported(command.__name__):
            command(Console(as_json=as_json, quiet=quiet), **options)

    return run


@contextmanager
def failures_reported(command: str = "") -> Generator[None]:
    """Turns an exception into a sentence and an exit status."""
    name = f"gristmill {command}".strip()
    try:
        yield
    except KeyboardInterrupt:
        _end(INTERRUPTED, f"{name}: stopped")
    except BrokenPipeError:
        # The reader has seen enough, as `head` has.
        drop_output(sys.stdout)
        sys.exit(READER_GONE)
    except OSError as error:
        try:
            if sys.stdout:
                sys.stdout.flush()
        except OSError:
            drop_output(sys.stdout)
        _end(FAILED, f"{name}: {_os_error(error)}", error)
    except (GristmillError, ValueError) as error:
        _end(FAILED, f"{name}: {error}", error)


def _end(status: int, text: str, error: BaseException | None = None) -> NoReturn:
    """Ends the command with a sentence, and the line that leads to its explanation."""
    notes = [note for note in getattr(error, "__notes__", ()) if is_pointer(note)]
    # Nobody may be there to read it.
    with suppress(BrokenPipeError):
        tell("\n".join([text, *notes]))
    sys.exit(status)


def _os_error(error: OSError) -> str:
    """The message without the number, which means little to most."""
    if error.strerror is None:
        return str(error)
    if error.filename is None:
        return error.strerror
    return f"{error.filename or repr(error.filename)}: {error.strerror}"
