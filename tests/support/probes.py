"""What the tests measure of a process: threads, descriptors, bytes; and scripts run beside it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Of the tests' own modules, for the interpreters that tests start.
FOLDERS = sorted(str(path) for path in Path(__file__).parents[1].glob("[a-z]*/"))


def environment() -> dict[str, str]:
    """That of a program of the tests' own, such as `kill_loop.py`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(FOLDERS)}


def n_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def decode_threads() -> int:
    """The threads of this process that decode."""
    n = 0
    for path in Path("/proc/self/task").iterdir():
        # Threads may end meanwhile. The system cuts names after 15 bytes.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            n += (path / "comm").read_text().startswith("gristmill-decod")
    return n


def n_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def settles(count: Callable[[], int], at_most: int, within_s: float = 5.0) -> bool:
    """Whether `count()` comes down to `at_most` in time."""
    deadline = time.monotonic() + within_s
    while count() > at_most:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def script(code: str, *arguments: object) -> list[str]:
    """The command that runs `code` in a fresh interpreter that can import the tests' modules.

    JAX is not there for it: Grain would import it, which is half of the interpreter's start.
    """
    head = f"import sys; sys.path[:0] = {FOLDERS!r}; sys.modules['jax'] = None\n"
    return [sys.executable, "-c", head + code, *map(str, arguments)]


def run(code: str, *arguments: object, timeout_s: float = 240.0) -> str:
    """Runs `code` to its end and returns what it printed; any word on stderr is a failure."""
    done = subprocess.run(
        script(code, *arguments), capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"exit {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    return done.stdout
