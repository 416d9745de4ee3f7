"""`gristmill pack`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import click

from gristmill import checks
from gristmill.cli.common import FINDINGS, threads_option, with_console
from gristmill.cli.console import Console
from gristmill.tools.pack.api import pack as pack_recordings
from gristmill.tools.pack.report import page_of
from gristmill.troubleshooting import pointer


def _checked_size(_context: click.Context, _option: click.Parameter, size: str) -> str:
    """A size that `gm.pack` takes."""
    try:
        checks.byte_count("it", size, write="500MB")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return size


@click.command(short_help="Converts folders or tars of recordings into shards.")
@click.argument("source", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False),
    required=True,
    help="Folder for the shards.",
)
@click.option(
    "--shard-size",
    callback=_checked_size,
    default="500MB",
    help="Most bytes of audio in a shard.",
)
@click.option(
    "--class-column",
    "class_columns",
    metavar="NAME",
    multiple=True,
    help="Column of strings that becomes classes. Repeat it for more columns.",
)
@click.option("--keep-bad", is_flag=True, help="Pack broken recordings too.")
@click.option("--fast", is_flag=True, help="Check headers and checksums; decode nothing.")
@click.option(
    "--convert",
    is_flag=True,
    help="Store what cannot be decoded as FLAC, by PyAV; SOURCE may be Arrow shards.",
)
@click.option("--follow-links", is_flag=True, help="Follow links out of SOURCE, and to folders.")
@threads_option
@click.option(
    "--overwrite", is_flag=True, help="Start over: remove what an earlier pack wrote there."
)
@with_console
def pack(
    console: Console, source: tuple[str, ...], out: str, threads: int | None, **options: Any
) -> None:
    """Converts recordings in folders or tars into Arrow shards with features.

    SOURCE is a folder of recordings, with a subfolder for each class or with metadata.csv, .jsonl
    or .parquet; or WebDataset tars, or a folder of them. To resume a run that was stopped, start
    it again in the same way. Exit status 1: some files are bad.
    """
    if find_spec("pyarrow") is None:
        help_line = pointer("needs-pyarrow")
        raise click.UsageError(f"pack needs pyarrow: pip install pyarrow\n{help_line}")
    if options["convert"] and find_spec("av") is None:
        raise click.UsageError("--convert needs PyAV: pip install av")
    with console.progress("pack", 0, "files") as progress:
        is_first = True

        def on_files(done: int, total: int, bad: int) -> None:
            nonlocal is_first
            if is_first:
                progress.expect(total)
                is_first = False
            progress.reach(done, bad=f"{bad:,}")

        report = pack_recordings(source, out, num_threads=threads, on_files=on_files, **options)
    console.show(page_of(report), report.to_dict())
    if report.bad:
        sys.exit(FINDINGS)
