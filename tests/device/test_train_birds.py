"""`examples/train_birds.py` is killed at random, goes on, and ends with the same bits."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from examples_of import EXAMPLES, example

EXAMPLE = EXAMPLES / "train_birds.py"


class Runs:
    """Runs of the example, which share its shards and what JAX has compiled."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder, self.steps = folder, steps
        self.environment = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            # Most of the time would be compiling; what is computed is the same.
            "XLA_FLAGS": "--xla_backend_optimization_level=0 "
            "--xla_llvm_disable_expensive_passes=true",
        }

    def start(self, name: str) -> subprocess.Popen[str]:
        out = self.folder / name
        out.mkdir(exist_ok=True)
        for shards in ("birds", "backgrounds"):
            made, link = self.folder / "whole" / shards, out / shards
            if name != "whole" and not link.exists():
                link.symlink_to(made)
        command = [sys.executable, EXAMPLE, "--out", out, "--steps", self.steps]
        command += ["--save-every", 2, "--batch-size", 4, "--width", 4]
        return subprocess.Popen(
            [*map(str, command)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, name: str) -> list[str]:
        """What it prints, and the losses of all steps."""
        job = self.start(name)
        output, errors = job.communicate(timeout=800)
        assert job.returncode == 0, errors
        return output.splitlines()

    def losses(self, name: str) -> list[tuple[int, float]]:
        lines = (self.folder / name / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [(one["step"], one["loss"]) for one in map(json.loads, lines)]

    def kill(self, name: str, rng: random.Random, least: int = 1) -> None:
        """Ends a life once `least` steps were taken or more, at any instant."""
        job = self.start(name)
        log = self.folder / name / "log.jsonl"
        before = log.stat().st_size if log.exists() else 0
        more, deadline = rng.randrange(least, self.steps), time.monotonic() + 800
        while time.monotonic() < deadline and job.poll() is None:
            text = log.read_bytes() if log.exists() else b""
            if len(text) != before and text.count(b"\n") >= more:
                break
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
        job.kill()
        job.communicate(timeout=60)


def results(output: list[str]) -> list[str]:
    """The weights and scores."""
    found = [line for line in output if line.startswith(("sum of", "windows", "rec", "cmAP"))]
    assert len(found) == 5, output
    return found


def check(folder: Path, steps: int, kills: int) -> None:
    runs = Runs(folder, steps)
    whole = runs.finish("whole")
    assert "a new run" in whole[0]
    assert [step for step, _ in runs.losses("whole")] == list(range(1, steps + 1))
    rng = random.Random(kills)
    for _ in range(kills):
        # Before the fourth step is saved, the checkpoint of the second is whole.
        runs.kill("parts", rng, least=4 if kills == 1 else 1)
    parts = runs.finish("parts")
    assert kills > 1 or parts[0].startswith("resumed after step ")
    assert runs.losses("parts") == runs.losses("whole")
    assert results(parts) == results(whole)
    for name in ("spectrograms.png", "training.png"):
        assert (folder / "whole" / name).read_bytes().startswith(b"\x89PNG")
    if kills == 1:
        return
    # It is done: nothing is left to do, and nothing changes.
    again = runs.finish("parts")
    assert f"resumed after step {steps}" in again[0]
    assert results(again) == results(whole)


def test_class_mean_average_precision_is_scikit_learns() -> None:
    pytest.importorskip("flax")
    metrics = pytest.importorskip("sklearn.metrics")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        birds = example("train_birds.py")
    rng = np.random.default_rng(0)
    for _ in range(20):
        targets = rng.random((50, 6)) < 0.2
        targets[:, 2] = False  # a class that does not occur counts for nothing
        targets[0, [0, 1, 3, 4, 5]] = True
        scores = rng.integers(0, 9, targets.shape) / 8 + 0.3 * targets  # with ties
        expected = np.mean(
            [metrics.average_precision_score(targets[:, k], scores[:, k]) for k in (0, 1, 3, 4, 5)]
        )
        assert math.isclose(birds.class_mean_average_precision(scores, targets), expected)
    keys = np.array([[0, 1], [0, 2], [0, 1], [1, 1]])
    values = np.array([[1.0, 5], [2, 2], [3, 1], [0, 0]])
    assert birds.by_recording(keys, values).tolist() == [[3, 5], [2, 2], [0, 0]]


@pytest.mark.timeout(1_500)
def test_killed_once(tmp_path: Path) -> None:
    pytest.importorskip("flax")
    pytest.importorskip("orbax.checkpoint")
    check(tmp_path, steps=8, kills=1)


@pytest.mark.gate
@pytest.mark.timeout(3_000)
def test_killed_many_times(tmp_path: Path) -> None:
    pytest.importorskip("flax")
    pytest.importorskip("orbax.checkpoint")
    check(tmp_path, steps=30, kills=12)


@pytest.mark.gate
@pytest.mark.timeout(1_200)
def test_it_learns(tmp_path: Path) -> None:
    pytest.importorskip("flax")
    pytest.importorskip("orbax.checkpoint")
    command = [sys.executable, EXAMPLE, "--out", tmp_path / "birds"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scores = dict(line.split(": ") for line in done.stdout.splitlines() if line.startswith("cmAP"))
    assert float(scores["cmAP by recording"]) > 0.8
    assert float(scores["cmAP by window"]) > 0.7
