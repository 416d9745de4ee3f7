"""Measures of a snapshot, and the thresholds that they are compared with.

Every threshold is a constant here with its reason.
"""

from __future__ import annotations

import math
from collections import Counter
from statistics import median

from gristmill import _core
from gristmill.metrics.stats import ShardStats, Stats

ENOUGH_ELEMENTS = 5
"""Elements before anything is said: fewer are the ramp-up."""
ENOUGH_SECONDS = 1.0
"""Seconds of the consumer's loop before anything is said, for the same reason."""
KEEPS_UP = 0.05
"""A loop that waits for a smaller part of its time would gain less by any change of the input."""
DELIVERING = 0.25
"""A larger part of the loop for making elements is a bottleneck even if the rest is the step: it is
the one part of the input that the step cannot overlap."""
SATURATED = 0.8
"""Decode threads that work a larger part of their time are the bottleneck; the rest is the overhead
of handing rows over when they arrive in bursts."""
QUEUED = 0.25
"""Share of the time in which decode threads could run and had no CPU. The consumer's own thread
takes less than a quarter from them when each CPU has one decode thread and some have two."""
CONTENDED = 0.5
"""With that much waiting for CPUs, decode threads need not be saturated: one that has no CPU delays
the row that all wait for, and the readahead fills up behind it."""
SHARED = 0.05
"""A smaller part of the decode threads' time for other iterators, while rows were ready here, is
not mentioned: as much waiting counts as keeping up."""
MAJOR = 0.5
"""A part of the decode threads' work that is more than half of it gives the case its name."""
SLOW_FACTOR = 4.0
"""A shard this many times slower than the median one, by request and by byte, is not chance."""
SLOW_SHARE = 0.25
"""And it matters when it takes this part of all reading time."""
SLOW_REQUESTS = 3
"""Requests to a shard before its mean is worth comparing."""
THROTTLED = 0.05
"""A store that refuses a smaller part of the requests is busy at times, as all are."""
THROTTLED_REQUESTS = 20
"""Requests to a store before its share is worth telling."""
BAD_ROWS = 5
"""Bad rows of a shard before it is considered: any large collection has some."""
BAD_SHARE = 0.05
"""A shard whose share of bad rows may be smaller is not called damaged: it holds a few bad files.
One that was cut or overwritten loses far more."""
BAD_FACTOR = 4.0
"""Its share must be this many times that of the other shards together, as for slow ones: where all
are alike, no shard is to blame."""
SURE_SIGMAS = 3.0
"""Shares are taken at the lower end of an interval of this many standard deviations: of a hundred
shards that are alike, hardly one is blamed by chance, however few rows were seen."""
MANY_BAD = 0.1
"""A larger share of bad rows in all is told first: training on what is left of the data, or on
masked zeros, matters more than speed."""
BAD_WORK = 0.2
"""Bad rows of a shard that take this part of the decode threads' time are the bottleneck: without
them the same threads would do a quarter more."""
SPARED = 0.3
"""A smaller part of the bytes that audio indexes would spare is not mentioned: a copy of the
shards, or more requests, would gain as much."""
PAUSES = 2
"""Pauses of the consumer before its rows are said to be taken in bursts."""
PAUSING = 0.5
"""And they are this part of its own time: otherwise its work between them is the larger part."""
WINDOW_ROWS = 256
"""Longer bursts are a shuffle window's: batches assembled from single rows are shorter, and windows
that are worth having are longer."""
SMALL_REQUEST_BYTES = 256 << 10
"""Without a fit, a smaller mean request is latency-bound on every network file system that we know
of (at 20 MB/s and more, and a millisecond or more)."""
MOST_READERS = 128
"""More waiting threads than this are not advised."""
TWICE = 2
"""The factor where nothing tells how much more is needed."""


def decodes(stats: Stats) -> bool:
    """Whether the decode threads have anything to do: readers make the other columns."""
    return stats.stages.decode.count > 0


def decoders_busy(stats: Stats) -> float:
    """The part of the decode threads' time in which they worked for this iterator, 0 to 1."""
    if not decodes(stats):
        return 0.0
    stages = stats.stages
    work = stages.decode.busy_seconds + stages.resample.busy_seconds + stages.assemble.busy_seconds
    return share_of(work, stats.decoders.alive_seconds)


def elsewhere(stats: Stats) -> float:
    """The part of the decode threads' time that other iterators had while rows were ready here."""
    return share_of(stats.decoders.elsewhere_seconds, stats.decoders.alive_seconds)


def decoders_taken(stats: Stats) -> float:
    """The part of the decode threads' time in which they worked, here or elsewhere, 0 to 1."""
    return min(decoders_busy(stats) + elsewhere(stats), 1.0)


def cpu_queued(stats: Stats) -> float:
    """The part of the time in which decode threads could run and had no CPU, 0 to 1."""
    queued = stats.decoders.cpu_queue_seconds or 0.0
    return share_of(queued, queued + (stats.decoders.cpu_seconds or 0.0))


def slow_shard(stats: Stats) -> ShardStats | None:
    """The shard that is far slower than the others and takes much of the reading time, if any."""
    shards = [s for s in stats.shards if s.requests >= SLOW_REQUESTS and s.bytes > 0]
    if len(shards) < 3:
        return None
    slowest = max(shards, key=request_seconds)
    others = [shard for shard in shards if shard is not slowest]
    by_request = SLOW_FACTOR * median(map(request_seconds, others))
    by_byte = SLOW_FACTOR * median(s.busy_seconds / s.bytes for s in others)
    is_slow = (
        request_seconds(slowest) >= by_request
        and slowest.busy_seconds / slowest.bytes >= by_byte
        and slowest.busy_seconds >= SLOW_SHARE * sum(s.busy_seconds for s in shards)
    )
    return slowest if is_slow else None


def throttling_store(stats: Stats) -> tuple[str, float] | None:
    """The store that refuses the largest part of its requests, and that part, if it is much."""
    refused: Counter[str] = Counter()
    requests: Counter[str] = Counter()
    for shard in stats.shards:
        store = _store_of(shard.path)
        refused[store] += shard.throttled
        requests[store] += shard.requests
    shares = [
        (refused[store] / n, store) for store, n in requests.items() if n >= THROTTLED_REQUESTS
    ]
    share, store = max(shares, default=(0.0, ""))
    return (store, share) if share >= THROTTLED else None


def waits_for_retries(stats: Stats) -> bool:
    """Whether the loop's waits are those of readers that repeat requests.

    Where all requests fail, all readers wait as long as the loop. Where a few do, the others have
    read as far ahead as they may, and the loop waits for those few.
    """
    waits, alive = stats.reader_waits, stats.readers.alive_seconds
    paused, waited = waits.retries_seconds, MAJOR * stats.stages.consumer.waiting_seconds
    if paused == 0:
        return False
    if share_of(paused, alive) >= MAJOR * stats.waiting_share:
        return True
    return paused >= waited and waits.look_ahead_seconds >= MAJOR * alive


def failing_shard(stats: Stats) -> ShardStats | None:
    """The shard to which most of the repeated requests went, if one has most of them."""
    worst = max(stats.shards, key=lambda shard: shard.retries, default=None)
    if worst is None or share_of(worst.retries, stats.storage.retries) < MAJOR:
        return None
    return worst


def _store_of(path: str) -> str:
    """The scheme and host or bucket of a URL."""
    scheme, separator, rest = path.partition("://")
    return f"{scheme}{separator}{rest.partition('/')[0]}"


def bad_shard(stats: Stats) -> ShardStats | None:
    """The shard whose share of bad rows is far above that of the others, if any."""
    shards = [shard for shard in stats.shards if shard.decoded_rows]
    suspects = [shard for shard in shards if shard.bad_rows >= BAD_ROWS]
    if len(shards) < 2 or not suspects:
        return None
    worst = max(suspects, key=_least_bad_share)
    floor = max(BAD_SHARE, BAD_FACTOR * usual_bad_share(stats, worst))
    return worst if _least_bad_share(worst) >= floor else None


def bad_share(stats: Stats) -> float:
    """The share of bad rows in all shards together, 0 to 1."""
    return share_of(
        sum(shard.bad_rows for shard in stats.shards),
        sum(shard.decoded_rows for shard in stats.shards),
    )


def usual_bad_share(stats: Stats, but: ShardStats) -> float:
    """The share of bad rows in all other shards together, 0 to 1."""
    others = [shard for shard in stats.shards if shard is not but]
    bad, rows = (sum(of) for of in ((s.bad_rows for s in others), (s.decoded_rows for s in others)))
    return share_of(bad, rows)


def _least_bad_share(shard: ShardStats) -> float:
    """A lower bound of the share of the shard's rows that are bad, from those that were decoded.

    The lower end of Wilson's interval (Journal of the American Statistical Association 22, 1927),
    which holds for few rows too.
    """
    n, z = shard.decoded_rows, SURE_SIGMAS
    share = shard.bad_rows / n
    spread = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return max((share + z * z / (2 * n) - spread) / (1 + z * z / n), 0.0)


def burst_rows(stats: Stats) -> int | None:
    """Rows that the consumer takes from one pause to the next; `None` where it takes no bursts.

    Of single rows only: between batches there are steps, and pauses are exceptions.
    """
    pauses = stats.pauses
    if stats.settings.batch_size is not None or pauses.count < PAUSES:
        return None
    if pauses.seconds < PAUSING * stats.stages.consumer.busy_seconds:
        return None
    # The burst or the pause that is going on now has not been counted yet.
    return round(stats.elements / (pauses.count + 1))


def max_open_rows(stats: Stats) -> int:
    """Single rows that may be under way or waiting."""
    settings = stats.settings
    return _core.max_open_rows(settings.prefetch_batches, settings.num_threads)


def request_seconds(shard: ShardStats) -> float:
    """Mean seconds of a request to the shard; it must have had one."""
    return shard.busy_seconds / shard.requests


def share_of(part: float, whole: float) -> float:
    """The part of the whole, at most 1; 0 of nothing."""
    return min(part / whole, 1.0) if whole > 0 else 0.0


def figures_of(stats: Stats, **more: float | str) -> dict[str, float | int | str]:
    """The figures that every verdict has, and `more`."""
    rates = {
        "audio_seconds_per_second": stats.audio_seconds_per_second,
        "tokens_per_second": stats.tokens_per_second,
    }
    return {
        "rows_per_second": stats.rows_per_second,
        "waiting_share": stats.waiting_share,
        "decoders_busy_share": decoders_busy(stats),
        "elsewhere_share": elsewhere(stats),
        **{name: rate for name, rate in rates.items() if rate is not None},
        **more,
    }


def needed_speedup(stats: Stats) -> float:
    """How many times faster the input must be for the loop not to wait."""
    return 1 / max(1 - stats.waiting_share, 0.1)
