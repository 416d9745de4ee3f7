"""`gristmill inspect` and `gristmill index`."""

from __future__ import annotations

import sys

import click

from gristmill.cli.common import (
    FAILED,
    FINDINGS,
    column_option,
    failures_reported,
    output_options,
    paths_argument,
)
from gristmill.cli.console import Console
from gristmill.options import ReadOptions
from gristmill.tools import index as indexing
from gristmill.tools import inspection
from gristmill.tools.inspect import inspect as inspect_shards


@click.command()
@paths_argument
@column_option
@click.option(
    "--sample", type=click.IntRange(min=1), default=200, help="Rows whose audio is looked at."
)
@output_options
def inspect(
    paths: tuple[str, ...], column: str | None, sample: int, *, as_json: bool, quiet: bool
) -> None:
    """Tells what is in shards, from their headers and a sample of rows.

    PATHS are shards, directories or patterns. Exit status 1 says that a shard is broken.
    """
    with failures_reported("inspect"):
        console = Console(as_json=as_json, quiet=quiet)
        with console.progress("headers", 0, "shards") as progress:
            found = inspect_shards(
                paths,
                column=column,
                sample=sample,
                on_shards=progress.expect,
                on_shard=progress.advance,
            )
        console.show(inspection.page_of(found, console.bar), found.to_dict())
        if found.unreadable:
            sys.exit(FINDINGS)


@click.command(short_help="Writes row indexes ahead of time.")
@paths_argument
@click.option(
    "--index-dir",
    show_default="as a data set finds them by itself",
    help='The folder for the indexes, or "beside" for each shard\'s own folder.',
)
@output_options
def index(paths: tuple[str, ...], index_dir: str | None, *, as_json: bool, quiet: bool) -> None:
    """Writes row indexes ahead of time, so that training starts at once.

    Exit status 1 says that a shard is broken.
    """
    with failures_reported("index"):
        console = Console(as_json=as_json, quiet=quiet)
        read = ReadOptions(index_dir=index_dir or "auto")
        with console.progress("index", 0, "shards") as progress:
            report = indexing.build_indexes(
                paths, read=read, on_shards=progress.expect, on_shard=progress.advance
            )
        console.show(indexing.page_of(report), report.to_dict())
        if report.not_written:
            console.warn(f"gristmill index: {indexing.not_written(report)}")
            sys.exit(FAILED)
        if report.unreadable:
            sys.exit(FINDINGS)
