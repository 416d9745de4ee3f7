"""What a verdict consists of."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Case(enum.StrEnum):
    """What limits the pipeline."""

    CONSUMER = "consumer"
    DECODE = "decode"
    RESAMPLE = "resample"
    STORAGE_BANDWIDTH = "storage-bandwidth"
    STORAGE_LATENCY = "storage-latency"
    MEMORY_BUDGET = "memory-budget"
    SHUFFLE_WINDOW = "shuffle-window"
    LOOK_AHEAD = "look-ahead"
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
            or `"cpus"`, `"workers"`, `"iterators"`, `"files"` for what lies outside.
        now: Its value; `None` where there is no one value.
        to: The value to try; `None` where `why` says more than a value could.
        why: What it does.
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
class Verdict:
    """A sentence, and the figures behind it. `str()` gives the sentence.

    Attributes:
        case: What limits.
        text: A sentence or two for people.
        figures: What the sentence rests on: shares are 0 to 1, units are in the names.
        advice: What to change, the most promising first.
    """

    case: Case
    text: str
    figures: dict[str, float | int | str] = field(default_factory=dict[str, float | int | str])
    advice: tuple[Advice, ...] = ()

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        advice = [{"option": a.option, "now": a.now, "to": a.to, "why": a.why} for a in self.advice]
        return {
            "case": self.case.value,
            "text": self.text,
            "figures": dict(self.figures),
            "advice": advice,
        }
