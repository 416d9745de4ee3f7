"""What limits an iterator, and what would help: `it.verdict()`, a pure function of its stats.

`questions` asks what limits; `decode`, `read`, `runs` and `bad` word the answers; `measures` has
the thresholds. `docs/diagnosis.md` shows each case.
"""

from gristmill.verdict.model import Advice, Case, Verdict
from gristmill.verdict.questions import decide

__all__ = ["Advice", "Case", "Verdict", "decide"]
