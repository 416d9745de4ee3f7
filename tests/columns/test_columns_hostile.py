"""Few bytes that describe enormous columns: a typed error before the memory is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm

READ = gm.ReadOptions(num_threads=1, memory_budget="64MiB")


def write(path: Path, column: pa.Array, compression: str | None = None) -> Path:
    batch = pa.record_batch([column], names=["x"])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, batch.schema, options=options) as writer,
    ):
        writer.write_batch(batch)
    assert path.stat().st_size < 300_000
    return path


def shared_views(levels: int, n: int) -> pa.Array:
    """Lists of lists, each list at each level holding all lists of the level below."""
    column: pa.Array = pa.array(range(n), pa.int16())
    for _ in range(levels):
        column = pa.ListViewArray.from_arrays(
            pa.array([0] * n, pa.int32()), pa.array([n] * n, pa.int32()), column
        )
    return column


def laughs(levels: int) -> pa.Array:
    """Ten words, in lists of ten keys, in lists of ten keys, ..."""
    column: pa.Array = pa.array(["ha"] * 10).dictionary_encode()
    for _ in range(levels):
        lists = pa.ListArray.from_arrays(pa.array([0, 10], pa.int32()), column)
        keys = pa.array([0] * 10, pa.int8())
        column = pa.DictionaryArray.from_arrays(keys, lists)
    return column


BIG = 2**31 - 1
ONE_LIST = pa.array([0, BIG], pa.int32())
CASES: dict[str, Any] = {
    "views that share their items": lambda: shared_views(3, 1000),
    "keys that share their values": lambda: laughs(9),
    "one run": lambda: pa.ListArray.from_arrays(
        ONE_LIST, pa.RunEndEncodedArray.from_arrays(pa.array([BIG], pa.int32()), pa.array([7]))
    ),
    "nulls without bytes": lambda: pa.ListArray.from_arrays(ONE_LIST, pa.nulls(BIG)),
}


@pytest.mark.parametrize("ragged", [None, "object", "pad", "error"])
@pytest.mark.parametrize("case", list(CASES))
def test_small_shards_of_enormous_rows(tmp_path: Path, case: str, ragged: Any) -> None:
    path = write(tmp_path / "a.arrow", CASES[case]())
    options = {} if ragged is None else {"batch_size": 1, "ragged": ragged}
    with pytest.raises(gm.LimitError, match="67108864 bytes"):
        next(iter(gm.ArrowIterDataset(path, read=READ, **options)))


def test_padding_to_one_long_row(tmp_path: Path) -> None:
    """Rows of many short lists, and one of a long list: their product is not made."""
    lists = [[[1]] * 9_000] + [[list(range(9_000))]] * 2
    path = write(tmp_path / "a.arrow", pa.array(lists, pa.list_(pa.list_(pa.int16()))))
    ds = gm.ArrowIterDataset(path, read=READ, batch_size=3, ragged="pad")
    with pytest.raises(gm.LimitError, match="memory_budget"):
        next(iter(ds))


def test_a_run_of_a_billion_rows_is_read_row_by_row(tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array([7]))
    it = iter(gm.ArrowIterDataset(write(tmp_path / "a.arrow", runs), shuffle=gm.Shuffle(1)))
    assert [int(next(it)["x"]) for _ in range(5)] == [7] * 5
    it.close()
    batch = next(iter(gm.ArrowIterDataset(tmp_path / "a.arrow", batch_size=1_000)))
    assert batch["x"].dtype == np.int64
    assert batch["x"].tolist() == [7] * 1_000


def views_of_one_string(n: int, n_bytes: int) -> pa.Array:
    """`n` string views of the same text."""
    view = np.zeros((n, 4), "<u4")  # length, first four bytes, buffer, offset
    view[:, 0] = n_bytes
    view[:, 1] = int.from_bytes(b"aaaa", "little")
    buffers = [None, pa.py_buffer(view.tobytes()), pa.py_buffer(b"a" * n_bytes)]
    return pa.Array.from_buffers(pa.string_view(), n, buffers)


def in_lists(column: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column)


def in_a_struct(column: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([pa.nulls(len(column)), column], names=["a", "b"])


def in_a_dictionary(column: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), in_lists(column))


@pytest.mark.parametrize("around", [None, in_lists, in_a_struct, in_a_dictionary])
def test_views_that_share_their_text_are_not_checked_one_by_one(
    tmp_path: Path, around: Any
) -> None:
    """4 TB of text to check for being UTF-8, from a shard of a few kilobytes."""
    column = views_of_one_string(400_000, 10_000_000)
    path = write(tmp_path / "a.arrow", column if around is None else around(column), "zstd")
    with pytest.raises(gm.LimitError, match=r"string views .* refer to 4000000000000 bytes"):
        next(iter(gm.ArrowIterDataset(path, read=READ)))
    few = views_of_one_string(40, 10_000)
    path = write(tmp_path / "b.arrow", few if around is None else around(few), "zstd")
    assert next(iter(gm.ArrowIterDataset(path, read=READ)))


def test_dictionaries_count_for_the_budget(tmp_path: Path) -> None:
    values = pa.array(["a" * 40_000_000, "b" * 40_000_000])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 10, pa.int32()), values)
    path = write(tmp_path / "a.arrow", column, "zstd")
    with pytest.raises(gm.LimitError, match=r"dictionaries .* 67108864 bytes; raise memory_budget"):
        next(iter(gm.ArrowIterDataset(path, read=READ)))
    larger = gm.ReadOptions(num_threads=1, memory_budget="512MiB")
    assert next(iter(gm.ArrowIterDataset(path, read=larger)))["x"] == "a" * 40_000_000
