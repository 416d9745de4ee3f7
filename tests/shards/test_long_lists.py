"""Rows of long lists of numbers, in file order and shuffled, beside what pyarrow reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
from rounds import rounds

DTYPES = ["int8", "uint16", "int32", "int64", "float16", "float32", "float64", "bool", "uint64"]
KINDS = ["list", "large", "fixed"]


def array(kind: str, dtype: str, lengths: list[int | None], seed: int, null_items: bool) -> Any:
    """Lists of random numbers; `None` is a null list; of a fixed size the first one's length."""
    rng = np.random.default_rng(seed)
    width = max((n for n in lengths if n is not None), default=0)
    if kind == "fixed":
        lengths = [width] * len(lengths)
    values = rng.integers(0, 100, sum(n or 0 for n in lengths)).astype(dtype)
    mask = rng.integers(0, 50, len(values)) == 0 if null_items else None
    items = pa.array(values, mask=mask)
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(items, width)
    offsets = np.concatenate([[0], np.cumsum([n or 0 for n in lengths])])
    cls, of = {"list": (pa.ListArray, pa.int32()), "large": (pa.LargeListArray, pa.int64())}[kind]
    is_null = pa.array([n is None for n in lengths] + [False])
    return cls.from_arrays(pa.array(offsets, of, mask=np.asarray(is_null)), items)


def write(path: Path, batches: list[pa.RecordBatch], form: str, codec: str | None) -> None:
    make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.OSFile(str(path), "wb") as sink, make(sink, batches[0].schema, options=options) as out:
        for batch in batches:
            out.write_batch(batch)


def expected_rows(batches: list[pa.RecordBatch], excluded: set[int]) -> list[Any]:
    """Each row's list by pyarrow: its numbers, or what stands for a null among them."""
    rows = [row for batch in batches for row in batch.column(0)]
    kept = [row for k, row in enumerate(rows) if k not in excluded]
    of = batches[0].column(0).type.value_type
    zero = pa.scalar(np.zeros((), of.to_pandas_dtype())[()], of)
    return [row.values.fill_null(zero) if row.is_valid else None for row in kept]


def same(ours: Any, theirs: Any) -> None:
    if theirs is None:
        assert ours is None
        return
    numbers = theirs.to_numpy(zero_copy_only=False)
    assert ours.dtype == numbers.dtype
    np.testing.assert_array_equal(ours, numbers)


@settings(deadline=None, max_examples=rounds(60))
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    lengths=st.lists(
        st.lists(
            st.one_of(st.none(), st.sampled_from([0, 1, 7, 1_000, 40_000])), min_size=1, max_size=5
        ),
        min_size=1,
        max_size=4,
    ),
    null_items=st.booleans(),
    batch_size=st.integers(1, 7),
    form=st.sampled_from(["stream", "file"]),
    codec=st.sampled_from([None, None, None, "lz4"]),
    sliced=st.booleans(),
    excluded=st.sets(st.integers(0, 19), max_size=3),
    seed=st.integers(0, 99),
)
def test_batches_in_file_order_hold_the_rows(
    kind: str,
    dtype: str,
    lengths: list[list[int | None]],
    null_items: bool,
    batch_size: int,
    form: str,
    codec: str | None,
    sliced: bool,
    excluded: set[int],
    seed: int,
) -> None:
    if kind == "fixed":  # of one size in all record batches
        lengths = [[40_000] * len(part) for part in lengths]
    made = [array(kind, dtype, part, seed + k, null_items) for k, part in enumerate(lengths)]
    if sliced:
        made = [part.slice(1) if len(part) > 1 else part for part in made]
    batches = [pa.record_batch({"x": part, "n": pa.array(range(len(part)))}) for part in made]
    n_rows = sum(map(len, made))
    # One row stays: that all are excluded is an error, and a test of its own.
    excluded = {row for row in excluded if 0 < row < n_rows}
    expected = expected_rows(batches, excluded)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lists.arrow"
        write(path, batches, form, codec)

        def read(**options: Any) -> list[dict[str, Any]]:
            exclude = [(0, row) for row in excluded]
            ds = gm.ArrowIterDataset(
                path, audio=None, batch_size=batch_size, fill_value=0, exclude=exclude, **options
            )
            return list(ds)

        for options in ({"epochs": 2}, {"epochs": 2, "with_row_id": True}):
            found = [row for batch in read(**options) for row in batch["x"]]
            assert len(found) == 2 * len(expected)
            for ours, theirs in zip(found, expected + expected, strict=True):
                same(ours, theirs)
        # A shuffle reads whole record batches: the same rows, and the same padding.
        shuffled = read(shuffle=gm.Shuffle(1), ragged="pad", with_row_id=True)
        padded = read(ragged="pad", with_row_id=True)
        rows = [
            {
                int(batch["row"][k]): batch["x"][k].tobytes().rstrip(b"\0")
                for batch in batches
                for k in range(len(batch["row"]))
            }
            for batches in (shuffled, padded)
        ]
        assert rows[0] == rows[1]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 record batches of 100 rows of 2,048 tokens, 800 KB each."""
    path = tmp_path_factory.mktemp("long") / "tokens.arrow"
    values = np.arange(2_000 * 2_048, dtype=np.int32)
    offsets = np.arange(2_001, dtype=np.int32) * 2_048
    table = pa.table({"tokens": pa.ListArray.from_arrays(offsets, values)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table, max_chunksize=100)
    return path


def test_a_batch_keeps_nothing_of_another(long: Path) -> None:
    """Memory is used again once a batch is gone, never before."""
    batches = list(gm.ArrowIterDataset(long, audio=None, batch_size=64))
    rows = [row for batch in batches for row in batch["tokens"]]
    for k, row in enumerate(rows):
        assert row.flags.writeable
        np.add(row, 1, out=row)
        np.testing.assert_array_equal(row, np.arange(2_048 * k + 1, 2_048 * (k + 1) + 1))


def test_a_shard_shortened_meanwhile_is_an_error(long: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.arrow"
    path.write_bytes(long.read_bytes())
    it = iter(gm.ArrowIterDataset(path, audio=None, batch_size=64, epochs=None))
    next(it)
    with path.open("r+b") as f:
        f.truncate(path.stat().st_size - 1_000_000)
    with pytest.raises(gm.CorruptShardError) as caught:
        sum(len(batch["tokens"]) for batch in it)
    assert caught.value.shard == str(path)
