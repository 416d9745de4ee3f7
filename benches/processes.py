"""What the system tells of this process."""

from __future__ import annotations

import resource
from pathlib import Path

MIB = 1 << 20


def resident(name: str = "VmRSS") -> int:
    """Bytes of memory: `VmRSS` now, `VmHWM` at the most."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def forget_peak() -> int:
    """Begins to look for the peak anew. Returns what is resident now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return resident()


def peak_rss(n_children: int = 0) -> int:
    """Bytes of this process at its peak, and of its ended children at the largest one's."""
    # Not `ru_maxrss` of this process: that survives exec, and is the parent's where that is larger.
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return resident("VmHWM") + 1024 * n_children * child
