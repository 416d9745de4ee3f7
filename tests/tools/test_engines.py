"""The recipes of `docs/engines.md` run as they stand, and a worker is killed in each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gristmill as gm
import scan_material

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## (\w+)\n.*?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECIPES = {
    name.lower(): code for name, code in SECTION.findall((ROOT / "docs" / "engines.md").read_text())
}
END = '    print("found", total.rows, total.damaged, total.undecodable, len(total.quarantine))\n'


@pytest.mark.gate
@pytest.mark.parametrize(
    ("engine", "module"),
    [("ray", "ray"), ("dask", "distributed"), ("submitit", "submitit")],
)
def test_recipe(engine: str, module: str, tmp_path: Path) -> None:
    pytest.importorskip(module)
    (tmp_path / "shards").mkdir()
    whole = gm.scan(scan_material.write(tmp_path / "shards"))
    script = tmp_path / "recipe.py"
    install = "import killed_parts\nkilled_parts.install()\n"
    # Once for the process that makes the parts; workers that import this file have no use for it.
    code = RECIPES[engine].replace(
        'if __name__ == "__main__":\n',
        f'if __name__ == "__main__":\n    {"; ".join(install.splitlines())}\n',
    )
    script.write_text(code + END)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support")}
    # Engines say much, and some of it to a server.
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    assert (tmp_path / "killed").exists()
    found = f"found {whole.rows} {whole.damaged} {whole.undecodable} 4"
    assert found in done.stdout, done.stdout[-3000:]
    merged = gm.merge_scans(tmp_path / "bad.jsonl")
    assert merged.findings == whole.findings
