"""The crop job beside its peers: `python benches/bench_crop.py [--quick] [--data FOLDER]`.

Random crops of 5 s at 32 kHz mono from Ogg Vorbis recordings of 10 to 180 s, shuffled, in batches
of 64. Each measurement is a fresh process, and the peers take turns.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import material
import numpy as np
import report

MARKS = {"whole file": 10.0, "seek": 1.5, "bare loop": 0.9}
THREADS_TRIED = (2, 4, 8, 16)


def check(paths: list[Path]) -> None:
    """The results before their speed: every row once, and crops that are what soundfile reads."""
    import peers
    import soundfile

    import gristmill as gm

    source = peers.MappedRows(paths)
    ds = gm.ArrowIterDataset(
        paths,
        audio=gm.Audio(sample_rate=peers.RATE, crop=gm.RandomCrop(peers.SECONDS)),
        shuffle=gm.Shuffle(peers.SEED),
        batch_size=peers.BATCH,
        with_row_id=True,
    )
    seen, compared = [], 0
    for batch in ds:
        assert batch["audio"].shape[1:] == (peers.FRAMES,)
        assert batch["audio"].dtype == np.float32
        assert np.isfinite(batch["audio"]).all()
        seen += list(zip(batch["shard"].tolist(), batch["row"].tolist(), strict=True))
        for (shard, row), crop in zip(seen[-len(batch["row"]) :], batch["audio"], strict=True):
            data = bytes(source[sum(source.counts[:shard]) + row]["data"])
            if compared >= 8 or soundfile.info(io.BytesIO(data)).samplerate != peers.RATE:
                continue
            whole, _ = soundfile.read(io.BytesIO(data), dtype="float32")
            starts = np.flatnonzero(np.abs(whole - crop[0]) <= 1e-6)
            found = (whole[s : s + peers.FRAMES] for s in starts)
            assert any(w.shape == crop.shape and np.abs(w - crop).max() <= 1e-6 for w in found)
            compared += 1
    assert sorted(seen) == [(s, r) for s, n in enumerate(source.counts) for r in range(n)]
    assert compared > 0
    for name in ("whole file", "seek"):
        batch = next(peers.PEERS[name](paths, 2))
        assert batch["audio"].shape == (peers.BATCH, peers.FRAMES)


def measure(name: str, paths: list[Path], n_threads: int, seconds: float) -> dict[str, Any]:
    """Rows per second after the first batch, for at least this long."""
    import peers

    begin = time.perf_counter()
    batches = peers.PEERS[name](paths, n_threads)
    next(batches)
    now = begin_steady = time.perf_counter()
    cpu = time.process_time()
    n_rows = 0
    # Two worker processes deliver in turn, and so two batches at a time.
    while now - begin_steady < seconds or n_rows % (2 * peers.BATCH) or n_rows == 0:
        batch = next(batches)
        assert len(batch["audio"]) == len(batch["label"]) == peers.BATCH
        n_rows += peers.BATCH
        now = time.perf_counter()
    rate, cpu = n_rows / (now - begin_steady), time.process_time() - cpu
    close = getattr(batches, "close", None)
    if close is not None:
        close()
    del batches
    n_children = 2 if name == "whole file" else 0
    return {
        "rows_per_s": rate,
        "cpu_ms_per_row": 1e3 * cpu / n_rows,  # of this process: without worker processes
        "first_batch_s": begin_steady - begin,
        "peak_rss": report.peak_rss(n_children),
    }


def run(folder: Path, *, quick: bool) -> None:
    paths = material.vorbis_shards(folder, 24 if quick else 150)
    repetitions, seconds = (2, 2.0) if quick else (5, 8.0)
    cores = len(os.sched_getaffinity(0))
    me = str(Path(__file__))
    report.in_process(me, "--check", *paths)
    print("checked: every row once, crops equal to soundfile's", flush=True)

    def one(name: str, n_threads: int, seconds: float) -> dict[str, Any]:
        return report.in_process(me, "--one", name, n_threads, seconds, *paths)

    tried = {n: one("seek", n, seconds / 2)["rows_per_s"] for n in THREADS_TRIED}
    best = max(tried, key=tried.__getitem__)
    print("seek, rows/s by threads:", {n: round(rate, 1) for n, rate in tried.items()}, flush=True)

    threads = {"gristmill": cores, "whole file": 1, "seek": best, "bare loop": cores}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in threads}
    for k, (name, n) in itertools.product(range(repetitions), threads.items()):
        runs[name].append(one(name, n, seconds))
        print(
            f"{k + 1}/{repetitions} {name}: {runs[name][-1]['rows_per_s']:.1f} rows/s", flush=True
        )

    # Ratios within a repetition: what the machine does to one, it does to its neighbour.
    ratios = {
        name: [
            g["rows_per_s"] / p["rows_per_s"] for g, p in zip(runs["gristmill"], of, strict=True)
        ]
        for name, of in runs.items()
    }
    labels = {
        "gristmill": f"gristmill, {cores} threads",
        "whole file": "(a) whole file, mp_prefetch(2)",
        "seek": f"(b) mmap, seek, soxr, {best} threads",
        "bare loop": f"(c) bare decode loop, {cores} threads",
    }
    rows = [
        [
            labels[name],
            report.spread([r["rows_per_s"] for r in of]),
            f"{statistics.median(ratios[name]):.2f}",
            f"{statistics.median(r['first_batch_s'] for r in of):.2f}",
            f"{max(r['peak_rss'] for r in of) / report.MIB:.0f}",
        ]
        for name, of in runs.items()
    ]
    print(f"\n{report.conditions()}\n")
    head = ["crop job", "rows/s (spread)", "gristmill / it", "first batch s", "peak RSS MiB"]
    print(report.table(head, rows), "\n")
    for name, mark in MARKS.items():
        print(report.verdict(labels[name], statistics.median(ratios[name]), mark))


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, n_threads, seconds, *paths = options.one
        print(json.dumps(measure(name, list(map(Path, paths)), int(n_threads), float(seconds))))
    elif options.check:
        check(options.check)
        print("{}")
    else:
        run(report.data_folder(options.data), quick=options.quick)


if __name__ == "__main__":
    main()
