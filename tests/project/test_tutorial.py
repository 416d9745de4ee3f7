"""The tutorial, word by word: its files are saved, its commands run, its training killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"[Ss]ave this as `(\w+\.py)`")


def run(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


def environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "JAX_PLATFORMS": "cpu"}


def kill_after_a_checkpoint(folder: Path) -> None:
    command = [sys.executable, "train.py"]
    output = folder / "output.txt"
    with output.open("w") as file:
        job = subprocess.Popen(command, cwd=folder, env=environment(), stdout=file)
    deadline = time.monotonic() + 200
    while "step 40:" not in output.read_text():
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    job.wait()


@pytest.mark.gate
@pytest.mark.timeout(900)
def test_followed_word_by_word(tmp_path: Path) -> None:
    pytest.importorskip("optax")
    text = TUTORIAL.read_text(encoding="utf-8")
    before, outputs, losses = 0, [], {}
    for match in BLOCK.finditer(text):
        kind, code = match.groups()
        told = FILE.findall(text[before : match.start()])
        before = match.end()
        if kind == "python":
            if told:
                (tmp_path / told[-1]).write_text(code)
            elif "load_dataset" not in code:
                (tmp_path / "look.py").write_text(code)
                outputs.append(run("python look.py", tmp_path))
            continue
        if "pip install" in code:
            continue
        if code == "python train.py\n" and not losses:
            # First without an end, for what the killed one is compared with.
            whole = run(code, tmp_path)
            losses = dict(re.findall(r"step (\d+): loss (\S+)", whole))
            (tmp_path / "checkpoint.npz").unlink()
            kill_after_a_checkpoint(tmp_path)
            continue
        outputs.append(run(code, tmp_path))
    packed, look, resumed, score = outputs[1:]
    assert "90 recordings" in packed
    assert look.startswith("(16, 96000) float32")
    assert "('crow', 'owl', 'wren')" in look
    assert int(re.findall(r"resumed after step (\d+)", resumed)[0]) >= 40
    after = dict(re.findall(r"step (\d+): loss (\S+)", resumed))
    assert after
    assert after == {step: loss for step, loss in losses.items() if step in after}
    right, total = map(int, re.findall(r"(\d+) of (\d+) held-out", score)[0])
    assert total > 8
    assert right / total > 0.9
