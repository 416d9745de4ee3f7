"""Record batches of very many columns: memory stays within the budget, and little is read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probes
from range_server import serving

MIB = 1 << 20

# Prints, in bytes, the peak of the job above what the process was before it, and the peak that the
# budget counts.
SCRIPT = """
import gc
import gristmill as gm
from pathlib import Path

small, path, budget, n_batches = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])

def drain(path, n_batches, **read):
    ds = gm.ArrowIterDataset(
        path,
        audio=None,
        batch_size=64,
        shuffle=gm.Shuffle(1),
        epochs=None,
        read=gm.ReadOptions(num_threads=2, index_dir=None, **read),
    )
    it = iter(ds)
    for _ in range(n_batches):
        next(it)
    peak = it.stats().memory.peak_bytes
    it.close()
    return peak

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

drain(small, 1)
gc.collect()
Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
before = resident("VmRSS")
counted = drain(path, n_batches, memory_budget=budget)
print(resident("VmHWM") - before, counted)
"""


def wide(n_columns: int, n_rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({f"c{k}": rng.standard_normal(n_rows) for k in range(n_columns)})


def write(path: Path, table: pa.Table, batch_rows: int) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def peaks(small: Path, path: Path | str, budget: int, n_batches: int) -> tuple[int, int]:
    peak, counted = map(int, probes.run(SCRIPT, small, path, budget, n_batches).split())
    return peak, counted


@pytest.mark.parametrize("batch_rows", [500, 50, 10])
def test_rows_of_many_columns(tmp_path: Path, batch_rows: int) -> None:
    """Columns of at most 4 kB: a row alone would be read with the rest of its record batch."""
    table = wide(1_000, 3_000)
    small = write(tmp_path / "small.arrow", table.slice(0, 64), 64)
    path = write(tmp_path / "wide.arrow", table, batch_rows)
    peak, counted = peaks(small, path, 32 * MIB, 6)
    assert counted <= 1.1 * 32 * MIB, f"{counted / MIB:.0f} MiB counted of 32 MiB"
    assert peak <= 1.1 * 32 * MIB, f"{peak / MIB:.0f} MiB of 32 MiB"


def test_rows_of_many_columns_behind_a_url(tmp_path: Path) -> None:
    """Three record batches of 5 MB, whose columns are nearer than a request is worth.

    The cache has room for one of them. Open batches need all three, and take their rows of each
    from one load.
    """
    table = wide(100, 18_000)
    small = write(tmp_path / "small.arrow", table.slice(0, 64), 64)
    path = write(tmp_path / "wide.arrow", table, 6_000)
    with serving(tmp_path) as server:
        peak, counted = peaks(small, f"{server.url}/{path.name}", 16 * MIB, 40)
    assert counted <= 1.1 * 16 * MIB, f"{counted / MIB:.0f} MiB counted of 16 MiB"
    assert peak <= 1.1 * 16 * MIB, f"{peak / MIB:.0f} MiB of 16 MiB"
    ranges = [
        re.findall(r"\d+", asked or "") for _, name, asked in server.requests if "wide" in name
    ]
    n_sent = sum(int(last) + 1 - int(first) for first, last in ranges)
    n_loads = n_sent / (path.stat().st_size / 3)
    assert n_loads <= 36, f"{n_loads:.0f} record batches read for 40 batches"


def test_a_row_group_of_many_columns(tmp_path: Path) -> None:
    """Each column's decoder takes some kilobytes while it has no rows."""
    table = wide(2_000, 2_000)
    small = tmp_path / "small.parquet"
    pq.write_table(table.slice(0, 64), small)
    path = tmp_path / "wide.parquet"
    pq.write_table(table, path, row_group_size=1_000)
    peak, _ = peaks(small, path, 96 * MIB, 2)
    assert peak <= 1.1 * 96 * MIB, f"{peak / MIB:.0f} MiB of 96 MiB"
