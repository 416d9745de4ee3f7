"""`gristmill demo`."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gristmill.cli.common import failures_told, output_options

if TYPE_CHECKING:
    from gristmill.cli.console import Console, Progress
    from gristmill.tools.demo import DemoReport, DemoTraining


@click.command(short_help="Makes shards, trains a small model, stops it and resumes.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-data"),
    help="Where the demo's shards are or will be.",
)
@click.option("--rows", type=click.IntRange(min=8), default=200, help="Recordings to train on.")
@click.option("--steps", type=click.IntRange(min=4), default=160, help="Training steps.")
@click.option("--batch-size", type=click.IntRange(min=1), default=32, help="Crops a step.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    show_default="as many as this process may use",
    help="Threads that read and decode.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=0,
    help="Of the recordings, their order, the crops and the model.",
)
@output_options
def demo(
    data: Path,
    rows: int,
    steps: int,
    batch_size: int,
    threads: int | None,
    seed: int,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Makes shards, trains a small classifier on them, stops it and resumes.

    The shards are like those of Hugging Face datasets: bird-like calls in four classes, 5 to 120
    seconds long, as Ogg Vorbis, MP3, FLAC and WAV. They are kept and found again by the next run.
    """
    with failures_told("demo"):
        import gristmill as gm
        from gristmill.cli.console import Console
        from gristmill.tools.demo.run import demo as run_demo
        from gristmill.tools.demo.run import what_is_missing

        if missing := what_is_missing():
            raise click.UsageError(missing)
        console = Console(as_json=as_json, quiet=quiet)
        with ExitStack() as stack:
            bars = _Bars(console, stack, steps)
            report = run_demo(
                data,
                rows=rows,
                steps=steps,
                batch_size=batch_size,
                seed=seed,
                read=gm.ReadOptions(num_threads=threads),
                on_row=bars.on_row,
                on_step=bars.on_step,
            )
        _show(report, data, console)
        console.summary(report.to_dict())


class _Bars:
    """The bar of the shards and then that of the training, each from where its work begins."""

    def __init__(self, console: Console, stack: ExitStack, steps: int) -> None:
        self._console = console
        self._stack = stack
        self._steps = steps
        self._shards: Progress | None = None
        self._training: Progress | None = None

    def on_row(self, done: int, total: int) -> None:
        if self._shards is None:
            self._shards = self._open("shards", total, "rows")
        self._shards.reach(done)

    def on_step(self, training: DemoTraining) -> None:
        if self._training is None:
            if self._shards is not None:
                self._shards.close()
            self._training = self._open("train", self._steps, "steps")
        self._training.reach(
            training.steps,
            loss=f"{training.loss:.3f}",
            waiting=f"{training.wait_share:.0%}",
        )

    def _open(self, what: str, total: int, unit: str) -> Progress:
        return self._stack.enter_context(self._console.progress(what, total, unit))


def _show(report: DemoReport, data: Path, console: Console) -> None:
    from gristmill.cli.console import bytes_text

    training = report.training
    console.say(
        f"{'Made' if report.made else 'Found'} {report.shards} shards of {report.rows} recordings, "
        f"and one of {report.held_out_rows} that is held out:"
    )
    console.say(f"{bytes_text(report.dataset_bytes)} in {data}")
    console.table(
        "Training on random five-second crops at 32 kHz",
        [
            ("samples/s", f"{training.samples_per_second:.0f}"),
            ("first batch after", f"{training.first_batch_seconds:.2f} s"),
            ("waiting for data after it", f"{training.wait_share:.1%}"),
            ("loss at the end", f"{training.loss:.3f}"),
            (
                "accuracy, held out",
                f"{report.accuracy:.1%} of {report.held_out_rows} (chance: {report.chance:.0%})",
            ),
        ],
    )
    console.table(
        f"Stopped after step {report.stop_step}, in mid-epoch, and resumed",
        [
            ("state", f"{len(json.dumps(report.state))} bytes of JSON"),
            ("next batches", f"{report.batches_compared} compared, equal bit for bit"),
        ],
    )
    console.say()
    console.paragraph(f"Of the steps after it was resumed: {report.verdict}")
    console.say(f"\nDone in {report.seconds:.0f} s.")
