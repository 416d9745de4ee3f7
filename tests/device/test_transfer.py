"""`gm.jax.to_device` and Grain's `device_put`: values, states, shardings, and what is refused."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import probes

pytest.importorskip("jax")
SCRIPT = Path(__file__).with_name("on_devices.py")
# By the script's text, since importing it would start JAX with one device.
SCENES = [
    name.id
    for node in ast.parse(SCRIPT.read_text(encoding="utf-8")).body
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "SCENES"
    for name in ast.walk(node.value)
    if isinstance(name, ast.Name)
]
TOLD = {
    "an_error_of_the_data": "no.arrow",
    "a_batch_that_cannot_be_divided": (
        "a batch of 6 rows cannot be divided over 4 devices as the sharding asks for: write a "
        'batch_size= that can be, and remainder="pad" or "drop" where the last batch is a short'
    ),
    "a_short_last_batch": "a batch of 6 rows cannot be divided over 4 devices",
    "single_rows": "a single row has no axis to divide over devices: write batch_size=",
}


@pytest.fixture(scope="module")
def outcomes(numbered: list[Path]) -> dict[str, Any]:
    """All scenes, in one process: most of the time is starting it."""
    environment = {
        **probes.environment(),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
    }
    command = [sys.executable, str(SCRIPT), str(numbered[0].parent)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("scene", SCENES)
def test_on_four_devices(outcomes: dict[str, Any], scene: str) -> None:
    outcome = outcomes[scene]
    assert "failed" not in outcome, outcome["failed"]
    if scene in TOLD:
        assert TOLD[scene] in outcome["gave"]


def test_wrong_options(outcomes: dict[str, Any]) -> None:
    dataset, sharding, size = outcomes["wrong_options"]["gave"]
    assert dataset.startswith("dataset is IterDataset, not ")
    assert dataset.endswith(": write gm.jax.to_device(dataset, sharding)")
    assert sharding.startswith("sharding is a Sharding or a Device or None, not 'gpu'")
    assert size == "cpu_buffer_size is an integer from 1 to 1024, not 0: write cpu_buffer_size=4"


def test_all_scenes_are_run(outcomes: dict[str, Any]) -> None:
    assert list(outcomes) == SCENES
    assert len(SCENES) > 10
    assert "XLA_FLAGS" not in os.environ or "host_platform" not in os.environ["XLA_FLAGS"]
