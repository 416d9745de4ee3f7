"""Sentences for idle decode threads: what the readers wait for, or what they are busy with."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import PurePath
from statistics import median

from gristmill.metrics.bursts import in_bursts
from gristmill.metrics.decoders import assemble
from gristmill.metrics.measures import (
    MAJOR,
    MOST_READERS,
    SLOW_REQUESTS,
    SMALL_REQUEST_BYTES,
    SPARED,
    TWICE,
    burst_rows,
    decoders_taken,
    decodes,
    failing_shard,
    figures_of,
    max_open_rows,
    needed_speedup,
    request_seconds,
    share_of,
)
from gristmill.metrics.stats import ShardStats, Stats
from gristmill.metrics.text import count_text, mb_text, ms_text
from gristmill.metrics.verdict import Advice, Case, Verdict


def slow_storage(stats: Stats, slow: ShardStats) -> Verdict:
    """The verdict where reading the shard `slow` takes the time."""
    others = [s for s in stats.shards if s is not slow and s.requests >= SLOW_REQUESTS]
    usual = median(map(request_seconds, others))
    share = share_of(slow.busy_seconds, sum(s.busy_seconds for s in stats.shards))
    name = PurePath(slow.path).name
    text = (
        f"One shard is slow: a request to {name} takes {ms_text(request_seconds(slow))}, usually "
        f"{ms_text(usual)}, and the shard takes {share:.0%} of all reading time. Copy it to other "
        "storage, or check its disk."
    )
    figures = figures_of(
        stats,
        shard=slow.path,
        request_seconds=request_seconds(slow),
        usual_request_seconds=usual,
        reading_share=share,
    )
    n = stats.settings.prefetch_batches
    advice = (
        Advice(
            "files",
            slow.path,
            None,
            "a copy on storage as fast as that of the others",
        ),
        Advice("prefetch_batches", n, n * TWICE, "more rows are in progress while one is slow"),
    )
    return Verdict(Case.SLOW_SHARD, text, figures, advice)


def throttled(stats: Stats, store: str, share: float) -> Verdict:
    """The verdict where `store` has too many requests."""
    n = stats.settings.num_requests
    to = max(n // TWICE, 1)
    text = (
        f"The store throttles: {share:.0%} of the requests to {store} were answered with 429 or "
        f"503, and readers wait before they retry{_idling(stats)}. Fewer requests at a time may "
        f"be faster: try num_requests={to}. With cache_dir=, later epochs send no requests."
    )
    figures = figures_of(stats, store=store, throttled_share=share)
    advice = (
        Advice("num_requests", n, to, "the store refuses fewer requests, so that fewer wait"),
        Advice("cache_dir", None, None, "a folder on a local disk, from which later epochs read"),
    )
    return Verdict(Case.THROTTLED, text, figures, advice)


def failing(stats: Stats) -> Verdict:
    """The verdict where readers wait before they repeat requests that failed."""
    text = (
        f"The storage fails: {_repeated(stats)}{_idling(stats)}. Check the storage: a request "
        "that fails more often than retries= raises an error."
    )
    n, seconds = stats.storage.retries, stats.reader_waits.retries_seconds
    figures, worst = figures_of(stats, retries=n, retry_wait_seconds=seconds), failing_shard(stats)
    if worst is not None:
        figures["shard"] = worst.path
    now = figures.get("shard")
    advice = (Advice("files", now, None, "a copy on storage that does not fail"),)
    return Verdict(Case.FAILING_STORAGE, text, figures, advice)


def mention_retries(verdict: Verdict, stats: Stats) -> Verdict:
    """The verdict, and at its end that requests fail, which is not the bottleneck."""
    text = f"{verdict.text} Besides, requests fail: {_repeated(stats)}."
    return replace(verdict, text=text)


def _repeated(stats: Stats) -> str:
    n, worst = stats.storage.retries, failing_shard(stats)
    of = ""
    if worst is not None:
        name = PurePath(worst.path).name
        of = f" to {name}" if worst.retries == n else f", {worst.retries:,} of them to {name}"
    seconds = stats.reader_waits.retries_seconds
    repeated = f"readers retried {count_text(n, 'request')}{of}"
    return f"{repeated}, and waited {seconds:.1f} s in all between tries"


def idle(stats: Stats) -> Verdict:
    """The verdict where the decode threads idle, by what the readers do."""
    waits, alive = stats.reader_waits, stats.readers.alive_seconds
    look_ahead = share_of(waits.look_ahead_seconds, alive)
    budget = share_of(waits.memory_budget_seconds, alive)
    working = max(1 - look_ahead - budget, 0.0)
    if budget >= max(look_ahead, working):
        return _memory(stats, budget)
    if look_ahead >= working:
        return _look_ahead(stats, look_ahead)
    reading, planning = stats.stages.read.busy_seconds, stats.stages.plan.busy_seconds
    if planning > reading:
        share = share_of(planning, planning + reading)
        return assemble(stats, "loading columns and taking rows out of them", share)
    return _storage(stats, share_of(reading, alive))


def _idling(stats: Stats) -> str:
    idle = f"{1 - decoders_taken(stats):.0%}"
    return f", while the decode threads idle {idle}" if decodes(stats) else ""


def _memory(stats: Stats, share: float) -> Verdict:
    settings = stats.settings
    to = settings.memory_budget_bytes * TWICE
    text = (
        f"Bottleneck: the memory budget of {mb_text(settings.memory_budget_bytes)}. Readers wait "
        f"for memory {share:.0%} of the time{_idling(stats)}. Try memory_budget={to}; batches "
        "that the loop keeps count too."
    )
    figures = figures_of(
        stats, budget_wait_share=share, memory_budget_bytes=settings.memory_budget_bytes
    )
    batch_size = settings.batch_size
    advice = [Advice("memory_budget", settings.memory_budget_bytes, to, "room for more rows")]
    if batch_size is not None and batch_size > 1:
        why = "more of the smaller batches fit into the same memory"
        advice.append(Advice("batch_size", batch_size, batch_size // 2, why))
    return Verdict(Case.MEMORY_BUDGET, text, figures, tuple(advice))


def _look_ahead(stats: Stats, share: float) -> Verdict:
    burst, n = burst_rows(stats), stats.settings.prefetch_batches
    if burst is not None and burst > max_open_rows(stats):
        return in_bursts(stats, burst, share)
    to = max(n * TWICE, 4)
    if not decodes(stats):
        # Each reader makes a batch at a time: more of them than CPUs make no more.
        to = min(to, stats.settings.usable_cpus)
    text = (
        f"Bottleneck: the readahead. Readers wait {share:.0%} of the time because "
        f"prefetch_batches={n} allows no more elements in progress{_idling(stats)}."
    )
    figures = figures_of(stats, look_ahead_wait_share=share, prefetch_batches=n)
    if to <= n:
        text += f" All {count_text(stats.settings.usable_cpus, 'CPU')} have a batch to work on."
        return Verdict(Case.LOOK_AHEAD, text, figures)
    text += f" Try prefetch_batches={to}."
    why = "rows of later batches are read and decoded while a slow row delays the first"
    return Verdict(Case.LOOK_AHEAD, text, figures, (Advice("prefetch_batches", n, to, why),))


def _storage(stats: Stats, share: float) -> Verdict:
    storage, settings = stats.storage, stats.settings
    request = storage.busy_seconds / max(storage.requests, 1)
    speed = storage.bytes / max(stats.elapsed_seconds, 1e-9)
    mean_bytes = storage.bytes / max(storage.requests, 1)
    if storage.latency_seconds is None:
        is_latency = mean_bytes < SMALL_REQUEST_BYTES
    else:
        is_latency = storage.latency_seconds >= MAJOR * request
    figures = figures_of(
        stats,
        reading_share=share,
        request_seconds=request,
        request_bytes=mean_bytes,
        bytes_per_second=speed,
        latency_seconds=storage.latency_seconds or 0.0,
        seconds_per_byte=storage.seconds_per_byte or 0.0,
    )
    n = settings.num_requests
    near = Advice("files", None, None, "a copy on local disk is not limited by the network")
    busy = f"{count_text(n, 'reader')} spend {share:.0%} of their time"
    doing = f"{busy} in requests of {ms_text(request)}"
    if is_latency:
        to = min(max(n * TWICE, math.ceil(n * needed_speedup(stats))), MOST_READERS)
        text = (
            f"Bottleneck: storage latency. {doing}, whatever their size "
            f"({mean_bytes / 1e3:,.0f} kB on average). More requests at a time hide it: try "
            f"num_requests={to}."
        )
        why = "each reader has one request in progress"
        advice = (Advice("num_requests", n, to, why), near)
        return _with_index(Verdict(Case.STORAGE_LATENCY, text, figures, advice), stats)
    text = (
        f"Bottleneck: storage bandwidth. {mb_text(speed)}/s arrive, and {doing}. More "
        "threads would not help; a copy of the shards on local disk would."
    )
    return _with_index(Verdict(Case.STORAGE_BANDWIDTH, text, figures, (near,)), stats)


def _with_index(verdict: Verdict, stats: Stats) -> Verdict:
    """The verdict, with what audio indexes would spare, if that is much."""
    share = share_of(stats.storage.spare_bytes, stats.storage.bytes)
    if share < SPARED:
        return verdict
    spare = f"{share:.0%} of the bytes read are outside the crops, since no audio index has these"
    if stats.settings.audio_index:
        text = f"{spare} recordings yet: build it first, with gristmill index --audio SHARDS."
        advice = Advice("files", None, None, "with gristmill index --audio only crops are read")
    else:
        text = f"{spare} recordings: try ReadOptions(audio_index=True), with an index_dir for it."
        why = "recordings that were read once are not read whole again"
        advice = Advice("audio_index", False, True, why)
    return replace(
        verdict,
        text=f"{verdict.text} {text}",
        figures={**verdict.figures, "spare_share": share},
        advice=(advice, *verdict.advice),
    )
