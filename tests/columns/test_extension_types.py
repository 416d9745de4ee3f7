"""Extension types of Arrow: Booleans in bytes, and tensors with their shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grain
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
import shards

N = 7
FLAGS = pa.array([1, 0, -1, 0, 127, 0, 2], pa.int8())
BOOL8 = pa.ExtensionArray.from_storage(pa.bool8(), FLAGS)
VALUES = np.arange(N * 6, dtype=np.float32).reshape(N, 2, 3)


def tensors(kind: pa.DataType, mask: list[bool] | None = None) -> pa.Array:
    size = kind.storage_type.list_size
    rows: list[Any] = VALUES.reshape(-1)[: N * size].reshape(N, size).tolist()
    rows = [None if mask and mask[i] else row for i, row in enumerate(rows)]
    return pa.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type))


def tensor(shape: list[int], **options: Any) -> pa.DataType:
    return pa.fixed_shape_tensor(pa.float32(), shape, **options)


def write(path: Path, made: pa.Table, how: str) -> Path:
    if how == "parquet":
        pq.write_table(made, path)
    elif how == "zstd":
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(path, made.schema, options=options) as out:
            out.write_table(made, max_chunksize=3)
    else:
        shards.write_table(path, made)
    return path


def table() -> pa.Table:
    flags = pa.StructArray.from_arrays(
        [BOOL8, pa.array(range(N))],
        fields=[pa.field("flag", pa.bool8()), pa.field("n", pa.int64())],
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4, 5, 6, 7]), BOOL8)
    return pa.table(
        {
            "flag": BOOL8,
            "image": tensors(tensor([2, 3])),
            "cube": tensors(tensor([1, 2, 3], dim_names=["a", "b", "c"])),
            "s": flags,
            "many": lists,
        }
    )


@pytest.mark.parametrize("how", ["stream", "zstd", "parquet"])
@pytest.mark.parametrize("shuffle", [None, gm.Shuffle(seed=3)])
def test_booleans_and_tensors(how: str, shuffle: gm.Shuffle | None, tmp_path: Path) -> None:
    shard = write(tmp_path / "a.shard", table(), how)
    is_true = np.asarray(FLAGS) != 0
    dataset = gm.ArrowIterDataset(shard, shuffle=shuffle, epochs=1, with_row_id=True)
    rows = list(dataset)
    assert len(rows) == N
    for row in rows:
        at = int(row["row"])
        assert row["flag"].dtype == bool
        assert row["flag"] == row["s"]["flag"] == is_true[at]
        np.testing.assert_array_equal(row["image"], VALUES[at], strict=True)
        np.testing.assert_array_equal(row["cube"], VALUES[at][None], strict=True)
        assert row["many"].dtype == bool
    (batch,) = gm.ArrowIterDataset(shard, batch_size=N)
    np.testing.assert_array_equal(batch["flag"], is_true, strict=True)
    np.testing.assert_array_equal(batch["s"]["flag"], is_true, strict=True)
    np.testing.assert_array_equal(batch["image"], VALUES, strict=True)
    np.testing.assert_array_equal(np.concatenate(list(batch["many"])), is_true, strict=True)
    spec: Any = grain.experimental.get_element_spec(gm.ArrowIterDataset(shard, batch_size=N))
    assert (spec["image"].shape[1:], spec["image"].dtype) == ((2, 3), np.float32)
    assert spec["flag"].dtype == bool
    fields = gm.ArrowIterDataset(shard, columns=["s.flag", "s"])
    assert [bool(row["s.flag"]) for row in fields] == is_true.tolist()


@pytest.mark.parametrize("how", ["stream", "parquet"])
def test_filters_see_booleans(how: str, tmp_path: Path) -> None:
    shard = write(tmp_path / "a.shard", table(), how)
    for wanted in (True, False):
        dataset = gm.ArrowIterDataset(
            shard, columns=["flag"], filters=[("flag", "==", wanted)], with_row_id=True
        )
        rows = [int(row["row"]) for row in dataset]
        assert rows == [i for i, flag in enumerate(FLAGS.to_pylist()) if bool(flag) == wanted]


def test_nulls(tmp_path: Path) -> None:
    mask = [i in {0, 4} for i in range(N)]
    made = pa.table(
        {
            "image": tensors(tensor([2, 3]), mask),
            "flag": pa.ExtensionArray.from_storage(
                pa.bool8(), pa.array([None if m else 1 for m in mask], pa.int8())
            ),
        }
    )
    shard = write(tmp_path / "a.arrow", made, "stream")
    rows = list(gm.ArrowIterDataset(shard))
    assert [row["image"] is None for row in rows] == mask
    assert [row["flag"] is None for row in rows] == mask
    np.testing.assert_array_equal(rows[1]["image"], VALUES[1])
    (batch,) = gm.ArrowIterDataset(shard, batch_size=N, fill_value={"image": -1, "flag": False})
    expected = np.where(np.array(mask)[:, None, None], np.float32(-1), VALUES)
    np.testing.assert_array_equal(batch["image"], expected)
    assert batch["flag"].tolist() == [not m for m in mask]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (tensor([6]), (6,)),
        (tensor([2, 3], permutation=[0, 1]), (2, 3)),
        # What is stored in another order than that of its dimensions stays as it is stored.
        (tensor([2, 3], permutation=[1, 0]), (6,)),
        (tensor([0, 3]), (0,)),
    ],
)
def test_shapes_that_are_not_given(
    kind: pa.DataType, shape: tuple[int, ...], tmp_path: Path
) -> None:
    shard = write(tmp_path / "a.arrow", pa.table({"t": tensors(kind)}), "stream")
    assert [row["t"].shape for row in gm.ArrowIterDataset(shard)] == [shape] * N


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"{",
        b"[]",
        b'{"shape": 6}',
        b'{"shape": [2, 4]}',
        b'{"shape": [-2, -3]}',
        b'{"shape": [2, 3.0]}',
        b'{"shape": [65536, 65536, 6]}',
        b'{"shape": [2, 3], "permutation": [0]}',
        b'{"shape": [' + b"1, " * 80 + b"6]}",
        b'{"shape": ' + b"[" * 100_000,
    ],
)
def test_metadata_of_any_other_form_is_ignored(metadata: bytes, tmp_path: Path) -> None:
    extension = {
        b"ARROW:extension:name": b"arrow.fixed_shape_tensor",
        b"ARROW:extension:metadata": metadata,
    }
    flat = pa.array(VALUES.reshape(N, 6).tolist(), pa.list_(pa.float32(), 6))
    field = pa.field("t", flat.type, metadata=extension)
    text = pa.field("u", pa.string(), metadata={b"ARROW:extension:name": b"arrow.bool8"})
    made = pa.Table.from_arrays([flat, pa.array(["x"] * N)], schema=pa.schema([field, text]))
    shard = write(tmp_path / "a.arrow", made, "stream")
    assert [row["t"].shape for row in gm.ArrowIterDataset(shard)] == [(6,)] * N


def test_shards_that_mean_other_things(tmp_path: Path) -> None:
    """One says that its bytes are Booleans, one does not: neither is right for both."""
    paths = [
        write(tmp_path / f"{name}.arrow", pa.table({"n": pa.array(range(N)), "flag": column}), "x")
        for name, column in (("a", BOOL8), ("b", FLAGS))
    ]
    assert len(list(gm.ArrowIterDataset(paths, columns=["n"]))) == 2 * N
    with pytest.raises(gm.SchemaError, match=r"'flag'.*Boolean in one, Int8 in the other"):
        next(iter(gm.ArrowIterDataset(paths)))
    mixture = gm.Mixture([gm.ArrowIterDataset(path) for path in paths])
    with pytest.raises(gm.SchemaError, match=r"'flag'.*Boolean"):
        next(iter(mixture))
