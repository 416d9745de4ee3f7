"""A system that refuses memory: large blocks end in `MemoryError`, and not the process.

`RLIMIT_AS` leaves each job room for its small blocks, and none for its large one: the slots of a
batch, a decoded recording, an encoded row, the body of a record batch, what a compressed one grows
to. Small blocks: `test_address_space.py`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import probes
import shards
from signals import encode

MIB = 1 << 20
ROOM = 96 * MIB  # beyond what the process has when it starts

SCRIPT = """
import resource
import gristmill as gm
from pathlib import Path

job, small, large, room = *sys.argv[1:4], int(sys.argv[4])
JOBS = {
    "slots": {"audio": gm.Audio(crop=gm.RandomCrop(60)), "batch_size": 64},
    "whole recording": {"audio": gm.Audio(crop=None), "batch_size": None},
    "encoded row": {"audio": None, "binary": "numpy", "batch_size": None},
    "record batch": {"audio": None, "batch_size": 100},  # of fewer rows, it would not be read
    "zstd": {"audio": None, "batch_size": 4},
    "lz4": {"audio": None, "batch_size": 4},
    "strings": {"audio": None, "batch_size": 200},
}

def run(path, **options):
    read = gm.ReadOptions(num_threads=2, index_dir=None)
    it = iter(gm.ArrowIterDataset(path, epochs=None, read=read, **{**JOBS[job], **options}))
    try:
        return next(it)
    finally:
        it.close()

def limit(n_bytes):
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, resource.RLIM_INFINITY))

run(small, batch_size=2)  # what is imported and made once
lines = Path("/proc/self/status").read_text().splitlines()
size = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize"))
limit(size + room)
for _ in range(3):
    try:
        run(large)
    except MemoryError as error:
        print(error)
limit(resource.RLIM_INFINITY)
run(large)  # and goes on where there is memory again
"""


def tokens(path: Path, n_rows: int, compression: str | None = None) -> Path:
    """One record batch of rows of 1 MiB."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    values = pa.array(np.zeros(n_rows * MIB // 4, np.int32))
    lists = pa.FixedSizeListArray.from_arrays(values, MIB // 4)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, pa.schema([("tokens", lists.type)]), options=options) as out,
    ):
        out.write_batch(pa.record_batch([lists], names=["tokens"]))
    return path


def strings(path: Path, n_rows: int) -> Path:
    """Rows that share one text of 1 MiB."""
    keys = pa.array([0] * n_rows, pa.int8())
    column = pa.DictionaryArray.from_arrays(keys, pa.array(["a" * MIB]))
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, pa.schema([("text", column.type)])) as out,
    ):
        out.write_batch(pa.record_batch([column], names=["text"]))
    return path


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, Path]]]:
    folder = tmp_path_factory.mktemp("memory")
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (20_000, 1)).astype(np.float32)
    short = shards.write_audio(folder / "short.arrow", [encode(noise, 16_000, "wav16")] * 64)
    # 40 minutes of silence, which FLAC makes small and decoding 307 MB.
    silence = np.zeros((40 * 60 * 32_000, 1), np.float32)
    long = shards.write_audio(folder / "long.arrow", [encode(silence, 32_000, "flac16")])
    blob = shards.write_audio(folder / "blob.arrow", [bytes(200 * MIB)])
    few, many = tokens(folder / "few.arrow", 4), tokens(folder / "many.arrow", 200)
    compressed = {
        codec: (few, tokens(folder / f"{codec}.arrow", 200, codec)) for codec in ("zstd", "lz4")
    }
    yield {
        **compressed,
        "strings": (strings(folder / "4.arrow", 4), strings(folder / "200.arrow", 200)),
        "slots": (short, short),
        "whole recording": (short, long),
        "encoded row": (short, blob),
        "record batch": (few, many),
    }
    for path in (long, blob, many):
        path.unlink()


@pytest.mark.parametrize(
    "job", ["slots", "whole recording", "encoded row", "record batch", "zstd", "lz4", "strings"]
)
def test_a_large_block_that_is_refused_is_an_error(
    paths: dict[str, tuple[Path, Path]], job: str
) -> None:
    done = subprocess.run(
        probes.script(SCRIPT, job, *paths[job], ROOM),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-1000:]}"
    messages = done.stdout.splitlines()
    assert len(messages) == 3, done.stdout
    assert all("there is no memory for" in message for message in messages), messages
