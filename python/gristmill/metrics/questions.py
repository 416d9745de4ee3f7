"""The questions that lead to a verdict, in their order."""

from __future__ import annotations

from gristmill.metrics.damaged_shard import damaged_shard, lead_with_bad_rows, mention_damaged_shard
from gristmill.metrics.datasets import name_dataset
from gristmill.metrics.decoders import saturated
from gristmill.metrics.measures import (
    BAD_WORK,
    CONTENDED,
    DELIVERING,
    ENOUGH_ELEMENTS,
    ENOUGH_SECONDS,
    KEEPS_UP,
    MANY_BAD,
    QUEUED,
    SATURATED,
    bad_shard,
    bad_share,
    cpu_queued,
    decoders_busy,
    decoders_taken,
    decodes,
    figures_of,
    share_of,
    slow_shard,
    throttling_store,
    waits_for_retries,
)
from gristmill.metrics.readers import failing, idle, mention_retries, slow_storage, throttled
from gristmill.metrics.stats import Stats
from gristmill.metrics.text import count_text, ms_text, rate_text
from gristmill.metrics.verdict import Advice, Case, Verdict


def decide(stats: Stats) -> Verdict:
    """The verdict on these figures. Pure: the same figures give the same verdict.

    The questions are asked in this order, and the first yes decides: is it too early; is making
    elements the bottleneck; does the loop wait at all; do the bad rows of one shard take the decode
    threads' time; are these saturated, and then by what; does a store throttle; do readers wait to
    repeat requests that failed; is one shard slow; what are the readers doing. A damaged shard that
    is not the bottleneck is mentioned last, as are requests that fail, and a large share of bad
    rows first.
    """
    if stats.elements < ENOUGH_ELEMENTS or stats.loop_seconds < ENOUGH_SECONDS:
        return _too_early(stats)
    verdict, bad = name_dataset(_bottleneck(stats), stats), bad_shard(stats)
    paused = share_of(stats.reader_waits.retries_seconds, stats.readers.alive_seconds)
    if paused >= KEEPS_UP and verdict.case not in {Case.FAILING_STORAGE, Case.THROTTLED}:
        verdict = mention_retries(verdict, stats)
    if bad is not None and verdict.case is not Case.BAD_SHARD:
        verdict = mention_damaged_shard(verdict, stats, bad)
    return lead_with_bad_rows(verdict, stats) if bad_share(stats) > MANY_BAD else verdict


def _bottleneck(stats: Stats) -> Verdict:
    """What limits the loop."""
    loop = stats.loop_seconds
    if stats.stages.deliver.busy_seconds >= DELIVERING * loop:
        return _python(stats)
    if stats.waiting_share < KEEPS_UP:
        return _consumer(stats)
    bad = bad_shard(stats)
    if bad is not None and bad.bad_busy_seconds >= BAD_WORK * stats.decoders.alive_seconds:
        return damaged_shard(stats, bad)
    taken = decoders_taken(stats)
    if taken >= SATURATED or (taken >= CONTENDED and cpu_queued(stats) >= QUEUED):
        return saturated(stats)
    throttling = throttling_store(stats)
    if throttling is not None:
        return throttled(stats, *throttling)
    if waits_for_retries(stats):
        return failing(stats)
    slow = slow_shard(stats)
    if slow is not None:
        return slow_storage(stats, slow)
    return idle(stats)


def _too_early(stats: Stats) -> Verdict:
    missing: list[str] = []
    if stats.elements < ENOUGH_ELEMENTS:
        missing.append(f"{ENOUGH_ELEMENTS} elements")
    if stats.loop_seconds < ENOUGH_SECONDS:
        missing.append(f"{ENOUGH_SECONDS:.0f} s")
    text = (
        f"Too early to say: {count_text(stats.elements, 'element')} in "
        f"{ms_text(stats.loop_seconds)} of the loop; ask again after {' and '.join(missing)}."
    )
    return Verdict(
        Case.TOO_EARLY,
        text,
        {"elements": stats.elements, "loop_seconds": stats.loop_seconds},
    )


def _python(stats: Stats) -> Verdict:
    share = stats.stages.deliver.busy_seconds / stats.loop_seconds
    objects = stats.settings.object_columns
    rest = tuple(name for name in stats.settings.columns if name not in objects)
    text = (
        f"Bottleneck: Python. Making elements takes {share:.0%} of the loop's time"
        + (f", and the rows of {', '.join(objects)} become Python objects" if objects else "")
        + "."
    )
    advice: list[Advice] = []
    if objects and rest:
        text += f" Leave out what the model does not need: columns={list(rest)}."
        why = "numbers become one array; each string or list becomes an object"
        advice.append(Advice("columns", stats.settings.columns, rest, why))
    if stats.settings.batch_size is None:
        text += " Batches cost less than single rows: set batch_size."
        advice.append(Advice("batch_size", None, 64, "one element for many rows"))
    return Verdict(Case.PYTHON, text, figures_of(stats, delivery_share=share), tuple(advice))


def _consumer(stats: Stats) -> Verdict:
    busy = f" Decode threads are {decoders_busy(stats):.0%} busy." if decodes(stats) else ""
    content = [
        f"{rate_text(rate)} {unit}"
        for rate, unit in (
            (stats.audio_seconds_per_second, "s of audio/s"),
            (stats.tokens_per_second, "tokens/s"),
        )
        if rate is not None
    ]
    of_these = f" ({', '.join(content)})" if content else ""
    text = (
        f"Input is not the bottleneck: training consumes {rate_text(stats.rows_per_second)} "
        f"rows/s{of_these} and waits {stats.waiting_share:.1%} of the time for data.{busy}"
    )
    return Verdict(Case.CONSUMER, text, figures_of(stats))
