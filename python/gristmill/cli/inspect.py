"""`gristmill inspect` and `gristmill index`."""

from __future__ import annotations

import sys
from typing import Any

import click

from gristmill.cli.common import (
    FAILED,
    FINDINGS,
    column_option,
    paths_argument,
    root_option,
    with_console,
)
from gristmill.cli.console import Console
from gristmill.options import ReadOptions
from gristmill.tools import index as indexing
from gristmill.tools import inspection
from gristmill.tools.inspect import inspect as inspect_shards


@click.command()
@paths_argument
@column_option
@root_option
@click.option(
    "--sample", type=click.IntRange(min=1), default=200, help="Rows whose audio is looked at."
)
@with_console
def inspect(console: Console, paths: tuple[str, ...], **options: Any) -> None:
    """Tells what is in shards, from their headers and a sample of rows.

    PATHS are shards, directories or patterns. Exit status 1 says that a shard is broken.
    """
    with console.progress("headers", 0, "shards") as progress:
        found = inspect_shards(
            paths, **options, on_shards=progress.expect, on_shard=progress.advance
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
@with_console
def index(console: Console, paths: tuple[str, ...], index_dir: str | None) -> None:
    """Writes row indexes ahead of time, so that training starts at once.

    Exit status 1 says that a shard is broken.
    """
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
