"""Parts of a scan of which the second dies once, by SIGKILL, after its last row."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gristmill as gm

_scan_parts = gm.scan_parts


class KilledOnce:
    """A part that kills its process when it runs for the first time."""

    def __init__(self, part: gm.ScanPart, mark: str) -> None:
        self.part = part
        self.mark = mark

    def __call__(self) -> gm.ScanSummary:
        if self.part.part[0] != 2 or Path(self.mark).exists():
            return self.part()
        Path(self.mark).touch()
        self.part(_kill)
        raise AssertionError


def _kill(done: int, total: int, _bad: int) -> None:
    if done == total:
        os.kill(os.getpid(), signal.SIGKILL)


def install() -> None:
    """Has `gm.scan_parts` give such parts."""

    def parts(*args: Any, **options: Any) -> tuple[KilledOnce, ...]:
        mark = str(Path("killed").absolute())
        return tuple(KilledOnce(part, mark) for part in _scan_parts(*args, **options))

    gm.scan_parts = parts  # type: ignore[assignment]
