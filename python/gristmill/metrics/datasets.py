"""Sentences about the data set of a mixture that takes the most time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from gristmill.metrics.measures import share_of
from gristmill.metrics.stats import DatasetStats, Stats
from gristmill.metrics.text import count_text
from gristmill.metrics.verdict import Case, Verdict

_DECODING = frozenset((Case.DECODE, Case.RESAMPLE, Case.CPU_QUOTA, Case.OVERSUBSCRIBED))
_READING = frozenset(
    (
        Case.STORAGE_BANDWIDTH,
        Case.STORAGE_LATENCY,
        Case.SLOW_SHARD,
        Case.THROTTLED,
        Case.MEMORY_BUDGET,
        Case.LOOK_AHEAD,
    )
)


def name_dataset(verdict: Verdict, stats: Stats) -> Verdict:
    """The verdict, with the data set of a mixture that takes most of the time in question."""
    datasets = stats.datasets
    if len(datasets) < 2:
        return verdict
    if verdict.case in _DECODING:
        return _named(verdict, datasets, "decoding", lambda one: one.decode_busy_seconds)
    if verdict.case in _READING:
        return _named(verdict, datasets, "reading", lambda one: one.busy_seconds)
    return verdict


def _named(
    verdict: Verdict,
    datasets: tuple[DatasetStats, ...],
    what: str,
    seconds: Callable[[DatasetStats], float],
) -> Verdict:
    most = max(datasets, key=seconds)
    share = share_of(seconds(most), sum(map(seconds, datasets)))
    rows = share_of(most.decoded_rows, sum(one.decoded_rows for one in datasets))
    for_rows = f" for {rows:.0%} of the rows" if rows else ""
    others = f" and {count_text(most.shards - 1, 'other')}" if most.shards > 1 else ""
    text = (
        f"{verdict.text} Data set {most.number} of the mixture "
        f"({PurePath(most.first_path).name}{others}) takes {share:.0%} of the {what}{for_rows}."
    )
    figures = {**verdict.figures, "dataset": most.number, "dataset_share": share}
    return replace(verdict, text=text, figures=figures)
