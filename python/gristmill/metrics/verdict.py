"""The parts of a verdict."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field
from typing import Any

from gristmill.metrics.text import Printed
from gristmill.troubleshooting import pointer


class Case(enum.StrEnum):
    """What limits the pipeline; `docs/troubleshooting.md` explains each.

    Attributes:
        CONSUMER: The training loop; input is not the bottleneck.
        DECODE: Decoding.
        RESAMPLE: Resampling.
        STORAGE_BANDWIDTH: The storage's bandwidth.
        STORAGE_LATENCY: The storage's latency.
        MEMORY_BUDGET: The memory budget.
        SHUFFLE_WINDOW: A shuffle window after the iterator, which takes rows in bursts.
        LOOK_AHEAD: The readahead limit, `prefetch_batches`.
        THROTTLED: A store that answers with 429 or 503.
        FAILING_STORAGE: Requests that fail and are repeated.
        SLOW_SHARD: One shard that is slow to read.
        BAD_SHARD: One shard with many bad rows.
        CPU_QUOTA: The CPUs that this process may use.
        OVERSUBSCRIBED: More threads than CPUs.
        ASSEMBLE: Columns other than the audio.
        PYTHON: Making elements for Python.
        TOO_EARLY: Not known yet.
    """

    CONSUMER = "consumer"
    DECODE = "decode"
    RESAMPLE = "resample"
    STORAGE_BANDWIDTH = "storage-bandwidth"
    STORAGE_LATENCY = "storage-latency"
    MEMORY_BUDGET = "memory-budget"
    SHUFFLE_WINDOW = "shuffle-window"
    LOOK_AHEAD = "look-ahead"
    THROTTLED = "throttled"
    FAILING_STORAGE = "failing-storage"
    SLOW_SHARD = "slow-shard"
    BAD_SHARD = "bad-shard"
    CPU_QUOTA = "cpu-quota"
    OVERSUBSCRIBED = "oversubscribed"
    ASSEMBLE = "assemble"
    PYTHON = "python"
    TOO_EARLY = "too-early"


@dataclass(frozen=True)
class Advice:
    """One change that would help.

    Attributes:
        option: What to change: an option of `ReadOptions`, `Audio` or `ArrowIterDataset` by name,
            or `"cpus"`, `"workers"`, `"iterators"`, `"files"` for what is no option.
        now: Its value; `None` where there is no single value.
        to: The value to try; `None` where `why` explains it.
        why: The effect.
    """

    option: str
    now: Any
    to: Any
    why: str

    def __str__(self) -> str:
        if self.to is None:
            return f"{self.option}: {self.why}"
        return f"{self.option}: {self.now!r} -> {self.to!r} ({self.why})"


@dataclass(frozen=True)
class Verdict(Printed):
    """A sentence, and the figures behind it. `str()` adds where the case is explained.

    Attributes:
        case: The bottleneck.
        text: A sentence or two for people.
        figures: The figures behind the sentence: shares are 0 to 1, units are in the names.
        advice: What to change, the most promising first.
    """

    case: Case
    text: str
    figures: dict[str, float | int | str] = field(default_factory=dict[str, float | int | str])
    advice: tuple[Advice, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}\n{self.help}" if self.help else self.text

    @property
    def help(self) -> str:
        """The line that leads to the explanation; empty if there is nothing to change."""
        is_fine = self.case in {Case.CONSUMER, Case.TOO_EARLY}
        return "" if is_fine else pointer(self.case.value)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        advice = [asdict(advice) for advice in self.advice]
        return {**asdict(self), "case": self.case.value, "advice": advice}
