"""Parquet by polars and DuckDB, in odd row groups and pages: the same rows as from Arrow."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
import test_filters as tf
from signals import RATE, encode, synthetic
from test_parquet import assert_same_run

N_ROWS = 150
POLARS: dict[str, dict[str, Any]] = {
    "polars": {},
    "polars, groups of 7": {"row_group_size": 7, "compression": "snappy"},
    "polars, tiny pages": {"row_group_size": 40, "data_page_size": 50, "compression": "lz4"},
    "polars, plain": {"row_group_size": 33, "compression": "uncompressed", "statistics": "full"},
    "polars, no statistics": {"statistics": False, "compression": "gzip", "data_page_size": 1_000},
}
DUCKDB: dict[str, str] = {
    "DuckDB": "",
    "DuckDB, groups": "ROW_GROUP_SIZE 40, COMPRESSION zstd",
    "DuckDB, version 2": "PARQUET_VERSION v2, COMPRESSION uncompressed, ROW_GROUP_SIZE 64",
    "DuckDB, plain": "DICTIONARY_SIZE_LIMIT 1, COMPRESSION lz4_raw",
}
BATCHES: dict[str, Any] = {"batch_size": 7, "fill_value": 0, "ragged": "object"}
CROPS = gm.Audio("audio", sample_rate=16_000, crop=gm.RandomCrop(0.3))


def make() -> pa.Table:
    """Audio, and columns of types that both writers have; with nulls, and a few long values."""
    rng = np.random.default_rng(11)

    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else value for value in values]

    day = dt.date(2026, 1, 1)
    audio = [
        {"bytes": encode(synthetic(0.5 + k % 3, RATE), RATE, "flac16"), "path": f"{k}.flac"}
        for k in range(10)
    ]
    numbers = rng.integers(-1_000, 1_000, N_ROWS)
    columns = {
        "audio": pa.array([audio[k % 10] for k in range(N_ROWS)]),
        "row": pa.array(range(N_ROWS), pa.int64()),
        "small": pa.array(some((numbers % 100).tolist()), pa.int16()),
        "number": pa.array(some(numbers.tolist()), pa.int64()),
        "unsigned": pa.array(some((numbers + 2_000).tolist()), pa.uint32()),
        "real": pa.array(some(rng.normal(size=N_ROWS).tolist()), pa.float64()),
        "narrow": pa.array(some(rng.normal(size=N_ROWS).tolist()), pa.float32()),
        "yes": pa.array(some((numbers > 0).tolist()), pa.bool_()),
        "name": pa.array(some([f"{n % 9} \N{BIRD}" * (n % 40) for n in numbers])),
        "raw": pa.array(some([rng.bytes(int(n % 30)) for n in numbers]), pa.binary()),
        "day": pa.array(some([day + dt.timedelta(days=int(n)) for n in numbers]), pa.date32()),
        "when": pa.array(some((numbers * 10**9).tolist()), pa.timestamp("us")),
        "tokens": pa.array(some([rng.integers(0, 9, 1 + n % 7).tolist() for n in numbers])),
        "filled": pa.array(
            [rng.integers(0, 99, 64).tolist() for _ in numbers], pa.list_(pa.int32())
        ),
        "place": pa.array(
            some([{"lat": float(n), "tags": ["a", None] * (n % 3)} for n in numbers])
        ),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path, pa.Table]]:
    """Of each writer the shard, the same as Arrow under the same name, and the table."""
    table, made = make(), {}
    for k, name in enumerate([*POLARS, *DUCKDB]):
        folder = tmp_path_factory.mktemp("writers")
        parquet, arrow = folder / f"{k}", folder / "arrow" / f"{k}"
        if name in POLARS:
            frame = pl.from_arrow(table)
            assert isinstance(frame, pl.DataFrame)
            frame.write_parquet(parquet, **POLARS[name])
        else:
            options = ", ".join(["FORMAT parquet", *filter(None, [DUCKDB[name]])])
            with duckdb.connect() as connection:
                connection.register("made", table)
                connection.execute(f"COPY made TO '{parquet}' ({options})")
        read = pq.read_table(parquet)
        assert read["row"].to_pylist() == list(range(N_ROWS))
        arrow.parent.mkdir()
        with pa.OSFile(str(arrow), "wb") as sink, pa.ipc.new_stream(sink, read.schema) as writer:
            writer.write_table(read, max_chunksize=17)
        made[name] = parquet, arrow, read
    return made


WRITERS = pytest.mark.parametrize("name", [*POLARS, *DUCKDB])


@WRITERS
@pytest.mark.parametrize(
    "how",
    [
        {"audio": CROPS, "shuffle": gm.Shuffle(3), **BATCHES},
        {"audio": None},
        {"audio": None, "shuffle": gm.Shuffle(3, window=20, streams=2), **BATCHES},
    ],
    ids=["crops", "rows", "windowed"],
)
def test_rows_and_states_are_those_of_arrow(
    shards: dict[str, tuple[Path, Path, pa.Table]], name: str, how: dict[str, Any]
) -> None:
    parquet, arrow, _ = shards[name]
    assert_same_run(parquet, arrow, how)


@WRITERS
def test_rows_are_those_that_were_written(
    shards: dict[str, tuple[Path, Path, pa.Table]], name: str
) -> None:
    parquet, _, _ = shards[name]
    written = make()
    columns = ["row", "small", "number", "unsigned", "real", "yes", "name", "raw"]
    rows = gm.ArrowIterDataset(parquet, audio=None, columns=columns)
    for row, expected in zip(rows, written.select(columns).to_pylist(), strict=True):
        found = {
            key: getattr(value, "item", lambda value=value: value)() for key, value in row.items()
        }
        assert found == expected


@WRITERS
@pytest.mark.parametrize(
    "filters",
    [
        [("number", ">", 900)],
        [("row", "<", 30), ("name", "!=", "")],
        [("row", "in", [0, 40, 149])],
        [("name", ">=", "8")],
        [("raw", "<", b"\x10")],
        [("unsigned", "<=", 1_050)],
        [[("real", "<", -2.0)], [("narrow", ">", 2.0)]],
        [("yes", "==", True), ("small", ">", 90)],
        [("day", "<", dt.date(2023, 6, 1))],
        [("when", ">=", dt.datetime(1970, 1, 1, 0, 14))],  # noqa: DTZ001 - without a time zone
    ],
    ids=str,
)
def test_filters_are_pyarrows(
    shards: dict[str, tuple[Path, Path, pa.Table]], name: str, filters: list[Any]
) -> None:
    """By the statistics of each writer."""
    parquet, _, table = shards[name]
    expected = tf.by_pyarrow(table, filters)
    assert expected
    ds = gm.ArrowIterDataset(parquet, columns=["row"], audio=None, filters=filters)
    assert [int(row["row"]) for row in ds] == expected
