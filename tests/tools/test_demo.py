"""`gristmill` from the command line, as installed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gristmill as gm

GRISTMILL = Path(sys.executable).with_name("gristmill")
SMALL = ["--rows", "24", "--steps", "12", "--batch-size", "8"]


def gristmill(*args, timeout=100):
    command = [str(GRISTMILL), *map(str, args)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout)


def test_version():
    from importlib.metadata import version

    assert gristmill("--version").stdout == f"gristmill, version {version('gristmill')}\n"


def test_help_names_every_option():
    done = gristmill("demo", "--help")
    assert done.returncode == 0
    for option in ("data", "rows", "steps", "batch-size", "threads", "seed", "json", "quiet"):
        assert f"--{option}" in done.stdout


def test_bad_usage_is_status_2():
    done = gristmill("demo", "--rows", "none")
    assert done.returncode == 2
    assert "'--rows'" in done.stderr


def test_a_missing_extra_is_one_sentence(monkeypatch):
    from click.testing import CliRunner

    from gristmill.cli.commands import main

    monkeypatch.setattr("gristmill.cli.demo.find_spec", lambda name: None if name == "jax" else 1)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 2
    assert "needs jax: pip install 'gristmill[demo]'" in result.output


@pytest.mark.parametrize(
    ("option", "value"),
    [("rows", 7), ("steps", 3), ("batch-size", 0), ("seed", -1), ("seed", 2**32)],
)
def test_numbers_out_of_range_are_refused_before_anything_is_made(option, value, tmp_path):
    done = gristmill("demo", "--data", tmp_path / "data", f"--{option}", value)
    assert done.returncode == 2
    assert f"'--{option}'" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    pytest.importorskip("jax")
    pytest.importorskip("soundfile")
    data = tmp_path_factory.mktemp("demo")
    done = gristmill("demo", "--data", data, *SMALL, "--json", timeout=280)
    assert done.returncode == 0, done.stderr
    return data, json.loads(done.stdout), done.stderr


def test_demo_trains_and_resumes(demo):
    _, summary, progress = demo
    assert summary["train"]["steps"] == 12
    assert summary["train"]["samples"] == 96
    assert 0 <= summary["train"]["wait_share"] <= 1
    assert summary["resume"]["step"] == 5  # step 6 would end an epoch
    assert summary["resume"]["batches_compared"] == 7
    assert summary["held_out"]["rows"] == 8
    assert summary["verdict"]["case"] in {case.value for case in gm.Case}
    assert summary["verdict"]["text"]
    assert "train: 12/12 steps" in progress
    assert "\r" not in progress


def test_the_progress_and_the_report(demo, tmp_path):
    from gristmill.tools.demo.training import Job, train_and_resume

    made, steps = [], []
    report = train_and_resume(
        Job(tmp_path / "data", rows=24, steps=12, batch_size=8, read=gm.ReadOptions(num_threads=3)),
        on_row=lambda done, total: made.append((done, total)),
        on_step=steps.append,
    )
    assert made == [(n + 1, 32) for n in range(32)]
    assert [training.steps for training in steps] == list(range(1, 13))
    training = steps[-1]
    assert training.samples == report["train"]["samples"] == 96
    assert 0 < training.first_batch_seconds < training.waiting_seconds
    assert training.waiting_seconds < training.seconds < report["seconds"]
    assert report["shards"]["made"]
    data, told, _ = demo
    assert {path.name: path.read_bytes() for path in data.glob("*.arrow")} == {
        path.name: path.read_bytes() for path in (tmp_path / "data").glob("*.arrow")
    }
    said = json.loads(json.dumps(report))
    assert said.keys() == told.keys()
    for part in ("version", "shards", "resume", "held_out"):
        assert said[part] == told[part]
    # The same seed gives the same batches, so the same training, on however many threads.
    assert said["train"]["loss"] == pytest.approx(told["train"]["loss"])


def test_a_resumed_run_that_differs_is_an_error(demo, tmp_path, monkeypatch):
    from gristmill.tools.demo import training

    def load(directory, like):
        model, state = restore(directory, like)
        return model, {**state, "next_index": state["next_index"] + 8}

    restore = training._load
    monkeypatch.setattr(training, "_load", load)
    data = tmp_path / "data"
    shutil.copytree(demo[0], data)
    with pytest.raises(gm.GristmillError, match="after the stop at step 5, the resumed run saw"):
        training.train_and_resume(training.Job(data, rows=24, steps=12, batch_size=8))


def test_demo_finds_its_shards_again(demo):
    data, _, _ = demo
    before = {path.name: path.stat().st_mtime_ns for path in data.glob("*.arrow")}
    done = gristmill("demo", "--data", data, *SMALL, "--quiet", "--threads", "3", timeout=280)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.stat().st_mtime_ns for path in data.glob("*.arrow")} == before
    assert done.stdout.startswith("Found 2 shards of 24 recordings")
    assert max(map(len, done.stdout.replace(str(data), "").splitlines())) <= 80
    assert "equal bit for bit" in done.stdout
    assert not done.stderr


def test_a_damaged_shard_is_status_3_and_a_sentence(demo, tmp_path):
    data = tmp_path / "damaged"
    shutil.copytree(demo[0], data)
    shard = data / "train-00000-of-00002.arrow"
    damaged = bytearray(shard.read_bytes())
    damaged[:64] = bytes(64)  # of the same size: the manifest still fits
    shard.write_bytes(damaged)
    done = gristmill("demo", "--data", data, *SMALL, "--quiet", timeout=280)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert shard.name in done.stderr
