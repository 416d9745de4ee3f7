"""What measuring costs: `python benches/bench_stats.py [--quick] [--job NAME] [--wheel FOLDER]`.

Builds the wheel with the feature `stats-switch`, which can turn the statistics off, and has it do
jobs in short slices, with and without. A slice ends when its look-ahead is full again. Four slices
make a ratio, in the order ABBA, so that a drift meets both alike; all of a ratio come from one
process, and from one and the same code, so that neither where its memory lies nor how its code is
laid out makes a difference. Told is the median of all ratios of several processes, with the
interval in which it lies for 95 % of the samples that could have been drawn instead: of processes,
and of the ratios of each.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
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
MARK = 0.01
# Elements after each change of the switch, as a part of a slice, that do not count: the averages
# that say what is sampled come to what they are without the pause.
SETTLING = 8
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


# How many elements are compared, the seconds of a slice, and the ratios of a process: of crops a
# batch more or less shows.
JOBS: dict[str, tuple[Job, int, float, int]] = {
    "crops": (crops, 4, 0.4, 25),
    "short": (short, 200, 0.03, 150),
    "encoded": (encoded, 20, 0.03, 150),
    "batches": (lambda folder: columns(folder, 64), 200, 0.03, 150),
    "single": (lambda folder: columns(folder, None), 2000, 0.03, 150),
}
LABELS = {
    "crops": "crops of 5 s from Vorbis, 2 threads",
    "short": "whole WAV rows of 0.25 s, single",
    "encoded": "encoded rows of 8 kB, batches of 64",
    "batches": "rows of small columns, batches of 64",
    "single": "rows of small columns, single",
}


def digest(job: str, folder: Path, is_on: bool) -> dict[str, Any]:
    """What the first elements are, and whether they were measured."""
    measure(is_on)
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


def measure(is_on: bool) -> None:
    """Turns the statistics on or off, from the next element on."""
    # The stub is that of the users' build, which has no switch.
    importlib.import_module("gristmill._core").measure(is_on)


class Slices:
    """The job's elements, which are taken so many at a time."""

    def __init__(self, job: str, folder: Path) -> None:
        self.iterator = iter(JOBS[job][0](folder))
        self.take(1)
        self.n_elements = 1
        while (took := self.take(self.n_elements)[0]) < JOBS[job][2]:
            more = round(self.n_elements * min(JOBS[job][2] / took, 8))
            self.n_elements = max(self.n_elements + 1, more)

    def take(self, n_elements: int) -> tuple[float, float]:
        """What so many elements take: seconds, and CPU seconds of all threads."""
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(n_elements):
            next(self.iterator)
        ended, cpu_then = at_rest()
        return ended - began, cpu_then - cpu

    def with_switch(self, is_on: bool) -> tuple[float, float]:
        """What a slice takes with statistics or without, checked by what they count."""
        measure(is_on)
        self.take(max(1, self.n_elements // SETTLING))
        counted = self.iterator.stats().elements
        took = self.take(self.n_elements)
        counted = self.iterator.stats().elements - counted
        assert counted == (self.n_elements if is_on else 0), (is_on, counted, self.n_elements)
        return took


def compare(job: str, folder: Path) -> list[tuple[float, float]]:
    """Time and CPU time with statistics against those without, in this process."""
    slices = Slices(job, folder)
    ratios: list[tuple[float, float]] = []
    for k in range(JOBS[job][3]):
        took = {True: [0.0, 0.0], False: [0.0, 0.0]}
        first = k % 2 == 0
        for is_on in (first, not first, not first, first):
            for clock, seconds in enumerate(slices.with_switch(is_on)):
                took[is_on][clock] += seconds
        time_ratio, cpu_ratio = (on / off for on, off in zip(*took.values(), strict=True))
        ratios.append((time_ratio, cpu_ratio))
    slices.iterator.close()
    return ratios


def at_rest() -> tuple[float, float]:
    """Waits until no thread works any more; when that was, and the process's CPU time then.

    A slice so begins and ends with the look-ahead full: what was read ahead in the last one's time
    is neither given to this one nor done in the time of the next.
    """
    ended, cpu = time.perf_counter(), time.process_time()
    while True:
        time.sleep(QUIET)
        now, cpu_now = time.perf_counter(), time.process_time()
        if cpu_now - cpu < QUIET / 10:
            return ended, cpu
        ended, cpu = now, cpu_now


def build(folder: Path) -> None:
    """The wheel, unpacked."""
    target = folder / "switched"
    if not target.exists():
        wheels = folder / "wheel"
        maturin = [Path(sys.executable).with_name("maturin"), "build", "--release", "--out", wheels]
        features = ["--features", "stats-switch", "--quiet"]
        subprocess.run([*maturin, *features], cwd=REPOSITORY, check=True)
        (wheel,) = wheels.glob("*.whl")
        install = ["install", "--quiet", "--no-deps", "--target", target, wheel]
        subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    os.environ["PYTHONPATH"] = str(target)


def check(jobs: list[str], data: Path) -> None:
    """The elements are equal with and without, and the switch does what it says."""
    for job in jobs:
        on, off = (
            report.in_process(__file__, "--digest", job, data, switch) for switch in ("on", "off")
        )
        assert on["digest"] == off["digest"], job
        assert all(on["measured"]), on
        assert not any(off["measured"]), off


def run(jobs: list[str], data: Path, rounds: int) -> None:
    check(jobs, data)
    print("checked: equal elements, measured and not measured", flush=True)
    lines, verdicts = [], []
    for job in jobs:
        arguments = ("--compare", job, data)
        compared = [report.in_process(__file__, *arguments)["ratios"] for _ in range(rounds)]
        costs, texts = [], []
        for clock in (0, 1):
            of = [[ratio[clock] for ratio in ratios] for ratios in compared]
            costs.append(statistics.median(x for ratios in of for x in ratios) - 1)
            low, high = report.interval(of)
            texts.append(f"{costs[-1]:+.2%} ({low - 1:+.2%} to {high - 1:+.2%})")
        lines.append([LABELS[job], *texts])
        met = "met   " if max(costs) < MARK else "MISSED"
        verdicts.append(f"{met}  {LABELS[job]}: {costs[0]:+.2%} and {costs[1]:+.2%}")
        print(verdicts[-1], flush=True)
    print(f"\n{report.conditions()}\n")
    head = ["what measuring costs", "of the time (95 %)", "of the CPU time (95 %)"]
    print(report.table(head, lines), "\n")
    print(f"of the time and of the CPU time, mark {MARK:.0%} for both:", *verdicts, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three processes for each job")
    parser.add_argument("--job", choices=JOBS, action="append", help="this job, and not all")
    parser.add_argument("--rounds", type=int, help="so many processes for each job (12)")
    parser.add_argument("--wheel", type=Path, help="where the build is made and kept")
    parser.add_argument("--build", action="store_true", help="only make the build")
    parser.add_argument("--digest", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--compare", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.digest:
        job, data, switch = options.digest
        print(json.dumps(digest(job, Path(data), switch == "on")))
    elif options.compare:
        job, data = options.compare
        print(json.dumps({"ratios": compare(job, Path(data))}))
    else:
        data = report.data_folder(None)
        data.mkdir(exist_ok=True)
        rounds = options.rounds or (3 if options.quick else 12)
        with tempfile.TemporaryDirectory() as folder:
            build((options.wheel or Path(folder)).absolute())
            if not options.build:
                run(options.job or list(JOBS), data, rounds)


if __name__ == "__main__":
    main()
