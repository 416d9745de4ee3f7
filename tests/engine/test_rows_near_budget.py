"""Rows nearly as large as the memory budget: one at a time, or a line in the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import probes

ROW_BYTES = 40_000_000
BUDGET = 50_000_000

# Prints the peak of the job above what the process was before it, and what was logged.
SCRIPT = """
import logging
import gristmill as gm
from pathlib import Path

path, binary, budget = sys.argv[1], sys.argv[2], int(sys.argv[3])
lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logger = logging.getLogger("gristmill")
logger.addHandler(handler)
logger.propagate = False
logger.setLevel(logging.INFO)

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

def drain(**options):
    read = gm.ReadOptions(num_threads=2, index_dir=None, memory_budget=budget)
    ds = gm.ArrowIterDataset(
        path, audio=None, columns=["audio"], binary=binary, read=read, **options
    )
    it = iter(ds)
    for row in it:
        got = row["audio"]["bytes"]
        assert len(got) == int(sys.argv[4])
        del row, got
    it.close()

drain(rows=range(1))
lines.clear()
Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
before = resident("VmRSS")
drain(epochs=2)
print(resident("VmHWM") - before)
print(*lines, sep="\\n")
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "rows.arrow"
    of = pa.schema({"audio": pa.struct({"bytes": pa.large_binary(), "path": pa.string()})})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, of) as writer:
        for k in range(4):
            rows = [{"audio": {"bytes": bytes([k]) * ROW_BYTES, "path": "a"}}]
            writer.write_table(pa.Table.from_pylist(rows, of))
    return path


def test_the_next_row_waits_for_the_last_one_to_be_dropped(path: Path) -> None:
    peak, *lines = probes.run(SCRIPT, path, "numpy", BUDGET, ROW_BYTES).splitlines()
    assert int(peak) <= 1.1 * BUDGET, f"{int(peak) / BUDGET:.2f} of the budget"
    assert lines == [""]


def test_a_row_that_needs_more_is_told_once(path: Path) -> None:
    """A row as `bytes` counts until the second one after it is asked for: nothing tells its end.

    No row is in memory twice, not even while it is copied into its `bytes`.
    """
    peak, *lines = probes.run(SCRIPT, path, "bytes", BUDGET, ROW_BYTES).splitlines()
    assert int(peak) <= 1.1 * BUDGET, f"{int(peak) / BUDGET:.2f} of the budget"
    (line,) = lines
    assert f"memory_budget={BUDGET} is exceeded" in line
