"""Crops and rows from a store with latency and a cap, beside what streams data sets today.

A server in a process of its own answers each request after 20 ms and sends 200 MB/s in all. The
recordings are Ogg Vorbis of 10 to 76 s, 43 s in the mean, and a job takes crops of one epoch from
the opening on; what a peer downloads is new to it. Crops with and without an audio index are also
taken at 50 and 100 MB/s, once they run, and over slow storage of the same speed. Encoded rows are
taken by batches of 16 in steps that ask for 70 % of what the store sends, and as fast as they come.

LitData and Mosaic Streaming bring PyTorch and are not in the dependency group: `pip install litdata
mosaicml-streaming` beside the wheel adds them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import material
import numpy as np
import pytest
import remote_peers
from remote_server import RemoteServer

from slow_storage import SlowStorage, why_not

LATENCY, BANDWIDTH = 0.020, 200e6
SLOW = {"50 MB/s": 50e6, "100 MB/s": 100e6}
"""At the second, crops by an audio index may wait for two slow cores and not for the storage."""
WARM_UP = 10
"""Batches before the measured ones: in them the number of requests grows."""
DEMAND, STEP_ROWS = 0.7, 16
WHOLE, INDEXED = "gristmill, whole rows", "gristmill, audio index"
OF_THE_ROWS = "bytes sent / bytes of the rows"
OF_THE_BANDWIDTH = "of the bandwidth"


@pytest.fixture
def store() -> Iterator[Callable[..., RemoteServer]]:
    """Starts the server of a folder, for all rounds: what is kept of shards goes by their URLs."""
    with contextlib.ExitStack() as stack:
        yield lambda folder, bandwidth=BANDWIDTH: stack.enter_context(
            RemoteServer(folder, latency=LATENCY, bandwidth=bandwidth)
        )


@pytest.mark.parametrize("job", remote_peers.JOBS)
def test_crops(
    turns: Any, fresh: Any, size: Any, data: Path, tmp_path: Path, store: Any, job: str
) -> None:
    n_recordings, longest = size((800, 76.0), (400, 76.0), (130, 11.0))
    folder = data / f"remote-{n_recordings}"  # peers keep their copies there
    paths = material.vorbis_shards(folder, n_recordings, "32 kHz", longest, 4)
    numbers, row_bytes = itertools.count(), sum(path.stat().st_size for path in paths)
    server = store(folder)
    urls = server.urls(paths)

    def prepare(name: str) -> Callable[[int], dict[str, Any]]:
        if name in remote_peers.MODULES:
            pytest.importorskip(remote_peers.MODULES[name])
        if name == "datasets streaming":
            pytest.importorskip("aiohttp")
        if name in remote_peers.WRITE:
            remote_peers.WRITE[name](paths, folder)
        if name == INDEXED:
            fresh(remote_peers.check, urls, paths, tmp_path)

        def once(_: int) -> dict[str, Any]:
            of_peer = tmp_path / f"{next(numbers)}"
            of_peer.mkdir()
            at = tmp_path if name.startswith("gristmill") else of_peer
            _, before = server.sent()
            got = fresh(remote_peers.measure, name, urls, at, n_recordings)
            _, n_bytes = server.sent()
            return {
                "seconds": got["seconds"],
                "first batch, s": got["first"],
                "rows / s": 1 / got["seconds"],
                "rows / s after the first batch": 1 / got["running"],
                OF_THE_ROWS: (n_bytes - before) / row_bytes,
            }

        return once

    turns(prepare, rounds=size(5, 3, 1), than=INDEXED)


MOUNTED = "gristmill, audio index, slow storage"


@pytest.mark.skipif(why_not() is not None, reason=f"no FUSE here: {why_not()}")
@pytest.mark.parametrize("job", [MOUNTED, INDEXED, WHOLE])
@pytest.mark.parametrize("bandwidth", SLOW)
def test_audio_index(
    turns: Any,
    fresh: Any,
    size: Any,
    data: Path,
    tmp_path: Path,
    store: Any,
    bandwidth: str,
    job: str,
) -> None:
    """Crops by an audio index from a store, and from a file system that is as slow."""
    n_recordings, longest, n_rows = size((400, 76.0, 6_400), (200, 76.0, 3_200), (130, 11.0, 64))
    paths = material.vorbis_shards(data / "remote-slow", n_recordings, "32 kHz", longest)
    row_bytes = sum(path.stat().st_size for path in paths) / n_recordings
    server = store(paths[0].parent, SLOW[bandwidth])
    n_rows += (1 + WARM_UP) * remote_peers.BATCH

    def read(name: str) -> list[float]:
        measure = functools.partial(remote_peers.measure, n_rows=n_rows)
        if name != MOUNTED:
            return fresh(measure, name, server.urls(paths), tmp_path)["steps"]
        slow = SlowStorage(
            paths[0].parent,
            latency=LATENCY,
            bandwidth=SLOW[bandwidth],
            direct=True,
            at=tmp_path / "on",
        )
        with slow as mount:
            here = [str(mount / path.name) for path in paths]
            return fresh(measure, INDEXED, here, tmp_path)["steps"]

    def prepare(name: str) -> Callable[[int], dict[str, Any]]:
        if name == INDEXED:
            fresh(remote_peers.check, server.urls(paths), paths, tmp_path)
        if name == MOUNTED:
            read(name)  # learns

        def once(_: int) -> dict[str, Any]:
            _, before = server.sent()
            seconds = statistics.mean(read(name)[WARM_UP:]) / remote_peers.BATCH
            _, n_bytes = server.sent()
            found = {"seconds": seconds, "rows / s": 1 / seconds}
            if name != MOUNTED:
                of_a_row = (n_bytes - before) / n_rows
                found[OF_THE_ROWS] = of_a_row / row_bytes
                found[OF_THE_BANDWIDTH] = of_a_row / seconds / SLOW[bandwidth]
            return found

        return once

    mark = 1.05 if job == INDEXED else None
    turns(prepare, rounds=size(5, 1, 1), than=MOUNTED, at_most=mark)


STEPS = {"70 % of the bandwidth": DEMAND, "full demand": 0.0}
LIMITS = {
    "70 % of the bandwidth": {"p99 step / median": {"at_most": 1.15}},
    "full demand": {OF_THE_BANDWIDTH: {"at_least": 0.9}},
}


@pytest.mark.parametrize("job", STEPS)
def test_steps(
    turns: Any, fresh: Any, size: Any, data: Path, tmp_path: Path, store: Any, job: str
) -> None:
    n_shards, n_rows, sizes = size(
        (18, 200, (200_000, 800_000)), (18, 200, (200_000, 800_000)), (2, 80, (2_000, 8_000))
    )
    folder = data / f"slow-{n_shards}"
    paths = [
        material.noise_shard(folder / f"slow-{k:02}.arrow", n_rows, n_rows // 2, sizes)
        for k in range(n_shards)
    ]
    row_bytes = sum(path.stat().st_size for path in paths) / (n_shards * n_rows)
    n_steps = min(200, n_shards * n_rows // STEP_ROWS - 8)

    urls = store(folder).urls(paths)

    def once(name: str, _: int) -> dict[str, Any]:
        period = STEP_ROWS * row_bytes / (BANDWIDTH * STEPS[name]) if STEPS[name] else 0.0
        measure = functools.partial(remote_peers.measure, decoded=False, batch_size=STEP_ROWS)
        name = WHOLE
        got = fresh(measure, name, urls, tmp_path, STEP_ROWS * n_steps, period)
        steps = got["steps"][len(got["steps"]) // 10 :]  # before, the number of requests grows
        median = statistics.median(steps)
        return {
            "seconds": median / STEP_ROWS,
            "p99 step / median": float(np.quantile(steps, 0.99)) / median,
            "longest step / median": max(steps) / median,
            OF_THE_BANDWIDTH: STEP_ROWS * row_bytes / statistics.mean(steps) / BANDWIDTH,
            "first batch, ms": 1e3 * got["first"],
        }

    turns(lambda name: functools.partial(once, name), rounds=size(5, 3, 1), limits=LIMITS[job])


@pytest.mark.parametrize("job", ["local files", "second epoch from the cache"])
@pytest.mark.parametrize("peer", [INDEXED, WHOLE])
def test_cache(
    turns: Any, size: Any, data: Path, tmp_path: Path, store: Any, peer: str, job: str
) -> None:
    """Local files against cached ranges of them, both in the page cache.

    What the cache takes is less than what a machine with other work changes its speed by from one
    second to the next: many short turns in one process tell it.
    """
    n_recordings, longest = size((400, 76.0), (400, 76.0), (130, 11.0))
    folder = data / f"remote-{n_recordings}"  # as above
    paths = material.vorbis_shards(folder, n_recordings, "32 kHz", longest, 4)
    sources = {"local files": (list(map(str, paths)), None)}
    sources["second epoch from the cache"] = (store(folder).urls(paths), "cache")

    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:

        def read(name: str) -> dict[str, Any]:
            shards, cache = sources[name]
            measure = functools.partial(remote_peers.measure, cache=cache)
            return pool.submit(measure, peer, shards, tmp_path, 2 * n_recordings).result()

        def prepare(name: str) -> Callable[[int], dict[str, Any]]:
            read(name)  # all there is, into the cache

            def once(_: int) -> dict[str, Any]:
                got = read(name)
                return {"seconds": got["running"], "CPU of a row, ms": 1e3 * got["cpu"]}

            return once

        mark = 1 / 0.95 if job != "local files" else None
        turns(prepare, rounds=size(150, 25, 1), than="local files", at_most=mark)
