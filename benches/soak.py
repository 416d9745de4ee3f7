"""Ten minutes of crops with restarts: `python benches/soak.py [--minutes 10]`.

An endless, shuffled crop job that is stopped, restored from its own state and gone on with, every
few seconds. Prints memory, threads and descriptors each half minute; after the first minute memory
may move by 2 % and the other two not at all, else the exit status is 1. Memory is the median of
what was resident after each batch of the half minute: from one batch to the next it goes up and
down with the rows that are under way.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import material
import report

import gristmill as gm

WARM_S, EVERY_S, RESTART_EVERY = 60.0, 30.0, 40


def count(kind: str) -> int:
    return len(list(Path(f"/proc/self/{kind}").iterdir()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=EVERY_S, help="seconds between looks")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Elsewhere: what encoding leaves behind in this process's heap is not ours to measure.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
            paths = other.submit(material.vorbis_shards, Path(folder), 40).result()
        dataset = gm.ArrowIterDataset(
            paths,
            audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=5)),
            shuffle=gm.Shuffle(1),
            batch_size=16,
            epochs=None,
            read=gm.ReadOptions(memory_budget="256MiB", num_threads=2),
        )
        start = time.monotonic()
        warm_s = min(WARM_S, args.minutes * 60 / 3)
        every_s = min(args.every, (args.minutes * 60 - warm_s) / 3)
        looks: list[tuple[float, int, int]] = []
        resident: list[int] = []
        next_look, n_batches = start + warm_s + every_s, 0
        it = iter(dataset)
        while time.monotonic() < start + args.minutes * 60:
            next(it)
            n_batches += 1
            resident.append(report.resident("VmRSS"))
            if n_batches % RESTART_EVERY == 0:
                state = json.loads(json.dumps(it.get_state()))
                it.close()
                it = iter(dataset)
                it.set_state(state)
                next(it)
            if time.monotonic() < start + warm_s:
                resident.clear()
            if time.monotonic() >= next_look:
                gc.collect()
                looks.append((statistics.median(resident), count("task"), count("fd")))
                resident.clear()
                memory, threads, descriptors = looks[-1]
                print(
                    f"{time.monotonic() - start:6.0f} s  {n_batches:7} batches  "
                    f"{memory / report.MIB:7.1f} MiB  {threads} threads  {descriptors} descriptors",
                    flush=True,
                )
                next_look += every_s
        it.close()
    memory, threads, descriptors = zip(*looks, strict=True)
    spread = max(memory) / min(memory) - 1
    print(f"memory within {spread:.1%}, threads {set(threads)}, descriptors {set(descriptors)}")
    if spread > 0.02 or len(set(threads)) > 1 or len(set(descriptors)) > 1:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
