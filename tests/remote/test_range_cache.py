"""`cache_dir`: what was read once is not asked for again, and rows are those without it."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cached
import gristmill as gm
import parquet_files
import shards
from range_server import RangeServer, serving
from signals import encode, synthetic


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "near"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards of 0.4 MB each."""
    folder = tmp_path / "far"
    folder.mkdir()
    for k in range(2):
        cached.write_shard(folder / f"s-{k}.arrow", k)
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[RangeServer]:
    with serving(folder) as server:
        yield server


def urls(server: RangeServer) -> list[str]:
    return [f"{server.url}/{path.name}" for path in sorted(server.folder.iterdir())]


def n_ranges(server: RangeServer) -> int:
    """Requests but those that look for a shard."""
    return sum(asked != "bytes=0-0" for _, _, asked in server.requests)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, np.ndarray) and a.dtype == object:
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("form", ["arrow", *parquet_files.OPTIONS])
def test_rows_are_those_without_a_cache_and_are_read_once(
    tmp_path: Path, cache: Path, form: str, is_remote: bool
) -> None:
    folder = tmp_path / "far"
    folder.mkdir()
    made = [encode(synthetic(0.5, 16_000, 1, k), 16_000, "wav16") for k in range(12)]
    path = shards.write_audio(folder / "s.arrow", made)
    if form != "arrow":
        import pyarrow as pa

        table = pa.ipc.open_stream(path).read_all()
        path = parquet_files.write(folder / "s.parquet", table, **parquet_files.OPTIONS[form])
    os.utime(path, (time.time() - 60, time.time() - 60))

    def read(source: Any, cache: Path | None) -> tuple[list[Any], gm.Stats]:
        ds = gm.ArrowIterDataset(
            source,
            audio=gm.Audio("audio", sample_rate=8_000, crop=gm.RandomCrop(seconds=0.2)),
            shuffle=gm.Shuffle(3),
            epochs=2,
            batch_size=4,
            read=gm.ReadOptions(index_dir=None, num_threads=2, retries=0, cache_dir=cache),
        )
        it = iter(ds)
        return list(it), it.stats()

    with serving(folder) as server:
        source = f"{server.url}/{path.name}" if is_remote else path
        expected, plain = read(path, None)
        first, _ = read(source, cache)
        n = n_ranges(server)
        again, stats = read(source, cache)
        assert n_ranges(server) == n
    assert plain.caches.range_hits == 0
    assert equal(dict(enumerate(first)), dict(enumerate(expected)))
    assert equal(dict(enumerate(again)), dict(enumerate(expected)))
    assert stats.storage.requests == stats.storage.bytes == 0
    assert stats.caches.range_hits > 0
    assert "cache_dir: " in str(stats)
    assert {path.stat().st_mode & 0o777 for path in cache.iterdir()} == {0o600}


def test_a_second_epoch_makes_no_requests(server: RangeServer, cache: Path) -> None:
    # Less than an epoch ahead: a row that is asked for twice before it is there is read twice.
    it = iter(cached.dataset(urls(server), cache, seed=-1, prefetch_batches=1))
    for _ in range(2 * cached.N_ROWS):
        cached.check(next(it))
    # Readers are ahead; what they have asked for is what an epoch needs.
    for _ in range(4 * cached.N_ROWS):
        cached.check(next(it))
    n = n_ranges(server)
    for _ in range(4 * cached.N_ROWS):
        cached.check(next(it))
    assert n_ranges(server) == n
    stats = it.stats()
    assert stats.storage.requests == n
    it.close()
    # Nothing is read twice: a few bytes beside the shards' own.
    assert stats.storage.bytes < 1.2 * sum(path.stat().st_size for path in server.folder.iterdir())
    assert cached.read_all(urls(server), cache).storage.requests == 0


def test_other_crops_of_rows_that_were_read_whole(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "far.arrow"
    made = [encode(synthetic(12, 32_000, 1, k), 32_000, "wav16") for k in range(4)]
    shards.write_audio(path, made)
    os.utime(path, (time.time() - 60, time.time() - 60))

    def read(seed: int, cache: Path | None) -> tuple[list[Any], gm.Stats]:
        audio = gm.Audio("audio", crop=gm.RandomCrop(seconds=0.5, seed=seed))
        read = gm.ReadOptions(index_dir=tmp_path / "index", cache_dir=cache, num_threads=2)
        it = iter(gm.ArrowIterDataset(path, audio=audio, epochs=3, read=read))
        return list(it), it.stats()

    _, first = read(1, cache)  # whole rows, then crops by the audio index
    expected, without = read(2, None)
    rows, stats = read(2, cache)
    assert equal(dict(enumerate(rows)), dict(enumerate(expected)))
    assert without.storage.bytes < first.storage.bytes
    assert stats.storage.requests == 0 < stats.caches.range_hits
    # A crop takes the ranges around it from the cache, not the whole row.
    assert stats.caches.range_bytes == without.storage.bytes


def test_a_shard_that_changed_has_nothing(server: RangeServer, cache: Path) -> None:
    first = cached.read_all(urls(server), cache)
    for k, path in enumerate(sorted(server.folder.iterdir())):
        size = path.stat().st_size
        cached.write_shard(path, 10 + k)  # another ETag, in the same second
        assert path.stat().st_size == size
    n = n_ranges(server)
    second = cached.read_all(urls(server), cache)
    assert n_ranges(server) - n == second.storage.requests == first.storage.requests
    local = [str(path) for path in sorted(server.folder.iterdir())]
    assert cached.read_all(local, cache).storage.requests > 0
    assert cached.read_all(local, cache).storage.requests == 0
    cached.write_shard(server.folder / "s-0.arrow", 20, age=50)
    assert cached.read_all(local, cache).storage.requests > 0


def test_what_may_still_change_is_not_kept(tmp_path: Path, cache: Path) -> None:
    path = cached.write_shard(tmp_path / "new.arrow", 1, age=-3600)
    for _ in range(2):
        assert cached.read_all([str(path)], cache).storage.requests > 0
    assert not cache.exists() or not cached.files(cache, "gmbytes")


def test_random_access_goes_through_it(server: RangeServer, cache: Path) -> None:
    read = gm.ReadOptions(index_dir=None, cache_dir=cache, num_threads=2)
    for k in range(2):
        source = gm.ArrowDataSource(urls(server), audio=None, read=read)
        n = n_ranges(server)
        for index in range(len(source)):
            cached.check(source[index])
        assert (n_ranges(server) == n) == (k == 1)
        source.close()


@pytest.mark.parametrize("size", ["1GB", "500KB"])
def test_eight_processes_share_a_folder(server: RangeServer, cache: Path, size: str) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gristmill", "cached"])
    some = [
        context.Process(
            target=cached.read_as_a_process, args=(urls(server), str(cache), 1 + k, size)
        )
        for k in range(8)
    ]
    for one in some:
        one.start()
    for one in some:
        one.join(240)
        assert one.exitcode == 0
    n = n_ranges(server)
    cached.read_all(urls(server), cache, cache_size=size)
    if size == "1GB":
        assert n_ranges(server) == n
        # Without the cache it would be eight times three epochs.
        per_epoch = cached.read_all(urls(server), None).storage.requests
        assert n < 12 * per_epoch
    else:
        assert n_ranges(server) > n
        assert cached.allocated(cache) <= 500_000


def test_options_are_checked(tmp_path: Path) -> None:
    def limit(size: Any) -> int | float:
        return gm.ReadOptions(cache_dir=tmp_path, cache_size=size).cache_limit

    assert limit(None) == 0.8
    assert limit("80 %") == 0.8
    assert limit("12.5%") == 0.125
    assert limit("200GB") == 200 * 10**9
    assert limit(np.int64(5)) == 5
    for size in ("0%", "101%", "-5%", "%", "much", 0, -1, 0.8, True, b"80%", [1]):
        with pytest.raises(ValueError, match="cache_size is a number of bytes"):
            limit(size)
    with pytest.raises(ValueError, match="cache_size= is about the folder that cache_dir= names"):
        gm.ReadOptions(cache_size="80%")
    for name in ("cache_dir", "index_dir"):
        for given in ("s3://bucket/folder", Path("s3://bucket/folder")):
            with pytest.raises(ValueError, match=f"{name} is the path of a folder on this machine"):
                gm.ReadOptions(**{name: given})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="cache_dir is the path of a folder or None, not 5: write"):
        gm.ReadOptions(cache_dir=5)  # pyright: ignore[reportArgumentType]
    assert gm.ReadOptions().resolved_cache_dir is None
    assert gm.ReadOptions(cache_dir="~/x").resolved_cache_dir == str(Path.home() / "x")
    assert gm.ReadOptions(cache_dir="x").resolved_cache_dir == str(Path("x").absolute())
