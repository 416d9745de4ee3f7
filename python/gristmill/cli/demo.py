"""`gristmill demo`: make shards, train on them, stop in mid-epoch, resume, report."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gristmill as gm
from gristmill.cli import demo_model
from gristmill.cli.console import Console, Progress
from gristmill.cli.demo_data import demo_shards
from gristmill.cli.demo_model import SAMPLE_RATE_HZ, Model, new_model, predict, train_step
from gristmill.cli.demo_sound import CLASSES

Batch = dict[str, NDArray[Any]]

CROP_SECONDS = 5.0
_COMPARED = 8
"""Batches that are compared after the stop: more than an epoch of the demo's rows."""


class ResumeDiffersError(gm.GristmillError):
    """The resumed batches were not those of the uninterrupted run."""


@dataclass(frozen=True)
class Options:
    """What `gristmill demo` was asked for."""

    data: Path
    rows: int
    steps: int
    batch_size: int
    threads: int | None
    seed: int


@dataclass
class Meter:
    """Adds up where the time of training goes."""

    steps: int = 0
    seconds: float = 0.0
    waiting: float = 0.0
    first_batch_s: float | None = None
    loss: float = float("nan")

    @property
    def wait_share(self) -> float:
        """Share of the time in which the loop had nothing to train on."""
        return self.waiting / self.seconds if self.seconds else 0.0


def run(options: Options, console: Console) -> None:
    """Does the whole demo.

    Raises:
        ResumeDiffersError: The resumed run saw other batches than the uninterrupted one.
    """
    began = time.perf_counter()
    train, held_out, shards = _shards(options, console)
    dataset = _training_dataset(train, options)
    stop = _stop_step(options)
    checkpoint = options.data / "checkpoint"

    _compile(options)
    model = new_model(options.seed, len(CLASSES))
    meter = Meter()
    n_compared = min(_COMPARED, options.steps - stop)
    resumed: list[str] = []
    with console.progress("train", options.steps, "steps") as progress:
        with closing(iter(dataset)) as batches:
            model = _train(model, batches, stop, meter, options, progress)
            _save(checkpoint, model, batches.get_state())
            # What an uninterrupted run would have seen next, for comparison only.
            uninterrupted = [_digest(next(batches)) for _ in range(n_compared)]

        # As after a preemption: nothing is left but two files and the shards.
        model, state = _load(checkpoint, new_model(options.seed, len(CLASSES)))
        with closing(iter(_training_dataset(train, options))) as batches:
            batches.set_state(state)
            left = options.steps - stop
            model = _train(model, batches, left, meter, options, progress, resumed)
            verdict = batches.verdict()

    if resumed[:n_compared] != uninterrupted:
        message = f"after the stop at step {stop}, the resumed run saw other batches"
        raise ResumeDiffersError(message)
    correct, rows = _evaluate(model, held_out, options)
    summary = {
        "version": version("gristmill"),
        "shards": shards,
        "train": {
            "steps": meter.steps,
            "samples": meter.steps * options.batch_size,
            "samples_per_s": meter.steps * options.batch_size / meter.seconds,
            "wait_share": meter.wait_share,
            "first_batch_s": meter.first_batch_s,
            "loss": meter.loss,
        },
        "verdict": verdict.to_dict(),
        "resume": {"step": stop, "state": state, "batches_compared": n_compared, "equal": True},
        "held_out": {"rows": rows, "accuracy": correct / rows, "chance": 1 / len(CLASSES)},
        "seconds": time.perf_counter() - began,
    }
    _report(summary, console)


def _shards(options: Options, console: Console) -> tuple[list[Path], Path, dict[str, Any]]:
    """Finds or makes the shards, and says what they are."""
    n_held_out = max(8, options.rows // 4)
    rows_per_shard = min(120, -(-options.rows * 3 // 5))
    with console.progress("shards", options.rows + n_held_out, "rows") as progress:
        train, held_out, found = demo_shards(
            options.data,
            n_rows=options.rows,
            rows_per_shard=rows_per_shard,
            n_held_out=n_held_out,
            seed=options.seed,
            on_row=progress.advance,
        )
    n_bytes = sum(path.stat().st_size for path in (*train, held_out))
    console.say(
        f"{'Found' if found else 'Made'} {len(train)} shards of {options.rows} recordings, and one "
        f"of {n_held_out} that is held out: {n_bytes / 1e6:.0f} MB in {options.data}"
    )
    return train, held_out, {"train": len(train), "rows": options.rows, "bytes": n_bytes}


def _training_dataset(train: list[Path], options: Options) -> gm.ArrowIterDataset:
    """The data as a training loop wants it. This is all that Gristmill asks one to write."""
    return gm.ArrowIterDataset(
        train,
        columns=["audio", "label"],
        audio=gm.Audio(sample_rate=SAMPLE_RATE_HZ, crop=gm.RandomCrop(CROP_SECONDS)),
        shuffle=gm.Shuffle(options.seed),
        batch_size=options.batch_size,
        epochs=None,
        read=gm.ReadOptions(num_threads=options.threads),
    )


def _stop_step(options: Options) -> int:
    """About half way, and not where an epoch ends."""
    stop = options.steps // 2
    return stop if stop * options.batch_size % options.rows else stop - 1


def _compile(options: Options) -> None:
    """Has JAX compile the step, so that the figures are of steps and not of the compiler."""
    audio = np.zeros((options.batch_size, round(CROP_SECONDS * SAMPLE_RATE_HZ)), np.float32)
    labels = np.zeros(options.batch_size, np.int64)
    train_step(new_model(options.seed, len(CLASSES)), audio, labels)


def _train(
    model: Model,
    batches: Iterator[Batch],
    n_steps: int,
    meter: Meter,
    options: Options,
    progress: Progress,
    digests: list[str] | None = None,
) -> Model:
    """Takes steps, keeping time; the first batches' digests are kept too, if a list is given."""
    for _ in range(n_steps):
        began = time.perf_counter()
        batch = next(batches)
        waited = time.perf_counter() - began
        if digests is not None and len(digests) < _COMPARED:
            digests.append(_digest(batch))
        model, meter.loss = train_step(model, batch["audio"], batch["label"])
        meter.steps += 1
        meter.waiting += waited
        meter.seconds += time.perf_counter() - began
        if meter.first_batch_s is None:
            meter.first_batch_s = waited
        progress.advance(
            loss=f"{meter.loss:.3f}",
            speed=f"{meter.steps * options.batch_size / meter.seconds:.0f} samples/s",
            waiting=f"{meter.wait_share:.0%}",
        )
    return model


def _digest(batch: Batch) -> str:
    """Stands for every bit of a batch."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(batch):
        digest.update(f"{name} {batch[name].dtype} {batch[name].shape}".encode())
        digest.update(np.ascontiguousarray(batch[name]).data)
    return digest.hexdigest()


def _save(directory: Path, model: Model, state: dict[str, Any]) -> None:
    """Writes the model, and beside it the few integers that are the loader's whole state."""
    directory.mkdir(parents=True, exist_ok=True)
    demo_model.save(model, directory / "model.npz")
    (directory / "data.json").write_text(json.dumps(state), encoding="utf-8")


def _load(directory: Path, like: Model) -> tuple[Model, dict[str, Any]]:
    """Reads what `_save` wrote."""
    state: dict[str, Any] = json.loads((directory / "data.json").read_text(encoding="utf-8"))
    return demo_model.load(directory / "model.npz", like), state


def _evaluate(model: Model, held_out: Path, options: Options) -> tuple[int, int]:
    """Counts right answers on the middle five seconds of each recording that was held out."""
    dataset = gm.ArrowIterDataset(
        held_out,
        columns=["audio", "label"],
        audio=gm.Audio(sample_rate=SAMPLE_RATE_HZ, crop=gm.CenterCrop(CROP_SECONDS)),
        batch_size=options.batch_size,
        read=gm.ReadOptions(num_threads=options.threads),
    )
    correct = rows = 0
    with closing(iter(dataset)) as batches:
        for batch in batches:
            answers = predict(model, batch["audio"])
            correct += int((answers == batch["label"]).sum())
            rows += len(answers)
    return correct, rows


def _report(summary: dict[str, Any], console: Console) -> None:
    """The same figures for people and for machines."""
    train, resume, held_out = summary["train"], summary["resume"], summary["held_out"]
    accuracy = f"{held_out['accuracy']:.1%} of {held_out['rows']}"
    console.table(
        "Training on random five-second crops at 32 kHz",
        [
            ("samples/s", f"{train['samples_per_s']:.0f}"),
            ("time waiting for data", f"{train['wait_share']:.1%}"),
            ("first batch after", f"{train['first_batch_s']:.2f} s"),
            ("loss at the end", f"{train['loss']:.3f}"),
            ("accuracy, held out", f"{accuracy} (chance: {held_out['chance']:.0%})"),
        ],
    )
    console.table(
        f"Stopped after step {resume['step']}, in mid-epoch, and resumed",
        [
            ("state", json.dumps(resume["state"])),
            ("next batches", f"{resume['batches_compared']} compared, equal bit for bit"),
        ],
    )
    console.say(f"\n{summary['verdict']['text']}")
    console.say(f"\nDone in {summary['seconds']:.0f} s.")
    console.summary(summary)
