"""Sentences about decode threads that are the bottleneck: by their work, or for lack of CPUs."""

from __future__ import annotations

import math

from gristmill.metrics.measures import (
    MAJOR,
    QUEUED,
    SHARED,
    cpu_queued,
    decoders_busy,
    decoders_taken,
    elsewhere,
    figures_of,
    needed_speedup,
    share_of,
)
from gristmill.metrics.stats import Stats
from gristmill.metrics.text import count_text, rate_text
from gristmill.metrics.verdict import Advice, Case, Verdict


def saturated(stats: Stats) -> Verdict:
    """The verdict where the decode threads are busy, or wait for CPUs."""
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
    resampling = share_of(stages.resample.busy_seconds, work)
    if resampling >= MAJOR:
        return _resample(stats, resampling)
    assembling = share_of(stages.assemble.busy_seconds, work)
    if assembling >= MAJOR:
        return assemble(stats, "joining rows into batches", assembling)
    return _cpu_quota(stats) if is_limited else _decode(stats)


def _threads(stats: Stats) -> str:
    n = stats.settings.num_threads
    is_are = "is" if n == 1 else "are"
    text = f"{count_text(n, 'decode thread')} {is_are} {decoders_taken(stats):.0%} busy"
    if elsewhere(stats) >= SHARED:
        text += f" ({elsewhere(stats):.0%} for other iterators of this process)"
    return text


def _others(stats: Stats) -> tuple[Advice, ...]:
    if elsewhere(stats) < SHARED:
        return ()
    why = (
        "iterators of a process share its decode threads evenly: close the others while you do "
        "not need them, or give them a small num_threads"
    )
    return (Advice("iterators", None, None, why),)


def _reading_waits(stats: Stats) -> float:
    return share_of(stats.stages.read.waiting_seconds, stats.readers.alive_seconds)


def _more_threads(stats: Stats) -> tuple[str, tuple[Advice, ...]]:
    """The gain by more decode threads, if there are CPUs for them."""
    n, cpus = stats.settings.num_threads, stats.settings.usable_cpus
    to = min(math.ceil(n * needed_speedup(stats)), cpus)
    if to <= n:
        return f"All {count_text(cpus, 'CPU')} are in use already.", ()
    rate = stats.rows_per_second * min(to / n, needed_speedup(stats))
    text = (
        f"{to} threads would raise {rate_text(stats.rows_per_second)} rows/s to about "
        f"{rate_text(rate)}; this process may use {count_text(cpus, 'CPU')}."
    )
    return text, (Advice("num_threads", n, to, "more rows are decoded at the same time"),)


def _decode(stats: Stats) -> Verdict:
    more, advice = _more_threads(stats)
    text = (
        f"Bottleneck: decoding. {_threads(stats)}, and reading waits "
        f"{_reading_waits(stats):.0%} of the time. {more}"
    )
    return Verdict(Case.DECODE, text, figures_of(stats), (*_others(stats), *advice))


def _resample(stats: Stats, share: float) -> Verdict:
    resampler = stats.settings.resampler
    more, threads = _more_threads(stats)
    text = f"Bottleneck: resampling. {_threads(stats)}, {share:.0%} of that with resampling."
    advice: tuple[Advice, ...] = ()
    if resampler == "best":
        text += ' resampler="hq" takes down to half the time.'
        why = "a shorter filter; docs/decisions/resampling.md has its passband"
        advice = (Advice("resampler", resampler, "hq", why),)
    text += f" {more}"
    figures = figures_of(stats, resample_share=share)
    return Verdict(Case.RESAMPLE, text, figures, (*advice, *_others(stats), *threads))


def assemble(stats: Stats, what: str, share: float) -> Verdict:
    """The verdict where the other columns are the bottleneck: `what` is `share` of the work."""
    settings = stats.settings
    text = f"Bottleneck: columns other than audio. {share:.0%} of the work is {what}."
    advice: tuple[Advice, ...] = ()
    rest = tuple(name for name in settings.columns if name not in settings.object_columns)
    if rest and rest != settings.columns:
        text += f" Leave out what the model does not need: columns={list(rest)}."
        why = "columns that are left out are neither read nor decoded"
        advice = (Advice("columns", settings.columns, rest, why),)
    why = "smaller record batches and uncompressed shards cost less for each row"
    files = Advice("files", None, None, why)
    return Verdict(Case.ASSEMBLE, text, figures_of(stats, columns_share=share), (*advice, files))


def _cpu_quota(stats: Stats) -> Verdict:
    settings, queued = stats.settings, cpu_queued(stats)
    to = min(math.ceil(settings.usable_cpus * needed_speedup(stats)), settings.machine_cpus)
    text = (
        f"Bottleneck: the CPUs that this process may use, {settings.usable_cpus} of the "
        f"machine's {settings.machine_cpus}. {_threads(stats)}, "
        f"and {queued:.0%} of that is waiting for a CPU. Ask for {to} "
        "(Slurm: --cpus-per-task; containers: the CPU limit; otherwise the affinity)."
    )
    why = "decode threads need a CPU each"
    advice = [Advice("cpus", settings.usable_cpus, to, why), *_others(stats)]
    figures = figures_of(
        stats,
        cpu_queue_share=queued,
        usable_cpus=settings.usable_cpus,
        machine_cpus=settings.machine_cpus,
    )
    return Verdict(Case.CPU_QUOTA, text, figures, tuple(advice))


def _oversubscribed(stats: Stats) -> Verdict:
    settings, queued = stats.settings, cpu_queued(stats)
    text = (
        f"Bottleneck: more threads than CPUs. {_threads(stats)}, but {queued:.0%} of that is "
        f"waiting for one of the {count_text(settings.usable_cpus, 'CPU')}."
    )
    advice: list[Advice] = []
    if settings.is_worker:
        text += (
            " This is a worker process: set workers times num_threads to the number of CPUs, or "
            "use no workers, since one process decodes in native threads."
        )
        why = "native threads use all CPUs from one process, without copies between processes"
        advice.append(Advice("workers", None, 0, why))
    else:
        # Fewer threads get no more CPU time of a busy machine, and less once it is free.
        text += (
            " Other processes, or the training step itself, take the rest: see top. Changing "
            "num_threads would not help."
        )
    figures = figures_of(stats, cpu_queue_share=queued, usable_cpus=settings.usable_cpus)
    return Verdict(Case.OVERSUBSCRIBED, text, figures, tuple(advice))
