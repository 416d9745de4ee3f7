"""Reading without decoding: `python benches/bench_read.py [--quick] [--data FOLDER]`.

Page-cached local shards: rows of audio, as `bytes` and as arrays, against loops of `pread`; token
rows against `to_pylist`, Grain's Parquet source and copying memory; peak memory over record batches
of 1.4 GB; what a first row and an opening cost.

Rates are those of a stream that runs: the first pass over the data, which opens it and writes to
memory that nobody has written to yet, is told apart.
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
PASSES = 5
SLOW = ("to_pylist", "Grain Parquet")
"""Peers of one pass: they take a second for it, and are no faster in a later one."""
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


def rates_of(what: str, paths: list[Path]) -> list[float]:
    """What a job counts, a second: in the passes after the first, and in the first."""
    for module in ("grain", "pyarrow.parquet", "gristmill"):  # what is loaded once is not counted
        importlib.import_module(module)

    n_rows = int(paths[0].stem.split("-")[1])
    one_pass = n_rows * (ROW_BYTES if paths[0].stem.startswith("read") else 1)
    batches = JOBS[what](*paths)
    begin, total = time.perf_counter(), 0
    for n in batches:
        total += n
        if total >= one_pass:
            break
    first = total / (time.perf_counter() - begin)
    if what in SLOW:
        return [first, first]
    begin, total = time.perf_counter(), 0
    for n in batches:
        total += n
        if total >= (PASSES - 1) * one_pass:
            break
    return [total / (time.perf_counter() - begin), first]


def audio_rows(path: Path, *, binary: Any = "bytes") -> Iterator[int]:
    import gristmill as gm

    options: dict[str, Any] = {"columns": ["audio"], "binary": binary, "epochs": None}
    for batch in gristmill(path, shuffle=gm.Shuffle(1), **options):
        yield sum(map(len, batch["audio"]["bytes"]))


def random_rows(path: Path) -> Iterator[int]:
    """Places in the file, pass after pass, each in some random order."""
    n_rows = path.stat().st_size // ROW_BYTES
    for seed in itertools.count():
        yield from (np.random.default_rng(seed).permutation(n_rows - 1) * ROW_BYTES).tolist()


def audio_pread(path: Path, *, n_buffers: int = 1) -> Iterator[int]:
    """One thread that reads into one buffer, or into as many as a batch has rows, in turn."""
    buffers = itertools.cycle([bytearray(ROW_BYTES) for _ in range(n_buffers)])
    with path.open("rb", buffering=0) as f:
        for offset, buffer in zip(random_rows(path), buffers, strict=False):
            yield os.preadv(f.fileno(), [buffer], offset)


def audio_bytes(path: Path) -> Iterator[int]:
    """The same as `bytes`, which is what batches of encoded rows hold, 64 kept at a time."""
    offsets = random_rows(path)
    with path.open("rb", buffering=0) as f:
        while True:
            rows = itertools.islice(offsets, BATCH)
            batch = [os.pread(f.fileno(), ROW_BYTES, offset) for offset in rows]
            yield sum(map(len, batch))


def tokens_gristmill(arrow: Path, _: Path, *, ragged: Any = "object") -> Iterator[int]:
    for batch in gristmill(arrow, epochs=None, ragged=ragged):
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
    while True:
        for start in range(0, n_rows - BATCH, BATCH):
            into[:] = source[start : start + BATCH]
            yield BATCH


def tokens_pread(arrow: Path, _: Path) -> Iterator[int]:
    """Reads as many bytes in file order, 64 rows at a time, into one buffer."""
    n_rows = int(arrow.stem.split("-")[1])
    buffer = bytearray(BATCH * TOKENS * 4)
    with arrow.open("rb", buffering=0) as f:
        while True:
            for start in range(0, n_rows - BATCH, BATCH):
                assert os.preadv(f.fileno(), [buffer], start * TOKENS * 4) == len(buffer)
                yield BATCH


JOBS: dict[str, Callable[..., Iterator[int]]] = {
    "audio": audio_rows,
    "audio, numpy": partial(audio_rows, binary="numpy"),
    "pread, bytes": audio_bytes,
    "pread, 64 buffers": partial(audio_pread, n_buffers=BATCH),
    "pread, one buffer": audio_pread,
    "tokens": tokens_gristmill,
    "tokens, one array": partial(tokens_gristmill, ragged="error"),
    "to_pylist": tokens_pylist,
    "Grain Parquet": tokens_grain,
    "copy": copies,
    "read": tokens_pread,
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
    n_bytes = it._pipeline.reads().bytes
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


def measure(what: str, paths: list[Path]) -> float | list[float]:
    """One measurement in a fresh process."""
    if what == "peak":
        return peak(*paths)
    if what == "first row":
        return first_row(*paths)
    if what == "opening":
        return opening(*paths)
    return rates_of(what, paths)


def compare(jobs: list[str], paths: list[Path], quick: bool, scale: float) -> dict[str, float]:
    """The medians of the jobs' rates, measured in turns; and a table of them."""
    rates: dict[str, list[list[float]]] = {job: [] for job in jobs}
    for _ in range(ROUNDS[quick]):
        for job in jobs:
            got = report.in_process(__file__, "--one", job, *paths)["got"]
            rates[job].append([rate / scale for rate in got])
    by_kind = {job: list(zip(*values, strict=True)) for job, values in rates.items()}
    rows = [[job, *(report.spread(list(v)) for v in kinds)] for job, kinds in by_kind.items()]
    unit = "MB/s" if scale > 1 else "rows/s"
    print(report.table(["median (extremes)", unit, f"first pass, {unit}"], rows), "\n")
    return {job: statistics.median(running) for job, (running, _) in by_kind.items()}


def run(folder: Path, *, quick: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    met = []
    print(f"{report.conditions()}\n")
    n = N_AUDIO[quick]
    audio = audio_shard(folder / f"read-{n}.arrow", n, 100, sparse=False)
    got = compare([job for job in JOBS if "audio" in job or "pread" in job], [audio], quick, 1e6)
    for ours, peer in (
        ("audio", "pread, bytes"),
        ("audio, numpy", "pread, bytes"),
        ("audio, numpy", "pread, 64 buffers"),
        ("audio, numpy", "pread, one buffer"),
        ("audio", "pread, one buffer"),
    ):
        met.append(report.verdict(f"{ours} over {peer}", got[ours] / got[peer], 0.8))

    tokens = token_shards(folder, N_TOKENS[quick])
    jobs = [job for job in JOBS if "audio" not in job and "pread" not in job]
    got = compare(jobs, list(tokens), quick, 1)
    rate = got["tokens"]
    met.append(report.verdict("token rows over to_pylist", rate / got["to_pylist"], 20))
    met.append(report.verdict("token rows over Grain's Parquet", rate / got["Grain Parquet"], 20))
    met.append(report.verdict("token rows over copying", rate / got["copy"], 0.5))
    whole = got["tokens, one array"]
    met.append(report.verdict("token rows as one array over copying", whole / got["copy"], 0.5))
    over_read = f"token rows over reading alone: {rate / got['read']:.2f}"

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
    print(over_read)
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
