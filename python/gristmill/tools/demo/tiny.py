"""The demo that needs nothing but the wheel: a shard that comes with it, batches, a stop."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.crops import RandomCrop
from gristmill.dataset import ArrowIterDataset
from gristmill.metrics.text import Printed, count_text
from gristmill.options import Audio, ReadOptions, Shuffle
from gristmill.tools.page import Page

SHARD = "tiny.arrow"
"""Sixteen recordings of one to three seconds, as Ogg Vorbis: `scripts/tiny_shard.py` made it."""

_RATE_HZ = 32_000
_BATCH_SIZE = 8
_BEFORE, _AFTER = 5, 5


@dataclass(frozen=True)
class TinyDemo(Printed):
    """What `gristmill demo --tiny` did.

    Attributes:
        shard: Where the shard is now.
        rows: Recordings in it.
        batches: Taken in all.
        shape: Of the audio of each batch.
        first_batch_seconds: From making the iterator to its first batch.
        rows_per_second: Of the batches after it.
        state: At the stop.
        compared: Batches after the stop that were equal, bit for bit, to those without it.
    """

    shard: str
    rows: int
    batches: int
    shape: tuple[int, ...]
    first_batch_seconds: float
    rows_per_second: float
    state: dict[str, Any]
    compared: int

    def __str__(self) -> str:
        return str(self.page())

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return asdict(self)

    def page(self) -> Page:
        """The page that the command prints."""
        page = Page()
        page.say(f"{count_text(self.rows, 'recording')} in {self.shard}")
        page.table(
            "Random crops of 1 s at 32 kHz, shuffled",
            [
                ("batches", f"{self.batches} of {self.shape}, float32"),
                ("first batch after", f"{self.first_batch_seconds:.2f} s"),
                ("rows/s", f"{self.rows_per_second:,.0f}"),
            ],
        )
        page.table(
            f"Stopped after batch {_BEFORE}, and resumed",
            [
                ("state", f"{len(json.dumps(self.state))} bytes of JSON"),
                ("next batches", f"{self.compared} compared, equal bit for bit"),
            ],
        )
        page.section("Try it yourself")
        for line in (
            "import gristmill as gm",
            f"dataset = gm.ArrowIterDataset({self.shard!r}, columns=['audio', 'label'],",
            "    audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=1)),",
            "    shuffle=gm.Shuffle(seed=0), batch_size=8)",
            "print(next(iter(dataset)))",
        ):
            page.say(f"  {line}")
        return page


def run(folder: Path, num_threads: int | None = None) -> TinyDemo:
    """Copies the shard to `folder`, and takes batches of it.

    Raises:
        OSError: The shard cannot be written.
        RuntimeError: Batches after the stop differ.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shard = folder / SHARD
    part = shard.with_suffix(".part")
    part.write_bytes(resources.files(__package__ or "").joinpath(SHARD).read_bytes())
    part.replace(shard)
    dataset = ArrowIterDataset(
        shard,
        columns=["audio", "label"],
        audio=Audio(sample_rate=_RATE_HZ, crop=RandomCrop(seconds=1)),
        shuffle=Shuffle(seed=0),
        batch_size=_BATCH_SIZE,
        epochs=None,
        # A shard of now would be waited for, and its sidecar be of no use.
        read=ReadOptions(num_threads=num_threads, index_dir=None),
    )
    began = time.monotonic()
    with closing(iter(dataset)) as batches:
        taken = [next(batches)]
        first = time.monotonic()
        taken += [next(batches) for _ in range(_BEFORE - 1)]
        state = batches.get_state()
        taken += [next(batches) for _ in range(_AFTER)]
        seconds = time.monotonic() - first
    with closing(iter(dataset)) as batches:
        batches.set_state(state)
        for wanted in taken[_BEFORE:]:
            found = next(batches)
            if any(not np.array_equal(found[name], wanted[name]) for name in wanted):
                raise RuntimeError("batches after the stop differ from those without it")
    return TinyDemo(
        shard=str(shard),
        rows=dataset.rows_per_epoch(),
        batches=len(taken),
        shape=taken[0]["audio"].shape,
        first_batch_seconds=first - began,
        rows_per_second=(len(taken) - 1) * _BATCH_SIZE / max(seconds, 1e-9),
        state=state,
        compared=_AFTER,
    )
