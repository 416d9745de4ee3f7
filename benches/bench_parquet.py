"""Parquet beside the same rows as Arrow, Grain's `ParquetIterDataset` and `datasets` streaming.

Times are CPU times of all threads of a process, page-cached: what the peers need one core for, they
cannot share out. Each measurement is a fresh process; the jobs are in `parquet_peers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import parquet_peers
import pytest

ARROW, PEER, TOKENS = 1 / 0.95, 5.0, 10.0
"""At most so many times as long as Arrow; and at least so many times as long as Gristmill."""
FEWER = 4
"""A peer takes one in so many of our rows: it takes as long for them."""


@pytest.fixture(scope="module")
def shards(data: Path, size: Any) -> Callable[..., dict[str, Path]]:
    return lambda *layouts: parquet_peers.crop_shards(data, size(400, 200, 6), layouts)


@pytest.mark.parametrize("rows", ["crops", "bytes"])
@pytest.mark.parametrize("job", ["arrow", "uncompressed"])
def test_uncompressed(
    turns: Any, fresh: Any, size: Any, figure: Any, shards: Any, rows: str, job: str
) -> None:
    paths, n_rows = shards("uncompressed"), size(8_000, 4_000, 6) * (1 if rows == "crops" else 5)

    def prepare(name: str) -> Any:
        if name != "arrow":
            fresh(parquet_peers.check_same, paths["arrow"], paths[name])
        n_warm = size(1_000, 1_000, 6)
        return lambda _: fresh(parquet_peers.measure, rows, paths[name], n_rows, n_warm)

    turns(prepare, rounds=size(9, 5, 1), than="arrow", at_most=ARROW if job != "arrow" else None)
    if job != "arrow":
        read = fresh(parquet_peers.read_amplification, paths[job])
        figure("bytes read for a byte of a row", read, at_most=1.1)


@pytest.mark.parametrize("rows", ["crops", "bytes"])
@pytest.mark.parametrize("layout", ["snappy, page index", "snappy"])
@pytest.mark.parametrize("job", ["in windows", "Grain", "datasets"])
def test_snappy(
    turns: Any, fresh: Any, size: Any, shards: Any, rows: str, layout: str, job: str
) -> None:
    paths = shards(layout)
    path, n_rows = paths[layout], size(4_000, 2_000, 6)

    def prepare(name: str) -> Any:
        full = f"{rows} {name}" if name == "in windows" else f"{rows}, {name}"
        fresh(parquet_peers.check_same, paths["arrow"], path)
        fresh(parquet_peers.check_rows, full, path)
        n = n_rows if name == "in windows" else n_rows // FEWER
        return lambda _: fresh(parquet_peers.measure, full, path, n, size(400, 200, 6))

    mark = None if job == "in windows" or rows == "bytes" else PEER
    turns(prepare, rounds=size(5, 3, 1), than="in windows", at_least=mark)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("job", ["tokens", "tokens, Grain"])
def test_tokens(turns: Any, fresh: Any, size: Any, data: Path, kind: str, job: str) -> None:
    n_rows = size(40_000, 20_000, 1_000)
    path = parquet_peers.token_shard(data, n_rows, kind)

    def prepare(name: str) -> Any:
        fresh(parquet_peers.check_rows, name, path)
        n = n_rows * 2 if name == "tokens" else n_rows // FEWER
        return lambda _: fresh(parquet_peers.measure, name, path, n, size(n_rows, n_rows, 64))

    mark = TOKENS if job != "tokens" else None
    turns(prepare, rounds=size(5, 3, 1), than="tokens", at_least=mark)
