"""The outcome of the demo, and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.metrics.text import bytes_text
from gristmill.tools.page import Page


@dataclass(frozen=True)
class DemoTraining:
    """The training: steps, times and loss.

    Attributes:
        batch_size: Crops a step.
        steps: Taken, before the stop and after it.
        seconds: All of them, without compilation by JAX.
        waiting_seconds: Of these, waiting for batches.
        starting_seconds: Of these, for the first batch, and for the first one after the stop.
        first_batch_seconds: The wait for the first batch.
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
"""Called after each recording that is made, with the number made and the total."""
OnStep = Callable[[DemoTraining], object]
"""Called after each step."""


def page_of(report: dict[str, Any], data: Path) -> Page:
    """The page that `gristmill demo` prints; `data` is the folder of the shards."""
    page = Page()
    shards, train, resume = report["shards"], report["train"], report["resume"]
    held_out, chance = report["held_out"], report["held_out"]["chance"]
    page.say(
        f"{'Made' if shards['made'] else 'Found'} {shards['train']} shards of {shards['rows']} "
        f"recordings, and one of {held_out['rows']} that is held out:"
    )
    page.say(f"{bytes_text(shards['bytes'])} in {data}")
    page.table(
        "Training on random five-second crops at 32 kHz",
        [
            ("samples/s", f"{train['samples_per_s']:.0f}"),
            ("first batch after", f"{train['first_batch_s']:.2f} s"),
            ("waiting for data after it", f"{train['wait_share']:.1%}"),
            ("loss at the end", f"{train['loss']:.3f}"),
            (
                "accuracy, held out",
                f"{held_out['accuracy']:.1%} of {held_out['rows']} (chance: {chance:.0%})",
            ),
        ],
    )
    page.table(
        f"Stopped after step {resume['step']}, in the middle of an epoch, and resumed",
        [
            ("state", f"{len(json.dumps(resume['state']))} bytes of JSON"),
            ("next batches", f"{resume['batches_compared']} compared, equal bit for bit"),
        ],
    )
    page.say()
    page.paragraph(f"After it was resumed: {report['verdict']['text']}")
    page.section(f"Done in {report['seconds']:.0f} s.")
    return page
