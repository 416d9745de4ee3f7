"""`filters` over Parquet: the rows that pyarrow keeps, without row groups that cannot have any."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import test_filters as tf
from rounds import rounds

N_ROWS = 120
WRITTEN: dict[str, dict[str, Any]] = {
    "groups": {"row_group_size": 10},
    "small groups, page index": {
        "row_group_size": 4,
        "write_page_index": True,
        "data_page_size": 20,
        "write_batch_size": 1,
    },
    "one group": {},
    "without statistics": {"row_group_size": 10, "write_statistics": False},
    "of some columns": {"row_group_size": 10, "write_statistics": ["n", "name", "y"]},
    "v1, without schema": {"row_group_size": 10, "version": "1.0", "store_schema": False},
}


def kept(path: Path, filters: Any) -> tuple[list[int], int]:
    """The numbers of the rows that `filters` keeps, and the bytes read for that and for them."""
    options = gm.ReadOptions(index_dir=None)
    it = iter(gm.ArrowIterDataset(path, columns=["row"], audio=None, filters=filters, read=options))
    rows = [int(next(it)["row"])]
    assert it._pipeline is not None
    n_bytes = it._pipeline.reads().bytes
    return rows + [int(row["row"]) for row in it], n_bytes


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A table by how it was sorted and written, and its path."""
    folder = tmp_path_factory.mktemp("statistics")
    table = tf.make(np.random.default_rng(7), N_ROWS).drop_columns(["audio"])
    made: dict[tuple[str | None, str], tuple[pa.Table, Path]] = {}

    def make(by: str | None, written: str) -> tuple[pa.Table, Path]:
        if (by, written) not in made:
            rows = table if by is None else table.take(sort(table, by))
            rows = rows.append_column("row", pa.array(range(N_ROWS), pa.int64()))
            path = folder / f"{len(made)}.parquet"
            pq.write_table(rows, path, **WRITTEN[written])
            made[by, written] = rows, path
        return made[by, written]

    return make


def sort(table: pa.Table, by: str) -> pa.Array:
    """Rows by the values of a column, so that row groups have few of them."""
    column = table[by].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return pc.array_sort_indices(column)


@settings(max_examples=rounds(300), deadline=None)
@given(
    filters=tf.FILTERS,
    by=st.none() | st.sampled_from(sorted(tf.VALUES)),
    written=st.sampled_from(sorted(WRITTEN)),
)
def test_the_rows_are_pyarrows(shard: Any, filters: Any, by: str | None, written: str) -> None:
    table, path = shard(by, written)
    if written.endswith("without schema"):
        # Without it durations are integers, and there is no dictionary.
        filters = [[c for c in every if c[0] not in {"took", "code"}] for every in filters]
        filters = [every for every in filters if every]
        if not filters:
            return
    expected = tf.by_pyarrow(table, filters)
    if not expected:
        with pytest.raises(ValueError, match=r"filters= leaves none of the 120 rows"):
            kept(path, filters)
        return
    assert kept(path, filters)[0] == expected


@pytest.mark.parametrize("by", ["x", "y", "n", "name", "when", "good"])
@pytest.mark.parametrize("written", ["groups", "small groups, page index", "without statistics"])
def test_nulls(shard: Any, by: str, written: str) -> None:
    """They are together at the end, where row groups have nothing else."""
    table, path = shard(by, written)
    values = table[by].to_pylist()
    nulls = [k for k, value in enumerate(values) if value is None]
    others = [k for k, value in enumerate(values) if value is not None]
    assert len(nulls) > 10
    some = next(value for value in values if value is not None)
    for filters, expected in (
        ([(by, "==", None)], nulls),
        ([(by, "!=", None)], others),
        ([(by, "in", [None])], nulls),
        ([(by, "not in", [None])], others),
        ([[(by, "in", [None, some])], [(by, "!=", None)]], list(range(N_ROWS))),
    ):
        assert kept(path, filters)[0] == expected


def test_fields_of_structs(tmp_path: Path) -> None:
    table = tf.make(np.random.default_rng(7), N_ROWS).drop_columns(["audio"])
    table = table.append_column("row", pa.array(range(N_ROWS), pa.int64()))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    places = table["place"].to_pylist()
    for filters, expected in (
        ([("place.lat", ">", 0)], [p and p["lat"] is not None and p["lat"] > 0 for p in places]),
        ([("place.site", "==", "a")], [p and p["site"] == "a" for p in places]),
        ([("place.site", "==", None)], [not p or p["site"] is None for p in places]),
    ):
        rows, _ = kept(tmp_path / "a.parquet", filters)
        assert rows == [k for k, keep in enumerate(expected) if keep]


def test_nulls_in_a_dictionary_below_a_null_struct(tmp_path: Path) -> None:
    """pyarrow's statistics do not count them."""
    site = pa.array(["wren", "crow", "wren", "owl"]).dictionary_encode()
    is_null = pa.array([False, True, False, False])
    place = pa.StructArray.from_arrays([site], names=["site"], mask=is_null)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"row": pa.array(range(4), pa.int64()), "place": place}), path)
    assert pq.ParquetFile(path).metadata.row_group(0).column(1).statistics.null_count == 0
    assert kept(path, [("place.site", "==", None)])[0] == [1]
    assert kept(path, [("place.site", "!=", None)])[0] == [0, 2, 3]


def test_row_groups_without_matches_are_not_read(tmp_path: Path) -> None:
    """Names of 1 kB in 50 row groups, of which the filters can find theirs in one or two."""
    n = 5_000
    rng = np.random.default_rng(1)
    number = rng.permutation(100).repeat(50)
    number.sort()
    names = [f"{k:03d}{rng.bytes(500).hex()}" for k in number]
    nulls = [None if k < 4_900 else "a" for k in range(n)]
    table = pa.table(
        {"name": names, "number": number, "mostly": nulls, "row": pa.array(range(n), pa.int64())}
    )
    pages: dict[str, Any] = {"write_page_index": True, "data_page_size": 10_000}
    for k, options in enumerate([{}, pages]):
        path = tmp_path / f"{k}.parquet"
        pq.write_table(table, path, row_group_size=100, compression="NONE", **options)
        whole, n_all = kept(path, [("name", "!=", "")])
        assert whole == list(range(n))
        assert n_all > 5_000_000
        for filters, expected in (
            ([("name", "==", names[1234])], [1234]),
            ([("name", ">=", "099")], range(4_950, n)),
            ([("name", "<", "001")], range(50)),
            ([("name", "in", [names[3], names[70]])], [3, 70]),
            ([("name", ">", "0"), ("number", "==", 7)], range(350, 400)),
            ([("name", "!=", "x"), ("mostly", "!=", None)], range(4_900, n)),
            ([[("name", "<", "001")], [("name", ">", "099")]], [*range(50), *range(4_950, n)]),
        ):
            rows, n_bytes = kept(path, filters)
            assert rows == list(expected)
            assert n_bytes < n_all / 10, filters


def test_long_values_have_no_bounds_or_shorter_ones(tmp_path: Path) -> None:
    """pyarrow leaves the statistics of values beyond 4 KiB out."""
    names = [letter * 5_000 for letter in "abcdef"]
    table = pa.table({"name": names, "row": pa.array(range(6), pa.int64())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    for k, name in enumerate(names):
        assert kept(tmp_path / "a.parquet", [("name", "==", name)])[0] == [k]


def test_class_ids_of_all_shards(tmp_path: Path) -> None:
    """Names of classes in another order: a shard's statistics are of its own ids."""
    paths = []
    for k, classes in enumerate([["wren", "crow"], ["crow", "wren"]]):
        info = {"info": {"features": {"species": {"names": classes, "_type": "ClassLabel"}}}}
        schema = pa.schema(
            {"species": pa.int64(), "row": pa.int64()}, {"huggingface": json.dumps(info)}
        )
        table = pa.table([[0, 0, 1, 1], [4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3]], schema=schema)
        paths.append(tmp_path / f"{k}.parquet")
        pq.write_table(table, paths[-1], row_group_size=2)
    ds = gm.ArrowIterDataset(paths, audio=None, filters=[("species", "==", "wren")])
    assert [int(row["row"]) for row in ds] == [0, 1, 6, 7]


def test_columns_that_other_shards_have_wider(tmp_path: Path) -> None:
    for k, of in enumerate([pa.int32(), pa.int64()]):
        table = pa.table({"n": pa.array(range(6), of), "row": pa.array(range(6), pa.int64())})
        pq.write_table(table, tmp_path / f"{k}.parquet", row_group_size=2)
    ds = gm.ArrowIterDataset(tmp_path, audio=None, filters=[("n", ">", 2), ("n", "<=", 2**40)])
    assert [int(row["row"]) for row in ds] == [3, 4, 5, 3, 4, 5]


def test_damaged_statistics_end_in_rows_or_typed_errors(shard: Any, tmp_path: Path) -> None:
    _, sound = shard("n", "groups")
    data, path = sound.read_bytes(), tmp_path / "damaged.parquet"
    n_footer = int.from_bytes(data[-8:-4], "little")
    draw = random.Random(4)
    n_read = 0
    for _ in range(300):
        mutant = bytearray(data)
        for _ in range(draw.choice([1, 1, 4])):
            at = draw.randrange(len(data) - 8 - n_footer, len(data) - 8)
            mutant[at] = draw.choice([0, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        path.write_bytes(mutant)
        try:
            kept(
                path, [[("n", ">", 1), ("name", "!=", None)], [("x", "<", 0), ("good", "==", True)]]
            )
        except gm.GristmillError as error:
            is_named = "damaged.parquet" in str(error) or isinstance(error, gm.SchemaError)
            assert is_named, str(error)  # noqa: PT017  (any mutant may be sound)
        except ValueError as error:
            assert "leaves none" in str(error)  # noqa: PT017
        else:
            n_read += 1
    assert n_read > 50
