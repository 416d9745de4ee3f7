"""What an iterator measures of itself, and what limits it.

`stats` are the figures. `questions` finds the bottleneck, and ends in a `verdict`; `decoders`,
`readers`, `damaged_shard` and `bursts` word the answers; `measures` has the thresholds.
`telemetry` passes figures on to `logging` and to Grain. `docs/diagnosis.md` shows each case.
"""

from gristmill.metrics.questions import decide

__all__ = ["decide"]
