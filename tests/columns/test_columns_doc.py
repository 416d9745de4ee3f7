"""The table in docs/columns.md is what is delivered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import gristmill as gm

PAGE = Path(__file__).parents[2] / "docs" / "columns.md"
N = 5

INTS = pa.array(range(N), pa.int32())
PAIRS = pa.array([[i, i + 1] for i in range(N)], pa.list_(pa.int32()))
COLUMNS: dict[str, list[pa.Array]] = {
    "`bool`": [pa.array([True] * N)],
    "`int8`, `int16`, `int32`, `int64`": [
        INTS.cast(of) for of in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ],
    "`uint8`, `uint16`, `uint32`, `uint64`": [
        INTS.cast(of) for of in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ],
    "`float16`, `float32`, `float64`": [
        INTS.cast(of) for of in (pa.float16(), pa.float32(), pa.float64())
    ],
    "`date32`": [INTS.view(pa.date32())],
    "`date64`": [pa.array([86_400_000] * N, pa.int64()).view(pa.date64())],
    "`time32`, `time64` of s, ms, us, ns": [
        *(INTS.view(pa.time32(unit)) for unit in ("s", "ms")),
        *(INTS.cast(pa.int64()).view(pa.time64(unit)) for unit in ("us", "ns")),
    ],
    "`timestamp` of s, ms, us, ns": [
        INTS.cast(pa.int64()).view(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")
    ],
    "`duration` of s, ms, us, ns": [
        INTS.cast(pa.int64()).view(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")
    ],
    "`decimal32`, `decimal64`, `decimal128`, `decimal256`": [
        INTS.cast(pa.decimal128(12, 2)).cast(of)
        for of in (pa.decimal32(9, 2), pa.decimal64(12, 2), pa.decimal128(12, 2))
    ]
    + [INTS.cast(pa.decimal256(12, 2))],
    "`utf8`, `large_utf8`, `utf8_view`": [
        pa.array(["a"] * N, of) for of in (pa.string(), pa.large_string(), pa.string_view())
    ],
    "`binary`, `large_binary`, `binary_view`, `fixed_size_binary`": [
        pa.array([b"ab"] * N, of)
        for of in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))
    ],
    "`fixed_size_list[k]` of `int32`": [PAIRS.cast(pa.list_(pa.int32(), 2))],
    "`list`, `large_list` of `int32`": [PAIRS, PAIRS.cast(pa.large_list(pa.int32()))],
    "`list_view`, `large_list_view` of `int32`": [
        pa.array(PAIRS.to_pylist(), of)
        for of in (pa.list_view(pa.int32()), pa.large_list_view(pa.int32()))
    ],
    "`list` of `utf8`": [pa.array([["a", "b"]] * N, pa.list_(pa.string()))],
    "`list` of `list` of `int32`": [
        pa.array([[[1, 2, 3], [4, 5, 6]]] * N, pa.list_(pa.list_(pa.int32())))
    ],
    "`list` of `struct`": [pa.array([[{"a": 1}, {"a": 2}]] * N)],
    "`struct` of `a: int32`": [pa.StructArray.from_arrays([INTS], ["a"])],
    "`map`": [pa.array([[("key", 1)]] * N, pa.map_(pa.string(), pa.int32()))],
    "`dictionary` of `utf8`": [pa.array(["a"] * N).dictionary_encode()],
    "`run_end_encoded` of `int32`": [pc.run_end_encode(INTS)],
    "`null`": [pa.nulls(N)],
}


def shown(value: Any, *, is_batch: bool) -> str:
    """How the table writes a value: its kind, and its shape with names for the sizes."""
    if isinstance(value, dict):
        inner = ", ".join(f'"{name}": {shown(v, is_batch=is_batch)}' for name, v in value.items())
        return f"`dict`: {inner}"
    if isinstance(value, np.ndarray):
        names = ["n"] * is_batch + ["k", "m"]
        axes = ", ".join(names[: value.ndim])
        kind = "objects" if value.dtype == object else f"`{value.dtype.name}`"
        shape = f"({axes}{',' if value.ndim == 1 else ''})"
        cells = {shown(cell, is_batch=False) for cell in value.flat} if kind == "objects" else set()
        return f"{kind} `{shape}`" + (f" of {cells.pop()}" if cells else "")
    if isinstance(value, np.generic):
        return f"`{value.dtype.name}`"
    if isinstance(value, list):
        return "`list` of `tuple`"
    return "`None`" if value is None else f"`{type(value).__name__}`"


def joined(texts: list[str]) -> str:
    """Each once, those that differ in one dtype as one."""
    once = list(dict.fromkeys(texts))
    if len(once) == 1:
        return once[0]
    common = {text.split("`", 2)[2] for text in once}
    assert len(common) == 1, once
    return ", ".join(f"`{text.split('`')[1]}`" for text in once) + common.pop()


def table(tmp_path: Path) -> str:
    lines = [
        '| Arrow type | single row | batch | batch, `ragged="pad"` or `"error"` |',
        "|---|---|---|---|",
    ]
    for name, columns in COLUMNS.items():
        path = tmp_path / "a.arrow"
        data = pa.table({f"x{k}": column for k, column in enumerate(columns)})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, data.schema) as writer:
            writer.write_table(data)
        row = next(iter(gm.ArrowIterDataset(path)))
        (batch,) = gm.ArrowIterDataset(path, batch_size=N)
        (stacked,) = gm.ArrowIterDataset(path, batch_size=N, ragged="error")
        (padded,) = gm.ArrowIterDataset(path, batch_size=N, ragged="pad")
        single = joined([shown(row[column], is_batch=False) for column in data.column_names])
        whole = joined([shown(batch[column], is_batch=True) for column in data.column_names])
        other = joined([shown(stacked[column], is_batch=True) for column in data.column_names])
        names = data.column_names
        assert other == joined([shown(padded[column], is_batch=True) for column in names])
        lines.append(f"| {name} | {single} | {whole} | {'the same' if other == whole else other} |")
    return "\n".join(lines)


def test_the_table_is_what_is_delivered(tmp_path: Path) -> None:
    written = PAGE.read_text(encoding="utf-8")
    start, end = "<!-- table -->\n", "\n<!-- end -->"
    found = written.split(start)[1].split(end)[0]
    expected = table(tmp_path)
    assert found == expected, f"docs/columns.md should have this table:\n{expected}"
