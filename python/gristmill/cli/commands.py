"""The `gristmill` command."""

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from gristmill.cli.common import failures_told, output_options
from gristmill.cli.doctoring import bench, doctor
from gristmill.cli.inspecting import index, inspect
from gristmill.cli.scanning import scan


class _Commands(click.Group):
    """A group whose own output may fail, too: help and version on a full disk."""

    def main(self, *args: Any, **extra: Any) -> Any:
        with failures_told():
            return super().main(*args, **extra)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(package_name="gristmill", prog_name="gristmill")
def main() -> None:
    """Feeds JAX from Arrow shards of audio.

    Exit status: 0 all is well, 1 something bad was found, 2 bad usage, 3 it could not be done.
    """
    # What is found is told as a result; warnings in between would say it twice.
    logging.getLogger("gristmill").addHandler(logging.NullHandler())


main.add_command(inspect)
main.add_command(scan)
main.add_command(doctor)
main.add_command(index)
main.add_command(bench)


@main.command()
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
    needed = ("jax", "optax", "pyarrow", "soundfile")
    if missing := [name for name in needed if find_spec(name) is None]:
        message = f"The demo needs {' and '.join(missing)}: pip install 'gristmill[demo]'"
        raise click.UsageError(message)

    with failures_told("demo"):
        from gristmill.cli import demo as job
        from gristmill.cli.console import Console

        options = job.Options(data, rows, steps, batch_size, threads, seed)
        job.run(options, Console(as_json=as_json, quiet=quiet))
