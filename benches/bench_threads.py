"""One and two threads on the crop job: `python benches/bench_threads.py [--quick] [--data FOLDER]`.

The job of `bench_crop.py`, beside its bare loop over the same decode calls: what a busy machine
takes from two threads, it takes from both. Each measurement is a fresh process, in turns.
"""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any

import material
import numpy as np
import report

MARK = 1.9
THREADS = (1, 2)
NAMES = ("gristmill", "bare loop")


def check(paths: list[Path]) -> None:
    """One and two threads give the same batches."""
    import peers

    one, two = (peers.gristmill(paths, n) for n in THREADS)
    for _ in range(4):
        np.testing.assert_equal(next(one), next(two))


def run(folder: Path, *, quick: bool) -> None:
    paths = material.vorbis_shards(folder, 24 if quick else 150)
    rounds, seconds = (3, 3.0) if quick else (9, 6.0)
    report.in_process(__file__, "--check", *paths)
    print("checked: equal batches on 1 and 2 threads", flush=True)
    bench = str(Path(__file__).with_name("bench_crop.py"))
    measured: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for k, (name, n) in itertools.product(range(rounds), itertools.product(NAMES, THREADS)):
        one = report.in_process(bench, "--one", name, n, seconds, *paths)
        measured.setdefault((name, n), []).append(one)
        print(f"{k + 1}/{rounds} {name}, {n}: {one['rows_per_s']:.1f} rows/s", flush=True)

    def ratios(name: str) -> list[float]:
        pairs = zip(measured[name, 1], measured[name, 2], strict=True)
        return [two["rows_per_s"] / one["rows_per_s"] for one, two in pairs]

    rows = [
        [
            f"{name}, {n} thread{'s' * (n > 1)}",
            report.spread([one["rows_per_s"] for one in measured[name, n]]),
            f"{statistics.median(one['cpu_ms_per_row'] for one in measured[name, n]):.3f}",
            ratio_text(ratios(name)) if n > 1 else "",
        ]
        for name, n in itertools.product(NAMES, THREADS)
    ]
    print(f"\n{report.conditions()}\n")
    head = ["crop job", "rows/s (spread)", "CPU ms a row", "2 threads / 1 (spread)"]
    print(report.table(head, rows), "\n")
    print(report.verdict("2 threads / 1", statistics.median(ratios("gristmill")), MARK))


def ratio_text(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    options = report.arguments(__doc__).parse_args()
    if options.check:
        check(options.check)
        print("{}")
    else:
        run(report.data_folder(options.data), quick=options.quick)


if __name__ == "__main__":
    main()
