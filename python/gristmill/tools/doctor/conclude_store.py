"""What follows from the measurements of a store behind URLs. Pure functions, as in `conclude`."""

from __future__ import annotations

from gristmill.metrics.text import bytes_text
from gristmill.tools.doctor.loops import ReadTrial
from gristmill.tools.doctor.measured import Measured
from gristmill.tools.doctor.store import StoreTrials

THROTTLES = 0.01
"""A store that refuses this part of the requests throttles: now and then one is refused by any."""

_MB = 1e6


def throttled_share(trial: ReadTrial) -> float:
    """The part of the requests that the store refused with 429 or 503."""
    return trial.throttled / max(trial.reads + trial.throttled + trial.failed, 1)


def advised_requests(measured: Measured) -> int | None:
    """The most requests in flight that the store does not refuse; `None` where it refuses none."""
    if not any(throttled_share(trial) >= THROTTLES for trial in measured.reads):
        return None
    calm = [trial.threads for trial in measured.reads if throttled_share(trial) < THROTTLES]
    return max(calm, default=1)


def on_store(measured: Measured, store: StoreTrials, *, rises: bool) -> list[str]:
    """What the store gives: `rises` says whether more requests in flight would get more."""
    by_requests = measured.by_threads
    best = max(by_requests, key=by_requests.__getitem__)
    # Where one connection gets as much, the store has no more to give.
    rises = rises and best == max(by_requests) and by_requests[best] > store.one.bytes_per_second
    more = ", and more would get more" if rises else ""
    gives = (
        f"The store answers a small request after {1e3 * store.small.p50_seconds:,.1f} ms; one "
        f"connection gets {store.one.bytes_per_second / _MB:,.1f} MB/s, {best} requests in flight "
        f"get {by_requests[best] / _MB:,.1f} MB/s together{more}."
    )
    sentences = [gives]
    worst = max(measured.reads, key=throttled_share)
    if (share := throttled_share(worst)) >= THROTTLES:
        sentences.append(
            f"The store throttles: it answered {share:.0%} of the requests with 429 or 503 while "
            f"{worst.threads} were in flight. More of them would be no faster; it may have a limit "
            "that can be raised, or others ask it too."
        )
    failed = sum(trial.failed for trial in measured.reads)
    if failed:
        sentences.append(
            f"{failed:,} requests failed by broken connections, time-outs or errors of the server; "
            "training would repeat them."
        )
    if measured.pipeline_rows_per_second > 0:
        sentences.append(
            f"One process with native threads: {measured.pipeline_rows_per_second:,.0f} rows/s."
        )
    return sentences


def on_a_cache(measured: Measured, *, is_limit: bool, helps: bool) -> list[str]:
    """Whether to keep the shards near."""
    if helps:
        size = bytes_text(measured.dataset_bytes)
        text = (
            f"A cache on a local disk (cache_dir=, {size} for all of it) would pay: it keeps what "
            "was read. gristmill scan --cache-dir fills it ahead, with all that training asks for."
        )
        return [text]
    return [] if is_limit else ["A cache would not help: the store is not the bottleneck."]
