"""`gristmill` from the command line, as installed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
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
    for option in ("data", "rows", "steps", "batch-size", "num-threads", "seed", "json", "quiet"):
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
    assert "needs jax: pip install jax. gristmill demo --tiny needs none of them" in result.output


@pytest.mark.parametrize(
    ("option", "value"),
    [("rows", 7), ("steps", 3), ("batch-size", 0), ("seed", -1), ("seed", 2**32)],
)
def test_numbers_out_of_range_are_refused_before_anything_is_made(option, value, tmp_path):
    from click.testing import CliRunner

    from gristmill.cli.commands import main

    command = ["demo", "--data", str(tmp_path / "data"), f"--{option}", str(value)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert f"'--{option}'" in done.output
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
    done = gristmill("demo", "--data", data, *SMALL, "--quiet", "--num-threads", "3", timeout=280)
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


def test_tiny_needs_nothing_but_the_wheel(tmp_path):
    """From the command to its end without the extra's packages, in seconds."""
    code = (
        "import sys\n"
        "absent = 'jax', 'optax', 'pyarrow', 'soundfile', 'datasets'\n"
        "sys.modules.update(dict.fromkeys(absent))\n"
        "sys.argv = ['gristmill', 'demo', '--tiny', '--data', sys.argv[1]]\n"
        "import _gristmill_cli; _gristmill_cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"16 recordings in {tmp_path / 'tiny.arrow'}" in done.stdout
    assert "10 of (8, 32000), float32" in done.stdout
    assert "5 compared, equal bit for bit" in done.stdout
    # What it says to type runs.
    lines = [line[2:] for line in done.stdout.partition("Try it yourself\n")[2].splitlines()]
    typed = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert "audio" in typed.stdout
    (shard,) = tmp_path.iterdir()
    assert pa.ipc.open_stream(shard).read_all().num_rows == 16


def test_tiny_trains_nothing(tmp_path):
    done = gristmill("demo", "--tiny", "--steps", 20, "--data", tmp_path / "data")
    assert done.returncode == 2
    assert "--tiny does not train, and takes no --steps" in done.stderr
    assert not (tmp_path / "data").exists()


def test_completion_knows_the_commands():
    environment = {**os.environ, "_GRISTMILL_COMPLETE": "bash_complete"}
    environment |= {"COMP_WORDS": "gristmill sc", "COMP_CWORD": "1"}
    done = subprocess.run([GRISTMILL], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,scan"]
