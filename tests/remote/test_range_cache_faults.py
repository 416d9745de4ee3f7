"""A cache folder to which anything may happen: rows are right, and reading goes on."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import cached
import probes
from rounds import rounds

LOOP = Path(__file__).parent / "cache_kill_loop.py"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "near"


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Two shards of 0.4 MB each."""
    return [str(cached.write_shard(tmp_path / f"s-{k}.arrow", k)) for k in range(2)]


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and "cache_dir" in record.getMessage()
    ]


def refill(paths: list[str], cache: Path) -> None:
    """Reads until all is there again: what was read before damage is met may go with it."""
    assert any(cached.read_all(paths, cache).storage.requests == 0 for _ in range(20))


def test_damaged_bytes_are_read_anew(paths: list[str], cache: Path) -> None:
    n = cached.read_all(paths, cache).storage.requests
    rng = np.random.default_rng(1)
    for _ in range(20):
        for path in cached.files(cache, "gmbytes"):
            data = bytearray(path.read_bytes())
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
            path.write_bytes(data)
        # Of each shard the range alone, and what is asked for with it.
        assert cached.read_all(paths, cache).storage.requests <= 8 < n
        refill(paths, cache)
    for path in cached.files(cache, "gmbytes"):
        path.write_bytes(b"")
    assert cached.read_all(paths, cache).storage.requests == n


def test_a_log_that_says_anything(paths: list[str], cache: Path) -> None:
    n = cached.read_all(paths, cache).storage.requests
    logs = cached.files(cache, "gmlog")
    whole = [path.read_bytes() for path in logs]
    rng = np.random.default_rng(2)
    for k in range(25):
        for path, other, log in zip(logs, whole[::-1], whole, strict=True):
            changed = bytearray(log)
            changed[rng.integers(len(log))] ^= 1 << rng.integers(8)
            cut = log[: rng.integers(len(log))]
            path.write_bytes([changed, cut, rng.bytes(5000), other, cut + log][k % 5])
        assert cached.read_all(paths, cache).storage.requests <= n
    refill(paths, cache)


@pytest.mark.parametrize("size", [1, 5_000, 100_000, 300_000])
def test_a_limit_below_one_shard(paths: list[str], cache: Path, size: int) -> None:
    for seed in range(1, 4):
        cached.read_all(paths, cache, cache_size=size, seed=seed)
        assert cached.allocated(cache) <= size
    # What there is room for saves requests.
    plain = cached.read_all(paths, None)
    stats = cached.read_all(paths, cache, cache_size=size)
    assert (stats.storage.requests < plain.storage.requests) == (size >= 100_000)


def test_shards_that_are_not_read_any_more_make_room(tmp_path: Path, cache: Path) -> None:
    old = cached.write_shard(tmp_path / "old.arrow", 5)
    cached.read_all([str(old)], cache)
    used = cached.allocated(cache)
    for path in cache.iterdir():
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    new = cached.write_shard(tmp_path / "new.arrow", 6)
    size = used * 5 // 2
    # A run of milliseconds finds that there is no room, and hardly makes any before it ends.
    runs = (cached.read_all([str(new)], cache, cache_size=size) for _ in range(200))
    assert any(stats.storage.requests == 0 for stats in runs)
    assert cached.allocated(cache) <= size
    assert cached.read_all([str(old)], cache, cache_size=size).storage.requests > 0


def test_clocks_that_jump(paths: list[str], cache: Path) -> None:
    cached.read_all(paths, cache)
    for year in (0, 2**33, 2**31 - 1):
        for path in cache.iterdir():
            os.utime(path, (year, year))
        assert cached.read_all(paths, cache).storage.requests == 0
        size = cached.allocated(cache) // 2
        cached.read_all(paths, cache, cache_size=size)
        refill(paths, cache)


def test_a_folder_that_is_removed_while_it_is_used(
    paths: list[str], cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    it = iter(cached.dataset(paths, cache, seed=-1))
    for k in range(8 * cached.N_ROWS):
        cached.check(next(it))
        if k == cached.N_ROWS:
            while cache.exists():
                shutil.rmtree(cache, ignore_errors=True)
    it.close()
    assert len(problems(caplog)) == 1
    # It is made again by the next run.
    cached.read_all(paths, cache)
    assert cached.read_all(paths, cache).storage.requests == 0
    assert len(problems(caplog)) == 1


def test_a_folder_that_cannot_be_made(
    paths: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    cached.read_all(paths, tmp_path / "file" / "below")
    (message,) = problems(caplog)
    assert message.startswith(f'nothing more is written to cache_dir="{tmp_path}/file/below": ')


@contextlib.contextmanager
def mounted(at: Path, options: str) -> Iterator[None]:
    at.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "gristmill-test", str(at)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting takes root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def test_a_full_disk(paths: list[str], cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    with mounted(cache, "size=300k"):
        cached.read_all(paths, cache, cache_size="1GB")
        assert cached.read_all(paths, cache, cache_size="1GB").caches.range_hits > 0
        assert len(problems(caplog)) == 2  # one a run
        assert "No space left on device" in problems(caplog)[0]


def test_a_share_of_a_small_disk_is_kept(paths: list[str], cache: Path) -> None:
    with mounted(cache, "size=300k"):
        cached.read_all(paths, cache, cache_size="50%")
        assert 0 < cached.allocated(cache) <= 150_000


def test_a_read_only_folder(
    paths: list[str], cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with mounted(cache, "size=10m"):
        cached.read_all(paths[:1], cache)
        subprocess.run(["mount", "-o", "remount,ro", str(cache)], check=True)
        # What is there is read.
        assert cached.read_all(paths[:1], cache).storage.requests == 0
        assert not problems(caplog)
        assert cached.read_all(paths, cache).storage.requests > 0
        assert len(problems(caplog)) == 1


def test_files_that_may_not_grow(paths: list[str], cache: Path) -> None:
    code = f"""
        import logging, resource, sys
        from pathlib import Path
        sys.path[:0] = {probes.FOLDERS!r}
        import cached
        logging.basicConfig()
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        cached.read_all({paths!r}, Path({str(cache)!r}))
    """
    import textwrap

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nothing more is written to cache_dir") == 1
    assert "File too large" in done.stderr
    assert cached.read_all(paths, cache).storage.requests > 0
    assert cached.read_all(paths, cache).storage.requests == 0


def n_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_few_descriptors(paths: list[str], cache: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    n_open = n_descriptors()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(n_open + 60, limits[1]), limits[1]))
        for _ in range(2):
            cached.read_all(paths, cache)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert n_descriptors() <= n_open + 5


@pytest.mark.timeout(400)
@pytest.mark.parametrize("options", [[], ["--size", "900000"]])
def test_processes_that_are_killed(options: list[str]) -> None:
    n_kills = os.environ.get("GRISTMILL_KILLS", str(rounds(20, 4)))
    command = [sys.executable, str(LOOP), "--kills", n_kills, *options]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=probes.environment()
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{n_kills} kills, ")
