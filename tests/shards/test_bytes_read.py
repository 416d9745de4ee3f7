"""How much is read: the rows that are wanted, never a record batch or a shard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import probes
import shards
from signals import RATE, encode

N_BATCHES, BATCH_ROWS, MIB = 4, 100, 1 << 20

SCRIPT = """
import contextlib
import gristmill as gm
from pathlib import Path

small, big, job = sys.argv[1:]
audio = gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(1.0))
read = gm.ReadOptions(num_threads=1, prefetch_batches=1)

def source(path, **options):
    return gm.ArrowIterDataset(path, audio=audio, columns=["audio", "label"], read=read, **options)

def n_read():
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))

list(source(small, shuffle=gm.Shuffle(1), batch_size=2))  # loads all that is loaded once
before = n_read()
if job == "open":
    it = iter(source(big, exclude=[(0, row) for row in range(400)]))
    with contextlib.suppress(ValueError):  # that nothing is left is told once it is open
        next(it)
elif job == "one row":
    it = iter(source(big, exclude=[(0, row) for row in range(400) if row != 250]))
    assert len(list(it)) == 1
elif job == "first":
    it = iter(source(big, shuffle=gm.Shuffle(1)))
    next(it)
elif job == "restore":
    it = iter(source(big, shuffle=gm.Shuffle(1)))
    next(it)
    state = {**it.get_state(), "next_index": 200}
    it.close()
    before = n_read()
    it = iter(source(big, shuffle=gm.Shuffle(1)))
    it.set_state(state)
    next(it)
elif job == "epoch":
    it = iter(source(big, shuffle=gm.Shuffle(1), batch_size=50))
    assert sum(len(batch["label"]) for batch in it) == 400
it.close()
print(n_read() - before)
"""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 rows of 300 KB in record batches of 30 MB."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (150_000, 1)).astype(np.float32)
    data = encode(noise, RATE, "wav16")
    folder = tmp_path_factory.mktemp("big")
    rows = [data] * (N_BATCHES * BATCH_ROWS)
    yield shards.write_audio(folder / "big.arrow", rows, batch_rows=BATCH_ROWS)
    (folder / "big.arrow").unlink()


def n_read(numbered: list[Path], big: Path, job: str) -> int:
    return int(probes.run(SCRIPT, numbered[0], big, job))


def test_opening_reads_only_the_metadata(numbered: list[Path], big: Path) -> None:
    assert n_read(numbered, big, "open") < 2 * MIB


def test_one_row_is_one_small_read(numbered: list[Path], big: Path) -> None:
    opened = n_read(numbered, big, "open")
    assert n_read(numbered, big, "one row") - opened < 2 * MIB


def test_the_first_row_does_not_wait_for_a_record_batch(numbered: list[Path], big: Path) -> None:
    # One row, and the few that are read ahead of it.
    assert n_read(numbered, big, "first") < 8 * MIB


def test_a_restore_in_the_middle_reads_nothing_before_it(numbered: list[Path], big: Path) -> None:
    first = n_read(numbered, big, "first")
    assert n_read(numbered, big, "restore") < first + 4 * MIB


CACHED = """
import gristmill as gm
from pathlib import Path

def n_reads():
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["syscr"])

it = iter(gm.ArrowIterDataset(sys.argv[1], columns=["label"], shuffle=gm.Shuffle(1), epochs=None))
[next(it) for _ in range(200)]
before = n_reads()
[next(it) for _ in range(2000)]
print(n_reads() - before)
it.close()
"""


def test_rows_in_memory_cost_no_read(numbered: list[Path]) -> None:
    # Nor of what the kernel tells about the machine, with threads by its processors.
    assert int(probes.run(CACHED, numbered[3])) < 20


def test_an_epoch_reads_each_byte_about_once(numbered: list[Path], big: Path) -> None:
    assert n_read(numbered, big, "epoch") < 1.05 * big.stat().st_size + 2 * MIB
