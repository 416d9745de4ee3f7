"""The benches run: each in its smallest form, which checks results and times nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

A_BENCH = """
import pytest

@pytest.mark.parametrize("job", ["quick", "slow", "broken"])
def test_race(turns, job):
    def prepare(name):
        if name == "broken":
            pytest.skip("not here")
        def run(k):
            print("ran", name, k)
            return {"seconds": {"quick": 1.0, "slow": 2.0}[name] * (k + 1), "size, MiB": k}
        return run

    turns(prepare, rounds=3, than="quick", at_most=1.5)
"""


def run(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, arguments)]
    # A worker of pytest-xdist is told by its environment, and times nothing.
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST_")}
    env["PYTHONPATH"] = ""
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env=env, timeout=1180
    )


@pytest.mark.gate
@pytest.mark.timeout(1200)  # a busy machine takes minutes for what takes half of one
def test_each_bench_in_its_smallest_form(tmp_path: Path) -> None:
    done = run("benches", "--benchmark-disable", "--data", tmp_path)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
    names = {path.name for path in (ROOT / "benches").glob("bench_*.py")}
    assert {name for name in names if f"benches/{name} " in done.stdout} == names


@pytest.mark.gate
def test_tests_alone_have_no_benches() -> None:
    done = run("--collect-only", "-q")
    assert done.returncode == 0, done.stdout
    assert "tests/project/test_benches.py::" in done.stdout
    assert "benches/bench_" not in done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "benches" / "conftest.py", tmp_path)
    (tmp_path / "test_race.py").write_text(A_BENCH)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_jobs_take_turns_and_marks_are_asserted_when_asked(folder: Path) -> None:
    done = run("--data", folder / "data", "-s", "--benchmark-json=out.json", cwd=folder)
    assert done.returncode == 0, done.stdout
    order = [line.split()[-2:] for line in done.stdout.splitlines() if "ran " in line]
    assert order == [[name, str(k)] for k in range(3) for name in ("quick", "slow")]
    assert "test_race[slow]: 2 (2 to 2) times as long as quick (at most 1.5: MISSED)" in done.stdout
    assert "1 skipped" in done.stdout
    found = {
        one["param"]: one for one in json.loads((folder / "out.json").read_text())["benchmarks"]
    }
    assert found["slow"]["stats"]["data"] == [2.0, 4.0, 6.0]
    assert found["slow"]["group"] == found["quick"]["group"] == "race"
    assert found["slow"]["extra_info"]["size, MiB"] == 1
    assert found["slow"]["extra_info"]["times as long as quick"] == 2

    marked = run("--data", folder / "data", "--marks", cwd=folder)
    assert marked.returncode == 1
    assert "1 failed, 1 passed, 1 skipped" in marked.stdout


def test_two_runs_are_compared(folder: Path) -> None:
    assert run("--data", folder / "data", "--benchmark-autosave", cwd=folder).returncode == 0
    done = run("--data", folder / "data", "--benchmark-compare", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert "test_race[slow] (NOW)" in done.stdout
    assert "test_race[slow] (0001_" in done.stdout
    alone = run("--data", folder / "data", "-k", "quick", "--benchmark-only", cwd=folder)
    assert "ran slow" not in alone.stdout
