"""A training loop that is killed at random instants loses no row and sees none twice.

`python tests/kill_loop.py --kills 1000` does it as often as one likes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from probes import run


@pytest.mark.timeout(400)
def test_killed_at_random_instants(tmp_path: Path) -> None:
    pytest.importorskip("orbax.checkpoint")
    code = (
        "import kill_loop, pathlib\n"
        "if __name__ == '__main__':\n"
        "    print(kill_loop.kill_often(pathlib.Path(sys.argv[1]), 8, 1.5))"
    )
    script = Path(__file__).parent / "kill_loop.py"
    assert script.exists()
    assert int(run(code, tmp_path, timeout_s=380)) >= 20
