"""Forms of Arrow IPC: other writers' files, damaged streams, dictionaries, those of `datasets`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest

import column_values as cv
import gristmill as gm

SHARED = Path(os.environ.get("GRISTMILL_CORPUS", Path(__file__).parents[3] / "shared" / "corpora"))


def corpus(name: str, patterns: list[str]) -> list[Any]:
    folder = SHARED / name
    found = sorted(path for pattern in patterns for path in folder.rglob(pattern))
    if not found:
        reason = pytest.mark.skip(reason=f"the corpus {name} is not at {SHARED}")
        return [pytest.param(None, marks=reason)]
    return [pytest.param(path, id=f"{path.parent.name}-{path.name}") for path in found]


def read(path: Path) -> pa.Table:
    data = path.read_bytes()
    form = pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream
    table = form(pa.py_buffer(data)).read_all()
    table.validate(full=True)
    return table


def has(of: pa.DataType, what: Any) -> bool:
    """Whether the type is or holds one of this kind."""
    if what(of):
        return True
    if isinstance(of, pa.BaseExtensionType):
        return has(of.storage_type, what)
    if pa.types.is_dictionary(of) or pa.types.is_run_end_encoded(of):
        return has(of.value_type, what)
    return any(has(of.field(k).type, what) for k in range(of.num_fields))


def assert_equal(path: Path, table: pa.Table, columns: list[str]) -> None:
    """Rows and batches of these columns are pyarrow's."""
    rows = list(gm.ArrowIterDataset(path, columns=columns, audio=None))
    assert len(rows) == table.num_rows
    assert all(sorted(row) == sorted(columns) for row in rows)
    size = max(table.num_rows, 1)
    batches = list(
        gm.ArrowIterDataset(path, columns=columns, audio=None, batch_size=size, fill_value=0)
    )
    for name in columns:
        scalars = list(table[name])
        expected = [cv.row(scalar) for scalar in scalars]
        # `repr` tells NaN from a number, and is equal for equal values.
        assert repr([cv.plain(row[name]) for row in rows]) == repr(expected), name
        if batches:
            (batch,) = batches
            of = table.schema.field(name).type
            of = of.storage_type if isinstance(of, pa.BaseExtensionType) else of
            stacked = cv.batch(scalars, of, "object", 0)
            assert_alike(cv.plain(batch[name]), stacked, name)


def assert_alike(ours: Any, theirs: Any, name: str) -> None:
    assert ours == theirs or repr(ours) == repr(theirs), name


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("n_rows", [0, 1, 3, 40_000])
def test_compressed_bodies(tmp_path: Path, codec: Any, n_rows: int) -> None:
    """Small and large ones, whose buffers are compressed, stored as they are, and empty."""
    rng = np.random.default_rng(7)
    numbers = np.arange(n_rows)
    table = pa.table(
        {
            "n": pa.array(numbers),
            "noise": pa.array(rng.integers(0, 2**63, n_rows)),
            "null": pa.array(numbers, mask=numbers % 3 == 0),
            "flag": pa.array(numbers % 5 == 0),
            "text": pa.array([f"row {i}" if i % 7 else None for i in numbers], pa.string()),
            "view": pa.array([f"a longer text {i}" for i in numbers], pa.string_view()),
            "list": pa.array([[int(i)] * (i % 4) for i in numbers], pa.list_(pa.int32())),
            "kind": pa.array([f"kind {i % 9}" for i in numbers], pa.string()).dictionary_encode(),
            "none": pa.nulls(n_rows),
        }
    )
    path = tmp_path / "a.arrow"
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, options=options) as writer,
    ):
        writer.write_table(table, max_chunksize=n_rows or None)
    dataset = gm.ArrowIterDataset(path, audio=None, batch_size=max(n_rows, 1), fill_value=-1)
    batches = list(dataset)
    assert len(batches) == (n_rows > 0)
    for batch in batches:
        for name in table.column_names:
            theirs = table[name].combine_chunks()
            filled = theirs.fill_null(-1) if name == "null" else theirs
            ours = [v.tolist() if name == "list" else v for v in batch[name].tolist()]
            assert ours == filled.to_pylist(), name


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("change", [-1, 1, 1 << 20])
def test_compressed_buffers_that_grow_to_something_else(
    tmp_path: Path, codec: Any, change: int
) -> None:
    n_bytes = 8 << 20
    table = pa.table({"n": pa.array(np.arange(n_bytes // 8))})
    path = tmp_path / "a.arrow"
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, options=options) as writer,
    ):
        writer.write_table(table)
    data = path.read_bytes()
    claim = n_bytes.to_bytes(8, "little")
    assert data.count(claim) == 1
    path.write_bytes(data.replace(claim, (n_bytes + change).to_bytes(8, "little")))
    with pytest.raises(gm.CorruptShardError, match="does not decompress") as caught:
        next(iter(gm.ArrowIterDataset(path, audio=None, batch_size=2)))
    assert caught.value.shard == str(path)


@pytest.mark.parametrize("path", corpus("ipc-golden", ["*.stream", "*.arrow_file"]))
def test_golden_files(path: Path) -> None:
    """Every column that has a NumPy value equals pyarrow's; the others are refused by name."""
    table = read(path)
    refused = [
        field.name
        for field in table.schema
        if has(field.type, lambda of: pa.types.is_union(of) or "interval" in str(of))
    ]
    for name in refused:
        with pytest.raises(gm.SchemaError, match=rf"'{name}'.*(union|interval)") as caught:
            list(gm.ArrowIterDataset(path, columns=[name]))
        assert caught.value.column == name
    columns = [name for name in table.column_names if name not in refused]
    twice = {name for name in columns if columns.count(name) > 1}
    twice |= {
        field.name
        for field in table.schema
        if pa.types.is_struct(field.type)
        and len({child.name for child in field.type}) < field.type.num_fields
    }
    if twice:
        with pytest.raises(gm.SchemaError, match="two columns"):
            list(gm.ArrowIterDataset(path))
    columns = [name for name in columns if name not in twice]
    if columns:
        assert_equal(path, table, columns)
    assert refused or twice or columns or not table.num_columns


@pytest.mark.parametrize("path", corpus("ipc-fuzz", ["*-fuzz-*"]))
def test_streams_that_broke_a_reader(path: Path) -> None:
    """pyarrow's data, or a typed error that names the place."""
    refused: gm.GristmillError | None = None
    rows: list[dict[str, Any]] = []
    try:
        rows = list(gm.ArrowIterDataset(path, audio=None))
    except (gm.CorruptShardError, gm.SchemaError, gm.LimitError) as error:
        refused = error
    if isinstance(refused, gm.CorruptShardError):
        assert Path(refused.shard) == path
        assert refused.byte is not None
        assert refused.message is not None
    if refused is not None:
        assert path.name in str(refused)
        return
    table = read(path)
    assert len(rows) == table.num_rows
    if rows:
        assert_equal(path, table, table.column_names)


def write(path: Path, batches: list[pa.RecordBatch], **options: Any) -> Path:
    chosen = pa.ipc.IpcWriteOptions(**options)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, batches[0].schema, options=chosen) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
    return path


def encoded(keys: list[int | None], words: list[str]) -> pa.RecordBatch:
    column = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), pa.array(words))
    return pa.record_batch([column], names=["word"])


@pytest.mark.parametrize("deltas", [True, False])
@pytest.mark.parametrize("version", ["V4", "V5"])
def test_dictionaries_grow_and_are_replaced(tmp_path: Path, deltas: bool, version: str) -> None:
    batches = [
        encoded([0, 1, None], ["a", "b"]),
        encoded([2, 0], ["a", "b", "c"]),
        encoded([0, 1], ["x", "y"]),
        encoded([1, 2], ["x", "y", "z"]),
    ]
    chosen = getattr(pa.ipc.MetadataVersion, version)
    path = write(
        tmp_path / "a.arrow", batches, emit_dictionary_deltas=deltas, metadata_version=chosen
    )
    expected = [value for batch in batches for value in batch["word"].to_pylist()]
    assert [row["word"] for row in gm.ArrowIterDataset(path)] == expected
    (batch,) = gm.ArrowIterDataset(path, batch_size=100)
    assert batch["word"].tolist() == expected


def test_batches_across_dictionaries_that_do_not_fit_one(tmp_path: Path) -> None:
    """Keys of 8 bits, and more words in two shards than 8 bits can tell apart."""
    words = [[f"{shard}-{k}" for k in range(120)] for shard in range(2)]
    keys = list(range(120))
    paths = [
        write(tmp_path / f"{shard}.arrow", [encoded(keys, words[shard])]) for shard in range(2)
    ]
    (batch,) = gm.ArrowIterDataset(paths, batch_size=240)
    assert batch["word"].tolist() == words[0] + words[1]


@pytest.mark.parametrize("version", ["V4", "V5"])
@pytest.mark.parametrize("legacy", [True, False])
def test_versions_of_the_metadata(tmp_path: Path, version: str, legacy: bool) -> None:
    rows = pa.record_batch([pa.array([1, None, 3]), pa.array([[1], [], None])], names=["a", "b"])
    chosen = getattr(pa.ipc.MetadataVersion, version)
    path = write(tmp_path / "a.arrow", [rows], metadata_version=chosen, use_legacy_format=legacy)
    assert_equal(path, pa.Table.from_batches([rows]), ["a", "b"])


def test_schemas_that_differ_inside(tmp_path: Path) -> None:
    def shard(name: str, of: pa.DataType) -> Path:
        kind = pa.struct([("ok", pa.int8()), ("box", pa.struct([("x", of)]))])
        return write(tmp_path / name, [pa.record_batch([pa.nulls(1, kind)], names=["place"])])

    paths = [shard("a.arrow", pa.int32()), shard("b.arrow", pa.uint32())]
    with pytest.raises(gm.SchemaError, match=r"a\.arrow.*b\.arrow.*Int32.*UInt32") as caught:
        list(gm.ArrowIterDataset(paths))
    assert caught.value.column == "place.box.x"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> datasets.Dataset:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    datasets.disable_progress_bars()
    return datasets.Dataset.from_dict({"n": list(range(10)), "t": [[k] * k for k in range(10)]})


def numbers(paths: Any) -> list[int]:
    return [int(row["n"]) for row in gm.ArrowIterDataset(paths)]


def test_directories_of_save_to_disk(tmp_path: Path, counted: datasets.Dataset) -> None:
    counted.save_to_disk(tmp_path / "saved", num_shards=3)
    assert numbers(tmp_path / "saved") == list(range(10))
    # Results of `map` are cached beside the data; they are other data sets.
    loaded = datasets.load_from_disk(tmp_path / "saved")
    mapped = loaded.map(lambda row: {"m": -row["n"]})
    cached = [file["filename"] for file in mapped.cache_files]
    assert [Path(name).parent for name in cached] == [tmp_path / "saved"]
    assert numbers(tmp_path / "saved") == list(range(10))
    assert [int(row["m"]) for row in gm.ArrowIterDataset(cached)] == [-n for n in range(10)]


def test_directories_of_several_splits(tmp_path: Path, counted: datasets.Dataset) -> None:
    datasets.DatasetDict({"train": counted, "test": counted}).save_to_disk(tmp_path / "both")
    with pytest.raises(ValueError, match=r"both.*train, test"):
        numbers(tmp_path / "both")
    assert numbers(tmp_path / "both" / "test") == list(range(10))


def rows_of(n: int) -> Any:
    for k in range(n):
        yield {"n": k}


def test_cache_directories(tmp_path: Path, counted: datasets.Dataset) -> None:
    made = datasets.Dataset.from_generator(
        rows_of, gen_kwargs={"n": 7}, cache_dir=str(tmp_path / "cache")
    )
    folder = Path(made.cache_files[0]["filename"]).parent
    assert numbers(folder) == list(range(7))
    kept = made.filter(lambda row: row["n"] > 3)
    assert any(path.name.startswith("cache-") for path in folder.iterdir()), kept
    assert numbers(folder) == list(range(7))


def test_cache_directories_of_several_splits(tmp_path: Path, counted: datasets.Dataset) -> None:
    (tmp_path / "dataset_info.json").write_text('{"splits": {"train": {}, "test": {}}}')
    rows = pa.record_batch([pa.array([1, 2])], names=["n"])
    write(tmp_path / "birds-train-00000-of-00001.arrow", [rows])
    assert numbers(tmp_path) == [1, 2]
    write(tmp_path / "birds-test.arrow", [rows])
    with pytest.raises(ValueError, match=r"test, train.*\*-test\*\.arrow"):
        numbers(tmp_path)
    (tmp_path / "dataset_info.json").write_text("{")
    with pytest.raises(ValueError, match=r"dataset_info\.json"):
        numbers(tmp_path)
