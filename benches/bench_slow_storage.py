"""Steps over storage with latency and a bandwidth cap, and small rows from it.

A FUSE file system answers each request after 5 ms and sends 200 MB/s in all. A training loop takes
batches of 16 encoded recordings of 0.2 to 0.8 MB in a shuffled order, and "computes" for so long
that it asks for 70 % of what the storage sends. Nothing is decoded: the steps show reading alone.
Two of 200 steps that another program makes wait decide about a 99th percentile, so ours are
measured in several rounds, and the median of these is told; of the peers one round does.

Small rows are 8 KiB, taken as fast as they come. Read one by one they would be a round trip each;
read in runs they are what the storage sends.

`--plots docs` draws the steps of the first round.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import material
import numpy as np
import pytest
import storage_peers

from slow_storage import SlowStorage, why_not

LATENCY, BANDWIDTH = 0.005, storage_peers.BANDWIDTH
OURS = ["gristmill", "gristmill, no sidecars", "the loop alone"]
PLOTTED = [name for name in storage_peers.STEPS if not name.endswith("full demand")]

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no FUSE here: {why_not()}")


@pytest.fixture
def on_mount(tmp_path: Path, fresh: Any) -> Callable[..., dict[str, Any]]:
    """Measures on a fresh mount of a folder; adds what the storage sent, and in how many reads."""

    def call(function: Callable[..., dict[str, Any]], name: str, folder: Path, *rest: Any) -> Any:
        at = tmp_path / "mount"  # always the same: sidecars go by the shards' paths
        slow = SlowStorage(folder, latency=LATENCY, bandwidth=BANDWIDTH, at=at)
        with slow as mount:
            got = fresh(function, name, mount, *rest)
            got["reads"], got["sent"] = slow.send()
        return got

    return call


STEP_LIMITS = {
    "gristmill": {
        "p99 step / median": {"at_most": 1.1},
        "longest step / median": {"at_most": 2.0},
        "first batch / ideal": {"at_most": 1.5},
    },
    "gristmill, full demand": {"of the bandwidth": {"at_least": 0.9}},
}


def told(got: dict[str, Any]) -> dict[str, Any]:
    """The figures of one round."""
    steps, ideal = got["steps"], got["first_bytes"] / BANDWIDTH + 4 * LATENCY
    median = statistics.median(steps)
    return {
        "seconds": median,
        "first batch, ms": 1e3 * got["first"],
        "first batch / ideal": got["first"] / ideal,
        "p99 step / median": float(np.quantile(steps, 0.99)) / median,
        "longest step / median": max(steps) / median,
        "bytes sent / delivered": got["sent"] / (got["n_bytes"] + got["first_bytes"]),
        "of the bandwidth": got["n_bytes"] / sum(steps) / BANDWIDTH,
        "waited for data, ms": 1e3 * got["waited"],
        "steps": steps,
    }


@pytest.mark.parametrize("job", storage_peers.STEPS)
def test_steps(
    turns: Any, on_mount: Any, size: Any, data: Path, tmp_path: Path, plots_folder: Path | None,
    job: str,
) -> None:  # fmt: skip
    n_shards, n_rows, sizes = size(
        (18, 200, (200_000, 800_000)), (6, 200, (200_000, 800_000)), (2, 80, (2_000, 8_000))
    )
    folder = data / f"slow-{n_shards}"
    for k in range(n_shards):
        path = material.noise_shard(folder / f"slow-{k:02}.arrow", n_rows, n_rows // 2, sizes)
        path.read_bytes()  # into the page cache: what a disk takes is not measured
    n_steps = min(200, n_shards * n_rows // storage_peers.BATCH - 8)

    def prepare(name: str) -> Any:
        measure = functools.partial(on_mount, storage_peers.steps, name, folder, tmp_path / "index")
        if name == "gristmill":
            measure(1)  # writes sidecars
        once = functools.cache(lambda: told(measure(n_steps)))
        return lambda _: told(measure(n_steps)) if name in OURS else once()

    turns(prepare, rounds=size(5, 3, 1), limits=STEP_LIMITS.get(job, {}))
    if plots_folder and job == PLOTTED[-1]:
        import plots

        times = {name: of[0]["steps"] for name, of in turns.times.items()}
        plots.steps(plots_folder / "slow-storage.svg", {name: times[name] for name in PLOTTED})


@pytest.mark.parametrize("job", storage_peers.SMALL_ROWS)
def test_small_rows(
    turns: Any, on_mount: Any, size: Any, data: Path, tmp_path: Path, job: str
) -> None:
    n_shards, n_rows = size((6, 8_000), (2, 8_000), (1, 200))
    folder = data / f"small-{n_shards}"
    for k in range(n_shards):
        material.noise_shard(folder / f"small-{k:02}.arrow", n_rows, n_rows // 2, (6_144, 10_240))

    def prepare(name: str) -> Any:
        measure = functools.partial(on_mount, storage_peers.small_rows, name, folder)
        if name == "file order":
            measure(tmp_path / "index")  # writes sidecars

        def once(_: int) -> dict[str, float]:
            got = measure(tmp_path / "index")
            return {
                "seconds": got["seconds"] / got["rows"],
                "of the bandwidth": got["bytes"] / got["seconds"] / BANDWIDTH,
                "first batch, ms": 1e3 * got["first"],
                "bytes sent / delivered": got["sent"] / got["bytes"],
                "rows a request": got["rows"] / got["reads"],  # which Linux cuts into 128 KiB
            }

        return once

    turns(prepare, rounds=size(3, 1, 1), than="pyarrow, file order")
