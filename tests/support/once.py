"""Material that is made once a run, whichever worker needs it first."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` filled, which all workers of this run share and none changes.

    `name` is unique among the tests. A worker waits while another one makes it.
    """
    base = factory.getbasetemp()
    # Each worker has a folder of its own in the folder of the run.
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = run / f"once-{name}"
    with (run / f"once-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = Path(tempfile.mkdtemp(dir=run))
            make(unfinished)
            unfinished.rename(folder)
    return folder
