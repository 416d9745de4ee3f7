"""Recordings inside of structs, by their dotted paths."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
import shards
from signals import encode, synthetic

RATE = 16_000
LENGTHS = [800, 16_000, 2_400, 48_000, 3_200, 1_280]
RECORDINGS = [encode(synthetic(n / RATE, RATE, 1, i), RATE, "wav16") for i, n in enumerate(LENGTHS)]
SHARDS = ["stream", "zstd", "file", "parquet", "parquet-plain"]
NULLS = [2, 4, 6]
VIEWS = pa.struct([("bytes", pa.binary_view()), ("path", pa.string_view())])
DICTIONARY = pa.dictionary(pa.int32(), pa.binary())


def audio(i: int) -> dict[str, Any]:
    return {"path": f"{i}.wav", "bytes": RECORDINGS[i]}


def column(of: pa.DataType, path: str = "x.rec") -> pa.Array:
    """Rows with recordings, and with a null at each level of the structs."""
    is_struct = pa.types.is_struct(of)
    rows: list[Any] = [audio(i) if is_struct else RECORDINGS[i] for i in range(6)]
    rows.insert(2, None)
    rows.insert(4, {"bytes": None, "path": "none.wav"} if is_struct else None)
    fields, kinds = path.split(".")[1:], of
    for depth, name in enumerate(reversed(fields)):
        kinds = pa.struct([("label", pa.int32()), (name, kinds), ("note", pa.string())])
        rows = [{"label": i + 100 * depth, name: row, "note": "a"} for i, row in enumerate(rows)]
    rows.insert(6, None)
    if pa.types.is_dictionary(of):
        plain = pa.struct([("label", pa.int32()), ("rec", pa.binary()), ("note", pa.string())])
        made = pa.array(rows, plain)
        children = [made.field(0), made.field(1).dictionary_encode(), made.field(2)]
        return pa.StructArray.from_arrays(children, fields=list(kinds), mask=made.is_null())
    return pa.array(rows, kinds)


def write(path: Path, made: pa.Table, how: str = "stream") -> Path:
    if how.startswith("parquet"):
        plain: dict[str, Any] = {"compression": "NONE", "use_dictionary": False}
        pq.write_table(made, path, **(plain if how == "parquet-plain" else {}))
        return path
    new = pa.ipc.new_file if how == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(
        compression="zstd" if how == "zstd" else None, unify_dictionaries=how == "file"
    )
    with new(path, made.schema, options=options) as out:
        out.write_table(made, max_chunksize=len(made) if how == "file" else 4)
    return path


def table(x: pa.Array) -> pa.Table:
    return pa.table({"n": pa.array(range(len(x)), pa.int32()), "x": x})


KINDS = {
    "struct": (shards.AUDIO, "x.rec"),
    "binary": (pa.binary(), "x.rec"),
    "large": (pa.large_binary(), "x.rec"),
    "views": (VIEWS, "x.rec"),
    "dictionary": (DICTIONARY, "x.rec"),
    "deep": (shards.AUDIO, "x.y.rec"),
    "deeper": (pa.binary(), "x.y.z.rec"),
}


@pytest.mark.parametrize("how", SHARDS)
@pytest.mark.parametrize("kind", KINDS)
def test_recordings_in_structs(kind: str, how: str, tmp_path: Path) -> None:
    of, name = KINDS[kind]
    shard = write(tmp_path / "a.shard", table(column(of, name)), how)
    made = gm.Audio(name, pad=None)
    for shuffle in (None, gm.Shuffle(seed=1)):
        it = iter(gm.ArrowIterDataset(shard, audio=made, on_error="skip", shuffle=shuffle))
        rows = {int(row["n"]): row for row in it}
        assert sorted(rows) == [i for i in range(9) if i not in NULLS]
        for row, data in zip(sorted(rows), RECORDINGS, strict=True):
            assert list(rows[row]) == ["n", "x", name]
            np.testing.assert_array_equal(rows[row][name], gm.decode(data))
            at, left = rows[row]["x"], {"label", "note"}
            for field in name.split(".")[1:-1]:
                assert set(at) == left | {field}
                at = at[field]
            has_path = pa.types.is_struct(of)
            assert set(at) == (left | {"rec"} if has_path else left)
            assert not has_path or at["rec"] == {"path": f"{RECORDINGS.index(data)}.wav"}
        bad = sorted((row.row, row.reason, row.path) for row in it.bad_rows())
        path = "none.wav" if pa.types.is_struct(of) else None
        assert bad == [(2, "null", None), (4, "null", path), (6, "null", None)]
    source = gm.ArrowDataSource(shard, audio=made)
    np.testing.assert_array_equal(source[1][name], gm.decode(RECORDINGS[1]))


@pytest.mark.parametrize("how", SHARDS)
def test_crops_windows_and_batches(how: str, tmp_path: Path) -> None:
    shard = write(tmp_path / "a.shard", table(column(shards.AUDIO)), how)
    flat = [RECORDINGS[i] if i is not None else None for i in (0, 1, None, 2, None, 3, None, 4, 5)]
    as_column = pa.table({"n": pa.array(range(9), pa.int32()), "x.rec": pa.array(flat)})
    # Crops depend on the shard's name.
    (tmp_path / "flat").mkdir()
    twin = write(tmp_path / "flat" / "a.shard", as_column, how)
    for crop in (gm.RandomCrop(0.05), gm.Windows(0.5, 0.25), None):
        given: list[list[Any]] = []
        for path in (shard, twin):
            dataset = gm.ArrowIterDataset(
                path,
                columns=["n", "x.rec"],
                audio=gm.Audio("x.rec", crop=crop),
                on_error="mask" if crop is None else "skip",
                batch_size=None if crop is None else 4,
            )
            given.append(list(dataset))
        assert len(given[0]) == len(given[1]) > 0
        for one, other in zip(*given, strict=True):
            for name in ("n", "x.rec"):
                np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("how", ["stream", "zstd", "parquet-plain"])
def test_columns_beside_a_recording_do_not_read_it(how: str, tmp_path: Path) -> None:
    big = np.random.default_rng(0).bytes(400_000)
    of = pa.struct([("label", pa.int32()), ("rec", shards.AUDIO)])
    x = pa.array([{"label": i, "rec": {"bytes": big, "path": "p"}} for i in range(8)], of)
    shard = write(tmp_path / "a.shard", table(x), how)
    for options in (
        {"columns": ["x.label", "x.rec.path"]},
        {"columns": ["n"], "filters": [("x.label", ">=", 0)]},
    ):
        it = iter(gm.ArrowIterDataset(shard, audio=None, **options))
        assert len(list(it)) == 8
        read = it.stats().storage.bytes
        assert read < 100_000, options


@pytest.mark.parametrize("kind", ["struct", "text"])
def test_paths_in_structs(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "recordings"
    root.mkdir()
    for i, data in enumerate(RECORDINGS):
        (root / f"{i}.wav").write_bytes(data)
    names = [f"{i}.wav" for i in range(6)]
    rows = [{"rec": {"path": name} if kind == "struct" else name} for name in names]
    of = pa.struct([("rec", shards.AUDIO if kind == "struct" else pa.string())])
    shard = write(tmp_path / "a.arrow", table(pa.array(rows, of)))
    made = gm.Audio("x.rec", root=root, pad=None)
    for row, data in zip(gm.ArrowIterDataset(shard, audio=made), RECORDINGS, strict=True):
        np.testing.assert_array_equal(row["x.rec"], gm.decode(data))


def test_the_rate_of_the_features(tmp_path: Path) -> None:
    feature = {"rec": {"sampling_rate": 8_000, "_type": "Audio"}, "label": {"_type": "Value"}}
    metadata = {"info": {"features": {"x": feature, "n": {"_type": "Value"}}}}
    made = table(column(shards.AUDIO).slice(0, 2))
    shard = write(
        tmp_path / "a.arrow", made.replace_schema_metadata({"huggingface": json.dumps(metadata)})
    )
    given = gm.ArrowIterDataset(shard, audio=gm.Audio("x.rec", pad=None))
    for row, data in zip(given, RECORDINGS, strict=False):
        np.testing.assert_array_equal(row["x.rec"], gm.decode(data, sample_rate=8_000))
    with pytest.raises(gm.SchemaError, match=r"that of audio: x\.rec; .*gm\.Audio\(\"x\.rec\""):
        next(iter(gm.ArrowIterDataset(shard, audio=gm.Audio())))


def test_shards_of_other_layouts_and_mixtures(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{kind}.arrow", table(column(KINDS[kind][0]).slice(0, 2)))
        for kind in ("binary", "large")
    ]
    made = gm.Audio("x.rec", pad=None)
    of_each = [gm.ArrowIterDataset(path, columns=["n", "x.rec"], audio=made) for path in paths]
    for dataset in (gm.ArrowIterDataset(paths, audio=made), gm.Mixture(of_each)):
        rows = list(itertools.islice(dataset, 4))
        assert len(rows) == 4
        for row in rows:
            data = RECORDINGS[int(row["n"])]
            np.testing.assert_array_equal(row["x.rec"], gm.decode(data))


def test_encoded_and_what_is_no_recording(tmp_path: Path) -> None:
    shard = write(tmp_path / "a.arrow", table(column(shards.AUDIO)))
    row = next(iter(gm.ArrowIterDataset(shard, columns=["x.rec"], audio=None)))
    assert row["x.rec"] == audio(0)
    for name, said in (
        ("x.label", "encoded audio must be binary"),
        ("x.rec.path", r"is text .*root="),
        ("x.nothing", "no such column"),
    ):
        with pytest.raises(gm.SchemaError, match=said):
            next(iter(gm.ArrowIterDataset(shard, audio=gm.Audio(name))))
    with pytest.raises(gm.SchemaError, match=r"come with their column: name \"x.rec\""):
        next(iter(gm.ArrowIterDataset(shard, columns=["x.rec.bytes"])))
