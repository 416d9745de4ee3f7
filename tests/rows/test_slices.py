"""Rows that are read without the rest of their record batch, beside what pyarrow reads.

That is so in a global shuffle, in draws and in random access, where the columns take much more
than a quarter of `memory_budget`; and in file order, of the rows of a batch together, where these
take 256 KiB and more, and their record batch four times as much.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards
from signals import RATE, encode

N_ROWS, BATCH_ROWS, TOKENS = 1_200, 100, 2_048
READ = gm.ReadOptions(num_threads=2, memory_budget=16 << 20, index_dir=None)
"""Of which a quarter is less than a shard's 10 MB."""


def table(seed: int) -> pa.Table:
    """Lists of tokens, some null, and other columns, told by the seed."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(TOKENS - 8, TOKENS, N_ROWS)
    is_null = rng.integers(0, 20, N_ROWS) == 0
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    masked = pa.array(offsets, mask=np.concatenate([is_null, [False]]))
    values = rng.integers(0, 50_000, offsets[-1], np.int32)
    inner = [[[k / 2] * (k % 3), [float(k)]] if k % 4 else [] for k in range(N_ROWS)]
    return pa.table(
        {
            "tokens": pa.ListArray.from_arrays(masked, values),
            "flag": pa.array([None if k % 7 == 0 else k % 2 == 0 for k in range(N_ROWS)]),
            "name": pa.array([None if k % 5 == 0 else f"row {k} \N{BIRD}" for k in range(N_ROWS)]),
            "box": pa.FixedSizeListArray.from_arrays(rng.normal(size=4 * N_ROWS), 4),
            "inner": pa.array(inner, pa.list_(pa.list_(pa.float32()))),
            "place": pa.array([{"lat": k / 8, "id": k} for k in range(N_ROWS)]),
        }
    )


def write(
    path: Path, rows: pa.Table, codec: str | None = None, batch_rows: int = BATCH_ROWS
) -> Path:
    return shards.write_table(path, rows, batch_rows, codec=codec)


@pytest.fixture(scope="module")
def tables() -> list[pa.Table]:
    return [table(1), table(2)]


@pytest.fixture(scope="module")
def paths(tables: list[pa.Table], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("slices")
    return [write(folder / f"{k}.arrow", rows) for k, rows in enumerate(tables)]


def plain(value: Any) -> Any:
    """Lists for arrays."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def assert_rows(rows: list[dict[str, Any]], tables: list[pa.Table], *without: str) -> None:
    """Each row is that of its shard's table, without these columns."""
    tokens = [one["tokens"].combine_chunks() for one in tables]
    others = [one.drop_columns(["tokens", *without]).to_pylist() for one in tables]
    for row in rows:
        shard, at = int(row.pop("shard")), int(row.pop("row"))
        expected, ours = tokens[shard][at], row.pop("tokens")
        if expected.is_valid:
            np.testing.assert_array_equal(ours, expected.values.to_numpy())
        else:
            assert ours is None
        assert plain(row) == others[shard][at]


def assert_same(batches: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(batches) == len(expected)
    for ours, theirs in zip(batches, expected, strict=True):
        pairs = zip(ours.pop("tokens"), theirs.pop("tokens"), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs)
        assert plain(ours) == plain(theirs)


def rows_of(paths: Any, **options: Any) -> list[dict[str, Any]]:
    options = {"audio": None, "with_row_id": True, "read": READ, **options}
    return list(gm.ArrowIterDataset(paths, **options))


def test_shuffled_rows_are_those_of_the_table(paths: list[Path], tables: list[pa.Table]) -> None:
    rows = rows_of(paths, shuffle=gm.Shuffle(3))
    places = {(int(row["shard"]), int(row["row"])) for row in rows}
    assert len(rows) == len(places) == 2 * N_ROWS
    assert_rows(rows, tables)


@pytest.mark.parametrize("batch_size", [1, 64])
def test_they_do_not_depend_on_memory_and_threads(paths: list[Path], batch_size: int) -> None:
    """Enough memory for all record batches gives the same batches."""

    def batches(read: gm.ReadOptions) -> list[dict[str, Any]]:
        options = {"shuffle": gm.Shuffle(3), "batch_size": batch_size, "fill_value": 0}
        return rows_of(paths, **options, read=read)[:40]

    for n_threads in (1, 4):
        expected = batches(gm.ReadOptions(memory_budget=1 << 30, num_threads=1))
        read = gm.ReadOptions(memory_budget=32 << 20, num_threads=n_threads, index_dir=None)
        assert_same(batches(read), expected)


def test_draws_are_those_of_the_table(paths: list[Path], tables: list[pa.Table]) -> None:
    sampling = gm.Weighted(np.arange(2 * N_ROWS, dtype=float), seed=1)
    rows = rows_of(paths, sampling=sampling)
    assert len(rows) == 2 * N_ROWS
    assert_rows(rows, tables)


def test_each_byte_is_read_once(paths: list[Path]) -> None:
    """Not a record batch for a row: that would be a hundred times as much."""
    ds = gm.ArrowIterDataset(
        paths, audio=None, columns=["tokens"], shuffle=gm.Shuffle(3), batch_size=64, read=READ
    )
    it = iter(ds)
    n_bytes = sum(row.nbytes for batch in it for row in batch["tokens"] if row is not None)
    assert n_bytes < it.stats().storage.bytes < 1.1 * n_bytes + (1 << 20)


def test_a_state_goes_on_in_the_middle(paths: list[Path]) -> None:
    options: dict[str, Any] = {"batch_size": 50, "fill_value": 0, "read": READ}
    ds = gm.ArrowIterDataset(paths, audio=None, shuffle=gm.Shuffle(5), **options)
    it = iter(ds)
    for _ in range(7):
        next(it)
    state, expected = it.get_state(), [next(it) for _ in range(3)]
    again = iter(ds)
    again.set_state(state)
    assert_same([next(again) for _ in range(3)], expected)


def test_random_access(paths: list[Path], tables: list[pa.Table]) -> None:
    source = gm.ArrowDataSource(paths, audio=None, with_row_id=True, read=READ)
    wanted = np.random.default_rng(0).integers(0, 2 * N_ROWS, 200)
    assert_rows([source[int(i)] for i in wanted[:100]], tables)
    assert_rows(list(source.__getitems__([int(i) for i in wanted[100:]])), tables)


def test_rows_in_turn_share_their_record_batches(paths: list[Path], tables: list[pa.Table]) -> None:
    source = gm.ArrowDataSource(paths, audio=None, with_row_id=True, read=READ)
    assert_rows([source[i] for i in range(90, 350)], tables)


def test_a_list_in_any_order(paths: list[Path], tables: list[pa.Table]) -> None:
    rows = np.random.default_rng(1).permutation(2 * N_ROWS)
    found = rows_of(paths, rows=rows)
    places = [int(row["shard"]) * N_ROWS + int(row["row"]) for row in found]
    assert places == rows.tolist()
    assert_rows(found, tables)


def test_beside_record_batches_that_are_compressed(
    paths: list[Path], tables: list[pa.Table], tmp_path: Path
) -> None:
    """Those are read as a whole."""
    both = [paths[0], write(tmp_path / "small.arrow", tables[1].slice(0, 150), "zstd")]
    rows = rows_of(both, shuffle=gm.Shuffle(3))
    assert len(rows) == N_ROWS + 150
    assert_rows(rows, tables)
    source = gm.ArrowDataSource(both, audio=None, with_row_id=True, read=READ)
    assert_rows([source[i] for i in (0, N_ROWS, 5, N_ROWS + 149, N_ROWS + 149)], tables)


def test_in_a_mixture(paths: list[Path], tables: list[pa.Table]) -> None:
    """With a data set whose record batches are read as a whole."""

    options: dict[str, Any] = {"audio": None, "shuffle": gm.Shuffle(2), "epochs": None}
    many = gm.ArrowIterDataset(paths[0], **{**options, "epochs": 1})
    few = gm.ArrowIterDataset(paths[1], rows=range(40), **options)
    mixture = gm.Mixture([many, few], weights=[3, 1], with_row_id=True, read=READ)
    rows = [{**row, "shard": row["dataset"]} for row in mixture]
    for row in rows:
        del row["dataset"]
    assert sum(int(row["shard"]) == 0 for row in rows) == N_ROWS
    assert len(rows) > N_ROWS + 300
    assert_rows(rows, tables)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], pa.Table]:
    """Short recordings, some of them null or in no struct, beside 10 kB of an embedding each."""
    rng = np.random.default_rng(5)
    sound = [encode(noise, RATE, "wav16") for noise in rng.uniform(-0.5, 0.5, (N_ROWS, 400, 1))]
    blobs = pa.array([None if k % 11 == 0 else sound[k] for k in range(N_ROWS)], pa.binary())
    no_struct = pa.array([k % 13 == 0 for k in range(N_ROWS)])
    embedding = pa.array(rng.normal(size=1_280 * N_ROWS), pa.float64())
    rows = pa.table(
        {
            "audio": pa.StructArray.from_arrays([blobs], names=["bytes"], mask=no_struct),
            "label": np.arange(N_ROWS),
            "embedding": pa.FixedSizeListArray.from_arrays(embedding, 1_280),
        }
    )
    folder = tmp_path_factory.mktemp("recordings")
    return [write(folder / f"{k}.arrow", rows) for k in range(2)], rows


@pytest.mark.parametrize("with_index", [False, True])
def test_rows_with_audio(
    recordings: tuple[list[Path], pa.Table], tmp_path: Path, with_index: bool
) -> None:
    paths, rows = recordings
    options: dict[str, Any] = {
        "audio": gm.Audio("audio", sample_rate=RATE, crop=gm.RandomCrop(0.005)),
        "shuffle": gm.Shuffle(4),
        "on_error": "skip",
        "max_bad_rows": 1.0,
        "with_row_id": True,
    }
    index_dir = str(tmp_path) if with_index else None

    def read(memory_budget: int) -> tuple[list[dict[str, Any]], int]:
        read = gm.ReadOptions(num_threads=2, memory_budget=memory_budget, index_dir=index_dir)
        it = iter(gm.ArrowIterDataset(paths, read=read, **options))
        found = list(it)
        return found, it.stats().storage.bytes

    expected, _ = read(1 << 30)
    found, n_bytes = read(32 << 20)
    assert len(found) == len(expected) == 2 * sum(blob["bytes"] is not None for blob in audio(rows))
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours["shard"], ours["row"]) == (theirs["shard"], theirs["row"])
        np.testing.assert_array_equal(ours["audio"], theirs["audio"])
        assert ours["label"] == ours["row"]
        of_row = rows["embedding"][int(ours["row"])].values
        np.testing.assert_array_equal(ours["embedding"], of_row.to_numpy())
    of_all = 2 * rows.nbytes
    assert n_bytes < 1.2 * of_all + (1 << 20), f"{n_bytes / of_all:.1f} times the rows' bytes"


def audio(rows: pa.Table) -> list[dict[str, bytes | None]]:
    return [value or {"bytes": None} for value in rows["audio"].to_pylist()]


def damaged(path: Path, at_row: int, to: Path) -> Path:
    """A copy, in whose first record batch the tokens of this row begin at a negative offset."""
    written = bytearray(path.read_bytes())
    offsets = np.frombuffer(written, "<i4")[: 1 << 18]
    # The first record batch's offsets begin with 0 and two that differ by about a row.
    first, second = abs(offsets[1:-1] - TOKENS), abs(offsets[2:] - 2 * TOKENS)
    begins = (offsets[:-2] == 0) & (first < 9) & (second < 18)
    at = int(np.flatnonzero(begins)[0]) + at_row
    written[4 * at : 4 * at + 4] = np.int32(-5).tobytes()
    to.write_bytes(written)
    return to


def test_a_damaged_row_is_named(paths: list[Path], tmp_path: Path) -> None:
    """And rows beside it are delivered."""
    path = damaged(paths[0], 31, tmp_path / "damaged.arrow")
    options: dict[str, Any] = {"audio": None, "read": READ, "with_row_id": True}
    source = gm.ArrowDataSource(path, **options)
    for row in (29, 32, 600):
        assert int(source[row]["row"]) == row
    for row in (30, 31):
        with pytest.raises(gm.CorruptShardError, match=rf"row {row} .*offsets") as caught:
            source[row]
        assert caught.value.shard == str(path)
    # One after another: their record batch is loaded, which fails, and they are read alone.
    for row in range(20, 30):
        assert int(source[row]["row"]) == row
    with pytest.raises(gm.CorruptShardError):
        list(gm.ArrowIterDataset(path, shuffle=gm.Shuffle(0), **options))


LONG, BATCH = 400, 40
"""Rows of a record batch, and those of a batch, which take 330 kB."""


@pytest.fixture(scope="module")
def long_paths(tables: list[pa.Table], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("long")
    return [write(folder / f"{k}.arrow", rows, None, LONG) for k, rows in enumerate(tables)]


def unbatched(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of batches."""

    def row(column: Any, k: int) -> Any:
        if isinstance(column, dict):
            return {name: row(of_field, k) for name, of_field in column.items()}
        return column[k]

    n_rows = [len(batch["row"]) for batch in batches]
    return [row(batch, k) for batch, n in zip(batches, n_rows, strict=True) for k in range(n)]


IN_FILE_ORDER: dict[str, Any] = {
    "columns": ["tokens", "name", "box", "inner", "place"],
    "batch_size": BATCH,
    "drop_remainder": False,
}


@pytest.mark.parametrize(
    "options",
    [{}, {"epochs": 2}, {"exclude": [(0, 3), (0, 700)]}, {"rows": range(30, 900)}],
    ids=["all", "two epochs", "rows left out", "a range"],
)
def test_batches_in_file_order(
    long_paths: list[Path], tables: list[pa.Table], options: dict[str, Any]
) -> None:
    """Batches across record batches, shards and epochs too."""
    rows = unbatched(rows_of(long_paths, **IN_FILE_ORDER, **options))
    places = [(int(row["shard"]), int(row["row"])) for row in rows]
    wanted = [(shard, row) for shard in range(2) for row in range(N_ROWS)]
    if "rows" in options:
        wanted = [wanted[k] for k in options["rows"]]
    wanted = [place for place in wanted if place not in options.get("exclude", [])]
    assert places == wanted * options.get("epochs", 1)
    assert_rows(rows, tables, "flag")


@pytest.mark.parametrize("n_threads", [1, 4])
def test_in_file_order_memory_and_threads_make_no_difference(
    long_paths: list[Path], n_threads: int
) -> None:
    plenty = gm.ReadOptions(memory_budget=2 << 30, num_threads=1)  # record batches are kept
    options = {**IN_FILE_ORDER, "columns": None, "fill_value": 0}
    expected = rows_of(long_paths, **options, read=plenty)
    read = gm.ReadOptions(memory_budget=8 << 20, num_threads=n_threads, index_dir=None)
    assert_same(rows_of(long_paths, **options, read=read), expected)


def test_in_file_order_a_state_goes_on_in_the_middle(long_paths: list[Path]) -> None:
    ds = gm.ArrowIterDataset(long_paths, audio=None, read=READ, **IN_FILE_ORDER)
    it = iter(ds)
    for _ in range(11):
        next(it)
    state, expected = it.get_state(), [next(it) for _ in range(3)]
    again = iter(ds)
    again.set_state(state)
    assert_same([next(again) for _ in range(3)], expected)


def test_in_file_order_each_byte_is_read_once(long_paths: list[Path]) -> None:
    options: dict[str, Any] = {"columns": ["tokens"], "batch_size": BATCH, "read": READ}
    it = iter(gm.ArrowIterDataset(long_paths[0], audio=None, **options))
    n_bytes = sum(row.nbytes for batch in it for row in batch["tokens"] if row is not None)
    assert n_bytes < it.stats().storage.bytes < 1.1 * n_bytes + (1 << 20)


@pytest.mark.parametrize("ragged", ["object", "error"])
def test_in_file_order_batches_share_no_memory(tmp_path: Path, ragged: Any) -> None:
    """Those that are kept and written to are neither each other's nor the next epoch's."""
    values = np.arange(LONG * TOKENS, dtype=np.int32).reshape(LONG, TOKENS)
    columns = {"tokens": values, "mask": values.astype(np.int64) * 3}
    fixed = {
        name: pa.FixedSizeListArray.from_arrays(of.ravel(), TOKENS) for name, of in columns.items()
    }
    rows = pa.table({name: of.cast(pa.list_(of.type.value_type)) for name, of in fixed.items()})
    path = write(tmp_path / "plain.arrow", rows, None, LONG)
    options: dict[str, Any] = {"batch_size": BATCH, "epochs": 2, "ragged": ragged, "read": READ}
    kept = []
    for batch in gm.ArrowIterDataset(path, audio=None, **options):
        for name, column in batch.items():
            for row in column:
                assert row.flags.writeable
                np.add(row, len(name), out=row)
        kept.append(batch)
    assert len(kept) == 2 * LONG // BATCH
    for k, batch in enumerate(kept):
        start = k * BATCH % LONG
        for name, of in columns.items():
            assert batch[name][0].ctypes.data % 64 == 0
            np.testing.assert_array_equal(np.stack(batch[name]), of[start:][:BATCH] + len(name))


def test_in_file_order_a_damaged_row_fails_its_own_batch(
    long_paths: list[Path], tables: list[pa.Table], tmp_path: Path
) -> None:
    path = damaged(long_paths[0], 5 * BATCH + 7, tmp_path / "damaged.arrow")
    it = iter(gm.ArrowIterDataset(path, audio=None, with_row_id=True, read=READ, **IN_FILE_ORDER))
    assert_rows(unbatched([next(it) for _ in range(5)]), tables, "flag")
    with pytest.raises(gm.CorruptShardError, match="offsets"):
        next(it)


def test_in_file_order_beside_a_compressed_shard(
    long_paths: list[Path], tables: list[pa.Table], tmp_path: Path
) -> None:
    """That is read by whole record batches."""
    both = [long_paths[0], write(tmp_path / "small.arrow", tables[1].slice(0, 150), "zstd")]
    rows = unbatched(rows_of(both, **IN_FILE_ORDER))
    assert len(rows) == N_ROWS + 150
    assert_rows(rows, tables, "flag")
