"""Trains on the demo's shards, stops in mid-epoch, resumes, and compares."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gristmill as gm
from gristmill.tools.demo import model as models
from gristmill.tools.demo.data import demo_shards
from gristmill.tools.demo.model import SAMPLE_RATE_HZ, Model, new_model, predict, train_step
from gristmill.tools.demo.report import DemoTraining, OnRow, OnStep
from gristmill.tools.demo.sound import CLASSES

Batch = dict[str, NDArray[Any]]

CROP_SECONDS = 5.0
_COMPARED = 8
"""Batches that are compared after the stop: more than an epoch of the demo's rows."""


class ResumeDiffersError(gm.GristmillError):
    """The resumed batches were not those of the uninterrupted run."""


@dataclass(frozen=True)
class Job:
    """What the demo does.

    Attributes:
        data: Folder in which the shards are or will be; 300 MB by default.
        rows: Recordings to train on, at least 8. A quarter as many, at least 8, are held out.
        steps: Training steps, at least 4.
        batch_size: Crops a step.
        seed: Of the recordings, their order, the crops and the model: 0 to 2**32 - 1.
        read: Threads, memory and readahead.
    """

    data: Path
    rows: int = 200
    steps: int = 160
    batch_size: int = 32
    seed: int = 0
    read: gm.ReadOptions = field(default_factory=gm.ReadOptions)


@dataclass(frozen=True)
class _Shards:
    train: list[Path]
    held_out: Path
    made: bool


def train_and_resume(
    job: Job, on_row: OnRow | None = None, on_step: OnStep | None = None
) -> dict[str, Any]:
    """Makes shards, trains a small classifier on them, stops it in mid-epoch and resumes it.

    The same job makes the same files, and files that are there already are used again. A checkpoint
    is kept in the same folder. Returns what `gristmill demo --json` prints.

    Raises:
        ResumeDiffersError: The resumed run saw other batches than the uninterrupted one.
        OSError: The folder cannot be written to, or a shard cannot be read.
    """
    began = time.perf_counter()
    shards = _shards(job, on_row)
    stop = _stop_step(job)
    checkpoint = job.data / "checkpoint"

    _compile(job)
    model = new_model(job.seed, len(CLASSES))
    training = DemoTraining(job.batch_size)
    n_compared = min(_COMPARED, job.steps - stop)
    with closing(iter(_training_dataset(shards.train, job))) as batches:
        model, training, _ = _train(model, batches, stop, training, on_step, n_compared=0)
        _save(checkpoint, model, batches.get_state())
        # What an uninterrupted run would have seen next, for comparison only.
        uninterrupted = [_digest(next(batches)) for _ in range(n_compared)]

    # As after a preemption: nothing is left but two files and the shards.
    model, state = _load(checkpoint, new_model(job.seed, len(CLASSES)))
    with closing(iter(_training_dataset(shards.train, job))) as batches:
        batches.set_state(state)
        left = job.steps - stop
        model, training, resumed = _train(model, batches, left, training, on_step, n_compared)
        verdict = batches.verdict()

    if resumed != uninterrupted:
        message = f"after the stop at step {stop}, the resumed run saw other batches"
        raise ResumeDiffersError(message)
    correct, held_out_rows = _evaluate(model, shards.held_out, job)
    return {
        "version": gm.__version__,
        "shards": {
            "train": len(shards.train),
            "rows": job.rows,
            "bytes": sum(path.stat().st_size for path in (*shards.train, shards.held_out)),
            "made": shards.made,
        },
        "train": {
            "steps": training.steps,
            "samples": training.samples,
            "samples_per_s": training.samples_per_second,
            "wait_share": training.wait_share,
            "first_batch_s": training.first_batch_seconds,
            "loss": training.loss,
        },
        "verdict": verdict.to_dict(),
        "resume": {"step": stop, "state": state, "batches_compared": n_compared},
        "held_out": {
            "rows": held_out_rows,
            "accuracy": correct / held_out_rows,
            "chance": 1 / len(CLASSES),
        },
        "seconds": time.perf_counter() - began,
    }


def _shards(job: Job, on_row: OnRow | None) -> _Shards:
    """Finds or makes the shards."""
    n_held_out = max(8, job.rows // 4)
    made = count(1)

    def on_row_made() -> None:
        if on_row:
            on_row(next(made), job.rows + n_held_out)

    train, held_out, found = demo_shards(
        job.data,
        n_rows=job.rows,
        rows_per_shard=min(120, -(-job.rows * 3 // 5)),
        n_held_out=n_held_out,
        seed=job.seed,
        on_row=on_row_made,
    )
    return _Shards(train, held_out, not found)


def _training_dataset(train: list[Path], job: Job) -> gm.ArrowIterDataset:
    """The data set as a training loop wants it."""
    return gm.ArrowIterDataset(
        train,
        columns=["audio", "label"],
        audio=gm.Audio(sample_rate=SAMPLE_RATE_HZ, crop=gm.RandomCrop(CROP_SECONDS)),
        shuffle=gm.Shuffle(job.seed),
        batch_size=job.batch_size,
        epochs=None,
        read=job.read,
    )


def _stop_step(job: Job) -> int:
    """About half way, and not where an epoch ends."""
    stop = job.steps // 2
    return stop if stop * job.batch_size % job.rows else stop - 1


def _compile(job: Job) -> None:
    """Compiles the step ahead, so that compilation is not measured."""
    audio = np.zeros((job.batch_size, round(CROP_SECONDS * SAMPLE_RATE_HZ)), np.float32)
    labels = np.zeros(job.batch_size, np.int64)
    train_step(new_model(job.seed, len(CLASSES)), audio, labels)


def _train(
    model: Model,
    batches: Iterator[Batch],
    n_steps: int,
    training: DemoTraining,
    on_step: OnStep | None,
    n_compared: int,
) -> tuple[Model, DemoTraining, list[str]]:
    """Takes steps, keeping time; returns the digests of the first `n_compared` batches too."""
    digests: list[str] = []
    for step in range(n_steps):
        began = time.perf_counter()
        batch = next(batches)
        waited = time.perf_counter() - began
        if len(digests) < n_compared:
            digests.append(_digest(batch))
        model, loss = train_step(model, batch["audio"], batch["label"])
        training = replace(
            training,
            steps=training.steps + 1,
            seconds=training.seconds + time.perf_counter() - began,
            waiting_seconds=training.waiting_seconds + waited,
            starting_seconds=training.starting_seconds + (0.0 if step else waited),
            first_batch_seconds=training.first_batch_seconds or waited,
            loss=loss,
        )
        if on_step:
            on_step(training)
    return model, training, digests


def _digest(batch: Batch) -> str:
    """A hash of every bit of a batch."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(batch):
        digest.update(f"{name} {batch[name].dtype} {batch[name].shape}".encode())
        digest.update(np.ascontiguousarray(batch[name]).data)
    return digest.hexdigest()


def _save(directory: Path, model: Model, state: dict[str, Any]) -> None:
    """Writes the model, and the few integers that are the loader's whole state."""
    directory.mkdir(parents=True, exist_ok=True)
    models.save(model, directory / "model.npz")
    (directory / "data.json").write_text(json.dumps(state), encoding="utf-8")


def _load(directory: Path, like: Model) -> tuple[Model, dict[str, Any]]:
    """Reads what `_save` wrote."""
    state: dict[str, Any] = json.loads((directory / "data.json").read_text(encoding="utf-8"))
    return models.load(directory / "model.npz", like), state


def _evaluate(model: Model, held_out: Path, job: Job) -> tuple[int, int]:
    """Counts right answers on the middle five seconds of each recording that was held out."""
    dataset = gm.ArrowIterDataset(
        held_out,
        columns=["audio", "label"],
        audio=gm.Audio(sample_rate=SAMPLE_RATE_HZ, crop=gm.CenterCrop(CROP_SECONDS)),
        batch_size=job.batch_size,
        read=job.read,
    )
    correct = rows = 0
    with closing(iter(dataset)) as batches:
        for batch in batches:
            answers = predict(model, batch["audio"])
            correct += int((answers == batch["label"]).sum())
            rows += len(answers)
    return correct, rows
