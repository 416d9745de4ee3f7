"""How much of Parquet is read and kept, and what lies in it."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from xxhash import xxh3_64_intdigest

import gristmill as gm
import parquet_files as pf
import probes
import shards
import test_memory
from signals import RATE, encode

import oracle

MIB = 1 << 20


def settled(path: Path) -> Path:
    """As if it had been written a minute ago, so that it gets a sidecar."""
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


def recordings(folder: Path, n: int, n_bytes: int, **options: Any) -> tuple[Path, list[bytes]]:
    rng = np.random.default_rng(3)
    data = [rng.bytes(n_bytes + 100 * k) for k in range(n)]
    audio = pa.array([{"bytes": d, "path": None} for d in data], shards.AUDIO)
    table = pa.table({"audio": audio}, shards.schema({"audio": shards.AUDIO}))
    return settled(pf.write(folder / "a.parquet", table, **options)), data


def drain(
    path: Path, index_dir: Path | None, n_rows: int, **options: Any
) -> tuple[list[bytes], int, int]:
    """The rows, in file order, and the requests and bytes that they took."""
    it = iter(
        gm.ArrowIterDataset(
            path,
            audio=None,
            columns=["audio"],
            with_row_id=True,
            read=gm.ReadOptions(index_dir=index_dir, num_threads=1),
            **options,
        )
    )
    rows: dict[int, bytes] = {}
    while len(rows) < n_rows:  # not to its end, after which nothing is counted
        element = next(it)
        rows[int(element["row"])] = element["audio"]["bytes"]
    assert it._pipeline is not None
    reads = it._pipeline.reads()
    it.close()
    return [rows[row] for row in sorted(rows)], reads.requests, reads.bytes


@pytest.mark.parametrize("options", [pf.NEW, pf.PLAIN, {**pf.PLAIN, "row_group_size": 10}])
@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_row_is_one_read_of_its_own_bytes(
    tmp_path: Path, options: dict[str, Any], is_indexed: bool
) -> None:
    path, data = recordings(tmp_path, 40, 80_000, **options)
    total = sum(map(len, data))
    folder = tmp_path / "index"
    if is_indexed:
        report = gm.build_indexes(path, read=gm.ReadOptions(index_dir=folder))
        assert report.written == 1
    shuffled = {"shuffle": gm.Shuffle(2)}
    first, _, n_bytes = drain(path, folder, 40, **shuffled)
    assert first == data
    assert n_bytes <= (1.03 if is_indexed else 1.1) * total + 40 * 4096 * (not is_indexed)
    again, n_requests, n_bytes = drain(path, folder, 40, **shuffled)
    assert again == data
    assert n_bytes <= 1.03 * total
    assert 40 <= n_requests <= 40 + 2 * 4 + 2, "a request a row, and the paths of a row group"


def test_one_row_does_not_read_its_row_group(tmp_path: Path) -> None:
    path, data = recordings(tmp_path, 40, 80_000, **pf.PLAIN)
    exclude = [(0, row) for row in range(40) if row != 17]
    (row,), _, n_bytes = drain(path, None, 1, exclude=exclude)
    assert row == data[17]
    assert n_bytes <= len(row) + 41 * 4096 + 20_000


@pytest.mark.parametrize("codec", ["SNAPPY", "ZSTD"])
def test_one_row_reads_its_pages(tmp_path: Path, codec: str) -> None:
    options = {
        "compression": codec,
        "write_page_index": True,
        "use_dictionary": False,
        "write_batch_size": 1,
    }
    path, data = recordings(tmp_path, 100, 80_000, **options)
    exclude = [(0, row) for row in range(100) if row != 57]
    (row,), _, n_bytes = drain(path, None, 1, exclude=exclude)
    assert row == data[57]
    assert n_bytes <= 2.5 * MIB, "a page or two of 1 MiB, of 8.5 MB"


def test_a_dictionary_is_read_where_pages_refer_to_it(tmp_path: Path) -> None:
    options = {
        "compression": "SNAPPY",
        "write_page_index": True,
        "write_batch_size": 1,
        "data_page_size": 100_000,
        "dictionary_pagesize_limit": 4 * MIB,
    }
    path, data = recordings(tmp_path, 100, 80_000, **options)
    rows, _, _ = drain(path, None, 100, shuffle=gm.Shuffle(1))
    assert rows == data
    n_bytes = {}
    for wanted in (3, 40, 90):
        exclude = [(0, row) for row in range(100) if row != wanted]
        (row,), _, n_bytes[wanted] = drain(path, None, 1, exclude=exclude)
        assert row == data[wanted]
    assert n_bytes[3] > 4 * MIB
    assert n_bytes[40] > 4 * MIB
    assert n_bytes[90] <= 2.5 * MIB, "its pages have the values themselves"


def test_lying_sidecars(tmp_path: Path) -> None:
    """With the right checksum: the rows, other bytes of the column, or a typed error."""
    path, data = recordings(tmp_path, 12, 5_000, **{**pf.PLAIN, "row_group_size": 5})
    folder = tmp_path / "index"
    gm.build_indexes(path, read=gm.ReadOptions(index_dir=folder))
    (sidecar,) = folder.glob("*.gmindex")
    sound = sidecar.read_bytes()
    # The second block, after its mark, checksum and length.
    at = sound.index(b"GMBL", sound.index(b"GMBL") + 1)
    assert drain(path, folder, 12)[0] == data
    draw = random.Random(5)
    n_read = 0
    for _ in range(300):
        mutant = bytearray(sound)
        for _ in range(draw.choice([1, 1, 2, 8])):
            changed = draw.randrange(at + 20, len(mutant))
            mutant[changed] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        mutant[at + 4 : at + 12] = xxh3_64_intdigest(mutant[at + 20 :]).to_bytes(8, "little")
        sidecar.write_bytes(mutant)
        try:
            n_read += drain(path, folder, 12)[0] == data
        except gm.GristmillError as error:
            assert "a.parquet" in str(error)  # noqa: PT017  (any mutant may be sound)
    assert n_read > 50


@pytest.mark.parametrize("name", ["datasets-3", "datasets-4.1", "datasets-4.6", "plain-v2"])
def test_damage_ends_in_rows_or_typed_errors(
    tmp_path: Path, numbered: list[Path], name: str
) -> None:
    table = oracle.read_table(numbered[0])
    sound = pf.write(tmp_path / "sound.parquet", table, **pf.OPTIONS[name]).read_bytes()
    path = tmp_path / "damaged.parquet"
    draw = random.Random(9)
    n_refused = 0
    for _ in range(150):
        mutant = bytearray(sound)
        for _ in range(draw.choice([1, 2, 10])):
            # Footers and headers more often than values.
            tail = draw.random() < 0.6
            at = draw.randrange(max(0, len(mutant) - 4_000) if tail else 0, len(mutant))
            mutant[at] ^= 1 << draw.randrange(8)
        path.write_bytes(mutant)
        try:
            list(gm.ArrowIterDataset(path, audio=None, read=gm.ReadOptions(index_dir=None)))
        except (gm.CorruptShardError, gm.SchemaError, gm.LimitError) as error:
            n_refused += 1
            assert "damaged.parquet" in str(error)  # noqa: PT017  (any mutant may be sound)
    assert n_refused > 10


def test_a_row_group_larger_than_the_budget(tmp_path: Path, numbered: list[Path]) -> None:
    """One row group of 300 MB: its audio is never loaded as a whole."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (750_000, 1)).astype(np.float32)
    audio = [{"bytes": encode(noise, RATE, "wav16"), "path": None}] * 200
    table = pa.table(
        {"audio": pa.array(audio, shards.AUDIO), "label": pa.array(range(200))},
        shards.schema({"audio": shards.AUDIO, "label": pa.int64()}),
    )
    path = pf.write(tmp_path / "big.parquet", table, **pf.PLAIN)
    budget = 128 * MIB
    peak = int(probes.run(test_memory.SCRIPT, numbered[0], path, budget, 5.0, 8))
    path.unlink()
    held = 2 * 8 * 5 * RATE * 4
    assert peak <= 1.1 * budget + held, f"{peak / MIB:.0f} MiB of {budget / MIB:.0f} MiB"
