"""Jobs with the installed wheel and with another one, in turns.

    python benches/pairs.py OTHER.whl [what pytest is to run]

`docs/benchmarks.md` has an example. The benches are those of this commit. Each pair is a run with
the one wheel and a run with the other. Printed is how many times as long each job takes with the
other: the median of the pairs, and the extremes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5


def medians(arguments: tuple[str, ...], out: Path, path: str = "") -> dict[str, float]:
    """The median time of each job, with packages in the folder `path` before those installed."""
    command = [sys.executable, "-m", "pytest", *arguments, f"--benchmark-json={out}"]
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    found = json.loads(out.read_bytes())["benchmarks"]
    return {one["fullname"]: one["stats"]["median"] for one in found}


def main(wheel: str, *arguments: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target, out = f"{folder}/other", Path(folder, "out.json")
        install = ["install", "--quiet", "--no-deps", "--target", target, wheel]
        subprocess.run([sys.executable, "-m", "pip", *install], check=True)
        pairs = [(medians(arguments, out), medians(arguments, out, target)) for _ in range(ROUNDS)]
    for name in pairs[0][0]:
        ratios = [other[name] / this[name] for this, other in pairs]
        spread = f"({min(ratios):.3f} to {max(ratios):.3f})"
        print(f"{name}: the other takes {statistics.median(ratios):.3f} {spread} times as long")


if __name__ == "__main__":
    main(*sys.argv[1:])
