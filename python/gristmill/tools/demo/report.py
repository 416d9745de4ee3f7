"""What the demo did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gristmill._core import __version__
from gristmill.metrics.verdict import Verdict


@dataclass(frozen=True)
class DemoTraining:
    """Where the time of training went.

    Attributes:
        batch_size: Crops a step.
        steps: Taken, before the stop and after it.
        seconds: All of them, without what JAX took to compile.
        waiting_seconds: Of these, those in which there was nothing to train on.
        starting_seconds: Of these, those for the first batch, and for the first one after the stop.
        first_batch_seconds: What was waited for the first batch.
        loss: Cross entropy before the last step, in nats.
    """

    batch_size: int
    steps: int = 0
    seconds: float = 0.0
    waiting_seconds: float = 0.0
    starting_seconds: float = 0.0
    first_batch_seconds: float = 0.0
    loss: float = float("nan")

    @property
    def samples(self) -> int:
        """Crops that were trained on."""
        return self.steps * self.batch_size

    @property
    def samples_per_second(self) -> float:
        """Crops a second."""
        return self.samples / self.seconds if self.seconds else 0.0

    @property
    def wait_share(self) -> float:
        """Share of the time between the first batch and the end that the loop waited for data."""
        waiting = self.waiting_seconds - self.starting_seconds
        running = self.seconds - self.starting_seconds
        return waiting / running if running > 0 else 0.0


OnRow = Callable[[int, int], object]
"""Called after each recording that is made, with their number and how many there will be."""
OnStep = Callable[[DemoTraining], object]
"""Called after each step."""


@dataclass(frozen=True)
class DemoReport:
    """How the demo went.

    Attributes:
        shards: Shards that were trained on.
        rows: In them.
        dataset_bytes: Of them and of the one that was held out.
        made: Whether they were made by this run, and not found.
        training: Where the time went.
        stop_step: The step after which training was stopped and resumed.
        state: The iterator's state there.
        batches_compared: Batches after it that were equal, bit for bit, to those of a run that
            was not stopped. Where one is not, there is an error and no report.
        held_out_rows: Recordings that were kept apart.
        accuracy: Share of them that the model names rightly.
        chance: What guessing would have, on average.
        verdict: What limited the training after it was resumed.
        seconds: The whole demo.
    """

    shards: int
    rows: int
    dataset_bytes: int
    made: bool
    training: DemoTraining
    stop_step: int
    state: dict[str, Any]
    batches_compared: int
    held_out_rows: int
    accuracy: float
    chance: float
    verdict: Verdict
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        training = self.training
        return {
            "version": __version__,
            "shards": {
                "train": self.shards,
                "rows": self.rows,
                "bytes": self.dataset_bytes,
                "made": self.made,
            },
            "train": {
                "steps": training.steps,
                "samples": training.samples,
                "samples_per_s": training.samples_per_second,
                "wait_share": training.wait_share,
                "first_batch_s": training.first_batch_seconds,
                "loss": training.loss,
            },
            "verdict": self.verdict.to_dict(),
            "resume": {
                "step": self.stop_step,
                "state": self.state,
                "batches_compared": self.batches_compared,
            },
            "held_out": {
                "rows": self.held_out_rows,
                "accuracy": self.accuracy,
                "chance": self.chance,
            },
            "seconds": self.seconds,
        }
