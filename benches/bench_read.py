"""Reading without decoding: `python benches/bench_read.py [--quick] [--data FOLDER]`.

Page-cached local shards: rows of audio against a loop of `pread`; token rows against `to_pylist`,
Grain's Parquet source and copying memory; peak memory over record batches of 1.4 GB; what a first
row and an opening cost.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import material
import numpy as np
import pyarrow as pa
import report

MIB = report.MIB
ROW_BYTES, BATCH, TOKENS = 1_400_000, 64, 2_048
N_AUDIO, N_TOKENS = {True: 300, False: 1_000}, {True: 20_000, False: 60_000}
ROUNDS = {True: 3, False: 5}
BUDGET = 512 * MIB
N_SHARDS = 185


class Sparse:
    """A file that leaves a hole where it is told to write many zeros."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if len(view) > MIB:
            self._file.seek(len(view), os.SEEK_CUR)
        else:
            self._file.write(view)
        return len(view)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.truncate()
        self._file.close()
        self.closed = True


def audio_shard(path: Path, n_rows: int, batch_rows: int, *, sparse: bool) -> Path:
    """Rows of 1.4 MB: all alike, or holes."""
    if path.exists():
        return path
    data = np.zeros(batch_rows * ROW_BYTES, np.uint8)
    if not sparse:
        data[:] = np.arange(len(data), dtype=np.uint64).view(np.uint8)[: len(data)]
    offsets = np.arange(batch_rows + 1, dtype=np.int32) * ROW_BYTES
    binary = pa.Array.from_buffers(
        pa.binary(), batch_rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    names = pa.array([f"recording-{i}" for i in range(batch_rows)])
    audio = pa.StructArray.from_arrays([binary, names], fields=list(material.SCHEMA.field(0).type))
    part = path.with_suffix(".part")
    sink: Any = pa.PythonFile(Sparse(part), "w") if sparse else pa.OSFile(str(part), "wb")
    with sink, pa.ipc.new_stream(sink, material.SCHEMA) as out:
        for start in range(0, n_rows, batch_rows):
            labels = pa.array(np.arange(start, start + batch_rows))
            out.write_batch(pa.record_batch([audio, labels], schema=material.SCHEMA))
    old = time.time() - 60
    os.utime(part, (old, old))
    part.rename(path)
    return path


def token_shards(folder: Path, n_rows: int) -> tuple[Path, Path]:
    """The same rows of 2,048 tokens as Arrow IPC and Parquet, 1,000 to a record batch or group."""
    import pyarrow.parquet as pq

    arrow, parquet = folder / f"tokens-{n_rows}.arrow", folder / f"tokens-{n_rows}.parquet"
    if not parquet.exists():
        values = np.random.default_rng(3).integers(0, 50_000, n_rows * TOKENS, np.int32)
        offsets = np.arange(n_rows + 1, dtype=np.int32) * TOKENS
        tokens = pa.table({"tokens": pa.ListArray.from_arrays(offsets, values)})
        with pa.OSFile(str(arrow), "wb") as sink, pa.ipc.new_stream(sink, tokens.schema) as out:
            out.write_table(tokens, max_chunksize=1_000)
        pq.write_table(tokens, parquet, row_group_size=1_000)
    return arrow, parquet


def gristmill(path: Path, **options: Any) -> Iterator[dict[str, Any]]:
    import gristmill as gm

    return iter(gm.ArrowIterDataset(path, audio=None, batch_size=BATCH, **options))


def rate_of(what: str, paths: list[Path]) -> float:
    """What a job counts, a second, from the first call to the last."""
    for module in ("grain", "pyarrow.parquet", "gristmill"):  # what is loaded once is not counted
        importlib.import_module(module)

    batches = JOBS[what](*paths)
    if what == "copy":
        next(batches)
    begin = time.perf_counter()
    total = sum(batches)
    return total / (time.perf_counter() - begin)


def audio_rows(path: Path, *, mmap: bool = False) -> Iterator[int]:
    import gristmill as gm

    read = gm.ReadOptions(mmap=mmap)
    for batch in gristmill(path, shuffle=gm.Shuffle(1), columns=["audio"], read=read):
        yield sum(map(len, batch["audio"]["bytes"]))


def audio_pread(path: Path) -> Iterator[int]:
    """One thread, one buffer, the same rows in some other random order."""
    n_rows = path.stat().st_size // ROW_BYTES
    buffer = bytearray(ROW_BYTES)
    with path.open("rb", buffering=0) as f:
        for i in np.random.default_rng(1).permutation(n_rows - 1).tolist():
            yield os.preadv(f.fileno(), [buffer], i * ROW_BYTES)


def audio_bytes(path: Path) -> Iterator[int]:
    """The same as `bytes`, which is what batches of encoded rows hold, 64 kept at a time."""
    n_rows = path.stat().st_size // ROW_BYTES
    order = np.random.default_rng(1).permutation(n_rows - 1).tolist()
    with path.open("rb", buffering=0) as f:
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = [os.pread(f.fileno(), ROW_BYTES, i * ROW_BYTES) for i in rows]
            yield sum(map(len, batch))


def tokens_gristmill(arrow: Path, _: Path, *, mmap: bool = False) -> Iterator[int]:
    import gristmill as gm

    for batch in gristmill(arrow, read=gm.ReadOptions(mmap=mmap)):
        yield len(batch["tokens"])


def tokens_pylist(arrow: Path, _: Path) -> Iterator[int]:
    with pa.OSFile(str(arrow)) as source:
        for record_batch in pa.ipc.open_stream(source):
            yield len(record_batch.to_pylist())


def tokens_grain(_: Path, parquet: Path) -> Iterator[int]:
    import grain

    for row in grain.experimental.ParquetIterDataset(str(parquet)):
        assert len(row["tokens"]) == TOKENS
        yield 1


def copies(arrow: Path, _: Path) -> Iterator[int]:
    """Copies as many rows, 64 at a time, from one place in memory to another."""
    n_rows = int(arrow.stem.split("-")[1])
    source = np.ones((n_rows, TOKENS), np.int32)
    into = np.ones((BATCH, TOKENS), np.int32)
    yield 0  # all pages are there: from here on it copies
    for start in range(0, n_rows - BATCH, BATCH):
        into[:] = source[start : start + BATCH]
        yield BATCH


JOBS: dict[str, Callable[..., Iterator[int]]] = {
    "audio": audio_rows,
    "audio, mmap": partial(audio_rows, mmap=True),
    "pread": audio_pread,
    "pread, bytes": audio_bytes,
    "tokens": tokens_gristmill,
    "tokens, mmap": partial(tokens_gristmill, mmap=True),
    "to_pylist": tokens_pylist,
    "Grain Parquet": tokens_grain,
    "copy": copies,
}


def peak(path: Path) -> int:
    """Peak resident bytes above the start, over a shuffled pass in batches of 16."""
    import gristmill as gm

    read = gm.ReadOptions(memory_budget=BUDGET)
    ds = gm.ArrowIterDataset(path, audio=None, batch_size=16, shuffle=gm.Shuffle(1), read=read)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = report.resident("VmRSS")
    n_rows = sum(len(batch["label"]) for batch in ds)
    assert n_rows == 1_000, n_rows
    return report.resident("VmHWM") - before


def first_row(path: Path) -> int:
    """Bytes read, beyond the row's own, for one row out of the middle of a fresh shard."""
    import gristmill as gm

    read = gm.ReadOptions(index_dir=None)
    others = [(0, i) for i in range(500) if i != 250]
    it = iter(gm.ArrowIterDataset(path, audio=None, exclude=others, read=read))
    row = next(it)
    assert row["label"] == 250
    assert it._pipeline is not None
    n_bytes = it._pipeline.reads()[1]
    it.close()
    return n_bytes - len(row["audio"]["bytes"])


def opening(folder: Path, shard: Path) -> float:
    """Seconds to open 185 links to one shard of 700 MB with sidecars, the best of three."""
    import gristmill as gm

    paths = [folder / f"open-{k:03}.arrow" for k in range(N_SHARDS)]
    for path in paths:
        if not path.exists():
            path.hardlink_to(shard)
    read = gm.ReadOptions(index_dir=folder / "sidecars")
    times = []
    for _ in range(4):
        it = iter(gm.ArrowIterDataset(paths, audio=None, shuffle=gm.Shuffle(1), read=read))
        begin = time.perf_counter()
        it.start_prefetch()
        assert it._pipeline is not None
        it._pipeline.wait_open()
        times.append(time.perf_counter() - begin)
        it.close()
    return min(times[1:])


def measure(what: str, paths: list[Path]) -> float:
    """One measurement in a fresh process."""
    if what == "peak":
        return peak(*paths)
    if what == "first row":
        return first_row(*paths)
    if what == "opening":
        return opening(*paths)
    return rate_of(what, paths)


def compare(jobs: list[str], paths: list[Path], quick: bool, scale: float) -> dict[str, float]:
    """The medians of the jobs' rates, measured in turns; and a table of them."""
    rates: dict[str, list[float]] = {job: [] for job in jobs}
    for _ in range(ROUNDS[quick]):
        for job in jobs:
            rates[job].append(report.in_process(__file__, "--one", job, *paths)["got"] / scale)
    rows = [[job, report.spread(values)] for job, values in rates.items()]
    print(report.table(["median (extremes)", "MB/s" if scale > 1 else "rows/s"], rows), "\n")
    return {job: statistics.median(values) for job, values in rates.items()}


def run(folder: Path, *, quick: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    met = []
    print(f"{report.conditions()}\n")
    n = N_AUDIO[quick]
    audio = audio_shard(folder / f"read-{n}.arrow", n, 100, sparse=False)
    got = compare(["audio", "audio, mmap", "pread", "pread, bytes"], [audio], quick, 1e6)
    met.append(report.verdict("audio rows over pread", got["audio"] / got["pread"], 0.8))
    over_bytes = got["audio"] / got["pread, bytes"]

    tokens = token_shards(folder, N_TOKENS[quick])
    jobs = ["tokens", "tokens, mmap", "to_pylist", "Grain Parquet", "copy"]
    got = compare(jobs, list(tokens), quick, 1)
    ours = got["tokens"]
    met.append(report.verdict("token rows over to_pylist", ours / got["to_pylist"], 20))
    met.append(report.verdict("token rows over Grain's Parquet", ours / got["Grain Parquet"], 20))
    met.append(report.verdict("token rows over copying", ours / got["copy"], 0.5))

    def one(what: str, *paths: Path) -> float:
        return report.in_process(__file__, "--one", what, *paths)["got"]

    huge = audio_shard(folder / "huge.arrow", 1_000, 1_000, sparse=True)
    took = one("peak", huge)
    label = f"budget of {BUDGET // MIB} MiB over the peak, record batches of 1.4 GB"
    met.append(report.verdict(label, BUDGET / took, 1 / 1.1))
    shard = audio_shard(folder / "shard-700.arrow", 500, 100, sparse=True)
    n_bytes = one("first row", shard)
    met.append(report.verdict("1 MB over what a first row reads beside itself", 1e6 / n_bytes, 1))
    with tempfile.TemporaryDirectory(dir=folder) as links:
        seconds = one("opening", Path(links), shard)
    met.append(report.verdict("0.2 s over opening 185 shards", 0.2 / seconds, 1))
    print("\n".join(met))
    print(f"audio rows over a pread that returns bytes, as they do: {over_bytes:.2f}")
    print(f"peak {took / MIB:.0f} MiB; first row {n_bytes:.0f} bytes; opening {seconds:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little data, few rounds")
    parser.add_argument("--data", type=Path, help="where the shards are made and kept")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        what, *paths = options.one
        print(json.dumps({"got": measure(what, list(map(Path, paths)))}))
    else:
        folder = options.data or Path(tempfile.gettempdir()) / "gristmill-bench"
        run(folder, quick=options.quick)


if __name__ == "__main__":
    main()
