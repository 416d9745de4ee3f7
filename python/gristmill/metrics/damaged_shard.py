"""Sentences about a shard with far more bad rows than the others."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import PurePath

from gristmill.metrics.measures import bad_share, figures_of, share_of, usual_bad_share
from gristmill.metrics.stats import ShardStats, Stats
from gristmill.metrics.verdict import Advice, Case, Verdict

_FILE = "bad.jsonl"


def damaged_shard(stats: Stats, bad: ShardStats) -> Verdict:
    """The verdict where the bad rows of `bad` take the decode threads' time."""
    work = share_of(bad.bad_busy_seconds, stats.decoders.alive_seconds)
    text = (
        f"One shard is damaged: {_what(stats, bad)}, and they take {work:.0%} of the decode "
        f"threads' time. {_remedy(bad)}"
    )
    figures = figures_of(stats, **_figures(stats, bad), bad_work_share=work)
    return Verdict(Case.BAD_SHARD, text, figures, _advice(bad))


def mention_damaged_shard(verdict: Verdict, stats: Stats, bad: ShardStats) -> Verdict:
    """A verdict on something else, with the damaged shard at its end."""
    text = f"{verdict.text} Besides, one shard is damaged: {_what(stats, bad)}. {_remedy(bad)}"
    figures = {**verdict.figures, **_figures(stats, bad)}
    # A verdict on a slow shard keeps the name of that shard.
    figures = {**figures, "shard": verdict.figures.get("shard", bad.path)}
    return replace(verdict, text=text, figures=figures, advice=(*verdict.advice, *_advice(bad)))


def lead_with_bad_rows(verdict: Verdict, stats: Stats) -> Verdict:
    """The verdict, after the share of rows that cannot be used."""
    bad = sum(shard.bad_rows for shard in stats.shards)
    rows = sum(shard.decoded_rows for shard in stats.shards)
    text = (
        f"{_percent(bad_share(stats))} of the rows cannot be used ({bad:,} of {rows:,} so far): "
        f"see bad_rows() of the iterator. {verdict.text}"
    )
    figures = {"all_bad_rows": bad, "all_bad_share": bad_share(stats), **verdict.figures}
    return replace(verdict, text=text, figures=figures)


def _what(stats: Stats, bad: ShardStats) -> str:
    share, usual = share_of(bad.bad_rows, bad.decoded_rows), usual_bad_share(stats, bad)
    return (
        f"{share:.0%} of the rows of {PurePath(bad.path).name} cannot be used ({bad.bad_rows:,} of "
        f"{bad.decoded_rows:,} so far; {_percent(usual)} in the other shards)"
    )


def _percent(share: float) -> str:
    return f"{share:.2g}%" if 0 < (share := 100 * share) < 1 else f"{share:.0f}%"


def _remedy(bad: ShardStats) -> str:
    return (
        f'Find them all with "{_scan(bad)}" and exclude them with '
        f'exclude="{_FILE}", or write the shard again.'
    )


def _scan(bad: ShardStats) -> str:
    return f"gristmill scan {shlex.quote(bad.path)} --quarantine {_FILE}"


def _advice(bad: ShardStats) -> tuple[Advice, ...]:
    why = (
        f"rows that {_scan(bad)} finds cost nothing once they are excluded; the order "
        "changes, so states of this run no longer fit"
    )
    again = "an intact copy, or the shard written again"
    return (Advice("exclude", None, _FILE, why), Advice("files", bad.path, None, again))


def _figures(stats: Stats, bad: ShardStats) -> dict[str, float | str]:
    return {
        "shard": bad.path,
        "bad_rows": bad.bad_rows,
        "decoded_rows": bad.decoded_rows,
        "bad_share": share_of(bad.bad_rows, bad.decoded_rows),
        "usual_bad_share": usual_bad_share(stats, bad),
    }
