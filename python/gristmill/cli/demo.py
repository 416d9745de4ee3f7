"""`gristmill demo`."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from gristmill.cli.common import with_console
from gristmill.cli.console import Console, Progress
from gristmill.options import ReadOptions
from gristmill.tools.demo.report import DemoTraining, page_of
from gristmill.tools.demo.tiny import run as run_tiny

_NEEDED = ("jax", "optax", "pyarrow", "soundfile")


@click.command(short_help="Makes shards, trains a small model, stops it and resumes.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-data"),
    help="Folder of the demo's shards.",
)
@click.option("--rows", type=click.IntRange(min=8), default=200, help="Recordings to train on.")
@click.option("--steps", type=click.IntRange(min=4), default=160, help="Training steps.")
@click.option("--batch-size", type=click.IntRange(min=1), default=32, help="Crops in a batch.")
@click.option(
    "--num-threads",
    "threads",
    type=click.IntRange(min=1),
    show_default="the CPUs that this process may use",
    help="Threads that read and decode.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**32 - 1),
    default=0,
    help="Seed of the recordings, their order, the crops and the model.",
)
@click.option(
    "--tiny",
    is_flag=True,
    help="Ten seconds: a shard from the wheel, and no training.",
)
@with_console
def demo(console: Console, threads: int | None, *, tiny: bool, **options: Any) -> None:
    """Makes shards, trains a small classifier on them, stops it and resumes.

    The shards are like those of Hugging Face datasets: bird-like calls in four classes, 5 to 40
    seconds long, as Ogg Vorbis, MP3, FLAC and WAV. The next run uses them again.
    """
    if tiny:
        _refuse_options_of_training(click.get_current_context())
        report = run_tiny(options["data"], threads)
        console.show(report.page(), report.to_dict())
        return
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise click.UsageError(
            f"The demo needs {' and '.join(missing)}: pip install {' '.join(missing)}. "
            "gristmill demo --tiny needs none of them"
        )
    from gristmill.tools.demo.training import Job, train_and_resume

    job = Job(**options, read=ReadOptions(num_threads=threads))
    with ExitStack() as stack:
        bars = _Bars(console, stack, job.steps)
        report = train_and_resume(job, bars.on_row, bars.on_step)
    console.show(page_of(report, job.data), report)


def _refuse_options_of_training(context: click.Context) -> None:
    for name in ("rows", "steps", "batch_size", "seed"):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"--tiny does not train, and takes no {option}")


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
