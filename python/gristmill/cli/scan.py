"""`gristmill scan`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gristmill.cli.common import FINDINGS, WIDTH, column_option, cut, failures_told, output_options

if TYPE_CHECKING:  # `--help` needs no codecs
    from gristmill.cli.console import Console, Page, Progress
    from gristmill.tools.scan import Finding, Scan, ScanReport

_MOST_LISTED = 20


def _part(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, int]:
    """`3/16`."""
    number, slash, count = value.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise click.BadParameter(f"{value!r} is not like 3/16")
    if not 1 <= int(number) <= int(count):
        raise click.BadParameter(f"a part is 1 to n of n, not {value}")
    return int(number), int(count)


@click.command()
@click.argument("paths", nargs=-1)
@column_option
@click.option(
    "-o",
    "--quarantine",
    type=click.Path(dir_okay=False),
    show_default="nowhere",
    help="Where bad rows are written to, for exclude=.",
)
@click.option(
    "--part",
    metavar="I/N",
    callback=_part,
    default="1/1",
    help="Scan one of n equal parts, as a job of an array does.",
)
@click.option("--merge", is_flag=True, help="Join the parts that lie beside --quarantine.")
@click.option("--fast", is_flag=True, help="Look at headers and checksums; decode nothing.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    show_default="as many as this process may use",
    help="Threads that decode.",
)
@click.option("--restart", is_flag=True, help="Forget what an earlier scan left.")
@output_options
def scan(
    paths: tuple[str, ...],
    column: str | None,
    quarantine: str | None,
    part: tuple[int, int],
    threads: int | None,
    *,
    merge: bool,
    fast: bool,
    restart: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Decodes every row and reports those that are damaged.

    A scan that was stopped goes on where it was, when it is started again with the same
    --quarantine. Exit status 0 says that all is sound, 1 that something is bad.
    """
    if merge and (paths or part != (1, 1)):
        raise click.UsageError("--merge takes --quarantine, and neither PATHS nor --part")
    if not merge and not paths:
        raise click.UsageError("Missing argument 'PATHS...'.")
    if quarantine is None and (merge or part[1] > 1):
        raise click.UsageError("--part and --merge need --quarantine")
    with failures_told("scan"):
        import gristmill as gm
        from gristmill.cli.console import Console

        console = Console(as_json=as_json, quiet=quiet)
        if merge and quarantine is not None:
            report, written = gm.merge_scans(quarantine), quarantine
        else:
            one = gm.Scan(
                paths,
                quarantine=quarantine,
                column=column,
                part=part,
                fast=fast,
                read=gm.ReadOptions(num_threads=threads),
                restart=restart,
            )
            report, written = _run(one, console), one.quarantine
        show_scan(report, written, console)
        console.summary(report.to_dict())
        if not report.is_clean:
            sys.exit(FINDINGS)


def _run(one: Scan, console: Console) -> ScanReport:
    """Scans; what was found so far is told also where that fails or is stopped."""
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
                _say_so_far(one, console)
            raise


def _say_so_far(one: Scan, console: Console) -> None:
    report = one.report()
    console.warn(
        f"{report.rows:,} of {report.rows_to_scan:,} rows were looked at: {len(report.findings):,} "
        f"bad, {len(report.unreadable)} broken shards"
    )
    if one.quarantine is not None:
        console.warn(f"Start it again in the same way to go on; found so far: {one.quarantine}")
    else:
        for finding in report.findings[:_MOST_LISTED]:
            console.warn(_line(finding))


def show_scan(report: ScanReport, written: str | None, console: Page) -> None:
    """Prints what was found; `written` is where to, `None` if nowhere, empty if not known."""
    from gristmill.cli.console import bytes_text, time_text
    from gristmill.cli.inspect import show_unreadable

    number, count = report.part
    part = f"Part {number} of {count}: " if count > 1 else ""
    hours = report.audio_seconds / 3600
    how = "headers and checksums of " if report.fast else ""
    console.say(
        f"{part}{how}{report.rows:,} rows of {report.shards:,} shards, "
        f"{bytes_text(report.bytes)}, {hours:,.1f} hours of audio"
    )
    console.say(f"in {time_text(report.seconds)}, {report.rows_per_second:,.0f} rows/s")
    sound = report.rows - len(report.findings)
    notes = f"; {report.marked:,} of them end inside a frame" if report.marked else ""
    console.table(
        "Rows",
        [
            ("sound", f"{sound:,}{notes}"),
            ("damaged", f"{report.damaged:,} of which a part can be decoded"),
            ("undecodable", f"{report.undecodable:,}"),
        ],
    )
    if report.reasons:
        console.table("Reasons", [(reason, f"{n:,}") for reason, n in report.reasons.items()])
        console.say()
        console.say("Bad rows")
        for finding in report.findings[:_MOST_LISTED]:
            console.say(_line(finding))
        if (more := len(report.findings) - _MOST_LISTED) > 0:
            console.say(f"  and {more:,} more")
    show_unreadable(report.unreadable, console)
    if written is None:
        if report.findings:
            console.say()
            console.say("Scan with --quarantine FILE to keep them, for exclude=FILE.")
    elif written and report.findings:
        console.say()
        console.say(f"The bad rows are in {written}, for exclude=.")
    if report.unreadable:
        console.say()
        console.paragraph(
            "No exclude= helps against a broken shard: write it again, or give the other shards."
        )


def _line(finding: Finding) -> str:
    row = finding.row
    parts = [f"{Path(row.shard).name} row {row.row:,}", row.codec or "no codec", row.reason]
    if finding.frames_missing:
        parts.append(f"{finding.frames_missing / finding.frames_promised:.1%} missing")
    if row.path:
        parts.append(row.path)
    return cut("  " + "  ".join(parts), WIDTH)
