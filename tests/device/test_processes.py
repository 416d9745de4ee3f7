"""Two JAX processes of two devices each: their rows are the global batches of one process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import probes

pytest.importorskip("jax")
SCRIPT = Path(__file__).with_name("global_batches.py")


def run(n_processes: int, n_devices: int, folder: Path) -> list[dict[str, Any]]:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    flag = f"--xla_force_host_platform_device_count={n_devices}"
    environment = {**probes.environment(), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flag}
    jobs = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(k), str(n_processes), str(port), folder],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for k in range(n_processes)
    ]
    outputs = [job.communicate(timeout=250) for job in jobs]
    assert [job.returncode for job in jobs] == [0] * n_processes, outputs
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs]


def test_a_global_sharding(numbered: list[Path]) -> None:
    folder = numbered[0].parent
    (alone,) = run(1, 4, folder)
    one, other = run(2, 2, folder)
    assert one == other
    assert one["totals"] == alone["totals"]
    # The same rows; those of a process stand together.
    assert [sorted(rows) for rows in one["seen"]] == [sorted(rows) for rows in alone["seen"]]
    assert {len(rows) for rows in one["seen"]} == {8}
    assert len({row for rows in one["seen"][:5] for row in rows}) == 40
