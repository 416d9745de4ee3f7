"""IPC files by polars, whose schema has no message around it at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import gristmill as gm

FRAME = pl.DataFrame(
    {
        "n": list(range(50)),
        "name": [None if k % 7 == 0 else f"bird {k}" for k in range(50)],
        "kind": pl.Series([f"{k % 3}" for k in range(50)], dtype=pl.Categorical),
        "tags": [["a"] * (k % 4) for k in range(50)],
        "place": [{"lat": k / 2} for k in range(50)],
    }
)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("frame", [FRAME, FRAME.select("n")], ids=["five columns", "one"])
def test_rows_are_pyarrows(tmp_path: Path, compression: Any, frame: pl.DataFrame) -> None:
    path = tmp_path / "a.arrow"
    frame.write_ipc(path, compression=compression, record_batch_size=20)
    for _ in range(2):  # the second time by the sidecar
        with pa.OSFile(str(path), "rb") as source:
            expected = pa.ipc.open_file(source).read_all().to_pylist()
        rows = list(gm.ArrowIterDataset(path))
        for row, wanted in zip(rows, expected, strict=True):
            assert int(row.pop("n")) == wanted.pop("n")
            if wanted:
                assert list(row.pop("tags")) == wanted.pop("tags")
            assert row == wanted


def test_a_message_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema({"n": pa.int64()})):
        pass
    data = bytearray(path.read_bytes())
    assert data[8:12] == b"\xff" * 4
    data[12:24] = b"\0\0\0\x7f" * 3
    path.write_bytes(data)
    with pytest.raises(gm.CorruptShardError, match="byte 8"):
        list(gm.ArrowIterDataset(path))
