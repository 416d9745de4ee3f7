"""Peak memory on large record batches: `python benches/bench_memory.py [--quick] [--data FOLDER]`.

Crops of 5 s from WAV rows of 1.5 MB, 100 to a record batch, shuffled, in batches of 64; the peak is
counted above what the process held once everything was loaded. Then, at small budgets and without
decoding: blobs in compressed record batches, many small columns, and strings with lists of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import material
import memory_shards
import report

BUDGETS = {"quick": [256], "full": [128, 256, 512, 1024]}  # MiB
ALLOWED = 1.1
SMALL_BUDGETS = [64, 128]  # MiB
# By shard: rows in a batch, batches, and bytes that may come on top: one body, read and grown.
SHUFFLED = {"compressed": (16, 60, 35_000_000), "columns": (64, 24, 0), "objects": (2_048, 50, 0)}
LABELS = {
    "gristmill": "gristmill",
    "seek": "mmap, seek, soxr, 4 threads",
    "pyarrow": "pyarrow, to_pylist",
}


def batch_by_batch(paths: list[Path]) -> Iterator[int]:
    """What a loop over pyarrow's record batches holds: one of them, as Python objects."""
    import pyarrow as pa

    for path in paths:
        with pa.OSFile(str(path)) as source:
            for record_batch in pa.ipc.open_stream(source):
                yield len(record_batch.to_pylist())


def measure(name: str, budget: int, paths: list[Path]) -> dict[str, Any]:
    import peers

    import gristmill as gm

    n_rows = len(peers.MappedRows(paths))

    def rows(limit: int) -> Iterator[int]:
        if name == "pyarrow":
            yield from batch_by_batch(paths)
            return
        batches = (
            iter(
                gm.ArrowIterDataset(
                    paths,
                    audio=gm.Audio(sample_rate=peers.RATE, crop=gm.RandomCrop(peers.SECONDS)),
                    shuffle=gm.Shuffle(peers.SEED),
                    batch_size=peers.BATCH,
                    epochs=None,
                    read=gm.ReadOptions(memory_budget=budget * report.MIB),
                )
            )
            if name == "gristmill"
            else peers.seek(paths, 4)
        )
        seen = 0
        while seen < limit:
            batch = next(batches)
            seen += len(batch["audio"])
            yield len(batch["audio"])
        getattr(batches, "close", lambda: None)()

    # Resident without any data: the modules are loaded, nothing is open.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, begin = report.resident("VmRSS"), time.perf_counter()
    seen = sum(rows(2 * n_rows))
    assert seen >= n_rows, seen
    return {
        "peak": report.resident("VmHWM") - before,
        "rows_per_s": seen / (time.perf_counter() - begin),
    }


def shuffled(name: str, budget: int, path: Path) -> dict[str, Any]:
    """Batches of a shuffle without decoding, of which the loop holds one at a time."""
    import gristmill as gm

    n_rows, n_batches, _ = SHUFFLED[name]
    read = gm.ReadOptions(memory_budget=budget * report.MIB, num_threads=2)
    options: dict[str, Any] = {"audio": None, "shuffle": gm.Shuffle(1), "epochs": None}
    batches = iter(gm.ArrowIterDataset(path, batch_size=n_rows, read=read, **options))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, begin = report.resident("VmRSS"), time.perf_counter()
    for _ in range(n_batches):
        batch = next(batches)
        assert len(batch["label"]) == n_rows
        if name == "objects":
            assert all(map(str.startswith, batch["text"], map("{:06}".format, batch["label"])))
    seconds = time.perf_counter() - begin
    peak = report.resident("VmHWM") - before
    batches.close()
    return {"peak": peak, "rows_per_s": n_rows * n_batches / seconds}


def run_shuffled(folder: Path) -> None:
    rows, met = [], []
    for name, (_, _, on_top) in SHUFFLED.items():
        path = getattr(memory_shards, name)(folder)
        for budget in SMALL_BUDGETS:
            got = report.in_process(str(Path(__file__)), "--one", name, budget, path)
            peak, allowed = got["peak"] / report.MIB, ALLOWED * budget + on_top / report.MIB
            rate = f"{got['rows_per_s']:.0f}"
            rows.append([name, str(budget), f"{peak:.0f}", f"{peak / budget:.2f}", rate])
            label = f"what {name} may take at {budget} MiB ({allowed:.0f}) over the peak"
            met.append(report.verdict(label, allowed / peak, 1))
    head = ["shuffled, not decoded", "budget MiB", "peak MiB", "peak / budget", "rows/s"]
    print(f"\n{report.table(head, rows)}\n")
    print("\n".join(met))


def run(folder: Path, *, quick: bool) -> None:
    path = material.heavy_shard(folder, 2 if quick else 5)
    jobs = [("gristmill", budget) for budget in BUDGETS["quick" if quick else "full"]]
    rows, met = [], []
    for name, budget in [*jobs, ("seek", 0), ("pyarrow", 0)]:
        got = report.in_process(str(Path(__file__)), "--one", name, budget, path)
        peak = got["peak"] / report.MIB
        label = {"seek": "mmap, seek, soxr, 4 threads", "pyarrow": "pyarrow, to_pylist"}.get(
            name, name
        )
        rows.append(
            [
                label,
                str(budget or "-"),
                f"{peak:.0f}",
                f"{peak / budget:.2f}" if budget else "-",
                f"{got['rows_per_s']:.0f}",
            ]
        )
        if budget:
            met.append(
                report.verdict(f"budget of {budget} MiB over the peak", budget / peak, 1 / ALLOWED)
            )
    print(f"{report.conditions()}\n")
    head = ["150 MB record batches", "budget MiB", "peak MiB", "peak / budget", "rows/s"]
    print(report.table(head, rows), "\n")
    print("\n".join(met))
    print("Pages of a memory map count as the peer's memory here; the kernel can take them back.")
    run_shuffled(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little data, one budget")
    parser.add_argument("--data", type=Path, help="where the shards are made and kept")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, budget, *paths = options.one
        if name in SHUFFLED:
            print(json.dumps(shuffled(name, int(budget), Path(paths[0]))))
        else:
            print(json.dumps(measure(name, int(budget), list(map(Path, paths)))))
    else:
        folder = options.data or Path(tempfile.gettempdir()) / "gristmill-bench"
        run(folder, quick=options.quick)


if __name__ == "__main__":
    main()
