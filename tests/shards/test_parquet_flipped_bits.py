"""A flipped bit in a page of Parquet is an error or what pyarrow reads, never other rows."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
from rounds import rounds

N_ROWS = 37

TABLES = {
    "lists": pa.table(
        {
            "ll": pa.array(
                [[list(range(j)) for j in range(k % 4)] if k % 5 else None for k in range(N_ROWS)],
                pa.list_(pa.list_(pa.int16())),
            )
        }
    ),
    "structs": pa.table(
        {
            "ls": pa.array(
                [[{"a": j, "b": "q" * j} for j in range(k % 3)] for k in range(N_ROWS)],
                pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
            ),
            "s": pa.array([None if k % 5 == 0 else f"n{k % 7}" for k in range(N_ROWS)]),
        }
    ),
}


def plain(value: Any) -> Any:
    """The value without types of NumPy."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list) or hasattr(value, "tolist"):
        return [plain(item) for item in value] if getattr(value, "ndim", 1) else value.tolist()
    return value


def rows_of(path: Path) -> list[Any]:
    read = gm.ReadOptions(index_dir=None, num_threads=1)
    return [plain(row) for row in gm.ArrowIterDataset(path, audio=None, batch_size=None, read=read)]


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False], ids=["dictionary", "plain"])
@pytest.mark.parametrize("kind", TABLES)
def test_flipped_bits_are_errors_or_pyarrows_rows(
    tmp_path: Path, kind: str, use_dictionary: bool, version: str, compression: str
) -> None:
    table, file = TABLES[kind], io.BytesIO()
    pq.write_table(
        table,
        file,
        compression=compression,
        use_dictionary=use_dictionary,
        data_page_version=version,
    )
    whole = file.getvalue()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path = tmp_path / "flipped.parquet"
    path.write_bytes(whole)
    right = table.to_pylist()
    assert rows_of(path) == right
    bits = random.Random(kind + version).sample(range(4 * 8, footer * 8), rounds(250, 90))
    n_refused = 0
    for bit in bits:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            theirs = pq.read_table(path).to_pylist()
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            theirs = None
        try:
            ours = rows_of(path)
        except gm.GristmillError:
            n_refused += 1
            continue
        assert ours in (right, theirs), f"bit {bit}"
    assert n_refused > 0
