"""A scan beside the bare decode loop: `python benches/bench_scan.py [--quick] [--data FOLDER]`.

The bare loop decodes the same rows from memory, on as many threads, and nothing else: no reading,
no order, no report. It comes in two kinds: `decode`, as a user would write it, whose samples take
memory, and `check`, the very calls of a scan. Each measurement is a fresh process, and they take
turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import material
import report

MARK = 0.9


def rows_in_memory(paths: list[Path]) -> list[bytes]:
    import pyarrow as pa

    tables = [pa.ipc.open_stream(path).read_all() for path in paths]
    return [row["bytes"] for table in tables for row in table["audio"].to_pylist()]


def bare(look: Callable[[bytes], object], rows: list[bytes], n_threads: int) -> float:
    """Seconds for all rows; each thread takes the next one that is left."""
    left = iter(rows)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                data = next(left, None)
            if data is None:
                return
            look(data)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def measure(name: str, paths: list[Path], n_threads: int, seconds: float) -> dict[str, Any]:
    """Rows per second of whole passes, for at least this long."""
    import gristmill as gm
    from gristmill import _core
    from gristmill.options import native_limits

    if name == "scan":
        read = gm.ReadOptions(num_threads=n_threads)

        def once() -> tuple[int, float]:
            began = time.perf_counter()
            found = gm.scan(paths, read=read)
            assert found.is_clean
            return found.rows, time.perf_counter() - began
    else:
        rows, limits = rows_in_memory(paths), native_limits(gm.Limits())
        look: Callable[[bytes], object] = {
            "decode": gm.decode,
            "check": lambda data: _core.check(data, decode=True, limits=limits),
        }[name]

        def once() -> tuple[int, float]:
            return len(rows), bare(look, rows, n_threads)

    once()  # page cache, tables, sidecars
    n_rows, taken = 0, 0.0
    while taken < seconds:
        n, elapsed = once()
        n_rows, taken = n_rows + n, taken + elapsed
    return {"rows_per_s": n_rows / taken, "peak_rss": report.peak_rss()}


def run(folder: Path, *, quick: bool) -> None:
    paths = material.vorbis_shards(folder, 24 if quick else 150)
    repetitions, seconds = (2, 2.0) if quick else (5, 6.0)
    cores = len(os.sched_getaffinity(0))
    me = str(Path(__file__))
    names = ("scan", "decode", "check")
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for k in range(repetitions):
        for name in names:
            found = report.in_process(me, "--one", name, cores, seconds, *paths)
            runs[name].append(found)
            print(f"{k + 1}/{repetitions} {name}: {found['rows_per_s']:.1f} rows/s", flush=True)
    print(report.conditions())
    print(
        report.table(
            ["", "rows/s", "peak MiB"],
            [
                [
                    name,
                    report.spread([r["rows_per_s"] for r in of]),
                    f"{max(r['peak_rss'] for r in of) / report.MIB:.0f}",
                ]
                for name, of in runs.items()
            ],
        )
    )
    # Ratios within a repetition: what the machine does to one, it does to its neighbour.
    for name in names[1:]:
        pairs = zip(runs["scan"], runs[name], strict=True)
        ratio = statistics.median(s["rows_per_s"] / b["rows_per_s"] for s, b in pairs)
        print(report.verdict(f"scan against the bare loop of {name}", ratio, MARK))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little data, short runs")
    parser.add_argument("--data", type=Path, help="where the shards are made and kept")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, threads, seconds, *paths = arguments.one
        print(json.dumps(measure(name, list(map(Path, paths)), int(threads), float(seconds))))
        return
    folder = arguments.data or Path(tempfile.gettempdir()) / "gristmill-bench"
    run(folder, quick=arguments.quick)


if __name__ == "__main__":
    main()
