"""Each example runs as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example, *args, cwd):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(EXAMPLES / example), *map(str, args)]
    done = subprocess.run(
        command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_train_jax_resumes(tmp_path):
    pytest.importorskip("jax")
    one_run = run("train_jax.py", "--checkpoint", "whole", "--steps", 10, cwd=tmp_path)
    first = run("train_jax.py", "--checkpoint", "parts", "--steps", 5, cwd=tmp_path)
    second = run("train_jax.py", "--checkpoint", "parts", "--steps", 5, cwd=tmp_path)
    assert "resumed after step 5" in second
    steps = [line for line in one_run.splitlines() if line.startswith("step ")]
    in_parts = [line for line in (first + second).splitlines() if line.startswith("step ")]
    assert len(steps) == 2
    assert in_parts == steps


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.gate)])
def test_single_shard_grain(tmp_path, workers):
    output = run("single_shard_grain.py", "--workers", workers, cwd=tmp_path)
    # 24 rows twice over, in batches of 8.
    assert [line.partition(": ")[2][:11] for line in output.splitlines()] == ["(8, 160000)"] * 6


def test_pack_folder(tmp_path):
    output = run("pack_folder.py", cwd=tmp_path)
    assert "16 recordings in " in output
    assert "owl/cut.flac" in output
    assert output.count("(8, 32000)") == 2
    again = run("pack_folder.py", cwd=tmp_path)
    assert "from an earlier run" in again
    assert again.partition("(8, 32000)")[2] == output.partition("(8, 32000)")[2]


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.gate), 1])
def test_random_access(tmp_path, workers):
    output = run("random_access.py", "--workers", workers, cwd=tmp_path).splitlines()
    assert output[0] == "24 rows, the last of (160000,)"
    # 24 rows twice over, in batches of 8.
    shapes = [line.partition(": ")[2][:11] for line in output[1:]]
    assert shapes == ["(8, 160000)"] * 12


def test_rows_with_paths(tmp_path):
    output = run("rows_with_paths.py", cwd=tmp_path).splitlines()
    assert [line.partition(": ")[2][:11] for line in output[:4]] == ["(4, 160000)"] * 4
    assert output[4].startswith(
        'without root=: the audio is null, and the row has the path "0.audio"'
    )


def test_train_events(tmp_path):
    pytest.importorskip("jax")
    output = run("train_events.py", "--steps", 150, cwd=tmp_path).splitlines()
    losses = [float(line.rpartition(" ")[2]) for line in output if line.startswith("step ")]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    windows, _, answers = output[-1].partition(" windows: ")
    assert int(windows) > 12
    assert float(answers.partition("%")[0]) > 85


def test_mixture(tmp_path):
    output = run("mixture.py", cwd=tmp_path).splitlines()
    assert output[0] == "classes: wren, crow, owl"
    assert output[1] == "rows: 120 of field, 40 of archive"
    counts = [int(part.partition(" of ")[0]) for part in output[2][8:].split(", ")]
    assert sum(counts) == 160
    assert abs(counts[1] - 60) <= 2
    assert int(output[3].split()[1]) < 500


def test_augment(tmp_path):
    pytest.importorskip("jax")
    output = run("augment.py", cwd=tmp_path).splitlines()
    assert [line.partition(": ")[0] for line in output] == [
        "audio", "gain", "noise", "mixup", "SpecAugment"
    ]  # fmt: skip


def test_every_example_is_run_here():
    device = Path(__file__).parents[1] / "device" / "test_train_birds.py"
    tests = (Path(__file__), Path(__file__).parent / "test_train_hosts.py", device)
    here = "".join(path.read_text(encoding="utf-8") for path in tests)
    assert all(f'"{path.name}"' in here for path in EXAMPLES.glob("*.py"))
