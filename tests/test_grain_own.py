"""Grain's own tests, with our source where Grain's would be (`grain_plugin`).

Left out as a whole: tests of `MapDataset`, which no `IterDataset` takes part in; and those with
worker processes, which take seconds each to start and have tests of ours in `test_matrix` and
`test_compositions`.
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


@pytest.mark.timeout(400)
def test_grains_own_tests(tmp_path: Path) -> None:
    names = [f"{PACKAGE}.{module}_test" for module in MODULES]
    if any(importlib.util.find_spec(name) is None for name in names):
        pytest.skip("this wheel of Grain comes without its tests")
    folder = Path(importlib.util.find_spec(PACKAGE).submodule_search_locations[0])
    files = [HERE / "grain_interleave.py", *(folder / f"{module}_test.py" for module in MODULES)]
    wanted = "(Iter or Interleave) and not mp and not Process and not Base and not Map"
    wanted += "".join(f" and not {name}" for name in EXCEPTIONS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "grain_plugin"]
    command += ["-c", os.devnull, "--rootdir", str(tmp_path), "--import-mode=importlib"]
    command += ["--tb=short", "--timeout=120", "-k", wanted, *map(str, files)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "GRAIN_PLUGIN_FOLDER": str(tmp_path),
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 200
    replaced = json.loads(done.stdout.split("SUBSTITUTED ")[1].splitlines()[0])["replaced"]
    assert replaced >= 300
