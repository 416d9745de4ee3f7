"""The source distribution, from which pip builds where no wheel fits."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.gate
def test_pip_can_prepare_it(tmp_path: Path) -> None:
    """It has fewer crates than the lock file, from which cargo must be able to take the others."""
    maturin = Path(sys.executable).with_name("maturin")

    def run(*arguments: object, folder: Path) -> None:
        command = [maturin, *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    run("sdist", "--out", tmp_path, folder=ROOT)
    (file,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(file) as packed:
        packed.extractall(tmp_path, filter="data")
    unpacked = tmp_path / file.name.removesuffix(".tar.gz")
    where = ("--metadata-directory", tmp_path / "metadata", "--interpreter", sys.executable)
    run("pep517", "write-dist-info", *where, folder=unpacked)
    assert list((tmp_path / "metadata").glob("gristmill-*.dist-info/METADATA"))
