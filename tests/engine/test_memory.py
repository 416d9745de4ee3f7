"""Resident memory stays within the budget, whatever the size of record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import probes
import shards
from rounds import rounds
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

def dataset(path, batch_size, epochs, **read):
    return gm.ArrowIterDataset(
        path, audio=None, shuffle=gm.Shuffle(1), batch_size=batch_size, epochs=epochs,
        read=gm.ReadOptions(num_threads=2, **read))

path, small, budget, batch_size = sys.argv[1:]
for _ in dataset(small, 1, 1):  # brings in the code, which is not the rows'
    pass
it = iter(dataset(path, int(batch_size), None, memory_budget=int(budget)))
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
for _ in range(12):
    next(it)
print(resident("VmHWM") - before, it.stats().memory.peak_bytes)
"""


def many_tables(path: Path, small: Path, budget: int, batch_size: int) -> tuple[int, int]:
    """The peak of resident memory, and that of what the budget counts."""
    peak, counted = map(int, probes.run(MANY_TABLES, path, small, budget, batch_size).split())
    return peak, counted


def write(path: Path, batches: Iterable[pa.RecordBatch], options: pa.ipc.IpcWriteOptions) -> None:
    rest = iter(batches)
    first = next(rest)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, first.schema, options=options) as out,
    ):
        out.write_batch(first)
        for batch in rest:
            out.write_batch(batch)


def few_rows(path: Path, options: pa.ipc.IpcWriteOptions) -> Path:
    """A shard of the first three rows."""
    small = path.with_name("small.arrow")
    with pa.ipc.open_stream(str(path)) as stream:
        rows = stream.read_next_batch().slice(0, 3)
    write(small, [rows], options)
    return small


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
    small = few_rows(path, options)
    peak, _ = many_tables(path, small, 48 * MIB, 128)
    assert peak <= 1.1 * 48 * MIB, f"{peak / MIB:.0f} MiB of 48 MiB"


def blobs(rng: np.random.Generator, k: int) -> pa.RecordBatch:
    """100 blobs of 200 kB, of whose eight bits two are always zero: 20 MB."""
    rows = pa.array([row.tobytes() for row in rng.integers(0, 64, (100, 200_000), np.uint8)])
    audio = pa.StructArray.from_arrays([rows.cast(pa.binary())], names=["bytes"])
    return pa.record_batch({"audio": audio, "label": np.arange(100 * k, 100 * k + 100)})


def columns(rng: np.random.Generator, k: int) -> pa.RecordBatch:
    """200 columns of 80 kB: 16 MB."""
    values = {f"x{c:03}": rng.standard_normal(10_000) for c in range(199)}
    return pa.record_batch({"label": np.arange(10_000 * k, 10_000 * k + 10_000), **values})


def objects(_: np.random.Generator, k: int) -> pa.RecordBatch:
    """4,000 strings and 80,000 in lists: 4 MB here, three times as much as objects."""
    rows = range(4_000 * k, 4_000 * k + 4_000)
    text = pa.array([f"{row:06}".ljust(600, "x") for row in rows])
    words = pa.array([[f"word {row} {i}" for i in range(20)] for row in rows])
    return pa.record_batch({"label": np.array(rows), "text": text, "words": words})


@pytest.mark.parametrize(
    ("make", "n_batches", "compression", "batch_size", "on_top"),
    [(blobs, 6, "zstd", 16, 20_000_000), (columns, 8, None, 64, 0), (objects, 12, None, 2_048, 0)],
    ids=["compressed blobs", "many small columns", "objects"],
)
def test_a_small_budget_holds_where_rows_do_not_count_by_themselves(
    tmp_path: Path,
    make: Callable[[np.random.Generator, int], pa.RecordBatch],
    n_batches: int,
    compression: str | None,
    batch_size: int,
    on_top: int,
) -> None:
    """`on_top` is one decompressed body, which the budget may be passed by: not several at once."""
    path, rng = tmp_path / "shard.arrow", np.random.default_rng(0)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    write(path, (make(rng, k) for k in range(n_batches)), options)
    small = few_rows(path, options)
    peak, counted = many_tables(path, small, 64 * MIB, batch_size)
    assert peak <= 1.1 * 64 * MIB + on_top, f"{peak / MIB:.0f} MiB of 64 MiB"
    assert counted <= 64 * MIB + on_top, f"{counted / MIB:.0f} MiB counted of 64 MiB"


def test_a_small_budget_holds_where_rows_of_some_shards_are_read_alone(tmp_path: Path) -> None:
    """Those of the first one, which is not compressed. On top comes one decompressed body."""
    rng, folder = np.random.default_rng(0), tmp_path / "shards"
    folder.mkdir()
    write(folder / "0.arrow", (blobs(rng, k) for k in range(2)), pa.ipc.IpcWriteOptions())
    zstd = pa.ipc.IpcWriteOptions(compression="zstd")
    write(folder / "1.arrow", (blobs(rng, k) for k in range(5)), zstd)
    small = few_rows(folder / "1.arrow", zstd).rename(tmp_path / "small.arrow")
    peak, counted = many_tables(folder, small, 64 * MIB, 16)
    assert peak <= 1.1 * 64 * MIB + 20_000_000, f"{peak / MIB:.0f} MiB of 64 MiB"
    assert counted <= 64 * MIB + 20_000_000, f"{counted / MIB:.0f} MiB counted of 64 MiB"


def test_no_table_waits_for_more_than_the_budget(tmp_path: Path) -> None:
    """Of two that do not shrink, and so take 12 MB each, before and after."""
    path, rng = tmp_path / "shard.arrow", np.random.default_rng(0)
    made = (
        pa.record_batch({"label": np.arange(60), "x": [rng.bytes(100_000) for _ in range(60)]})
        for _ in range(2)
    )
    lz4 = pa.ipc.IpcWriteOptions(compression="lz4")
    write(path, made, lz4)
    _, counted = many_tables(path, few_rows(path, lz4), 20 * MIB, 1)
    assert counted <= 20 * MIB, f"{counted / MIB:.0f} MiB counted of 20 MiB"


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


# Prints the peak of the job above what the process was before it, in bytes.
COLUMNS = """
import gc
import gristmill as gm
from pathlib import Path

small, path, budget, batch_size, n_rows = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])

def drain(path, n_rows, **options):
    read = gm.ReadOptions(num_threads=2, index_dir=None, memory_budget=budget)
    options = {"shuffle": gm.Shuffle(1), "epochs": None, "read": read, **options}
    ds = gm.ArrowIterDataset(path, batch_size=batch_size or None, **options)
    it = iter(ds)
    for _ in range(0, n_rows, max(batch_size, 1)):
        next(it)
    it.close()

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

import logging
logging.disable()
audio = gm.Audio(crop=gm.StartCrop(0.01), sample_rate=16_000)
drain(small, 10, audio=audio, columns=["audio"])
gc.collect()
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
with_audio = "audio" in Path(path).name
drain(path, n_rows, audio=audio if with_audio else None, on_error="mask" if with_audio else "raise")
print(resident("VmHWM") - before)
"""


@pytest.fixture(scope="module")
def null_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four compressed record batches of 10^6 null rows of audio."""
    n = 10**6
    schema = shards.schema({"audio": shards.AUDIO, "count": pa.int64()})
    audio = pa.StructArray.from_arrays(
        [pa.nulls(n, pa.binary()), pa.nulls(n, pa.string())], fields=list(shards.AUDIO)
    )
    batch = pa.record_batch([audio, pa.array(np.arange(n))], schema=schema)
    path = tmp_path_factory.mktemp("nulls") / "audio.arrow"
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, schema, options=options) as writer,
    ):
        for _ in range(4):
            writer.write_batch(batch)
    return path


def test_a_million_null_rows_a_record_batch(numbered: list[Path], null_rows: Path) -> None:
    peak = int(probes.run(COLUMNS, numbered[0], null_rows, 64 * MIB, 64, rounds(640, 192)))
    assert peak <= 1.1 * 64 * MIB, f"{peak / MIB:.0f} MiB"


VALUE = MIB


@pytest.fixture(scope="module", params=["none", "zstd"])
def large_dictionaries(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Eight record batches of 100 rows, each with a dictionary of its own: 24 values of 1 MiB."""
    path = tmp_path_factory.mktemp("dictionaries") / "large.arrow"
    schema = pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))])
    codec = None if request.param == "none" else request.param
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, schema, options=options) as writer,
    ):
        for k in range(8):
            values = pa.array([f"{k:02}{i:02}" * (VALUE // 4) for i in range(24)])
            indices = pa.array(np.arange(100) % 24, pa.int32())
            column = pa.DictionaryArray.from_arrays(indices, values)
            writer.write_batch(pa.record_batch([column], schema=schema))
    return path


@pytest.mark.parametrize("batch_size", [0, 4])
def test_dictionaries_of_large_values(
    numbered: list[Path], large_dictionaries: Path, batch_size: int
) -> None:
    peak = int(probes.run(COLUMNS, numbered[0], large_dictionaries, 64 * MIB, batch_size, 120))
    held = 2 * max(batch_size, 1) * VALUE  # by the loop: a batch, and the one before it
    assert peak <= 1.1 * 64 * MIB + held, f"{peak / MIB:.0f} MiB"


TOO_LARGE = """
import gristmill as gm
from pathlib import Path

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

read = gm.ReadOptions(num_threads=2, index_dir=None, memory_budget=64 << 20)
dataset = gm.ArrowIterDataset(
    sys.argv[1], audio=None, batch_size=64, shuffle=gm.Shuffle(1), epochs=None, read=read)
before = resident("VmRSS")
try:
    next(iter(dataset))
except gm.LimitError as error:
    assert "raise memory_budget, lower batch_size" in str(error), error
    print(resident("VmHWM") - before)
"""


def test_a_batch_of_rows_with_large_values_of_their_own(tmp_path: Path) -> None:
    """64 record batches, each with a dictionary of one value of 40 MB, make no batch of 2.6 GB."""
    path = tmp_path / "large.arrow"
    schema = pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))])
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, schema, options=options) as writer,
    ):
        for k in range(64):
            values = pa.array([chr(48 + k) * 40_000_000])
            column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), values)
            writer.write_batch(pa.record_batch([column], schema=schema))
    peak = int(probes.run(TOO_LARGE, path))
    assert peak <= 5 * 64 * MIB, f"{peak / MIB:.0f} MiB"
