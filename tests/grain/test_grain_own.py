"""Grain's own tests, with our source where Grain's would be (`grain_plugin`).

Left out as a whole: tests of `MapDataset`, which no `IterDataset` takes part in.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import probes

HERE = Path(__file__).parent
PACKAGE = "grain._src.python.dataset.transformations"
MODULES = [
    "batch",
    "cache",
    "filter",
    "flatmap",
    "limit",
    "map",
    "mix",
    "packing",
    "packing_concat_then_split",
    "prefetch",
    "rebatch",
    "repeat",
    "shuffle",
    "zip",
]
# Each with its reason: these look at what the substitution takes away, not at what a source does.
EXCEPTIONS = {
    "interleave_stats": "counts the nodes of the MapDataset that is written out here",
    "shards": "needs Grain's private get_shard_states of an interleave of MapDatasets",
    "shard_state": "as above",
    "slice_state": "as above",
    "test_filter_all_elements": "filters a MapDataset, which is done before it is written out",
    "early_break": "watches side effects of a MapDataset's map, which is run while it is written",
    "get_state_doesnt_start": "as above",
    "set_next_index_get_state": "counts calls of a method of Grain's own iterator class",
    "no_prefetch_with_warm_start": "without a buffer Grain's thread and the caller race "
    "for elements, and which comes first is chance",
    "mem_leak": "passes, but takes a minute",
}


# Of those with worker processes. What is left out beside these takes seconds for each worker that
# it starts, and is of the kinds that are run; `test_matrix` and `test_compositions` have more.
WORKER_EXCEPTIONS = {
    "get_state_doesnt_start": "as above",
    "worker_init_fn": "formats log records in a MapDataset's map, which is to be run in the worker",
    "process_kill": "the map that is not to end is run while it is written",
    "options_after_prefetch": "filters a MapDataset, which is done before it is written out",
    "set_next_index_and_get_state": "compares whole states; one that is set by an index has no "
    "fingerprint before the shards are open",
    "10_workers": "takes a minute for ten interpreters to start",
    "test_start_prefetch": "waits for half a minute, for a map that is run while it is written",
    "but_no_read": "waits for half a minute",
}
# They start sixty processes, and have no arrays of JAX.
NO_JAX = HERE / "no_jax"
WORKERS = "ProcessPrefetchIterDatasetTest or set_state_twice or element_spec"


def run(
    tmp_path: Path, files: list[Path], wanted: str, without: dict[str, str], *also: Path
) -> tuple[int, int]:
    """Runs them and returns how many passed, and how many sources were replaced."""
    wanted = f"({wanted})" + "".join(f" and not {name}" for name in without)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "grain_plugin"]
    command += ["-c", os.devnull, "--rootdir", str(tmp_path), "--import-mode=importlib"]
    # Worker processes import the tests' modules by their names.
    command += ["-o", "consider_namespace_packages=true"]
    command += ["--tb=short", "--timeout=300", "-k", wanted, *map(str, files)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((*map(str, also), *probes.FOLDERS)),
        "GRAIN_PLUGIN_FOLDER": str(tmp_path),
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1150,
        check=False,
    )
    ended = f"exit status {done.returncode}\n{done.stderr[-2000:]}\n{done.stdout[-4000:]}"
    assert done.returncode == 0, ended
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    counts = json.loads(done.stdout.split("SUBSTITUTED ")[1].splitlines()[0])
    return int(passed[1]), counts["replaced"]


def files_of(modules: list[str]) -> list[Path]:
    if any(importlib.util.find_spec(f"{PACKAGE}.{module}_test") is None for module in modules):
        pytest.skip("this wheel of Grain comes without its tests")
    folder = Path(importlib.util.find_spec(PACKAGE).submodule_search_locations[0])
    return [folder / f"{module}_test.py" for module in modules]


@pytest.mark.gate
@pytest.mark.timeout(1200)
def test_grains_own_tests(tmp_path: Path) -> None:
    files = [HERE / "grain_interleave.py", *files_of(MODULES)]
    wanted = "(Iter or Interleave) and not _mp and not mp_ and not Process and not Base and not Map"
    passed, replaced = run(tmp_path, files, wanted, EXCEPTIONS)
    assert passed >= 200
    assert replaced >= 300


@pytest.mark.gate
@pytest.mark.timeout(1200)
def test_grains_own_tests_with_worker_processes(tmp_path: Path) -> None:
    files = files_of(["process_prefetch"])
    passed, replaced = run(tmp_path, files, WORKERS, WORKER_EXCEPTIONS, NO_JAX)
    assert passed >= 20
    assert replaced >= 20


@pytest.mark.gate
@pytest.mark.timeout(1200)
def test_grains_own_tests_over_worker_processes_and_threads(tmp_path: Path) -> None:
    """Transformations above `mp_prefetch`, and `multithread_prefetch`."""
    files = files_of(["cache", "repeat", "prefetch"])
    wanted = "MultithreadPrefetchTest or test_mp_prefetch_in_memory or test_repeat_after_mp"
    passed, replaced = run(tmp_path, files, wanted, WORKER_EXCEPTIONS, NO_JAX)
    assert passed >= 25
    assert replaced >= 25
