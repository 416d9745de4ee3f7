"""Measuring in fresh processes, and tables of what came out."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import random
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MIB = 1 << 20


def cpu_ticks() -> tuple[int, int]:
    """What all processes of this machine ran and waited for CPUs that were another machine's."""
    user, nice, system, _, _, irq, softirq, stolen, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return user + nice + system + irq + softirq, stolen


BEGAN = cpu_ticks()


def in_process(script: str, *arguments: object) -> dict[str, Any]:
    """Runs `script` in a fresh interpreter; its last line is the result as JSON."""
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(map(str, arguments))} failed with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What the benches on made shards have in common; `--check` is for processes of their own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="little data, short runs")
    parser.add_argument("--data", type=Path, help="where the shards are made and kept")
    parser.add_argument("--check", nargs="+", type=Path, help=argparse.SUPPRESS)
    return parser


def data_folder(given: Path | None) -> Path:
    return given or Path(tempfile.gettempdir()) / "gristmill-bench"


def peak_rss(n_children: int = 0) -> int:
    """Bytes of this process at its peak, and of its ended children at the largest one's."""
    # Not `ru_maxrss` of this process: that survives exec, and is the parent's where that is larger.
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return resident("VmHWM") + 1024 * n_children * child


def resident(name: str) -> int:
    """`VmRSS` or `VmHWM` of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def conditions() -> str:
    """When, where and what was run, and the share of the CPU time that other machines took.

    Of the time that processes here wanted, since the bench began. A few percent are enough to make
    single steps twice as long.
    """
    (ran, stolen), (ran_before, stolen_before) = cpu_ticks(), BEGAN
    wanted = max(1, ran - ran_before + stolen - stolen_before)
    taken = f"{(stolen - stolen_before) / wanted:.0%} of CPU time stolen"
    now = dt.datetime.now().astimezone().isoformat(timespec="minutes")
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    cores = len(os.sched_getaffinity(0))
    command = shlex.join(["python", *sys.argv])
    python = f"Python {platform.python_version()}"
    return f"{now}  |  {cpu}, {cores} cores, {taken}  |  {python}  |  {command}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    cells = [
        "  ".join(
            c.ljust(w) if k == 0 else c.rjust(w)
            for k, (c, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join([cells[0], "-" * len(cells[0]), *cells[1:]])


def spread(values: Sequence[float]) -> str:
    """The median, and how far the extremes lie from it."""
    middle = statistics.median(values)
    return f"{middle:.1f} ({min(values) / middle - 1:+.0%} {max(values) / middle - 1:+.0%})"


def interval(rounds: list[list[float]]) -> tuple[float, float]:
    """Where the median lies in 95 % of samples drawn anew: rounds, and ratios of each."""
    drawn = random.Random(0)
    medians = [
        statistics.median(
            x for of in drawn.choices(rounds, k=len(rounds)) for x in drawn.choices(of, k=len(of))
        )
        for _ in range(1000)
    ]
    cuts = statistics.quantiles(medians, n=40)
    return cuts[0], cuts[-1]


def verdict(label: str, ratio: float, mark: float) -> str:
    return f"{'met   ' if ratio >= mark else 'MISSED'}  {label}: {ratio:.2f} (mark {mark:.2g})"
