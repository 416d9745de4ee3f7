"""Steps over slow storage: `python benches/bench_slow_storage.py [--quick] [--rounds N]`.

A FUSE file system answers each request after 5 ms and sends 200 MB/s in all. A training loop takes
batches of 16 encoded recordings of 0.2 to 0.8 MB in a shuffled order, and "computes" for so long
that it asks for 70 % of what the storage sends. Nothing is decoded: the steps show reading alone.
The last line is the same loop over rows in memory, the steps that no reading could make shorter.
Two of 200 steps that another program makes wait decide about a 99th percentile, so that ours are
measured in several rounds, and the median of these is told.
`--svg FILE` writes the plot of their times.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import material
import numpy as np
import pyarrow as pa
import report
import slow_storage

LATENCY, BANDWIDTH, DEMAND = 0.005, 200e6, 0.7
BATCH, ROWS_PER_SHARD, BATCH_ROWS = 16, 200, 100
N_SHARDS = {True: 6, False: 18}
KINDS = [
    "gristmill",
    "gristmill, no sidecars",
    "Grain Interleave, record batches",
    "memory map",
    "the loop alone",
]
STEADY = [KINDS[0], KINDS[1], KINDS[4]]
HEAD = ["5 ms, 200 MB/s, demand 70 %", "first ms", "/ ideal", "median ms", "p99", "max"]
HEAD += ["bytes", "waited ms"]
MARKED = ["p99", "max", "/ ideal"]


def shard(folder: Path, k: int) -> Path:
    """200 recordings of 0.2 to 0.8 MB in record batches of 100, in about 100 MB."""
    path = folder / f"slow-{k:02}.arrow"
    if not path.exists():
        rng = np.random.default_rng([9, k])
        with pa.OSFile(f"{path}.part", "wb") as f, pa.ipc.new_stream(f, material.SCHEMA) as out:
            for start in range(0, ROWS_PER_SHARD, BATCH_ROWS):
                ids = range(start, start + BATCH_ROWS)
                rows = [rng.bytes(int(rng.integers(200_000, 800_000))) for _ in ids]
                audio = [{"bytes": data, "path": str(i)} for i, data in zip(ids, rows, strict=True)]
                labels = [k * ROWS_PER_SHARD + i for i in ids]
                columns = [pa.array(audio, material.SCHEMA.field(0).type), pa.array(labels)]
                out.write_batch(pa.record_batch(columns, schema=material.SCHEMA))
        Path(f"{path}.part").rename(path)
    return path


Batches = Generator[tuple[list[int], int], None, None]
"""Batches by their labels and bytes."""

waits: list[float] = []
"""How long Gristmill's consumer waited for data after the first batch, in seconds."""


def gristmill(paths: list[Path], index_dir: str | None) -> Batches:
    import gristmill as gm

    read = gm.ReadOptions(index_dir=index_dir)
    it = iter(
        gm.ArrowIterDataset(
            paths, audio=None, batch_size=BATCH, shuffle=gm.Shuffle(1), epochs=None, read=read
        )
    )
    try:
        for batch in it:
            yield batch["label"].tolist(), sum(map(len, batch["audio"]["bytes"]))
    finally:
        waits.append(it.stats().stages.consumer.waiting_seconds)
        it.close()


def interleaved(paths: list[Path], _: str | None) -> Batches:
    """What `datasets` streaming and most loaders do: a record batch at a time, shards in turn."""
    import grain

    class Rows(grain.DatasetIterator):
        def __init__(self, path: str) -> None:
            super().__init__()
            self._rows = self._read(path)

        @staticmethod
        def _read(path: str) -> Iterator[dict[str, Any]]:
            with pa.OSFile(path) as source:
                for record_batch in pa.ipc.open_stream(source):
                    yield from record_batch.to_pylist()

        def __next__(self) -> dict[str, Any]:
            return next(self._rows)

        def get_state(self) -> dict[str, Any]:
            return {}

        def set_state(self, state: dict[str, Any]) -> None:
            pass

    class Shard(grain.IterDataset):
        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

        def __iter__(self) -> Rows:
            return Rows(self.path)

    ds = grain.MapDataset.source(list(map(str, paths))).shuffle(seed=1).map(Shard)
    ds = grain.experimental.InterleaveIterDataset(ds, cycle_length=4)
    ds = grain.experimental.WindowShuffleIterDataset(ds, window_size=100, seed=1)
    ds = ds.batch(BATCH, batch_fn=list)
    ds = grain.experimental.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=4)
    for rows in ds:
        yield [row["label"] for row in rows], sum(len(row["audio"]["bytes"]) for row in rows)


def mapped(paths: list[Path], _: str | None) -> Batches:
    import grain
    import peers

    class Copied(peers.MappedRows):
        def __getitem__(self, index: int) -> dict[str, Any]:
            row = super().__getitem__(index)
            return {"data": row["data"].to_pybytes(), "label": row["label"]}

    ds = grain.MapDataset.source(Copied(paths)).shuffle(seed=1)
    read = grain.ReadOptions(num_threads=16, prefetch_buffer_size=64)
    for rows in ds.to_iter_dataset(read).batch(BATCH, batch_fn=list):
        yield [row["label"] for row in rows], sum(len(row["data"]) for row in rows)


def alone(_: list[Path], __: str | None) -> Batches:
    """Copies of rows that are in memory: what the machine makes of the loop without any storage."""
    rng = np.random.default_rng(1)
    data = memoryview(rng.bytes(8_000_000))
    for start in itertools.count(step=BATCH):
        rows = [bytes(data[: int(n)]) for n in rng.integers(200_000, 800_000, BATCH)]
        yield list(range(start, start + BATCH)), sum(map(len, rows))


MAKE: dict[str, Callable[[list[Path], str | None], Batches]] = {
    KINDS[0]: gristmill,
    KINDS[1]: gristmill,
    KINDS[2]: interleaved,
    KINDS[3]: mapped,
    KINDS[4]: alone,
}


def measure(kind: str, index_dir: str, demand: float, n_steps: int, mount: str) -> dict[str, Any]:
    """Times of the steps, each with its wait and its computing; that of the first batch apart."""
    paths = sorted(Path(mount).glob("*.arrow"))
    importlib.import_module("gristmill")  # what is loaded once is no part of the first batch

    compute = BATCH * 500_000 / (BANDWIDTH * demand) if demand else 0.0
    begin = time.perf_counter()
    batches = MAKE[kind](paths, index_dir if kind == KINDS[0] else None)
    labels, first_bytes = next(batches)
    first = time.perf_counter() - begin
    seen, n_bytes, steps = list(labels), 0, []
    last = time.perf_counter()
    for labels, size in batches:
        time.sleep(max(0.0, compute))
        now = time.perf_counter()
        steps.append(now - last)
        last = now
        seen += labels
        n_bytes += size
        if len(steps) == n_steps:
            break
    batches.close()
    assert len(set(seen)) == len(seen), "rows came twice"
    waited = waits[-1] if waits else None
    sizes = {"first_bytes": first_bytes, "n_bytes": n_bytes, "waited": waited}
    return {"first": first, "steps": steps, **sizes}


def one(kind: str, folder: Path, scratch: Path, demand: float, n_steps: int) -> dict[str, Any]:
    """One measurement, on a fresh mount, in a fresh process."""
    sidecars, mount = scratch / "sidecars", scratch / "mount"

    def storage() -> slow_storage.SlowStorage:
        return slow_storage.SlowStorage(folder, latency=LATENCY, bandwidth=BANDWIDTH, at=mount)

    if kind == KINDS[0]:
        with storage():
            write_sidecars(sorted(mount.glob("*.arrow")), sidecars)
    slow = storage()
    with slow:
        got = report.in_process(__file__, "--one", kind, sidecars, demand, n_steps, mount)
        got["reads"], got["sent"] = slow.send()
    return got


def run(folder: Path, *, quick: bool, rounds: int, svg: Path | None) -> None:
    if (reason := slow_storage.why_not()) is not None:
        print(f"skipped: {reason}")
        return
    folder = folder / ("slow-quick" if quick else "slow")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [shard(folder, k) for k in range(N_SHARDS[quick])]
    old = time.time() - 60
    for path in paths:
        os.utime(path, (old, old))
        with path.open("rb") as file:  # into the page cache: what a disk takes is not measured
            while file.read(1 << 24):
                pass
    n_steps = min(200, len(paths) * ROWS_PER_SHARD // BATCH - 8)
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as scratch:
        for k in range(rounds):
            # The peers miss the marks by so much that one of their runs, the longest, will do.
            for kind in KINDS if k == 0 else STEADY:
                found[kind].append(one(kind, folder, Path(scratch), DEMAND, n_steps))
        got = one(KINDS[1], folder, Path(scratch), 0.0, n_steps)
    used = got["n_bytes"] / sum(got["steps"]) / BANDWIDTH
    lines = {kind: [figures(got) for got in of] for kind, of in found.items()}
    ours = lines[KINDS[0]]
    p99, longest, first = (statistics.median(of[name] for of in ours) for name in MARKED)
    print(f"{report.conditions()}\n")
    print(report.table(HEAD, [[kind, *told(of)] for kind, of in lines.items()]), "\n")
    print(report.verdict("1.1 x median over the 99th percentile", 1.1 / p99, 1))
    print(report.verdict("2 x median over the longest step", 2 / longest, 1))
    print(report.verdict("1.5 x ideal over the first batch", 1.5 / first, 1))
    print(report.verdict("share of the bandwidth used at full demand", used, 0.9))
    print(f"Medians of {rounds} rounds, and their extremes; p99 and max over the median step;")
    print("bytes that the storage sent over those delivered; how long the loop waited for data")
    print("after the first batch, in all.")
    if svg is not None:
        svg.write_text(plot({kind: of[0]["steps"] for kind, of in found.items()}), encoding="utf-8")


def figures(got: dict[str, Any]) -> dict[str, float | None]:
    """What one measurement came to, by the names of the table's columns."""
    median = statistics.median(got["steps"])
    ideal = got["first_bytes"] / BANDWIDTH + 4 * LATENCY
    return {
        "first ms": 1000 * got["first"],
        "/ ideal": got["first"] / ideal,
        "median ms": 1000 * median,
        "p99": float(np.quantile(got["steps"], 0.99)) / median,
        "max": max(got["steps"]) / median,
        "bytes": got["sent"] / (got["n_bytes"] + got["first_bytes"]),
        "waited ms": None if got["waited"] is None else 1000 * got["waited"],
    }


def told(of: list[dict[str, float | None]]) -> list[str]:
    """A line of the table: medians, and the extremes where there were several rounds."""
    cells = []
    for name in HEAD[1:]:
        values = [value for one in of if (value := one[name]) is not None]
        digits = 0 if name.endswith("ms") else 2
        cell = f"{statistics.median(values):.{digits}f}" if values else "-"
        if len(values) > 1:
            cell += f" ({min(values):.{digits}f}-{max(values):.{digits}f})"
        cells.append(cell)
    return cells


def write_sidecars(paths: list[Path], folder: Path) -> None:
    import gristmill as gm

    read = gm.ReadOptions(index_dir=folder)
    next(iter(gm.ArrowIterDataset(paths, audio=None, columns=["label"], read=read)))


def plot(times: dict[str, list[float]]) -> str:
    """The times of the steps as SVG, on a logarithmic axis."""
    width, height, left, top = 760, 320, 60, 30
    colours = ["#0072b2", "#56b4e9", "#d55e00", "#009e73", "#999999"]
    low, high = 0.02, 5.0

    def y(seconds: float) -> float:
        share = np.log(min(max(seconds, low), high) / low) / np.log(high / low)
        return top + (height - top - 40) * (1 - share)

    n = max(map(len, times.values()))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
    out = [f'{head} font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for seconds in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5):
        at = f"{y(seconds):.1f}"
        line = f'<line x1="{left}" x2="{width - 10}" y1="{at}" y2="{at}" stroke="#ddd"/>'
        out.append(f'{line}<text x="{left - 6}" y="{at}" text-anchor="end">{seconds:g} s</text>')
    for k, (kind, steps) in enumerate(times.items()):
        points = " ".join(
            f"{left + (width - left - 10) * i / n:.1f},{y(s):.1f}" for i, s in enumerate(steps)
        )
        colour = colours[k]
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        place = left + (width - left) * k // len(times)
        out.append(f'<text x="{place}" y="18" font-size="10" fill="{colour}">{kind}</text>')
    out.append(f'<text x="{width / 2}" y="{height - 12}" text-anchor="middle">step</text></svg>\n')
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a third of the data and steps")
    parser.add_argument("--data", type=Path, help="where the shards are made and kept")
    parser.add_argument("--rounds", type=int, default=5, help="of our own lines")
    parser.add_argument("--svg", type=Path, help="where the plot of the steps is written")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, index_dir, demand, n_steps, mount = options.one
        print(json.dumps(measure(kind, index_dir, float(demand), int(n_steps), mount)))
    else:
        folder = options.data or Path(tempfile.gettempdir()) / "gristmill-bench"
        run(folder, quick=options.quick, rounds=options.rounds, svg=options.svg)


if __name__ == "__main__":
    main()
