"""The demo as a function."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from gristmill import checks
from gristmill.options import ReadOptions, read_options
from gristmill.tools.demo.report import DemoReport, OnRow, OnStep

_NEEDED = ("jax", "optax", "pyarrow", "soundfile")


def what_is_missing() -> str | None:
    """Says which packages the demo lacks, and how to have them; `None` where it lacks none."""
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        return f"The demo needs {' and '.join(missing)}: pip install 'gristmill[demo]'"
    return None


def demo(
    data: str | os.PathLike[str] = "demo-data",
    *,
    rows: int = 200,
    steps: int = 160,
    batch_size: int = 32,
    seed: int = 0,
    read: ReadOptions | None = None,
    on_row: OnRow | None = None,
    on_step: OnStep | None = None,
) -> DemoReport:
    """Makes shards, trains a small classifier on them, stops it in mid-epoch and resumes it.

    The recordings are bird-like calls in four classes, 5 to 120 seconds long, as Ogg Vorbis, MP3,
    FLAC and WAV, in shards like those of Hugging Face `datasets`. The same arguments make the same
    files, and files that are there already are used again. The model is trained on random crops of
    five seconds at 32 kHz; a checkpoint is kept beside the shards.

    Args:
        data: Folder in which the shards are or will be; 300 MB by default.
        rows: Recordings to train on, at least 8. A quarter as many, at least 8, are held out.
        steps: Training steps, at least 4.
        batch_size: Crops a step.
        seed: Of the recordings, their order, the crops and the model: 0 to 2**32 - 1.
        read: Threads, memory and look-ahead.
        on_row: Is called after each recording that is made.
        on_step: Is called after each step.

    Raises:
        GristmillError: A shard is damaged, or the resumed run saw other batches than one that was
            not stopped.
        ImportError: JAX, optax, pyarrow or soundfile is missing.
        OSError: The folder cannot be written to, or a shard cannot be read.
        ValueError: A number is out of range.
    """
    data = checks.file_path("data", data)
    rows = checks.integer("rows", rows, 8, 10**9, write="rows=200")
    steps = checks.integer("steps", steps, 4, 10**9, write="steps=160")
    batch_size = checks.integer("batch_size", batch_size, 1, 2**31 - 1, write="batch_size=32")
    seed = checks.integer("seed", seed, 0, 2**32 - 1, write="seed=0")
    options = read_options(read)
    checks.function("on_row", on_row)
    checks.function("on_step", on_step)
    if missing := what_is_missing():
        raise ImportError(missing)
    from gristmill.tools.demo import training

    job = training.Job(Path(data), rows, steps, batch_size, seed, options)
    return training.train_and_resume(job, on_row, on_step)
