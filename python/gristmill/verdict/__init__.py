"""What limits an iterator, and what would help: `it.verdict()`, a pure function of its stats.

`questions` asks what limits, `decode` and `read` word the answers on decoding and on reading, and
`measures` has the thresholds. `docs/diagnosis.md` shows each case.
"""

from gristmill.verdict.model import Advice, Case, Verdict
from gristmill.verdict.questions import decide

__all__ = ["Advice", "Case", "Verdict", "decide"]
