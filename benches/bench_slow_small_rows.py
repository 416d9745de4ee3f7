"""Small rows over slow storage: `python benches/bench_slow_small_rows.py [--quick] [--data DIR]`.

A FUSE file system answers each request after 5 ms and sends 200 MB/s in all. Encoded rows of 8 KiB
are taken in batches of 64, nothing decoded, as fast as they come: in file order and in a windowed
shuffle. Read one by one such rows are a round trip each; read in runs they are what the storage
sends. Beside us: `pyarrow` reading whole record batches in file order.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import material
import numpy as np
import pyarrow as pa
import report
import slow_storage

LATENCY, BANDWIDTH = 0.005, 200e6
BATCH, ROW_BYTES, ROWS_PER_SHARD, BATCH_ROWS = 64, 8 << 10, 8_000, 4_000
N_SHARDS = {True: 2, False: 6}
WINDOW, STREAMS = 4_000, 8
FILE_ORDER, WINDOWED, PYARROW = "file order", "windowed shuffle", "pyarrow, file order"


def shard(folder: Path, k: int) -> Path:
    """8,000 rows of 6 to 10 KiB in two record batches; each begins with its number."""
    path = folder / f"small-{k:02}.arrow"
    if not path.exists():
        rng = np.random.default_rng([8, k])
        with pa.OSFile(f"{path}.part", "wb") as f, pa.ipc.new_stream(f, material.SCHEMA) as out:
            for start in range(0, ROWS_PER_SHARD, BATCH_ROWS):
                ids = [k * ROWS_PER_SHARD + start + i for i in range(BATCH_ROWS)]
                spread = ROW_BYTES // 4
                sizes = rng.integers(ROW_BYTES - spread, ROW_BYTES + spread, BATCH_ROWS)
                noise = rng.bytes(2 * ROW_BYTES)
                rows = [
                    i.to_bytes(8, "little") + noise[8:n] for i, n in zip(ids, sizes, strict=True)
                ]
                audio = [{"bytes": data, "path": str(i)} for i, data in zip(ids, rows, strict=True)]
                columns = [pa.array(audio, material.SCHEMA.field(0).type), pa.array(ids)]
                out.write_batch(pa.record_batch(columns, schema=material.SCHEMA))
        Path(f"{path}.part").rename(path)
    return path


def gristmill(paths: list[Path], index_dir: str, *, windowed: bool) -> Iterator[Any]:
    import gristmill as gm

    shuffle = gm.Shuffle(1, window=WINDOW, streams=STREAMS) if windowed else None
    read = gm.ReadOptions(index_dir=index_dir)
    ds = gm.ArrowIterDataset(paths, audio=None, batch_size=BATCH, shuffle=shuffle, read=read)
    for batch in ds:
        yield batch["label"].tolist(), batch["audio"]["bytes"]


def pyarrow_rows(paths: list[Path]) -> Iterator[Any]:
    for path in paths:
        with pa.OSFile(str(path)) as source:
            for batch in pa.ipc.open_stream(source):
                rows = batch.to_pylist()
                yield [row["label"] for row in rows], [row["audio"]["bytes"] for row in rows]


def measure(kind: str, index_dir: str, mount: str) -> dict[str, Any]:
    """Seconds for all rows, and until the first; every row is checked for its number."""
    importlib.import_module("gristmill")
    paths = sorted(Path(mount).glob("*.arrow"))
    begin = time.perf_counter()
    if kind == PYARROW:
        batches = pyarrow_rows(paths)
    else:
        batches = gristmill(paths, index_dir, windowed=kind == WINDOWED)
    first, seen, n_bytes = 0.0, [], 0
    for labels, rows in batches:
        first = first or time.perf_counter() - begin
        assert labels == [int.from_bytes(row[:8], "little") for row in rows]
        seen += labels
        n_bytes += sum(map(len, rows))
    seconds = time.perf_counter() - begin
    assert sorted(seen) == list(range(len(paths) * ROWS_PER_SHARD)), "rows are missing"
    assert (seen == sorted(seen)) == (kind != WINDOWED)
    return {"seconds": seconds, "first": first, "rows": len(seen), "bytes": n_bytes}


def run(folder: Path, *, quick: bool) -> None:
    if (reason := slow_storage.why_not()) is not None:
        print(f"skipped: {reason}")
        return
    folder = folder / ("small-quick" if quick else "small")
    folder.mkdir(parents=True, exist_ok=True)
    old = time.time() - 60
    for path in [shard(folder, k) for k in range(N_SHARDS[quick])]:
        os.utime(path, (old, old))
    print(f"{report.conditions()}\n")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        sidecars, mount = Path(scratch) / "sidecars", Path(scratch) / "mount"

        def one(kind: str) -> dict[str, Any]:
            slow = slow_storage.SlowStorage(folder, latency=LATENCY, bandwidth=BANDWIDTH, at=mount)
            with slow:
                got = report.in_process(__file__, "--one", kind, sidecars, mount)
                got["reads"], got["sent"] = slow.send()
            return got

        one(FILE_ORDER)  # writes the sidecars
        for kind in (FILE_ORDER, WINDOWED, PYARROW):
            got = one(kind)
            rows.append(
                [
                    kind,
                    f"{got['rows'] / got['seconds']:,.0f}",
                    f"{got['bytes'] / got['seconds'] / BANDWIDTH:.2f}",
                    f"{1000 * got['first']:.0f}",
                    f"{got['sent'] / got['bytes']:.2f}",
                    f"{got['rows'] / got['reads']:.1f}",
                ]
            )
    head = ["8 KiB a row", "rows/s", "of the cap", "first ms", "sent / wanted", "rows a request"]
    print(report.table(head, rows))
    print("requests as the file system sees them: Linux cuts them into 128 KiB.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a third of the data")
    parser.add_argument("--data", type=Path, help="where the shards are made and kept")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
    else:
        folder = options.data or Path(tempfile.gettempdir()) / "gristmill-bench"
        run(folder, quick=options.quick)


if __name__ == "__main__":
    main()
