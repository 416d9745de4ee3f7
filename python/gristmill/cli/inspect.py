"""`gristmill inspect` and `gristmill index`."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from gristmill.cli.common import (
    FAILED,
    FINDINGS,
    cache_options,
    column_option,
    index_dir_option,
    paths_argument,
    read_part,
    root_option,
    storage_option,
    threads_option,
    with_console,
)
from gristmill.cli.console import Console, Progress
from gristmill.options import ReadOptions
from gristmill.tools import index as indexing
from gristmill.tools import inspection
from gristmill.tools.inspect import inspect as inspect_shards


@click.command(short_help="Shows what shards contain, from headers and a sample.")
@paths_argument
@column_option
@root_option
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=200,
    help="Rows to draw for the figures about audio.",
)
@storage_option
@with_console
def inspect(console: Console, paths: tuple[str, ...], **options: Any) -> None:
    """Shows what shards contain, from their headers and a sample of rows.

    PATHS are shards, directories or patterns, also as URLs. Exit status 1: a shard is broken.
    """
    with console.progress("headers", 0, "shards") as progress:
        found = inspect_shards(
            paths, **options, on_shards=progress.expect, on_shard=progress.advance
        )
    console.show(inspection.page_of(found, console.bar), found.to_dict())
    if found.unreadable:
        sys.exit(FINDINGS)


@click.command(short_help="Writes row and audio indexes ahead of time.")
@paths_argument
@index_dir_option
@click.option(
    "--audio",
    is_flag=True,
    help="Build audio indexes too, so that training reads crops without the rest.",
)
@column_option
@click.option(
    "--part",
    metavar="I/N",
    callback=read_part,
    default="1/1",
    help="Index one of n parts: every n-th shard.",
)
@threads_option
@storage_option
@cache_options
@with_console
def index(
    console: Console,
    paths: tuple[str, ...],
    index_dir: str | None,
    threads: int | None,
    cache_dir: str | None,
    cache_size: str | None,
    **options: Any,
) -> None:
    """Writes indexes ahead of time, so that training starts at once.

    Exit status 1: a shard is broken.
    """
    if not options["audio"] and (options["column"] is not None or cache_dir is not None):
        raise click.UsageError("--column and --cache-dir need --audio, which reads recordings")
    read = ReadOptions(
        index_dir="auto" if index_dir is None else index_dir,
        num_threads=threads,
        cache_dir=cache_dir,
        cache_size=cache_size,
    )
    with contextlib.ExitStack() as bars:
        headers = bars.enter_context(console.progress("index", 0, "shards"))
        rows: Progress | None = None

        def on_rows(done: int, total: int) -> None:
            nonlocal rows
            if rows is None:
                headers.close()
                rows = bars.enter_context(console.progress("audio", total, "rows"))
            rows.reach(done)

        report = indexing.build_indexes(
            paths,
            read=read,
            on_shards=headers.expect,
            on_shard=headers.advance,
            on_rows=on_rows,
            **options,
        )
    console.show(indexing.page_of(report), report.to_dict())
    if report.not_written or report.audio_not_written:
        console.warn(f"gristmill index: {indexing.not_written(report)}")
        sys.exit(FAILED)
    if report.unreadable:
        sys.exit(FINDINGS)
