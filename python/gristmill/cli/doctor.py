"""`gristmill doctor` and `gristmill bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gristmill import _core
from gristmill.cli.common import (
    FINDINGS,
    Seconds,
    cache_options,
    column_option,
    paths_argument,
    root_option,
    storage_option,
    threads_option,
    with_console,
)
from gristmill.cli.console import Console
from gristmill.options import MAX_REQUESTS, MIN_SAMPLE_RATE, ReadOptions
from gristmill.tools import bench as benching
from gristmill.tools.doctor import report, run

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _crop_options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--sample-rate",
            type=click.IntRange(MIN_SAMPLE_RATE, _core.MAX_SAMPLE_RATE),
            show_default="that of most rows",
            help="Sample rate of the crops in Hz.",
        ),
        click.option(
            "--crop-seconds",
            "crop_seconds",
            type=Seconds(high=_core.MAX_CROP_SECONDS),
            default=5.0,
            help="Length of each crop in seconds.",
        ),
        click.option(
            "--batch-size", type=click.IntRange(1, 2**31 - 1), default=64, help="Rows in a batch."
        ),
        column_option,
        root_option,
        storage_option,
    ):
        command = option(command)
    return command


@click.command(short_help="Measures storage and decoding, and says what will limit training.")
@paths_argument
@_crop_options
@click.option(
    "--step-seconds",
    "step_seconds",
    type=Seconds(),
    show_default="not known",
    help="Seconds of a training step without waiting for data.",
)
@click.option(
    "--seconds",
    type=Seconds(low=1),
    default=24.0,
    help="Seconds that all measurements take, about.",
)
@with_console
def doctor(console: Console, paths: tuple[str, ...], **options: Any) -> None:
    """Measures storage and decoding before training, and says what will limit it.

    It reads, decodes and runs workers as training would, on the shards in PATHS, and ends with
    settings to paste. Exit status 1: a shard is broken.
    """
    with console.progress("measure", 0, "runs") as progress:

        def on_step(what: str, number: int, total: int) -> None:
            if number == 0:
                progress.expect(total)
            progress.reach(number + 1, now=what)

        found = run.diagnose(paths, **options, on_step=on_step)
    console.show(report.page_of(found), found.to_dict())
    if found.unreadable:
        sys.exit(FINDINGS)


@click.command(short_help="Measures how fast batches of random crops arrive.")
@paths_argument
@_crop_options
@threads_option
@click.option(
    "--num-requests",
    "requests",
    type=click.IntRange(1, MAX_REQUESTS),
    show_default="two per thread, 8 to 32; 32 for URLs, and more if that helps",
    help="Storage requests in flight.",
)
@click.option(
    "--seconds",
    type=Seconds(),
    default=10.0,
    help="Seconds to measure, about.",
)
@cache_options
@with_console
def bench(
    console: Console,
    paths: tuple[str, ...],
    threads: int | None,
    requests: int | None,
    seconds: float,
    cache_dir: str | None,
    cache_size: str | None,
    **options: Any,
) -> None:
    """Measures how fast shuffled batches of random crops of PATHS arrive.

    Exit status 1: a shard is broken.
    """
    read = ReadOptions(
        num_threads=threads,
        num_requests=requests,
        cache_dir=cache_dir,
        cache_size=cache_size,
    )
    with console.progress("bench", 100, "%") as progress:

        def on_batch(elapsed: float, n_rows: int) -> None:
            done = min(int(100 * elapsed / ((1 - benching.SAMPLE_SHARE) * seconds)), 100)
            progress.reach(done, speed=f"{n_rows / max(elapsed, 1e-9):,.0f} rows/s")

        found = benching.bench(paths, **options, seconds=seconds, read=read, on_batch=on_batch)
    console.show(benching.page_of(found), found.to_dict())
    if found.unreadable:
        sys.exit(FINDINGS)
