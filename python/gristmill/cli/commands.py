"""The `gristmill` command."""

import contextlib
import functools
import logging
from pathlib import Path
from typing import Any

import click

from gristmill.bad_rows import tracker
from gristmill.cli.common import failures_reported
from gristmill.cli.console import tell
from gristmill.cli.demo import demo
from gristmill.cli.doctor import bench, doctor
from gristmill.cli.help import help_
from gristmill.cli.inspect import index, inspect
from gristmill.cli.pack import pack
from gristmill.cli.scan import scan

_BAD_ROWS = tracker.__name__.rpartition(".")[2]
_DOCS = Path(__file__).parents[1] / "docs"


class _Commands(click.Group):
    """A group whose own output may fail too: help and version on a full disk."""

    def main(self, *args: Any, **extra: Any) -> Any:
        with failures_reported():
            return super().main(*args, **extra)


class _Warnings(logging.Handler):
    """Prints what no result tells, such as a cache folder that cannot be written to."""

    def emit(self, record: logging.LogRecord) -> None:
        # Bad rows are found and reported as a result; warnings in between would say it twice.
        if record.module != _BAD_ROWS:
            with contextlib.suppress(BrokenPipeError):
                tell(f"gristmill: {record.getMessage()}")


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=f"\b\nThe documentation is in\n{_DOCS}",
)
@click.version_option(package_name="gristmill", prog_name="gristmill")
@click.pass_context
def main(context: click.Context) -> None:
    """Feeds JAX from Arrow and Parquet shards of audio.

    Exit status: 0 all is well, 1 something bad was found, 2 bad usage, 3 the command failed.
    """
    # Importing Grain may have given the root logger a handler.
    logger = logging.getLogger("gristmill")
    context.call_on_close(functools.partial(setattr, logger, "propagate", logger.propagate))
    logger.propagate = False
    warnings = _Warnings(logging.WARNING)
    context.call_on_close(functools.partial(logger.removeHandler, warnings))
    logger.addHandler(warnings)


for _command in (inspect, scan, doctor, index, pack, bench, demo, help_):
    main.add_command(_command)
