"""Sidecars: where they lie, what they save, and that nothing depends on them."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards of four record batches, written a minute ago."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for k in range(3):
        rows = [shards.row(i, bytes([i + k]) * 20_000) for i in range(12)]
        path = shards.write(folder / f"{k}.arrow", rows, batch_rows=3)
        os.utime(path, (time.time() - 60, time.time() - 60))
    return folder


def read_all(folder: Path, index_dir: Any = "auto") -> tuple[list[bytes], int]:
    """All rows in a shuffled order, and the requests that it took."""
    ds = gm.ArrowIterDataset(
        folder,
        audio=None,
        batch_size=6,
        shuffle=gm.Shuffle(3),
        read=gm.ReadOptions(index_dir=index_dir),
    )
    it = iter(ds)
    rows = [next(it) for _ in range(6)]
    assert it._pipeline is not None
    requests = it._pipeline.reads().requests
    it.close()
    return [bytes(data) for batch in rows for data in batch["audio"]["bytes"]], requests


@pytest.mark.parametrize("place", ["auto", "folder", "beside"])
def test_a_second_run_reads_no_headers(
    folder: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_CACHE", str(tmp_path / "cache"))
    index_dir = tmp_path / "own" if place == "folder" else place
    expected, without = read_all(folder, None)
    assert read_all(folder, None) == (expected, without)
    first, _ = read_all(folder, index_dir)
    again, requests = read_all(folder, index_dir)
    assert first == again == expected
    # Four record batches and an end in each of three shards.
    assert requests <= without - 3 * 5
    where = {"auto": tmp_path / "cache" / "index", "folder": tmp_path / "own", "beside": folder}
    assert len(list(where[place].glob("*.gmindex"))) == 3


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    read = gm.ReadOptions()
    monkeypatch.setenv("GRISTMILL_CACHE", "/one")
    assert read.resolved_index_dir == "/one/index"
    monkeypatch.delenv("GRISTMILL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/two")
    assert read.resolved_index_dir == "/two/gristmill/index"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/three")
    assert read.resolved_index_dir == "/three/.cache/gristmill/index"
    assert gm.ReadOptions(index_dir="~/own").resolved_index_dir == "/three/own"
    assert gm.ReadOptions(index_dir=None).resolved_index_dir is None
    assert gm.ReadOptions(index_dir="here").resolved_index_dir == str(Path("here").absolute())


def test_damaged_and_foreign_sidecars_change_nothing(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    expected, _ = read_all(folder, own)
    rng = np.random.default_rng(5)
    sidecars = sorted(own.iterdir())
    contents = [path.read_bytes() for path in sidecars]
    # Each under another's name; then noise; then nothing.
    for k, path in enumerate(sidecars):
        path.write_bytes(contents[k - 1])
    assert read_all(folder, own)[0] == expected
    assert [path.read_bytes() for path in sidecars] == contents
    for path in sidecars:
        path.write_bytes(rng.bytes(3000))
    assert read_all(folder, own)[0] == expected
    for path in sidecars:
        path.write_bytes(b"")
    assert read_all(folder, own)[0] == expected


def test_a_folder_that_cannot_be_made_is_no_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    expected, _ = read_all(folder, None)
    assert read_all(folder, tmp_path / "file" / "below")[0] == expected


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="retries"):
        gm.ReadOptions(retries=-1)
    with pytest.raises(ValueError, match="num_requests"):
        gm.ReadOptions(num_requests=0)


def test_reading_without_the_page_cache_reads_the_same(folder: Path) -> None:
    options = gm.ReadOptions(page_cache=False)
    plain, uncached = (
        [row["audio"]["bytes"] for row in gm.ArrowIterDataset(folder, audio=None, read=read)]
        for read in (None, options)
    )
    assert plain == uncached


def test_what_is_worked_out_of_many_rows_is_kept(tmp_path: Path) -> None:
    """Eight bytes for each of nine million rows, which is more than a sidecar may have."""
    n, batch_rows = 9_000_000, 1_000_000
    path, index_dir = tmp_path / "many.arrow", tmp_path / "indexes"
    table = pa.table({"weight": np.full(n, 7, np.uint8), "start": np.arange(n) % 7})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    a_minute_ago = time.time() - 60
    os.utime(path, (a_minute_ago, a_minute_ago))

    def first_row(index_dir: Path | None) -> Any:
        ds = gm.ArrowIterDataset(
            path,
            columns=["start"],
            sampling=gm.Weighted("weight"),
            read=gm.ReadOptions(index_dir=index_dir),
        )
        with closing(iter(ds)) as it:
            return next(it)["start"]

    expected = first_row(index_dir)
    # All weights become 0, which only those notice who read them again.
    weights = path.read_bytes().replace(bytes([7]) * batch_rows, bytes(batch_rows))
    with path.open("r+b") as file:
        file.write(weights)
    os.utime(path, (a_minute_ago, a_minute_ago))
    with pytest.raises(ValueError, match="weight"):
        first_row(None)
    assert first_row(index_dir) == expected
    (kept,) = index_dir.glob("*.gmrows")
    assert kept.stat().st_size > 8 * n
