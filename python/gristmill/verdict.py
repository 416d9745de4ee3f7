"""What limits an iterator, and what would help: `it.verdict()`, a pure function of its stats.

Every threshold is a constant here with its reason; `docs/diagnosis.md` shows each case.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from pathlib import PurePath
from statistics import median
from typing import Any

from gristmill.stats import ShardStats, Stats

ENOUGH_ELEMENTS = 5
"""Elements before anything is said: fewer are the ramp-up."""
ENOUGH_SECONDS = 1.0
"""Seconds of the consumer's loop before anything is said, for the same reason."""
KEEPS_UP = 0.05
"""A loop that waits for less of its time would gain less by any change of the input."""
DELIVERING = 0.25
"""Elements that take more of the loop than this to be made are worth a word even if the rest is
the step: it is the one part of the input that the step cannot overlap."""
SATURATED = 0.8
"""Decode threads that work more of their time than this are the limit; the rest is what handing
rows over costs when they come in bursts."""
QUEUED = 0.25
"""Share of the time in which decode threads could run and had no CPU. A quarter is more than the
consumer's own thread takes from them when each CPU has one decode thread and some are two."""
CONTENDED = 0.5
"""With that much waiting for CPUs, decode threads need not be saturated: one that has no CPU holds
up the row that all wait for, and the look-ahead fills behind it."""
MAJOR = 0.5
"""A part of the decode threads' work that is more than half of it gives the case its name."""
SLOW_FACTOR = 4.0
"""A shard this many times slower than the median one, by request and by byte, is not chance."""
SLOW_SHARE = 0.25
"""And it matters when it takes this much of all reading time."""
SLOW_REQUESTS = 3
"""Requests to a shard before its mean is worth comparing."""
SMALL_REQUEST_BYTES = 256 << 10
"""Where the fit cannot tell: mean requests below this are latency on every network file system
that we know of (at 20 MB/s and more, and a millisecond or more)."""
MOST_READERS = 128
"""More waiting threads than this are not advised."""
_TWICE = 2
"""What is doubled when nothing tells how much is needed."""


class Case(enum.StrEnum):
    """What limits the pipeline."""

    CONSUMER = "consumer"
    DECODE = "decode"
    RESAMPLE = "resample"
    STORAGE_BANDWIDTH = "storage-bandwidth"
    STORAGE_LATENCY = "storage-latency"
    MEMORY_BUDGET = "memory-budget"
    LOOK_AHEAD = "look-ahead"
    SLOW_SHARD = "slow-shard"
    CPU_QUOTA = "cpu-quota"
    OVERSUBSCRIBED = "oversubscribed"
    ASSEMBLE = "assemble"
    PYTHON = "python"
    TOO_EARLY = "too-early"


@dataclass(frozen=True)
class Advice:
    """One change that would help.

    Attributes:
        option: What to change: an option of `ReadOptions`, `Audio` or `ArrowIterDataset` by name,
            or `"cpus"`, `"workers"`, `"files"` for what lies outside.
        now: Its value; `None` where there is no one value.
        to: The value to try; `None` where `why` says more than a value could.
        why: What it does.
    """

    option: str
    now: Any
    to: Any
    why: str


@dataclass(frozen=True)
class Verdict:
    """A sentence, and the figures behind it. `str()` gives the sentence.

    Attributes:
        case: What limits.
        text: A sentence or two for people.
        figures: What the sentence rests on: shares are 0 to 1, units are in the names.
        advice: What to change, the most promising first.
    """

    case: Case
    text: str
    figures: dict[str, float | int | str] = field(default_factory=dict[str, float | int | str])
    advice: tuple[Advice, ...] = ()

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        advice = [{"option": a.option, "now": a.now, "to": a.to, "why": a.why} for a in self.advice]
        return {
            "case": self.case.value,
            "text": self.text,
            "figures": dict(self.figures),
            "advice": advice,
        }


def decide(stats: Stats) -> Verdict:
    """The verdict on these figures. Pure: the same figures give the same verdict.

    The questions are asked in this order, and the first yes decides: is it too early; does making
    elements hold up the loop; does the loop wait at all; are the decode threads saturated, and
    then by what; is one shard slow; what are the readers doing.
    """
    loop = stats.loop_seconds
    if stats.elements < ENOUGH_ELEMENTS or loop < ENOUGH_SECONDS:
        return _too_early(stats)
    if stats.stages.deliver.busy_seconds >= DELIVERING * loop:
        return _python(stats)
    if stats.waiting_share < KEEPS_UP:
        return _consumer(stats)
    busy = decoders_busy(stats)
    if busy >= SATURATED or (busy >= CONTENDED and cpu_queued(stats) >= QUEUED):
        return _saturated(stats)
    slow = slow_shard(stats)
    if slow is not None:
        return _slow_shard(stats, slow)
    return _readers(stats)


def decoders_busy(stats: Stats) -> float:
    """The part of the decode threads' time in which they worked, 0 to 1."""
    stages = stats.stages
    work = stages.decode.busy_seconds + stages.resample.busy_seconds + stages.assemble.busy_seconds
    return _share(work, stats.decoders.alive_seconds)


def cpu_queued(stats: Stats) -> float:
    """The part of the time in which decode threads could run and had no CPU, 0 to 1."""
    queued = stats.decoders.cpu_queue_seconds or 0.0
    return _share(queued, queued + (stats.decoders.cpu_seconds or 0.0))


def slow_shard(stats: Stats) -> ShardStats | None:
    """The shard that is far slower than the others and takes much of the reading, if one is."""
    shards = [s for s in stats.shards if s.requests >= SLOW_REQUESTS and s.bytes > 0]
    if len(shards) < 3:
        return None
    slowest = max(shards, key=_request_seconds)
    others = [shard for shard in shards if shard is not slowest]
    by_request = SLOW_FACTOR * median(map(_request_seconds, others))
    by_byte = SLOW_FACTOR * median(s.busy_seconds / s.bytes for s in others)
    is_slow = (
        _request_seconds(slowest) >= by_request
        and slowest.busy_seconds / slowest.bytes >= by_byte
        and slowest.busy_seconds >= SLOW_SHARE * sum(s.busy_seconds for s in shards)
    )
    return slowest if is_slow else None


def _request_seconds(shard: ShardStats) -> float:
    return shard.busy_seconds / shard.requests


def _share(part: float, whole: float) -> float:
    return min(part / whole, 1.0) if whole > 0 else 0.0


def _figures(stats: Stats, **more: float | str) -> dict[str, float | int | str]:
    return {
        "rows_per_second": stats.rows_per_second,
        "waiting_share": stats.waiting_share,
        "decoders_busy_share": decoders_busy(stats),
        **more,
    }


def _needed(stats: Stats) -> float:
    """How many times faster the input must be for the loop not to wait."""
    return 1 / max(1 - stats.waiting_share, 0.1)


def _rate(rows_per_second: float) -> str:
    """Two or three digits, as far as an estimate goes."""
    if rows_per_second < 10:
        return f"{rows_per_second:.1f}"
    digits = 10 ** max(math.floor(math.log10(rows_per_second)) - 1, 0)
    return f"{round(rows_per_second / digits) * digits:,}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.{2 if seconds < 1e-3 else 1}f} ms"


def _mb(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.{1 if n_bytes < 1e7 else 0}f} MB"


def _plural(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _too_early(stats: Stats) -> Verdict:
    text = (
        f"Too early to say: {_plural(stats.elements, 'element')} in {stats.loop_seconds:.1f} s of "
        f"the loop; ask again after {ENOUGH_ELEMENTS} elements and {ENOUGH_SECONDS:.0f} s."
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
        f"Python is the limit: making elements takes {share:.0%} of the loop's time"
        + (f", and {', '.join(objects)} become Python objects" if objects else "")
        + "."
    )
    advice: list[Advice] = []
    if objects and rest:
        text += f" Leave out what the model does not need: columns={list(rest)}."
        why = "numbers are delivered as one array; strings and lists as an object for each row"
        advice.append(Advice("columns", stats.settings.columns, rest, why))
    if stats.settings.batch_size is None:
        text += " Batches cost less than single rows: set batch_size."
        advice.append(Advice("batch_size", None, 64, "one element for many rows"))
    why = "other Python threads hold the GIL meanwhile; native threads and the step do not need it"
    advice.append(Advice("python", None, None, why))
    return Verdict(Case.PYTHON, text, _figures(stats, delivery_share=share), tuple(advice))


def _consumer(stats: Stats) -> Verdict:
    busy = decoders_busy(stats)
    text = (
        f"All is well: the training loop is the limit. It takes {_rate(stats.rows_per_second)} "
        f"rows/s and waits {stats.waiting_share:.1%} of the time; the decode threads are "
        f"{busy:.0%} busy."
    )
    return Verdict(Case.CONSUMER, text, _figures(stats))


def _saturated(stats: Stats) -> Verdict:
    settings, stages = stats.settings, stats.stages
    queued = cpu_queued(stats)
    is_limited = (
        not settings.is_worker
        and settings.usable_cpus < settings.machine_cpus
        and settings.num_threads >= settings.usable_cpus
    )
    if queued >= QUEUED:
        return _cpu_quota(stats) if is_limited else _oversubscribed(stats)
    work = decoders_busy(stats) * stats.decoders.alive_seconds
    if stages.resample.busy_seconds >= MAJOR * work:
        return _resample(stats, stages.resample.busy_seconds / work)
    if stages.assemble.busy_seconds >= MAJOR * work:
        return _assemble(stats, "joining rows into batches", stages.assemble.busy_seconds / work)
    return _cpu_quota(stats) if is_limited else _decode(stats)


def _threads(stats: Stats) -> str:
    n = stats.settings.num_threads
    is_are = "is" if n == 1 else "are"
    return f"{_plural(n, 'decode thread')} {is_are} {decoders_busy(stats):.0%} busy"


def _reading_waits(stats: Stats) -> float:
    return _share(stats.stages.read.waiting_seconds, stats.readers.alive_seconds)


def _more_threads(stats: Stats) -> tuple[str, tuple[Advice, ...]]:
    """What more decode threads would bring, if there are CPUs for them."""
    n, cpus = stats.settings.num_threads, stats.settings.usable_cpus
    to = min(math.ceil(n * _needed(stats)), cpus)
    if to <= n:
        return f"All {_plural(cpus, 'CPU')} are in use already.", ()
    rate = stats.rows_per_second * min(to / n, _needed(stats))
    text = (
        f"{to} threads would raise {_rate(stats.rows_per_second)} rows/s to about {_rate(rate)}; "
        f"this process may use {_plural(cpus, 'CPU')}."
    )
    return text, (Advice("num_threads", n, to, "rows are decoded side by side"),)


def _decode(stats: Stats) -> Verdict:
    more, advice = _more_threads(stats)
    text = (
        f"Decoding is the limit: {_threads(stats)} while reading waits "
        f"{_reading_waits(stats):.0%} of the time. {more}"
    )
    why = "a codec that is cheaper to decode, or shorter crops, take less of the CPU"
    rest = Advice("files", None, None, why)
    return Verdict(Case.DECODE, text, _figures(stats), (*advice, rest))


def _resample(stats: Stats, share: float) -> Verdict:
    resampler = stats.settings.resampler
    more, threads = _more_threads(stats)
    text = f"Resampling is the limit: {_threads(stats)}, {share:.0%} of it with resampling."
    advice: tuple[Advice, ...] = ()
    if resampler in ("hq", "best"):
        to = "fast" if resampler == "hq" else "hq"
        text += f' resampler="{to}" takes a third to a half of the time of "{resampler}".'
        why = "a shorter filter; what it passes and suppresses is in docs/decisions/resampling.md"
        advice = (Advice("resampler", resampler, to, why),)
    why = "shards that are at the target rate already need no resampling"
    text += f" {more}"
    files = Advice("files", None, None, why)
    figures = _figures(stats, resample_share=share)
    return Verdict(Case.RESAMPLE, text, figures, (*advice, *threads, files))


def _assemble(stats: Stats, what: str, share: float) -> Verdict:
    settings = stats.settings
    text = f"The columns are the limit, not the audio: {share:.0%} of the work is {what}."
    advice: tuple[Advice, ...] = ()
    rest = tuple(name for name in settings.columns if name not in settings.object_columns)
    if rest and rest != settings.columns:
        text += f" Leave out what the model does not need: columns={list(rest)}."
        why = "columns that are not asked for are neither read nor decoded"
        advice = (Advice("columns", settings.columns, rest, why),)
    why = "smaller record batches, and shards without compression, cost less for each row"
    files = Advice("files", None, None, why)
    return Verdict(Case.ASSEMBLE, text, _figures(stats, columns_share=share), (*advice, files))


def _cpu_quota(stats: Stats) -> Verdict:
    settings, queued = stats.settings, cpu_queued(stats)
    to = min(math.ceil(settings.usable_cpus * _needed(stats)), settings.machine_cpus)
    text = (
        f"The CPUs that this process may use are the limit: {settings.usable_cpus} of the "
        f"machine's {settings.machine_cpus}. {_threads(stats)} "
        f"and wait {queued:.0%} of that for a CPU. Ask for {to} "
        "(Slurm: --cpus-per-task; containers: the CPU limit; otherwise the affinity)."
    )
    why = "decode threads need a CPU each"
    advice = [Advice("cpus", settings.usable_cpus, to, why)]
    if settings.num_threads > settings.usable_cpus:
        why = "threads beyond the CPUs only take turns; num_threads=None follows the CPUs"
        advice.append(Advice("num_threads", settings.num_threads, settings.usable_cpus, why))
    figures = _figures(
        stats,
        cpu_queue_share=queued,
        usable_cpus=settings.usable_cpus,
        machine_cpus=settings.machine_cpus,
    )
    return Verdict(Case.CPU_QUOTA, text, figures, tuple(advice))


def _oversubscribed(stats: Stats) -> Verdict:
    settings, queued = stats.settings, cpu_queued(stats)
    to = max(1, min(round(settings.num_threads * (1 - queued)), settings.usable_cpus))
    text = (
        f"Too many threads want the CPUs: {_threads(stats)}, but {queued:.0%} of that is waiting "
        f"for one of the {_plural(settings.usable_cpus, 'CPU')}."
    )
    advice: list[Advice] = []
    if settings.is_worker:
        text += (
            " This is a worker process: have workers times num_threads be the number of CPUs, or "
            "none, since one process decodes in native threads."
        )
        why = "native threads use all CPUs from one process, without copies between processes"
        advice.append(Advice("workers", None, 0, why))
    if to < settings.num_threads:
        text += f" num_threads={to} is what they get now."
        why = "fewer threads for the same CPU time: less switching, less memory"
        advice.append(Advice("num_threads", settings.num_threads, to, why))
    if not settings.is_worker:
        why = "other processes, or the training step itself, take the CPUs: see top"
        advice.append(Advice("cpus", settings.usable_cpus, None, why))
    figures = _figures(stats, cpu_queue_share=queued, usable_cpus=settings.usable_cpus)
    return Verdict(Case.OVERSUBSCRIBED, text, figures, tuple(advice))


def _slow_shard(stats: Stats, slow: ShardStats) -> Verdict:
    others = [s for s in stats.shards if s is not slow and s.requests >= SLOW_REQUESTS]
    usual = median(map(_request_seconds, others))
    share = _share(slow.busy_seconds, sum(s.busy_seconds for s in stats.shards))
    name = PurePath(slow.path).name
    text = (
        f"One shard is slow: a request to {name} takes {_ms(_request_seconds(slow))}, where "
        f"{_ms(usual)} are usual, and it takes {share:.0%} of all reading. Copy it "
        "to other storage, or look there for a failing disk."
    )
    figures = _figures(
        stats,
        shard=slow.path,
        request_seconds=_request_seconds(slow),
        usual_request_seconds=usual,
        reading_share=share,
    )
    n = stats.settings.prefetch_batches
    advice = (
        Advice("files", slow.path, None, "a copy on storage that is as fast as the others'"),
        Advice("prefetch_batches", n, n * _TWICE, "more rows are under way while one is slow"),
    )
    return Verdict(Case.SLOW_SHARD, text, figures, advice)


def _readers(stats: Stats) -> Verdict:
    """The decode threads idle: what do the readers do?"""
    waits, alive = stats.reader_waits, stats.readers.alive_seconds
    look_ahead = _share(waits.look_ahead_seconds, alive)
    budget = _share(waits.memory_budget_seconds, alive)
    working = max(1 - look_ahead - budget, 0.0)
    if budget >= max(look_ahead, working):
        return _memory(stats, budget)
    if look_ahead >= working:
        return _look_ahead(stats, look_ahead)
    reading, planning = stats.stages.read.busy_seconds, stats.stages.plan.busy_seconds
    if planning > reading:
        share = _share(planning, planning + reading)
        return _assemble(stats, "loading record batches' columns", share)
    return _storage(stats, _share(reading, alive))


def _memory(stats: Stats, share: float) -> Verdict:
    settings = stats.settings
    to = settings.memory_budget_bytes * _TWICE
    text = (
        f"The memory budget is the limit: readers wait {share:.0%} of the time for room in "
        f"{_mb(settings.memory_budget_bytes)}, while the decode threads idle "
        f"{1 - decoders_busy(stats):.0%}. Try memory_budget={to}; batches that the loop holds on "
        "to count too."
    )
    figures = _figures(
        stats, budget_wait_share=share, memory_budget_bytes=settings.memory_budget_bytes
    )
    batch_size = settings.batch_size
    advice = [Advice("memory_budget", settings.memory_budget_bytes, to, "more rows in flight")]
    if batch_size is not None and batch_size > 1:
        why = "more of the smaller batches fit into the same memory"
        advice.append(Advice("batch_size", batch_size, batch_size // 2, why))
    return Verdict(Case.MEMORY_BUDGET, text, figures, tuple(advice))


def _look_ahead(stats: Stats, share: float) -> Verdict:
    n = stats.settings.prefetch_batches
    to = max(n * _TWICE, 4)
    text = (
        f"The look-ahead is the limit: readers wait {share:.0%} of the time because as many "
        f"elements are under way as prefetch_batches={n} allows, while the decode threads idle "
        f"{1 - decoders_busy(stats):.0%}. Try prefetch_batches={to}."
    )
    figures = _figures(stats, look_ahead_wait_share=share, prefetch_batches=n)
    why = "rows of later batches are read and decoded while one row holds up the first"
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
    figures = _figures(
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
    doing = f"{_plural(n, 'reader')} spend {share:.0%} of their time in requests of {_ms(request)}"
    if is_latency:
        to = min(max(n * _TWICE, math.ceil(n * _needed(stats))), MOST_READERS)
        text = (
            f"The storage's latency is the limit: {doing}, whatever their size "
            f"({mean_bytes / 1e3:,.0f} kB on average). More at a time hide it: try "
            f"num_requests={to}."
        )
        why = "each reader has one request under way"
        advice = (Advice("num_requests", n, to, why), near)
        return Verdict(Case.STORAGE_LATENCY, text, figures, advice)
    text = (
        f"The storage's bandwidth is the limit: {_mb(speed)}/s arrive, and {doing}. More "
        "threads would not help; a copy of the shards on local disk would."
    )
    why = "recordings of fewer bytes (Opus, Vorbis, a lower rate) need less bandwidth"
    return Verdict(Case.STORAGE_BANDWIDTH, text, figures, (near, Advice("codec", None, None, why)))
