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


@click.command(short_help="Writes recordings that lie as files into shards.")
@click.argument("source", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False),
    required=True,
    help="The folder for the shards.",
)
@click.option(
    "--shard-size",
    callback=_checked_size,
    default="500MB",
    help="Bytes of audio in a shard, at most.",
)
@click.option(
    "--class-column",
    "class_columns",
    metavar="NAME",
    multiple=True,
    help="A column of strings that becomes classes; may be given again.",
)
@click.option("--keep-bad", is_flag=True, help="Keep broken recordings as rows.")
@click.option("--fast", is_flag=True, help="Look at headers and checksums; decode nothing.")
@click.option(
    "--convert",
    is_flag=True,
    help="Make FLAC, through PyAV, of what cannot be decoded; SOURCE may be Arrow shards.",
)
@click.option("--follow-links", is_flag=True, help="Follow links out of SOURCE, and to folders.")
@threads_option
@click.option("--overwrite", is_flag=True, help="Remove what an earlier pack has written there.")
@with_console
def pack(
    console: Console, source: tuple[str, ...], out: str, threads: int | None, **options: Any
) -> None:
    """Writes recordings that lie as files into Arrow shards with features.

    SOURCE is a folder of recordings, with a subfolder for each class or with metadata.csv, .jsonl
    or .parquet; or WebDataset tars, or a folder of them. A run that was stopped continues when it
    is started again in the same way. With --convert SOURCE may also be Arrow shards. Exit
    status 1 says that files are bad.
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
