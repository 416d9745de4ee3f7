"""The price of order and of resuming: `python benches/bench_order.py [--quick]`.

Cost of a position, of `get_state`, and the time to the first batch after a restore against that of
a fresh start, and against the restore of Grain's Interleave with WindowShuffle over the same rows.

What a first batch costs depends on the record batches that its rows lie in. An epoch's windows
begin with blocks that are cut short by drawn lengths, so that where rows are small, and read by the
record batch, a fresh start has less to read than a restore in the middle. So that is measured for a
seed and a step that have as much to read as that seed's first, which is like against like, and for
others, which is what users will see.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain
import material
import numpy as np
import pyarrow as pa
import report

import gristmill as gm

N_SHARDS, ROWS, CHUNK, BATCH = 20, 500, 100, 64
SMALL, AUDIO = 4096, 65_536
WINDOW, STREAMS, STEP = 1000, 4, 60


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


def write(folder: Path, n_bytes: int, schema: pa.Schema) -> list[Path]:
    """Shards whose first column has values of `n_bytes`, as such or as encoded audio."""
    rng = np.random.default_rng(1)
    paths = []
    for s in range(N_SHARDS):
        path = folder / f"{n_bytes}-{s:03}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for start in range(0, ROWS, CHUNK):
                rows = pa.array([rng.bytes(n_bytes) for _ in range(CHUNK)], pa.binary())
                labels = pa.array(range(start, start + CHUNK), pa.int64())
                if pa.types.is_struct(schema.field(0).type):
                    names = pa.nulls(CHUNK, pa.string())
                    rows = pa.StructArray.from_arrays([rows, names], ["bytes", "path"])
                writer.write_batch(pa.record_batch([rows, labels], schema=schema))
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
    return shuffled.batch(BATCH)


def first_batch_ms(ds: Any, state: Any) -> float:
    start = time.perf_counter()
    it = iter(ds)
    if state is not None:
        it.set_state(state)
    next(it)
    elapsed = time.perf_counter() - start
    it.close()
    return elapsed * 1e3


def resume(ds: Any, step: int, rounds: int) -> tuple[float, float]:
    """Milliseconds to the first batch, fresh and restored, in turns; medians."""
    it = iter(ds)
    for _ in range(step):
        next(it)
    state, expected = it.get_state(), next(it)
    it.set_state(state)
    np.testing.assert_equal(next(it), expected)
    it.close()
    times = [(first_batch_ms(ds, None), first_batch_ms(ds, state)) for _ in range(rounds)]
    fresh, restored = (statistics.median(column) for column in zip(*times, strict=True))
    return fresh, restored


def record_batches(shuffle: gm.Shuffle, step: int) -> np.ndarray:
    """How many record batches a step's rows lie in; and those of what is read ahead with them."""
    ahead = gm.ReadOptions().prefetch_batches
    start = step * BATCH
    order = gm.global_order([ROWS] * N_SHARDS, start, start + (1 + ahead) * BATCH, shuffle=shuffle)
    places = list(zip(order.shard.tolist(), (order.row // CHUNK).tolist(), strict=True))
    return np.array([len(set(places[:BATCH])), len(set(places))])


def alike() -> tuple[int, int]:
    """The seed, and the step, that has about as much to read as that seed's first."""

    def differs(seed: int, step: int) -> int:
        shuffle = windowed(seed)
        return int(np.abs(record_batches(shuffle, step) - record_batches(shuffle, 0)).sum())

    return min(itertools.product(range(64), range(30, 90)), key=lambda it: differs(*it))


def windowed(seed: int) -> gm.Shuffle:
    return gm.Shuffle(seed, window=WINDOW, streams=STREAMS)


def compare_orders(n: int) -> None:
    orders = {
        "file order": None,
        "global": gm.Shuffle(1),
        "windowed": gm.Shuffle(1, window=100_000, streams=64),
    }
    print("\nmicroseconds a position, 10^9 rows in 10,000 shards (promised: under 1)")
    for name, shuffle in orders.items():
        print(f"  {name:12} {positions(shuffle, n):6.3f}")


def compare_resuming(folder: Path, rounds: int) -> None:
    small_schema = pa.schema([("data", pa.binary()), ("label", pa.int64())])
    small, audio = write(folder, SMALL, small_schema), write(folder, AUDIO, material.SCHEMA)

    def ours(paths: list[Path], shuffle: gm.Shuffle) -> gm.ArrowIterDataset:
        return gm.ArrowIterDataset(paths, shuffle=shuffle, batch_size=BATCH, audio=None)

    print("\nmicroseconds for get_state (promised: under 2)")
    for name, ds in {
        "gristmill, global": ours(small, gm.Shuffle(1)),
        "gristmill, windowed": ours(small, windowed(1)),
        "Interleave + WindowShuffle": grains(small),
    }.items():
        it = iter(ds)
        next(it)
        print(f"  {name:28} {per_call_us(it.get_state, 2_000):7.2f}")
        it.close()

    print("\nfirst batch: milliseconds, and record batches that it lies in (promised: under 1.2)")
    print(f"  {'':52} {'fresh':>12}  {'restored':>12}  ratio")
    places = [alike(), *((seed, STEP) for seed in (1, 2, 3, 4))]
    orders = {("global", STEP): gm.Shuffle(1)}
    orders |= {(f"windowed, seed {seed}", step): windowed(seed) for seed, step in places}
    for size, paths in {"64 KiB audio": audio, "4 KiB rows": small}.items():
        for (name, step), shuffle in orders.items():
            touched = [record_batches(shuffle, at)[0] for at in (0, step)]
            times = resume(ours(paths, shuffle), step, rounds)
            line(f"gristmill, {size}, {name}, step {step}", times, touched)
    line("Interleave + WindowShuffle, 4 KiB", resume(grains(small), STEP, rounds), [0, 0])


def line(name: str, times: tuple[float, float], touched: list[int]) -> None:
    columns = [f"{t:7.1f} ({n or '-':>2})" for t, n in zip(times, touched, strict=True)]
    print(f"  {name:52} {'  '.join(columns)}  {times[1] / times[0]:5.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    compare_orders(100_000 if quick else 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        compare_resuming(Path(folder), 7 if quick else 21)
    print(f"\n{report.conditions()}")


if __name__ == "__main__":
    main()
