"""A JAX job of several processes that is killed and goes on, on as many processes and on fewer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_hosts.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def start(shards: list[Path], folder: Path, n: int, steps: int) -> list[subprocess.Popen[str]]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    environment.pop("XLA_FLAGS", None)
    port = free_port()
    command = [sys.executable, str(EXAMPLE), *map(str, shards), "--checkpoint", str(folder)]
    command += ["--steps", str(steps), "--processes", str(n), "--port", str(port)]
    return [
        subprocess.Popen(
            [*command, "--process", str(k)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for k in range(n)
    ]


def finish(jobs: list[subprocess.Popen[str]]) -> list[str]:
    outputs = [job.communicate(timeout=200)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * len(jobs), "\n".join(outputs)
    return outputs


def saves(folder: Path) -> list[int]:
    """The steps of which there is a whole checkpoint."""
    steps = folder / "steps"
    names = [path.name for path in steps.iterdir()] if steps.exists() else []
    return sorted(int(name) for name in names if name.isdigit())


def rows_seen(folder: Path) -> dict[int, list[str]]:
    """The rows of each step; of one that ran twice, those of the last run."""
    steps: dict[int, dict[str, list[str]]] = {}
    for path in sorted(folder.glob("rows-*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            number, *rows = line.split()
            steps.setdefault(int(number), {})[path.name] = rows
    return {n: sorted(row for rows in parts.values() for row in rows) for n, parts in steps.items()}


@pytest.mark.timeout(600)
def test_killed_and_resumed(numbered: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("orbax.checkpoint")
    whole = finish(start(numbered, tmp_path / "whole", 1, 18))[0]
    # Two processes; the second is killed once a checkpoint is there and steps were taken after it.
    parts = tmp_path / "parts"
    jobs = start(numbered, parts, 2, 1000)
    log, deadline = parts / "rows-1.txt", time.monotonic() + 200
    while not (log.exists() and log.read_text(encoding="utf-8").count("\n") >= 6 and saves(parts)):
        assert time.monotonic() < deadline
        assert jobs[1].poll() is None, jobs[1].communicate()[0]
        time.sleep(0.01)
    jobs[1].kill()
    jobs[0].kill()  # as a scheduler does when one of a job's processes is lost
    for job in jobs:
        job.communicate(timeout=60)
    killed_at = max(rows_seen(parts))
    saved = saves(parts)[-1]
    assert killed_at >= saved >= 4
    # Both again, then one alone. Steps after the last checkpoint are taken again.
    for path in parts.glob("rows-*.txt"):
        kept = [x for x in path.read_text().splitlines(True) if int(x.split()[0]) <= saved]
        path.write_text("".join(kept))
    middle = saved + 8
    outputs = finish(start(numbered, parts, 2, middle))
    assert all(f"resumed after step {saved}" in output for output in outputs)
    (output,) = finish(start(numbered, parts, 1, middle + 6))
    assert f"resumed after step {middle // 4 * 4}" in output
    seen = rows_seen(parts)
    expected = rows_seen(tmp_path / "whole")
    assert sorted(seen) == list(range(1, middle + 7))
    assert {n: seen[n] for n in expected if n in seen} == {
        n: expected[n] for n in expected if n in seen
    }
    assert whole.count("step ") == 18
