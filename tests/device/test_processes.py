"""Two JAX processes of two devices each: their rows are the global batches of one process."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probes

pytest.importorskip("jax")
import global_batches  # it imports JAX

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
    one, other = run(2, 2, numbered[0].parent)
    assert one == other
    # What one process without JAX reads: the same rows, those of a process standing together.
    expected = itertools.islice(global_batches.dataset(numbered[0].parent, None, 1), 12)
    for rows, total, batch in zip(one["seen"], one["totals"], expected, strict=True):
        assert sorted(rows) == sorted(batch["count"].tolist())
        audio = batch["audio"].astype(np.int32).sum(axis=1)
        assert total == (audio * (batch["count"] + 4)).sum()
    assert len({row for rows in one["seen"][:5] for row in rows}) == 40
