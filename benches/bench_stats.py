"""What measuring costs: `python benches/bench_stats.py [--quick] [--job NAME] [--wheels FOLDER]`.

Builds two wheels, one as users get it and one with the feature `no-stats`, which measures nothing,
and has both do the same jobs, each in a process of its own: short slices of work in turns, so that
what else the machine does meets both alike. A slice ends when its look-ahead is full again. Four
slices make a ratio, in the order ABBA, so that a drift meets both alike too. Told is the median of
all ratios of several pairs of processes, with the interval in which it lies for 95 % of the samples
that could have been drawn instead: of pairs of processes, since where their memory lies makes some
faster, and of the ratios of each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import report

REPOSITORY = Path(__file__).parent.parent
BUILDS = {"as it is": (), "no-stats": ("--features", "no-stats")}
MARK = 0.01
# In this time, in seconds, threads that have anything to do use a tenth of it at least.
QUIET = 0.002
Job = Callable[[Path], Any]


def crops(folder: Path) -> Any:
    """Crops of 5 s from Vorbis of 10 to 180 s, on two threads."""
    import material

    import gristmill as gm

    return gm.ArrowIterDataset(
        material.vorbis_shards(folder, 24),
        columns=["audio", "label"],
        audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(5)),
        shuffle=gm.Shuffle(1),
        epochs=None,
        batch_size=16,
        read=gm.ReadOptions(num_threads=2),
    )


def short(folder: Path) -> Any:
    """Whole recordings of a quarter of a second, WAV at their own rate: 30 us each to decode."""
    import material

    import gristmill as gm

    path = folder / "short.arrow"
    if not path.exists():
        made = [
            material.encode(material.field_like(0.25, 16_000, 1, i), 16_000, "WAV", "PCM_16")
            for i in range(1000)
        ]
        material._write(path, made, 100)
    audio = gm.Audio(crop=None)
    return gm.ArrowIterDataset(
        path, columns=["audio", "label"], audio=audio, shuffle=gm.Shuffle(1), epochs=None
    )


def encoded(folder: Path) -> Any:
    """The same rows, not decoded, in batches of 64."""
    import gristmill as gm

    short(folder)
    return gm.ArrowIterDataset(
        folder / "short.arrow", audio=None, shuffle=gm.Shuffle(1), epochs=None, batch_size=64
    )


def columns(folder: Path, batch_size: int | None) -> Any:
    """Rows that only pass through: a list of 250 numbers, and two numbers."""
    import gristmill as gm

    path = folder / "columns.arrow"
    if not path.exists():
        rng = np.random.default_rng(0)
        tokens = pa.array(rng.integers(0, 50_000, 250 * 50_000, dtype=np.int32))
        table = pa.table(
            {
                "tokens": pa.FixedSizeListArray.from_arrays(tokens, 250),
                "label": pa.array(np.arange(50_000)),
                "weight": pa.array(rng.random(50_000, np.float32)),
            }
        )
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    return gm.ArrowIterDataset(
        path, audio=None, shuffle=gm.Shuffle(1), epochs=None, batch_size=batch_size
    )


# How many elements are compared, the seconds of a slice, and the ratios of a pair of processes: of
# crops a batch more or less shows, and what differs between processes is most of the spread.
JOBS: dict[str, tuple[Job, int, float, int]] = {
    "crops": (crops, 4, 0.5, 8),
    "short": (short, 200, 0.05, 40),
    "encoded": (encoded, 20, 0.05, 40),
    "batches": (lambda folder: columns(folder, 64), 200, 0.05, 40),
    "single": (lambda folder: columns(folder, None), 2000, 0.05, 40),
}
LABELS = {
    "crops": "crops of 5 s from Vorbis, 2 threads",
    "short": "whole WAV rows of 0.25 s, single",
    "encoded": "encoded rows of 8 kB, batches of 64",
    "batches": "rows of small columns, batches of 64",
    "single": "rows of small columns, single",
}


def digest(job: str, folder: Path) -> dict[str, Any]:
    """What the first elements are, and whether they were measured."""
    make, n_elements, *_ = JOBS[job]
    iterator = iter(make(folder))
    seen = hashlib.sha256()
    for _ in range(n_elements):
        for name, value in sorted(next(iterator).items()):
            array = np.asarray(value)
            shown = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
            seen.update(f"{name} {array.shape} {array.dtype}".encode() + shown)
    stats = iterator.stats()
    iterator.close()
    counts = [stats.storage.requests, stats.stages.assemble.count, stats.elements]
    return {"digest": seen.hexdigest(), "measured": counts}


def serve(job: str, folder: Path) -> None:
    """For each number that is read: takes so many elements, and says what that took."""
    iterator = iter(JOBS[job][0](folder))
    for line in sys.stdin:
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            next(iterator)
        ended, cpu_then = at_rest()
        print(json.dumps((ended - began, cpu_then - cpu)), flush=True)
    iterator.close()


def at_rest() -> tuple[float, float]:
    """Waits until no thread works any more; when that was, and the process's CPU time then.

    A slice so begins and ends with the look-ahead full: what was read ahead in the last one's time
    is neither given to this one nor done in the time of the other build.
    """
    ended, cpu = time.perf_counter(), time.process_time()
    while True:
        time.sleep(QUIET)
        now, cpu_now = time.perf_counter(), time.process_time()
        if cpu_now - cpu < QUIET / 10:
            return ended, cpu
        ended, cpu = now, cpu_now


def build(folder: Path) -> None:
    """Both wheels, each unpacked into a folder of its own."""
    for name, features in BUILDS.items():
        target = folder / name.replace(" ", "-")
        if target.exists():
            continue
        wheels = folder / f"wheel-{target.name}"
        maturin = [Path(sys.executable).with_name("maturin"), "build", "--release", "--out", wheels]
        subprocess.run([*maturin, *features, "--quiet"], cwd=REPOSITORY, check=True)
        (wheel,) = wheels.glob("*.whl")
        install = ["install", "--quiet", "--no-deps", "--target", target, wheel]
        subprocess.run([sys.executable, "-m", "pip", *install], check=True)


def with_build(wheels: Path, name: str, *arguments: object) -> dict[str, Any]:
    """Runs this script in a fresh process where `gristmill` is that build."""
    os.environ.update(environment(wheels, name))
    return report.in_process(__file__, *arguments)


def environment(wheels: Path, name: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(wheels / name.replace(" ", "-"))}


def check(wheels: Path, jobs: list[str], data: Path) -> None:
    """Both builds give the same elements, and are what they are said to be."""
    for job in jobs:
        first, second = (with_build(wheels, name, "--digest", job, data) for name in BUILDS)
        assert first["digest"] == second["digest"], job
        assert all(first["measured"]), first
        assert not any(second["measured"]), second


class Served:
    """One build in a process of its own, which works when it is told to and sleeps meanwhile."""

    def __init__(self, wheels: Path, name: str, job: str, data: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", job, data],
            env=environment(wheels, name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def take(self, n_elements: int) -> tuple[float, float]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{n_elements}\n")
        self._process.stdin.flush()
        seconds, cpu = json.loads(self._process.stdout.readline())
        return seconds, cpu

    def close(self) -> None:
        self._process.communicate()


def compare(wheels: Path, job: str, data: Path) -> list[tuple[float, float]]:
    """Time and CPU time of one build against the other's, in one process of each, in turns."""
    builds = [Served(wheels, name, job, data) for name in BUILDS]
    first, second = builds
    # What a slice is, by the first one, after the start; the second one comes to the same place, so
    # that both have the same elements in their slices.
    first.take(1)
    slices = [1, 1]
    while (took := first.take(slices[-1])[0]) < JOBS[job][2]:
        factor = min(JOBS[job][2] / took, 8)
        slices.append(max(slices[-1] + 1, round(slices[-1] * factor)))
    for n_elements in slices:
        second.take(n_elements)
    ratios: list[tuple[float, float]] = []
    for k in range(JOBS[job][3]):
        took = [[0.0, 0.0], [0.0, 0.0]]
        for which in (0, 1, 1, 0) if k % 2 else (1, 0, 0, 1):
            for clock, seconds in enumerate(builds[which].take(slices[-1])):
                took[which][clock] += seconds
        ratios.append((took[0][0] / took[1][0], took[0][1] / took[1][1]))
    for build in builds:
        build.close()
    return ratios


def run(wheels: Path, jobs: list[str], data: Path, rounds: int) -> None:
    check(wheels, jobs, data)
    print("checked: equal elements, measured and not measured", flush=True)
    lines, verdicts = [], []
    for job in jobs:
        compared = [compare(wheels, job, data) for _ in range(rounds)]
        texts = []
        for clock in (0, 1):
            of = [[ratio[clock] for ratio in ratios] for ratios in compared]
            cost = statistics.median(x for ratios in of for x in ratios) - 1
            low, high = report.interval(of)
            texts.append(f"{cost:+.2%} ({low - 1:+.2%} to {high - 1:+.2%})")
        lines.append([LABELS[job], *texts])
        verdicts.append(f"{'met   ' if cost < MARK else 'MISSED'}  {LABELS[job]}: {texts[-1]}")
        print(verdicts[-1], flush=True)
    print(f"\n{report.conditions()}\n")
    head = ["what measuring costs", "of the time", "of the CPU time (95 % interval)"]
    print(report.table(head, lines), "\n")
    print(f"of the CPU time, mark {MARK:.0%}:", *verdicts, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="five pairs of processes")
    parser.add_argument("--job", choices=JOBS, action="append", help="this job, and not all")
    parser.add_argument("--rounds", type=int, help="so many pairs of processes (24)")
    parser.add_argument("--wheels", type=Path, help="where the builds are made and kept")
    parser.add_argument("--build", action="store_true", help="only make the builds")
    parser.add_argument("--digest", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.digest:
        job, data = options.digest
        print(json.dumps(digest(job, Path(data))))
    elif options.serve:
        job, data = options.serve
        serve(job, Path(data))
    else:
        data = report.data_folder(None)
        data.mkdir(exist_ok=True)
        rounds = options.rounds or (5 if options.quick else 24)
        with tempfile.TemporaryDirectory() as folder:
            wheels = (options.wheels or Path(folder)).absolute()
            build(wheels)
            if not options.build:
                run(wheels, options.job or list(JOBS), data, rounds)


if __name__ == "__main__":
    main()
