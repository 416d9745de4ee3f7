"""Small encoded rows: in runs where they are taken about as they lie, and always the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards

N_SHARDS, N_ROWS, BATCH_ROWS = 2, 900, 300
N_BYTES = 8 << 10


def small_rows(k: int, seed: int = 3) -> list[bytes | None]:
    """Rows of 0 to 16 KiB of noise, every eleventh of them null."""
    rng = np.random.default_rng([seed, k])
    sizes = rng.integers(0, 2 * N_BYTES, N_ROWS)
    return [None if i % 11 == 5 else rng.bytes(int(n)) for i, n in enumerate(sizes)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[list[bytes | None]]]:
    folder = tmp_path_factory.mktemp("small")
    rows = [small_rows(k) for k in range(N_SHARDS)]
    of = shards.schema({name: shards.FIELDS[name] for name in ("audio", "count")})
    paths = [
        shards.write(
            folder / f"{k}.arrow",
            [shards.row(i, data) for i, data in enumerate(rows[k])],
            batch_rows=BATCH_ROWS,
            of=of,
            form="file" if k else "stream",
        )
        for k in range(N_SHARDS)
    ]
    return paths, rows


def read(paths: list[Path], **options: Any) -> tuple[list[tuple[int, int, Any]], gm.Stats]:
    """`(shard, row, bytes)` as they come, and what that took."""
    n_threads = options.pop("num_requests", 4)
    budget = options.pop("memory_budget", "256MiB")
    options["read"] = gm.ReadOptions(
        num_threads=2, num_requests=n_threads, memory_budget=budget, index_dir=None
    )
    it = iter(gm.ArrowIterDataset(paths, audio=None, with_row_id=True, batch_size=32, **options))
    got = []
    for b in it:
        got += zip(b["shard"].tolist(), b["row"].tolist(), b["audio"]["bytes"], strict=True)
    return got, it.stats()


def check(got: list[tuple[int, int, Any]], rows: list[list[bytes | None]]) -> None:
    for shard, row, data in got:
        wanted = rows[shard][row]
        assert (data is None) == (wanted is None)
        assert wanted is None or bytes(data) == wanted


ORDERS = {
    "file order": {},
    "one stream": {"shuffle": gm.Shuffle(1, window=200, streams=1)},
    "streams": {"shuffle": gm.Shuffle(1, window=400, streams=4)},
    "narrow window": {"shuffle": gm.Shuffle(1, window=8, streams=4)},
    "global": {"shuffle": gm.Shuffle(1)},
}


@pytest.mark.parametrize("budget", ["256MiB", "24MiB", "3MiB"])
@pytest.mark.parametrize("order", ORDERS)
def test_every_row_has_its_bytes(data: Any, order: str, budget: str) -> None:
    paths, rows = data
    got, stats = read(paths, epochs=2, memory_budget=budget, **ORDERS[order])
    check(got, rows)
    ids = [(shard, row) for shard, row, _ in got]
    every = [(k, i) for k in range(N_SHARDS) for i in range(N_ROWS)]
    assert sorted(ids) == sorted(2 * every)
    assert (ids == 2 * every) == (order == "file order")
    assert stats.memory.peak_bytes <= stats.memory.budget_bytes


@pytest.mark.parametrize("order", ORDERS)
def test_excluded_rows_and_hosts_leave_the_others_as_they_are(data: Any, order: str) -> None:
    import grain

    paths, rows = data
    gone = [(0, row) for row in range(100, 200, 3)] + [(1, 0), (1, N_ROWS - 1)]
    ids = []
    for host in range(2):
        options = grain.sharding.ShardOptions(host, 2)
        got, _ = read(paths, exclude=gone, shard_options=options, **ORDERS[order])
        check(got, rows)
        ids += [(shard, row) for shard, row, _ in got]
    every = {(k, i) for k in range(N_SHARDS) for i in range(N_ROWS)} - set(gone)
    assert len(ids) == len(every)
    assert set(ids) == every


@pytest.mark.parametrize("order", ["file order", "one stream", "streams"])
def test_rows_that_lie_together_are_one_request(data: Any, order: str) -> None:
    paths, rows = data
    got, stats = read(paths, **ORDERS[order])
    check(got, rows)
    n_bytes = sum(path.stat().st_size for path in paths)
    assert stats.storage.requests < len(got) / 25
    assert stats.storage.bytes < 1.05 * n_bytes


def test_rows_that_lie_apart_are_read_one_by_one(data: Any) -> None:
    paths, _ = data
    n_bytes = sum(path.stat().st_size for path in paths)
    for options in ({"shuffle": gm.Shuffle(1)}, {"memory_budget": "3MiB"}):
        got, stats = read(paths, **options)
        assert stats.storage.requests > 0.8 * len(got)
        assert stats.storage.bytes < 1.05 * n_bytes


def test_a_window_too_wide_for_the_budget_reads_no_byte_twice(data: Any) -> None:
    paths, rows = data
    shuffle = gm.Shuffle(1, window=1500, streams=2)
    got, stats = read(paths, shuffle=shuffle, memory_budget="40MiB")
    check(got, rows)
    assert stats.storage.bytes < 1.05 * sum(path.stat().st_size for path in paths)


def test_long_rows_are_read_by_themselves(tmp_path: Path) -> None:
    rows: list[bytes | None] = [bytes([i]) * (70_000 + i) for i in range(40)]
    path = shards.write_audio(tmp_path / "long.arrow", rows, batch_rows=20)
    got, stats = read([path])
    check(got, [rows])
    assert stats.storage.requests >= len(rows)


def test_resuming_inside_a_run_goes_on_where_it_was(data: Any) -> None:
    paths, rows = data
    ds = gm.ArrowIterDataset(
        paths, audio=None, with_row_id=True, batch_size=32, read=gm.ReadOptions(index_dir=None)
    )
    it = iter(ds)
    for _ in range(5):
        next(it)
    again = iter(ds)
    again.set_state(it.get_state())
    for _ in range(20):
        a, b = next(it), next(again)
        assert (a["row"] == b["row"]).all()
        assert list(a["audio"]["bytes"]) == list(b["audio"]["bytes"])
        ids = zip(a["shard"].tolist(), a["row"].tolist(), a["audio"]["bytes"], strict=True)
        check(list(ids), rows)


def test_a_shard_that_changes_is_refused_in_a_run_too(tmp_path: Path) -> None:
    path = shards.write_audio(tmp_path / "a.arrow", small_rows(0), batch_rows=BATCH_ROWS)
    read_options = gm.ReadOptions(index_dir=None, prefetch_batches=1, num_requests=1)
    it = iter(gm.ArrowIterDataset(path, audio=None, batch_size=4, read=read_options))
    next(it)
    with pa.OSFile(str(path), "ab") as file:
        file.write(b"more")
    with pytest.raises(gm.CorruptShardError, match="replaced or changed"):
        list(it)
