"""`gristmill doctor` and `gristmill bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from gristmill.cli.common import column_option, failures_told, output_options, paths_argument

if TYPE_CHECKING:  # `--help` needs no codecs
    from collections.abc import Callable

    from gristmill.cli.console import Page
    from gristmill.tools.doctor import BenchReport, Diagnosis, ReadRun

_MB = 1e6
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def _crop_options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--sample-rate",
            type=click.IntRange(1, 768_000),
            show_default="that of most rows",
            help="Rate of the crops in Hz.",
        ),
        click.option(
            "--crop",
            type=click.FloatRange(min=0, max=86_400, min_open=True),
            default=5.0,
            help="Seconds of each recording that training takes.",
        ),
        click.option("--batch-size", type=click.IntRange(min=1), default=64, help="Rows a step."),
        column_option,
    ):
        command = option(command)
    return command


@click.command(short_help="Measures storage and decoding, and says what will limit training.")
@paths_argument
@_crop_options
@click.option(
    "--step-time",
    type=click.FloatRange(min=0, min_open=True),
    show_default="not known",
    help="Seconds that a training step takes by itself.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=24.0,
    help="What all measurements together take, about.",
)
@output_options
def doctor(
    paths: tuple[str, ...],
    column: str | None,
    batch_size: int,
    crop: float,
    sample_rate: int | None,
    step_time: float | None,
    seconds: float,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measures storage and decoding before training, and says what will limit it.

    It reads, decodes and runs workers as training would, on the shards in PATHS, and ends with
    settings to paste.
    """
    with failures_told("doctor"):
        from gristmill.cli.console import Console
        from gristmill.tools.doctor import diagnose

        console = Console(as_json=as_json, quiet=quiet)
        with console.progress("measure", 0, "runs") as progress:

            def on_step(what: str, number: int, total: int) -> None:
                if number == 0:
                    progress.expect(total)
                progress.reach(number + 1, now=what)

            found = diagnose(
                paths,
                batch_size=batch_size,
                step_seconds=step_time,
                crop_seconds=crop,
                sample_rate=sample_rate,
                column=column,
                seconds=seconds,
                on_step=on_step,
            )
        show_diagnosis(found, console)
        console.summary(found.to_dict())


@click.command(short_help="Takes batches of crops as fast as they come.")
@paths_argument
@_crop_options
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    show_default="as many as this process may use",
    help="Threads that decode.",
)
@click.option(
    "--requests",
    type=click.IntRange(1, 256),
    show_default="two for each thread, 8 to 32",
    help="Requests to the storage at a time.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    help="What measuring takes, about.",
)
@output_options
def bench(
    paths: tuple[str, ...],
    column: str | None,
    batch_size: int,
    crop: float,
    sample_rate: int | None,
    threads: int | None,
    requests: int | None,
    seconds: float,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Takes shuffled batches of random crops from PATHS as fast as they come."""
    with failures_told("bench"):
        import gristmill as gm
        from gristmill.cli.console import Console

        console = Console(as_json=as_json, quiet=quiet)
        with console.progress("bench", 100, "%") as progress:

            def on_batch(elapsed: float, n_rows: int) -> None:
                done = min(int(100 * elapsed / (0.75 * seconds)), 100)
                progress.reach(done, speed=f"{n_rows / max(elapsed, 1e-9):,.0f} rows/s")

            report = gm.bench(
                paths,
                batch_size=batch_size,
                crop_seconds=crop,
                sample_rate=sample_rate,
                column=column,
                seconds=seconds,
                read=gm.ReadOptions(num_threads=threads, num_requests=requests),
                on_batch=on_batch,
            )
        show_bench(report, console)
        console.summary(report.to_dict())


def show_bench(report: BenchReport, console: Page) -> None:
    """Prints how fast batches came."""
    waits = (report.wait_p50_seconds, report.wait_p90_seconds, report.wait_p99_seconds)
    share = report.rows_per_second / max(report.bare_rows_per_second, 1e-9)
    console.table(
        f"{report.batches:,} batches of {report.batch_size} crops in {report.seconds:.1f} s",
        [
            ("rows/s", f"{report.rows_per_second:,.0f}"),
            ("read", f"{report.bytes_per_second / _MB:,.1f} MB/s"),
            ("first batch after", f"{report.first_batch_seconds:.2f} s"),
            ("a batch takes", " / ".join(f"{1e3 * wait:,.1f}" for wait in waits) + " ms"),
            ("", "(half, 90 % and 99 % of the batches take less)"),
            ("bare decode loop", f"{report.bare_rows_per_second:,.0f} rows/s; this is {share:.2f}"),
        ],
    )
    if report.bad_rows:
        share = report.bad_rows / max(report.stats.rows, 1)
        console.say(f"  {share:.1%} of the rows cannot be decoded; gristmill scan names them")
    console.say()
    console.paragraph(str(report.verdict))


def show_diagnosis(found: Diagnosis, console: Page) -> None:
    """Prints what was measured and what follows."""
    from gristmill.cli.console import bytes_text

    measured, machine = found.measured, found.measured.machine
    quota = f", a quota of {machine.cpu_quota:g}" if machine.cpu_quota is not None else ""
    limit = machine.memory_limit_bytes
    console.table(
        "Machine",
        [
            ("CPUs", f"{machine.usable_cpus} usable of {machine.cpus}{quota}"),
            (
                "memory",
                f"{bytes_text(machine.available_bytes)} free of {bytes_text(machine.memory_bytes)}"
                + (f", a limit of {bytes_text(limit)}" if limit is not None else ""),
            ),
            ("shards", f"{bytes_text(measured.dataset_bytes)}, {found.rows:,} rows"),
            ("encoded row", f"{bytes_text(measured.row_bytes)} on average"),
        ],
    )
    cold = measured.cold_share
    told = "not told by the file system" if cold is None else f"{cold:.0%} not from a cache"
    console.say()
    console.say(f"Storage: reads of the size of rows, {told}")
    console.say("  readers            in     MB/s   rows/s    p50 ms    p90 ms    p99 ms")
    for run in measured.reads:
        console.say(f"  {_read_line(run, measured.row_bytes)}")
    console.say()
    console.say(f"Decoding: crops of {found.crop_seconds:g} s")
    for run in measured.decodes:
        each = run.rows_per_second / run.threads
        threads = f"{run.threads} thread{'s' if run.threads > 1 else ''}"
        console.say(f"  {threads:<10}  {run.rows_per_second:>8,.0f} rows/s, {each:,.0f} a thread")
    console.say()
    console.say("Diagnosis")
    for sentence in found.conclusion.sentences:
        console.paragraph(sentence, "- ", "  ")
    console.say()
    console.say("Settings")
    console.say(f"  {found.conclusion.settings}")


def _read_line(run: ReadRun, row_bytes: float) -> str:
    n = run.processes * run.threads
    where = "one process" if run.processes == 1 else f"{run.processes} processes"
    rate = run.bytes_per_second
    times = (run.p50_seconds, run.p90_seconds, run.p99_seconds)
    latencies = "".join(f"{1e3 * time:>10,.1f}" for time in times)
    return f"{n:>7}  {where:>12} {rate / _MB:>8,.0f} {rate / max(row_bytes, 1):>8,.0f}{latencies}"
