"""Resident memory stays within the budget, whatever the size of record batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import probes
import shards
from signals import RATE, encode

MIB = 1 << 20

# Prints the peak of the job above what the process was before it, in bytes.
SCRIPT = """
import gc
import gristmill as gm
from pathlib import Path

small, big, budget, seconds, batch_size = sys.argv[1:]
crop = gm.RandomCrop(float(seconds)) if float(seconds) else None

def drain(path, **read):
    ds = gm.ArrowIterDataset(
        path,
        audio=gm.Audio(sample_rate=32_000, crop=crop),
        columns=["audio", "label"],
        shuffle=gm.Shuffle(1),
        batch_size=int(batch_size),
        epochs=2,
        read=gm.ReadOptions(num_threads=2, **read),
    )
    return sum(len(batch["label"]) for batch in ds)

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

drain(small)
gc.collect()
Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
before = resident("VmRSS")
n = drain(big, memory_budget=int(budget))
assert n == 400, n
print(resident("VmHWM") - before)
"""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """200 rows of 1.5 MB in two record batches of 150 MB."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (750_000, 1)).astype(np.float32)
    path = tmp_path_factory.mktemp("big") / "big.arrow"
    yield shards.write_audio(path, [encode(noise, RATE, "wav16")] * 200, batch_rows=100)
    path.unlink()


@pytest.mark.parametrize(
    ("budget", "seconds", "batch_size"),
    [(128 * MIB, 5.0, 8), (256 * MIB, 5.0, 64), (128 * MIB, 0.0, 4)],
    ids=["small budget", "large batches", "whole recordings"],
)
def test_peak_is_within_the_budget(
    numbered: list[Path], big: Path, budget: int, seconds: float, batch_size: int
) -> None:
    peak = int(probes.run(SCRIPT, numbered[0], big, budget, seconds, batch_size))
    frames = round(seconds * RATE) or 750_000
    held = 2 * batch_size * frames * 4  # by the loop: a batch, and the one before it
    assert peak <= 1.1 * budget + held, f"{peak / MIB:.0f} MiB of {budget / MIB:.0f} MiB"


MANY_TABLES = """
import gristmill as gm
from pathlib import Path

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

it = iter(gm.ArrowIterDataset(
    sys.argv[1], shuffle=gm.Shuffle(1), batch_size=128, epochs=None,
    read=gm.ReadOptions(num_threads=2, memory_budget=int(sys.argv[2]))))
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
for _ in range(8):
    next(it)
print(resident("VmHWM") - before)
"""


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_shuffled_rows_do_not_keep_their_record_batches(
    tmp_path: Path, compression: str | None
) -> None:
    """Each of the rows in flight is of another record batch of 1 MB, 200 MB in all."""
    path, rng = tmp_path / "tokens.arrow", np.random.default_rng(0)
    schema = pa.schema([("tokens", pa.list_(pa.int32()))])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, schema, options=options) as out,
    ):
        offsets = pa.array(np.arange(0, 250_001, 250, dtype=np.int32))
        for _ in range(200):
            values = pa.array(rng.integers(0, 2**31, 250_000, dtype=np.int32))
            lists = pa.ListArray.from_arrays(offsets, values)
            out.write_batch(pa.record_batch([lists], schema=schema))
    peak = int(probes.run(MANY_TABLES, path, 48 * MIB))
    assert peak <= 1.1 * 48 * MIB, f"{peak / MIB:.0f} MiB of 48 MiB"


LIVES = """
import gc
import gristmill as gm
from pathlib import Path

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

dataset = gm.ArrowIterDataset(
    sys.argv[1],
    audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(5.0)),
    shuffle=gm.Shuffle(1),
    batch_size=8,
    epochs=None,
    read=gm.ReadOptions(num_threads=2, memory_budget=256 << 20),
)

def live():
    it, kept = iter(dataset), []
    for _ in range(30):
        next(it)
        kept.append(bytes(40_000))  # the loop's own, in between ours
    it.close()
    return kept

live()
gc.collect()
before, kept = resident("VmRSS"), []
for _ in range(6):
    kept.append(live())
    gc.collect()
    print(resident("VmRSS") - before)
"""


def test_a_closed_pipeline_gives_its_memory_back(tmp_path: Path) -> None:
    """Rows of 0.4 to 1.4 MB and batches of 5 MB leave no holes between what the loop keeps."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (698_000, 1)).astype(np.float32)
    rows = [encode(noise[: 200_000 + 2_500 * k], RATE, "wav16") for k in range(200)]
    path = shards.write_audio(tmp_path / "sizes.arrow", rows, batch_rows=100)
    grown = [int(line) for line in probes.run(LIVES, path).split()]
    own = [30 * 40_000 * (k + 1) for k in range(6)]
    over = [(a - b) / MIB for a, b in zip(grown, own, strict=True)]
    assert max(over) < 3, over
