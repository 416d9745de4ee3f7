"""The README's plot: `python benches/plot_peers.py [FILE]`.

Its figures are those of the tables in `docs/benchmarks.md`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import plots
from matplotlib import pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
OURS, THEIRS = "#b45309", "#94a3b8"


def figures(text: str) -> tuple[dict[str, float], dict[str, float]]:
    """Rows/s from a server, and the local crop job's rate beside that of Gristmill, in percent."""
    remote = {
        name.split(",")[0]: float(rate.replace(",", ""))
        for name, rate in re.findall(
            r"^\| ((?:Gristmill, audio index|`datasets`|Mosaic|LitData)[^|]*) \| ([\d,]+) \|",
            text,
            re.MULTILINE,
        )
    }
    crop = text.partition("## The crop job")[2].partition("\n## ")[0]
    local = {"Gristmill": 100.0}
    for name, start in (
        ("Grain, mmap + seek + soxr", r"\| Grain, memory map"),
        ("Grain, whole files", r"\| whole files in Grain"),
    ):
        (ratio,) = re.findall(rf"^{start}[^|]*\| ([\d.]+) \(", crop, re.MULTILINE)
        local[name] = 100 / float(ratio)
    return local, {name.replace("`", ""): rate for name, rate in remote.items()}


def draw(path: Path) -> None:
    """Two panels of bars."""
    local, remote = figures((DOCS / "benchmarks.md").read_text(encoding="utf-8"))
    _, (left, right) = plt.subplots(1, 2, figsize=(8.4, 2.2))
    _bars(left, local, "Random 5 s crops, local files: % of Gristmill's rate", "{:.3g} %")
    _bars(
        right,
        dict(sorted(remote.items(), key=lambda one: -one[1])),
        "From a server, rows/s",
        "{:,.0f}",
    )
    plots.save(path)


def _bars(axes: plt.Axes, rates: dict[str, float], title: str, shown: str) -> None:
    names = list(rates)
    bars = axes.barh(names, list(rates.values()), color=[OURS, *[THEIRS] * (len(names) - 1)])
    axes.bar_label(bars, [shown.format(rate) for rate in rates.values()], padding=3, fontsize=8)
    axes.set_title(title, fontsize=9, loc="left")
    axes.invert_yaxis()
    axes.set_xlim(0, max(rates.values()) * 1.2)
    axes.set_xticks([])
    axes.tick_params(left=False)
    for side in axes.spines.values():
        side.set_visible(False)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "peers.svg")
