"""Every block of Python in the documentation compiles, and runs on shards that the test makes.

A block that cannot run here has a line before it that says why: `<!-- not run: needs a bucket -->`.
"""

from __future__ import annotations

import ast
import json
import logging
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
from shards import AUDIO
from signals import encode, synthetic

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
N_ROWS = 264
RATE = 8_000

BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n)?(?P<indent> *)```python\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


def blocks(page: Path) -> Iterator[tuple[int, str, str | None]]:
    """The line, the code and the reason not to run it of each block."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text[: match.start("code")].count("\n") + 1
        # Three dots at the end stand for more options.
        code = textwrap.dedent(match["code"]).replace(", ...)", ")")
        yield line, code, match["why"]


def with_blocks() -> list[str]:
    return [str(page.relative_to(ROOT)) for page in PAGES if any(blocks(page))]


def test_blocks_are_found() -> None:
    found = {page: len(list(blocks(ROOT / page))) for page in with_blocks()}
    fences = {page: (ROOT / page).read_text().count("```python\n") for page in found}
    assert found == fences
    assert len(found) > 10


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every path of the documentation exists."""
    folder = tmp_path_factory.mktemp("docs")
    for name in (
        "shards/part",
        "cache/train",
        "cache/valid",
        "birds/train",
        "birds/test",
        "tokens/a",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        for k in range(2):
            _write(folder / f"{name}-{k}.arrow", range(k, N_ROWS, 2))
    for name in ("field", "xc", "saved", "train"):
        (folder / name).mkdir()
        _write(folder / name / "a.arrow", range(N_ROWS))
    _write(folder / "birds-0.arrow", range(N_ROWS))
    for k in range(4):
        species = folder / "recordings" / ("owl", "wren")[k % 2]
        species.mkdir(parents=True, exist_ok=True)
        (species / f"{k}.flac").write_bytes(_sound(k))
    return folder


def _sound(k: int) -> bytes:
    return encode(synthetic((2, 2, 6, 10)[k], RATE, 1, k), RATE, "flac16")


def _write(path: Path, rows: range) -> None:
    sounds = [_sound(k) for k in range(4)]
    features = {
        "audio": {"_type": "Audio"},
        "label": {"names": ["wren", "crow"], "_type": "ClassLabel"},
        "labels": {"feature": {"names": ["wren", "crow"], "_type": "ClassLabel"}, "_type": "List"},
    }
    features["ebird_code_multilabel"] = features["labels"]
    features["event_labels"] = features["labels"]
    columns: dict[str, pa.Array] = {
        "audio": pa.array([{"bytes": sounds[k % 4], "path": f"{k}.flac"} for k in rows], AUDIO),
        "label": pa.array([k % 2 for k in rows]),
        "species": pa.array([("wren", "crow")[k % 2] for k in rows]),
        "recordist": pa.array([f"person {k % 30}" for k in rows]),
        "quality": pa.array(["ABC"[k % 3] for k in rows]),
        "length": pa.array([float(k % 9) for k in rows]),
        "weight": pa.array([1.0 + k % 3 for k in rows]),
        "count": pa.array(list(rows)),
        "tokens": pa.array([list(range(16))] * len(rows), pa.list_(pa.int32())),
        "tags": pa.array([list(range(k % 3)) for k in rows], pa.list_(pa.int32())),
        "labels": pa.array([[k % 2] for k in rows], pa.list_(pa.int64())),
        "ebird_code_multilabel": pa.array([[k % 2] for k in rows], pa.list_(pa.int64())),
        "detected_events": pa.array([[[0.5, 1.0]]] * len(rows), pa.list_(pa.list_(pa.float64()))),
        "event_labels": pa.array([[k % 2] for k in rows], pa.list_(pa.int64())),
        "place": pa.array([{"lat": 60.0 + k, "lon": 1.0} for k in rows]),
    }
    table = pa.table(columns)
    info = {"info": {"features": features}}
    table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, 12)


def prelude() -> dict[str, Any]:
    """What pages take for granted: the imports, and names that their sentences introduce."""
    import datasets
    import grain
    import jax

    audio = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(seconds=1))
    columns = ["audio", "label", "detected_events", "event_labels"]
    dataset = gm.ArrowIterDataset(
        "birds-*.arrow", columns=columns, audio=audio, batch_size=8, epochs=None, with_crop=True
    )
    rows = gm.ArrowIterDataset("birds-*.arrow", columns=["audio", "label"], audio=audio)
    same: Callable[[Any], Any] = lambda audio: audio  # noqa: E731
    return {
        "__name__": "docs",
        "archive": rows,
        "batch": next(iter(dataset)),
        "batches": iter(dataset),
        "data": _sound(0),
        "dataset": dataset,
        "ds": datasets.load_dataset(
            "arrow", data_files="birds-0.arrow", split="train", cache_dir="hf"
        ),
        "datasets": datasets,
        "field": rows,
        "gm": gm,
        "grain": grain,
        "islice": islice,
        "jax": jax,
        "labels": np.arange(N_ROWS) % 4,
        "logging": logging,
        "mesh": jax.make_mesh((1,), ("data",)),
        "model": same,
        "my_decoder": same,
        "n_epochs": 2,
        "n_steps": 2,
        "np": np,
        "params": {},
        "paths": ["birds-0.arrow"],
        "resuming": False,
        "state_file": Path("state.json"),
        "train_step": lambda *given: ({}, 0.0),
        "weights": [1.0] * N_ROWS,
        "xeno_canto": rows,
    }


class _Few(ast.NodeTransformer):
    """Loops take three steps: a stream of rows may have no end."""

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        few = ast.Call(ast.Name("islice", ast.Load()), [node.iter, ast.Constant(3)], [])
        node.iter = few
        return ast.fix_missing_locations(node)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", with_blocks())
def test_blocks_run(name: str, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    monkeypatch.setenv("GRISTMILL_CACHE", str(world / "gristmill"))
    names = prelude()
    for line, code, why in blocks(ROOT / name):
        compiled = compile(_Few().visit(ast.parse(code)), f"{name}:{line}", "exec")
        if why is None:
            exec(compiled, names)


@pytest.mark.gate
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    pytest.importorskip("sphinx_copybutton")
    site = ROOT / "scripts" / "site"
    source = tmp_path / "source"
    for command in (
        [str(site / "stage.py"), str(source)],
        [
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-n",
            "-c",
            str(site),
            str(source),
            str(tmp_path / "html"),
        ],
    ):
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "gristmill.ArrowIterDataset" in (tmp_path / "html" / "api" / "datasets.html").read_text()


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


def test_every_name_has_a_place_in_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts" / "site")
    import api

    listed = [name for _, _, names in api.GROUPS.values() for name in names]
    assert sorted(listed) == sorted(set(gm.__all__) - {"__version__"})


def test_the_readme_works_where_it_is_shown_alone() -> None:
    """As on PyPI: every link is absolute, and those into the repository lead to what is there."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    paths = [
        match[1]
        for link in links
        if (
            match := re.search(r"gristmill-project/gristmill/(?:(?:blob|tree)/)?main/([^#]+)", link)
        )
    ]
    assert len(paths) > 8
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_readme_has_the_figures_of_the_benchmarks() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert re.search(r"\| Grain, memory map[^|]*\| 7\.2 \([^)]*\); 5\.9 ", benchmarks)
    assert re.search(r"\| whole files in Grain[^|]*\| 76 ", benchmarks)
    assert re.search(r"\| `datasets` streaming[^|]*\|[^|]*\|[^|]*\| 12\.1 ", benchmarks)
    assert "1,817 crops/s" in benchmarks
    assert "0.54 % of its time" in benchmarks
    shown = ("**7.2x**", "5.9x", "**76x**", "**12x**", "**0.54 %**", "1,817 crops/s")
    assert [figure for figure in shown if figure not in readme] == []


def test_the_plot_has_the_figures_of_the_benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    import plot_peers

    local, remote = plot_peers.figures((ROOT / "docs" / "benchmarks.md").read_text("utf-8"))
    drawn = (ROOT / "docs" / "peers.svg").read_text("utf-8")
    for rate in (
        *(f"{rate:.3g} %" for rate in local.values()),
        *map("{:,.0f}".format, remote.values()),
    ):
        assert f">{rate}<" in drawn


def test_troubleshooting_quotes_messages_that_exist() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r'^### "(.+)"$', page, re.MULTILINE)
    assert len(quoted) > 15
    sources = "".join(
        path.read_text(encoding="utf-8")
        for folder, kind in (("python/gristmill", "*.py"), ("rust", "*.rs"))
        for path in sorted((ROOT / folder).rglob(kind))
    )
    # Literals run over lines in both languages.
    sources = re.sub(r'\\\n\s*|"\s*\n\s*f?"', "", sources)
    assert [words for words in quoted if words not in sources] == []
