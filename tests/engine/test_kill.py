"""A training loop that is killed at random instants loses no row and sees none twice.

`python tests/support/kill_loop.py --kills 1000` does it as often as one likes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kill_loop
from rounds import rounds

SCRIPT = Path(kill_loop.__file__)


@pytest.mark.timeout(400)
def test_killed_at_random_instants() -> None:
    pytest.importorskip("orbax.checkpoint")
    n_kills = rounds(8, 2)
    command = [sys.executable, str(SCRIPT), "--kills", str(n_kills), "--longest", "1.5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{n_kills} kills, ")
    assert int(done.stdout.split()[2]) >= 20
