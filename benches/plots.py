"""The plots in `docs`, as small SVG files that are the same for the same figures."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "gristmill", "font.size": 9})

from matplotlib import pyplot as plt  # noqa: E402 # after the choice of what it draws with


def save(path: Path) -> None:
    plt.tight_layout()
    plt.savefig(path, metadata={"Date": None})
    plt.close()


def steps(path: Path, times: dict[str, list[float]]) -> None:
    """The seconds of steps one after another, by who fed them."""
    plt.figure(figsize=(8, 3.4))
    for name, values in times.items():
        plt.semilogy(values, label=name, linewidth=1)
    plt.xlabel("step")
    plt.ylabel("seconds")
    plt.ylim(0.02, 8)
    ticks = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
    plt.yticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    plt.yticks([], minor=True)
    plt.grid(axis="y", alpha=0.4)
    plt.legend(ncols=3, fontsize=7, loc="upper right")
    save(path)


def curves(path: Path, xs: list[int], curves: dict[str, list[float]]) -> None:
    """Shuffle quality by window."""
    plt.figure(figsize=(6.4, 3.6))
    for name, values in curves.items():
        plt.semilogx(xs, values, label=name, marker="o", markersize=3, base=2)
    plt.xticks(xs, map(str, xs), minor=False)
    plt.xlabel("rows in window")
    plt.ylabel("score (1 is ideal)")
    plt.ylim(0, 1.02)
    plt.grid(alpha=0.4)
    plt.legend(loc="upper left", bbox_to_anchor=(0, 0.9))
    save(path)
