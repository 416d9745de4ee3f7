"""Runs the tests nearest to what has changed since the last commit: `make dev`.

A Rust file is tested by the tests of its module, or of the nearest module around it that has some.
A Python file is copied into the installed package, and tested by the files of tests that are named
like it, or else by those that name it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTALLED = Path(sysconfig.get_paths()["purelib"])
AT_MOST = 4  # files of tests for each file that has changed


def changed() -> list[Path]:
    """The files that differ from the last commit."""
    command = ["git", "status", "--porcelain=v1", "--untracked-files=all", "--no-renames", "-z"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [Path(line[3:]) for line in told.split("\0") if line]
    return [path for path in paths if (ROOT / path).is_file()]


def rust_filter(crate: Path, module: Path) -> str:
    """The narrowest module around `module` whose folder or file has tests."""
    parts = module.with_suffix("").parts
    parts = parts[:-1] if parts[-1] in {"mod", "tests"} else parts
    while parts:
        place = crate / "src" / Path(*parts)
        files = [place.with_suffix(".rs"), *place.rglob("*.rs")]
        if any("#[test]" in file.read_text() for file in files if file.is_file()):
            return "::".join(parts) + "::"
        parts = parts[:-1]
    return ""


def test_rust(crate: str, files: list[Path]) -> int:
    """Runs the tests of these files' modules, and returns the exit status."""
    folder = ROOT / "rust" / crate
    command = ["cargo", "test", "--profile", "quick", "--package", f"gristmill-{crate}", "--lib"]
    inside = [file.relative_to(f"rust/{crate}/src") for file in files if "src" in file.parts]
    filters = sorted({rust_filter(folder, file) for file in inside})
    env = {**os.environ, "CARGO_INCREMENTAL": "1"}
    return subprocess.run([*command, "--", *filters], cwd=ROOT, env=env, check=False).returncode


def nearest(file: Path) -> list[Path]:
    """The tests of a Python file."""
    if file.parts[0] == "tests":
        return [file] if file.name.startswith("test_") else []
    stem = file.parent.name if file.stem == "__init__" else file.stem.strip("_")
    tests = sorted((ROOT / "tests").glob("*/test_*.py"))
    named = [test for test in tests if stem in test.stem or test.stem[5:] in stem]
    if not named:
        word = re.compile(rf"\b{stem}\b")
        named = [test for test in tests if word.search(test.read_text())]
    named.sort(key=lambda test: (abs(len(test.stem) - len(stem) - 5), test.stem))
    return named[:AT_MOST]


def main() -> int:
    """Runs the nearest tests, and returns the exit status."""
    files = changed()
    for crate in ("audio", "core"):
        of_crate = [file for file in files if file.is_relative_to(f"rust/{crate}")]
        if of_crate and (status := test_rust(crate, of_crate)):
            return status
    for file in files:
        if file.parts[0] == "python":
            target = INSTALLED / file.relative_to("python")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, target)
    tests = sorted({test for file in files if file.suffix == ".py" for test in nearest(file)})
    if not tests:
        return 0
    command = [sys.executable, "-m", "pytest", "-q", "-x", *sys.argv[1:], *map(str, tests)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
