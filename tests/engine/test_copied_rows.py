"""Rows that are copied out of large tables and share a table in their batch keep their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards

N_ROWS = 400


def table(n_more: int) -> pa.Table:
    ids = range(N_ROWS)
    names = pa.array([None if i % 7 == 3 else f"name {i % 11}" for i in ids])
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.int64()),
        "half": pa.array([None if i % 5 == 0 else i / 2 for i in ids], pa.float32()),
        "good": pa.array([i % 3 == 0 for i in ids]),
        "text": pa.array([f"row {i}" * (i % 4) for i in ids]),
        "name": names,
        "word": names.dictionary_encode(),
        "tags": pa.array([list(range(i % 4)) for i in ids], pa.list_(pa.int32())),
        "box": pa.array([[i, -i] for i in ids], pa.list_(pa.int16(), 2)),
        "place": pa.array([{"lat": i, "of": {"lon": -i}} for i in ids]),
    }
    return pa.table(columns | {f"c{k}": pa.array(np.arange(N_ROWS) * k) for k in range(n_more)})


def plain(value: Any) -> Any:
    """A value of an element as `pyarrow` gives it."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@pytest.mark.parametrize(("n_more", "batch_rows"), [(0, 3), (0, 20), (300, 7)])
@pytest.mark.parametrize("batch_size", [5, 64])
def test_rows_are_those_of_pyarrow(
    tmp_path: Path, n_more: int, batch_rows: int, batch_size: int
) -> None:
    rows = table(n_more)
    path = shards.write_table(tmp_path / "rows.arrow", rows, batch_rows)
    wanted = rows.to_pylist()
    dataset = gm.ArrowIterDataset(
        path,
        audio=None,
        batch_size=batch_size,
        shuffle=gm.Shuffle(3),
        fill_value={"half": -1.0},
        read=gm.ReadOptions(memory_budget=1 << 20, index_dir=None),
    )
    seen: list[int] = []
    for batch in dataset:
        ids = batch["id"].tolist()
        seen += ids
        for k, row in enumerate(ids):
            for name in ("half", "good", "text", "name", "word", "tags", "box"):
                right = wanted[row][name]
                if right is None and name == "half":
                    right = -1.0
                assert plain(batch[name][k]) == right, (row, name)
            assert batch["place"]["of"]["lon"][k] == -row
            assert all(batch[f"c{n}"][k] == row * n for n in range(0, n_more, 37))
    assert sorted(seen) == list(range(N_ROWS))
