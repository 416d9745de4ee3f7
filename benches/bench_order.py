"""The price of order and of resuming: `python benches/bench_order.py [--quick]`.

Cost of a position, of `get_state`, and the time to the first batch after a restore against that of
a fresh start, and against the restore of Grain's Interleave with WindowShuffle over the same rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pyarrow as pa
import report

import gristmill as gm

N_SHARDS, ROWS, ROW_BYTES, WINDOW = 20, 500, 4096, 1000


def per_call_us(call: Callable[[], Any], n: int) -> float:
    """The fastest of five rounds: whatever else the machine does only adds."""
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(n):
            call()
        rounds.append((time.perf_counter() - start) / n * 1e6)
    return min(rounds)


def positions(shuffle: gm.Shuffle | None, n: int) -> float:
    """Microseconds a position, of 10^9 rows in 10,000 shards."""
    counts = [100_000] * 10_000

    def take(k: int) -> float:
        start = time.thread_time()  # one thread works, whatever else runs on the machine
        gm.global_order(counts, 10**8, 10**8 + k, shuffle=shuffle)
        return time.thread_time() - start

    return min(take(n) - take(1) for _ in range(5)) / n * 1e6


def write(folder: Path) -> list[Path]:
    rng = np.random.default_rng(1)
    paths = []
    for s in range(N_SHARDS):
        rows = [rng.bytes(ROW_BYTES) for _ in range(ROWS)]
        table = pa.table({"data": pa.array(rows, pa.binary())})
        path = folder / f"{s:03}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
        paths.append(path)
    return paths


class Rows(grain.IterDataset[bytes]):
    """One shard for Grain's Interleave, its rows read in sequence by pyarrow."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def __iter__(self) -> grain.DatasetIterator[bytes]:
        with pa.OSFile(str(self.path)) as source:
            column = pa.ipc.open_stream(source).read_all()["data"]
        rows = grain.MapDataset.range(len(column)).map(lambda i: column[i].as_py())
        return iter(rows.to_iter_dataset(grain.ReadOptions(num_threads=0)))


def grains(paths: list[Path]) -> grain.IterDataset[Any]:
    sources = grain.MapDataset.source(paths).map(Rows)
    mixed = grain.experimental.InterleaveIterDataset(sources, cycle_length=4)
    shuffled = grain.experimental.WindowShuffleIterDataset(mixed, window_size=WINDOW, seed=1)
    return shuffled.batch(64)


def first_batch_ms(ds: Any, state: Any) -> float:
    start = time.perf_counter()
    it = iter(ds)
    if state is not None:
        it.set_state(state)
    next(it)
    elapsed = time.perf_counter() - start
    it.close()
    return elapsed * 1e3


def resume(ds: Any, rounds: int) -> tuple[float, float]:
    """Milliseconds to the first batch, fresh and restored, in turns; medians."""
    it = iter(ds)
    for _ in range(60):
        next(it)
    state = it.get_state()
    it.close()
    times = [(first_batch_ms(ds, None), first_batch_ms(ds, state)) for _ in range(rounds)]
    fresh, restored = (statistics.median(column) for column in zip(*times, strict=True))
    return fresh, restored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    print(report.conditions())
    n = 100_000 if quick else 1_000_000
    orders = {
        "file order": None,
        "global": gm.Shuffle(1),
        "windowed": gm.Shuffle(1, window=100_000, streams=64),
    }
    print("\nmicroseconds a position, 10^9 rows in 10,000 shards (promised: under 1)")
    for name, shuffle in orders.items():
        print(f"  {name:12} {positions(shuffle, n):6.3f}")
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder))
        windowed = gm.Shuffle(1, window=WINDOW, streams=4)
        kinds = {
            "gristmill, global": gm.ArrowIterDataset(paths, shuffle=gm.Shuffle(1), batch_size=64),
            "gristmill, windowed": gm.ArrowIterDataset(paths, shuffle=windowed, batch_size=64),
            "Interleave + WindowShuffle": grains(paths),
        }
        print("\nmicroseconds for get_state (promised: under 2)")
        for name, ds in kinds.items():
            it = iter(ds)
            next(it)
            print(f"  {name:28} {per_call_us(it.get_state, 2_000):7.2f}")
            it.close()
        print("\nmilliseconds to the first batch (promised: restored under 1.2 of fresh)")
        for name, ds in kinds.items():
            fresh, restored = resume(ds, 7 if quick else 21)
            ratio = restored / fresh
            print(f"  {name:28} fresh {fresh:7.1f}  restored {restored:7.1f}  ratio {ratio:5.2f}")


if __name__ == "__main__":
    main()
