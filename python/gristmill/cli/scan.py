"""`gristmill scan`."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from gristmill.cli.common import (
    FINDINGS,
    cache_options,
    column_option,
    index_dir_option,
    read_part,
    root_option,
    storage_option,
    threads_option,
    with_console,
)
from gristmill.cli.console import Console, Progress
from gristmill.options import ReadOptions
from gristmill.tools.page import MOST_LISTED
from gristmill.tools.scan.merge import merge_scans
from gristmill.tools.scan.report import ScanReport, finding_line, page_of
from gristmill.tools.scan.run import Scan


@click.command()
@click.argument("paths", nargs=-1)
@column_option
@root_option
@click.option(
    "-o",
    "--quarantine",
    type=click.Path(dir_okay=False),
    show_default="none",
    help="File that lists bad rows, for exclude=.",
)
@click.option(
    "--part",
    metavar="I/N",
    callback=read_part,
    default="1/1",
    help="Scan one of n parts: equal runs of rows.",
)
@click.option("--merge", is_flag=True, help="Join the files of all parts into --quarantine.")
@click.option("--fast", is_flag=True, help="Check headers and checksums; decode nothing.")
@threads_option
@click.option("--restart", is_flag=True, help="Start over: discard what an earlier scan found.")
@index_dir_option
@storage_option
@cache_options
@with_console
def scan(
    console: Console,
    paths: tuple[str, ...],
    quarantine: str | None,
    part: tuple[int, int],
    threads: int | None,
    index_dir: str | None,
    cache_dir: str | None,
    cache_size: str | None,
    *,
    merge: bool,
    **options: Any,
) -> None:
    """Decodes every row and reports the damaged ones.

    To resume a scan that was stopped, start it again with the same --quarantine. Exit status 0:
    all rows are sound; 1: some are bad. One part of several ends with 0 whatever it finds;
    --merge then ends with 1.
    """
    if merge and (paths or part != (1, 1) or options["restart"]):
        raise click.UsageError("--merge takes --quarantine, but no PATHS, --part or --restart")
    if not merge and not paths:
        raise click.UsageError("Missing argument 'PATHS...'.")
    if quarantine is None and (merge or part[1] > 1):
        raise click.UsageError("--part and --merge need --quarantine")
    if merge and quarantine is not None:
        report, written = merge_scans(quarantine), quarantine
    else:
        read = ReadOptions(
            num_threads=threads,
            index_dir="auto" if index_dir is None else index_dir,
            cache_dir=cache_dir,
            cache_size=cache_size,
        )
        one = Scan(paths, quarantine=quarantine, part=part, read=read, **options)
        report, written = _run(one, console), one.quarantine
    console.show(page_of(report, written), report.to_dict())
    # Jobs that wait for an array take any other status for a failure.
    if not report.is_clean and (merge or part[1] == 1):
        sys.exit(FINDINGS)


def _run(one: Scan, console: Console) -> ScanReport:
    """Scans, and reports what was found so far where that fails or is stopped."""
    progress: Progress | None = None
    with contextlib.ExitStack() as bars:
        headers = bars.enter_context(console.progress("headers", 0, "shards"))

        def on_rows(done: int, total: int, n_bad: int) -> None:
            nonlocal progress
            if progress is None:
                headers.close()
                progress = bars.enter_context(console.progress("scan", total, "rows"))
                progress.expect(total, done)
            progress.reach(done, bad=f"{n_bad:,}")

        try:
            return one.run(on_rows, headers.expect, headers.advance)
        except BaseException:
            bars.close()
            if progress is not None:
                _report_so_far(one, console)
            raise


def _report_so_far(one: Scan, console: Console) -> None:
    report = one.report()
    console.warn(
        f"{report.rows:,} of {report.rows_to_scan:,} rows were scanned: {len(report.findings):,} "
        f"bad, {len(report.unreadable)} broken shards"
    )
    if one.quarantine is not None:
        console.warn(f"Start it again in the same way to resume; found so far: {one.quarantine}")
    else:
        for finding in report.findings[:MOST_LISTED]:
            console.warn(finding_line(finding))
