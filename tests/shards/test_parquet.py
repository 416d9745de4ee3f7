"""Parquet shards: the rows, crops and states of the same table as Arrow, however it was written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import column_values as cv
import gristmill as gm
import parquet_files as pf
import shards
import test_column_types as types
from signals import RATE, encode, synthetic

CROPS = gm.Audio(sample_rate=16_000, crop=gm.RandomCrop(0.3))
EACH = pytest.mark.parametrize("options", pf.OPTIONS.values(), ids=list(pf.OPTIONS))


def assert_equal(ours: Any, theirs: Any) -> None:
    """Bit for bit, and of the same types."""
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for name in theirs:
            assert_equal(ours[name], theirs[name])
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype == object:
            for a, b in zip(ours.flat, theirs.flat, strict=True):
                assert_equal(a, b)
        else:
            assert ours.tobytes() == theirs.tobytes()
    else:
        assert ours == theirs


def assert_same_run(ours: Any, theirs: Any, options: dict[str, Any]) -> None:
    """The same elements of two data sets, and the same states after each."""
    found, expected = (iter(gm.ArrowIterDataset(paths, **options)) for paths in (ours, theirs))
    n = 0
    for element in expected:
        assert_equal(next(found), element)
        assert found.get_state() == expected.get_state()
        n += 1
    assert n > 0
    with pytest.raises(StopIteration):
        next(found)


@EACH
@pytest.mark.parametrize(
    "how",
    [
        {"audio": CROPS, "shuffle": gm.Shuffle(3), "batch_size": 4, "epochs": 2},
        {"audio": CROPS, "shuffle": gm.Shuffle(3, window=6, streams=2), "with_row_id": True},
        {"audio": None, "batch_size": 7},
        {"columns": ["label", "tags"], "shuffle": gm.Shuffle(1), "batch_size": 3},
    ],
    ids=["crops", "windowed", "encoded", "columns"],
)
def test_rows_and_states_are_those_of_arrow(
    tmp_path: Path, same_rate: list[Path], options: dict[str, Any], how: dict[str, Any]
) -> None:
    copies = pf.copies(same_rate, tmp_path, **options)
    assert_same_run(copies, same_rate, how)


@EACH
def test_a_run_goes_on_in_the_other_format(
    tmp_path: Path, same_rate: list[Path], options: dict[str, Any]
) -> None:
    copies = pf.copies(same_rate, tmp_path, **options)
    how: dict[str, Any] = {"audio": CROPS, "shuffle": gm.Shuffle(5), "batch_size": 3}
    before, after, whole = (
        iter(gm.ArrowIterDataset(paths, **how)) for paths in (same_rate, copies, same_rate)
    )
    for _ in range(4):
        assert_equal(next(before), next(whole))
    after.set_state(before.get_state())
    for element in whole:
        assert_equal(next(after), element)


def test_nulls(tmp_path: Path) -> None:
    """Of the struct, of its bytes, and of a plain column of bytes."""
    wav = encode(synthetic(0.1, RATE), RATE, "wav16")
    audio = [{"bytes": wav, "path": "a"}, None, {"bytes": None, "path": "b"}] * 5
    table = pa.table({"audio": pa.array(audio, shards.AUDIO)})
    plain = pa.table({"audio": pa.array([wav, None, b""] * 5, pa.binary())})
    required = pa.table(
        {"audio": pa.array([wav, b"", wav])},
        pa.schema([pa.field("audio", pa.binary(), nullable=False)]),
    )
    for number, of in enumerate([table, plain, required]):
        for name, options in {**pf.OPTIONS, "without-schema": pf.WITHOUT_SCHEMA}.items():
            path = pf.write(tmp_path / f"{name}-{number}", of, **options)
            rows = list(gm.ArrowIterDataset(path, audio=None))
            # A null struct comes as one of nulls, as from Arrow.
            nothing = {"bytes": None, "path": None} if number == 0 else None
            wanted = [nothing if value is None else value for value in of["audio"].to_pylist()]
            assert [row["audio"] for row in rows] == wanted, name
            spec = gm.Audio("audio")
            masked = gm.ArrowIterDataset(path, audio=spec, on_error="mask", batch_size=len(of))
            (batch,) = masked
            values = [
                row["bytes"] if isinstance(row, dict) else row for row in of["audio"].to_pylist()
            ]
            assert batch["valid"].tolist() == [bool(value) for value in values]


def test_directories_and_patterns(tmp_path: Path) -> None:
    rows = [shards.row(i, b"x" * i) for i in range(6)]
    arrow = shards.write(tmp_path / "a.arrow", rows)
    table = gm_table(rows)
    pf.write(tmp_path / "b.parquet", table)
    ids = [0, 1, 2, 3, 4, 5]
    both = list(gm.ArrowIterDataset(tmp_path, audio=None, with_row_id=True))
    assert [int(row["row"]) for row in both] == ids + ids
    assert [int(row["shard"]) for row in both] == [0] * 6 + [1] * 6
    assert len(list(gm.ArrowIterDataset(tmp_path / "*.parquet", audio=None))) == 6
    arrow.unlink()
    assert len(list(gm.ArrowIterDataset(tmp_path, audio=None))) == 6


def test_splits_of_the_hub_are_not_mixed(tmp_path: Path) -> None:
    table = gm_table([shards.row(0, b"x")])
    for name in ("train-00000-of-00002", "train-00001-of-00002"):
        pf.write(tmp_path / f"{name}.parquet", table)
    assert len(list(gm.ArrowIterDataset(tmp_path, audio=None))) == 2
    pf.write(tmp_path / "test-00000-of-00001.parquet", table)
    with pytest.raises(ValueError, match=r"several splits.*test, train.*test-\*\.parquet"):
        next(iter(gm.ArrowIterDataset(tmp_path, audio=None)))


def gm_table(rows: list[dict[str, Any]]) -> pa.Table:
    of = shards.schema()
    return pa.table([pa.array([r[f.name] for r in rows], f.type) for f in of], schema=of)


@types.SETTINGS
@given(
    table=types.tables,
    dictionary=st.booleans(),
    codec=st.sampled_from(["NONE", "SNAPPY", "ZSTD", "GZIP", "BROTLI", "LZ4"]),
    version=st.sampled_from(["1.0", "2.0"]),
    page=st.sampled_from([1, 20, 100, 1 << 20]),
    group=st.integers(1, 8),
    index=st.booleans(),
    schema=st.booleans(),
    size=st.integers(1, 8),
)
def test_any_table(
    tmp_path_factory: pytest.TempPathFactory,
    table: pa.Table,
    dictionary: bool,
    codec: str,
    version: str,
    page: int,
    group: int,
    index: bool,
    schema: bool,
    size: int,
) -> None:
    """Rows are those that pyarrow reads, and batches are the same as from Arrow."""
    # pyarrow reads days for milliseconds: see the next test.
    assume("date64" not in str(table.schema))
    folder = tmp_path_factory.getbasetemp()
    path = folder / "any.parquet"
    try:
        pq.write_table(
            table,
            path,
            use_dictionary=dictionary,
            compression=codec,
            data_page_version=version,
            data_page_size=page,
            write_batch_size=1,
            row_group_size=group,
            write_page_index=index,
            store_schema=schema,
        )
        read = pq.read_table(path)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError):
        assume(False)
    # pyarrow 26 loses rows of empty lists whose pages have no values.
    assume(read.num_rows == table.num_rows)
    for row, k in zip(types.load(path), range(read.num_rows), strict=True):
        for name in read.column_names:
            types.assert_same(row[name], cv.row(read[name][k]))
    # A stream, since row groups may have dictionaries of their own.
    arrow = types.write(folder / "any.arrow", read, "stream", None, 3)
    try:
        expected = types.load(arrow, batch_size=size, ragged="object")
    except gm.SchemaError:
        with pytest.raises(gm.SchemaError):
            types.load(path, batch_size=size, ragged="object")
        return
    for ours, theirs in zip(
        types.load(path, batch_size=size, ragged="object"), expected, strict=True
    ):
        types.assert_same(ours, cv.plain(theirs))


def test_dates_in_milliseconds_stay_so(tmp_path: Path) -> None:
    """Parquet has days alone; what type they had as Arrow is in the schema that pyarrow keeps."""
    day = pa.array([86_400_000, None], pa.int64()).view(pa.date64())
    table = pa.table({"day": day, "days": pa.FixedSizeListArray.from_arrays(day, 2).take([0, 0])})
    pf.write(tmp_path / "days.parquet", table)
    assert pq.read_schema(tmp_path / "days.parquet").field("day").type == pa.date32()
    first = types.load(tmp_path / "days.parquet")[0]
    of_arrow = types.load(types.write(tmp_path / "days.arrow", table, "file", None, 2))[0]
    for name in table.column_names:
        np.testing.assert_array_equal(first[name], of_arrow[name], strict=True)
    assert first["day"].dtype == np.dtype("M8[ms]")


DICTIONARIES: dict[str, pa.Array] = {
    "booleans": pa.array([True, False]),
    "int16": pa.array([1, 2, -1], pa.int16()),
    "uint32": pa.array([1, 2, 2**32 - 1], pa.uint32()),
    "floats": pa.array([0.5, -1.0, 0.0]),
    "float16": pa.array([0.5, -1.0, 0.0], pa.float16()),
    "decimals": pa.array([1, 2, 3], pa.decimal128(20, 0)),
    "dates": pa.array([1, 2, 3], pa.date32()),
    "times": pa.array([1, 2, 3], pa.timestamp("ms", "UTC")),
    "strings": pa.array(["a", "b", ""]),
    "bytes": pa.array([b"a", b"b", b""]),
    "three bytes": pa.array([b"abc", b"bcd", b"cde"], pa.binary(3)),
}


@pytest.mark.parametrize("kind", DICTIONARIES)
def test_dictionaries(tmp_path: Path, kind: str) -> None:
    """Columns, lists and fields of them have their values, whether or not the crate makes them."""
    keys = pa.array([0, 1, 0, None, 1, 0], pa.int8())
    column = pa.DictionaryArray.from_arrays(keys, DICTIONARIES[kind])
    offsets = pa.array([0, 2, 2, 6], pa.int32())
    for array in (
        column,
        pa.ListArray.from_arrays(offsets, column),
        pa.StructArray.from_arrays([column], ["field"]),
    ):
        table = pa.table({"x": array})
        pq.write_table(table, tmp_path / "a.parquet")
        of_arrow = types.write(tmp_path / "a.arrow", table, "file", None, 3)
        for ours, theirs in zip(
            types.load(tmp_path / "a.parquet"), types.load(of_arrow), strict=True
        ):
            types.assert_same(ours, cv.plain(theirs))


PUBLIC = Path(__file__).parents[3] / "shared" / "corpora"
CORPUS = Path(os.environ.get("GRISTMILL_CORPUS", PUBLIC)) / "parquet"


@pytest.mark.skipif(
    not CORPUS.is_dir(), reason="no corpus 'parquet'; set GRISTMILL_CORPUS to find it"
)
def test_the_public_corpus() -> None:
    """Each file has the rows that pyarrow reads, or is refused by a typed error."""
    equal, refused, ours_alone = [], {}, []
    for path in sorted([*CORPUS.glob("*.parquet*"), *CORPUS.glob("bad/*.parquet")]):
        try:
            rows = types.load(path)
        except gm.GristmillError as error:
            assert str(path) in str(error)  # noqa: PT017  (others are read)
            refused[path.name] = str(error)
            continue
        try:
            read = pq.read_table(path)
        except (OSError, pa.ArrowException):
            ours_alone.append(path.name)
            continue
        assert len(rows) == read.num_rows
        for k, row in enumerate(rows):
            if path.name == "int96_from_spark.parquet" and k == 5:
                continue  # a year that nanoseconds do not reach: both wrap, each in its way
            for name in read.column_names:
                types.assert_same(row[name], cv.row(read[name][k]))
        equal.append(path.name)
    assert len(ours_alone) <= 3, ours_alone
    encrypted = [name for name in refused if name.endswith(".encrypted")]
    assert len(encrypted) == 3
    assert all("encrypted" in refused[name] for name in encrypted)
    assert len(equal) >= 25, refused
