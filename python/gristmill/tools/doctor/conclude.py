"""What follows from the measurements: the bottleneck of a run, and options for it. Pure functions.

Every threshold is a constant here with its reason.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from itertools import pairwise

from gristmill import _core
from gristmill.metrics.measures import SPARED
from gristmill.metrics.text import count_text
from gristmill.options import ReadOptions
from gristmill.tools.doctor.conclude_store import advised_requests, on_a_cache, on_store
from gristmill.tools.doctor.measured import Measured

PER_PROCESS = 1.5
"""Readers in processes have a limit each if they get this many times what as many threads get."""
PER_STREAM = 2.5
"""Readers have a limit each if eight of them get this many times what one gets."""
RISING = 1.3
"""Twice the readers that get this much more have not reached the limit yet."""
HEADROOM = 1.2
"""What is provided for beyond the mean need: rows differ, and steps are not even."""
ENOUGH = 0.9
"""A number of readers that gets this part of the most is enough."""
NO_GAIN = 1.1
"""Twice the workers that get less than this much more are no help."""
SCALES = 0.75
"""N threads with a CPU each get more than this part of N times what one thread gets."""
MUCH = 0.5
"""Workers that take this part of the storage's bandwidth reach its limit now and then."""
MOST_REQUESTS = 128
"""More waiting threads than this are not advised."""
BUDGET_SHARE = 0.5
"""The part of the free memory that a budget may take."""
WARM = 0.5
"""With a smaller share of cold reads, the page cache was measured and not the storage."""

_MB = 1e6
_MIB = 1 << 20


class Scope(enum.StrEnum):
    """The scope of the storage's bandwidth limit: a reader, a process, or all of them."""

    STREAM = "stream"
    PROCESS = "process"
    SHARED = "shared"


class Limit(enum.StrEnum):
    """The bottleneck of a run."""

    STEP = "step"
    STORAGE = "storage"
    DECODING = "decoding"


@dataclass(frozen=True)
class Conclusion:
    """What follows from the measurements.

    Attributes:
        scope: Whether the storage's bandwidth is limited for each reader, for each process, or as a
            whole.
        limit: The bottleneck of a run.
        rows_per_second: What a run can expect, at most as many as its steps take.
        needed_rows_per_second: What its steps take; `None` if no step time was given.
        local_copy_helps: Whether a copy of the shards on local disk would be worth it.
        read: Options for `ArrowIterDataset`.
        sentences: All of it for people.
    """

    scope: Scope
    limit: Limit
    rows_per_second: float
    needed_rows_per_second: float | None
    local_copy_helps: bool
    read: ReadOptions
    sentences: tuple[str, ...]

    @property
    def settings(self) -> str:
        """The options, to paste."""
        shown = [
            f"{name}={getattr(self.read, name)!r}"
            for name in ("num_threads", "num_requests", "memory_budget")
            if getattr(self.read, name) is not None
        ]
        return f"read=gm.ReadOptions({', '.join(shown)})"


def conclude(measured: Measured, batch_size: int, step_seconds: float | None) -> Conclusion:
    """What follows for a run with this batch size, whose steps take this long without waiting."""
    needed = batch_size / step_seconds if step_seconds else None
    storage, decoding = measured.storage_rows_per_second, measured.decode_rows_per_second
    supply = min(storage, decoding)
    if needed is not None and supply >= needed:
        limit, expected = Limit.STEP, needed
    else:
        limit = Limit.STORAGE if storage < decoding else Limit.DECODING
        expected = supply
    wanted = HEADROOM * (needed if needed is not None else decoding)
    scope = _scope(measured)
    helps = storage < min(wanted, decoding) and not _is_warm(measured)
    read = _settings(measured, batch_size, wanted)
    sentences = (
        *_on_storage(measured, scope),
        *_on_cpus(measured),
        *_on_workers(measured),
        *_on_the_run(measured, limit, expected, needed, batch_size),
        *_on_an_index(measured, limit),
        *_on_a_copy(measured, limit, helps, storage),
    )
    return Conclusion(scope, limit, expected, needed, helps, read, sentences)


def _is_warm(measured: Measured) -> bool:
    cold = measured.cold_share
    return cold is not None and cold < WARM


def _scope(measured: Measured) -> Scope:
    threads, processes = measured.by_threads, measured.by_processes
    most = max(set(threads) & set(processes))
    if processes[most] >= PER_PROCESS * threads[most]:
        return Scope.PROCESS
    most = max(threads)
    if threads[most] >= min(PER_STREAM, most) * threads[1]:
        return Scope.STREAM
    return Scope.SHARED


def _is_rising(by_readers: dict[int, float]) -> bool:
    *_, before, most = sorted(by_readers)
    return by_readers[most] >= RISING * by_readers[before]


def _settings(measured: Measured, batch_size: int, wanted_rows: float) -> ReadOptions:
    cpus = measured.machine.usable_cpus
    n_requests = _requests(measured, wanted_rows)
    if measured.store is None:
        shown = None if n_requests <= _core.default_requests(cpus) else n_requests
    else:
        # A run finds out by itself how many bring more, but what a store refuses it repeats.
        shown = advised_requests(measured)
    # All batches under way, one that the step works on and one that is being assembled.
    batch_bytes = batch_size * (measured.row_bytes + measured.crop_bytes)
    needed = (ReadOptions().prefetch_batches + 2) * batch_bytes + n_requests * measured.row_bytes
    most = BUDGET_SHARE * measured.machine.usable_bytes
    budget = max(256 * _MIB, min(needed, most))
    steps = math.ceil(budget / (256 * _MIB))
    text = f"{steps // 4}GiB" if steps % 4 == 0 else f"{256 * steps}MiB"
    # As many decode threads as CPUs: those that are not needed sleep, and the throughput of one of
    # them on a busy machine says nothing about the run.
    return ReadOptions(
        num_requests=shown,
        memory_budget=text,
    )


def _requests(measured: Measured, wanted_rows: float) -> int:
    """Readers that get the rows that are wanted, or nearly all that the storage gives."""
    by_threads, wanted = measured.by_threads, wanted_rows * measured.row_bytes
    enough = min(wanted, ENOUGH * max(by_threads.values()))
    for readers in sorted(by_threads):
        if by_threads[readers] >= enough and (by_threads[readers] >= wanted or readers < 8):
            return readers
    most = max(by_threads)
    if not _is_rising(by_threads):
        return most
    return min(MOST_REQUESTS, math.ceil(most * wanted / by_threads[most]))


def _on_storage(measured: Measured, scope: Scope) -> list[str]:
    if measured.store is not None:
        return on_store(measured, measured.store, rises=_is_rising(measured.by_threads))
    threads, processes = measured.by_threads, measured.by_processes
    most = max(set(threads) & set(processes))
    one, many = f"{threads[1] / _MB:,.0f}", f"{threads[most] / _MB:,.0f}"
    latency = next(t.p50_seconds for t in measured.reads if t.threads * t.processes == 1)
    each = f"a row takes {1e3 * latency:,.1f} ms"
    if scope is Scope.PROCESS:
        other = f"{processes[most] / _MB:,.0f}"
        text = (
            f"Storage is limited for each process: {most} readers in one process get {many} MB/s, "
            f"in {most} processes {other} MB/s ({each})."
        )
    elif scope is Scope.STREAM:
        rise = ", and more would get more" if _is_rising(threads) else ""
        text = (
            f"Storage is limited for each reader: one gets {one} MB/s ({each}), {most} get "
            f"{many} MB/s{rise}."
        )
    else:
        text = (
            f"Storage is limited as a whole: one reader gets {one} MB/s ({each}), {most} get "
            f"{many} MB/s together, in one process or in several."
        )
    sentences = [text]
    if _is_warm(measured):
        sentences.append(
            "Most of these reads came from this machine's page cache, which could not be "
            "dropped: this is the speed of memory. Measure again where the data was not read "
            "lately."
        )
    elif measured.cold_share is None:
        sentences.append(
            "The file system does not tell whether reads came from a cache; they may have."
        )
    return sentences


def _on_workers(measured: Measured) -> list[str]:
    """Why more worker processes are no faster, where they are not."""
    rates = {trial.processes: trial.rows_per_second for trial in measured.workers}
    cpus, own = measured.machine.usable_cpus, measured.pipeline_rows_per_second
    if not rates:
        return []
    best = max(rates, key=rates.__getitem__)
    counts = sorted(rates)
    tops = [a for a, b in pairwise(counts) if rates[b] < NO_GAIN * rates[a]]
    shown = ", ".join(f"{n}: {rates[n]:,.0f}" for n in counts)
    sentences = [f"Worker processes of one thread each, rows/s by their number: {shown}."]
    if tops:
        top, after = tops[0], counts[counts.index(tops[0]) + 1]
        word = "slower" if rates[after] < rates[top] else "hardly faster"
        if after > cpus:
            why = (
                f"they share {count_text(cpus, 'CPU')}, which {count_text(top, 'worker')} keep busy"
            )
        elif _shares_storage(measured, rates[top], top, after):
            why = "they share the storage, which gives them no more"
        elif not _scales(measured):
            why = "the CPUs are busy with something else, or two of them share a core"
        else:
            why = "they share memory and caches, which give them no more"
        sentences.append(f"{after} workers are {word} than {top}: {why}.")
    if own > 0:
        ratio = own / rates[best]
        sentences.append(
            f"One process with native threads: {own:,.0f} rows/s, {ratio:.1f} times the best of "
            f"these ({count_text(best, 'worker')}). Use no workers."
            if ratio >= 1
            else f"One process with native threads: {own:,.0f} rows/s, {ratio:.2f} of "
            f"{count_text(best, 'worker')}."
        )
    return sentences


def _shares_storage(measured: Measured, rows_per_second: float, fewer: int, more: int) -> bool:
    """Whether the storage gives more workers no more, and fewer take much of it already."""
    by_processes = measured.by_processes
    most = by_processes.get(more, math.inf)
    taken = rows_per_second * measured.row_bytes
    return most < NO_GAIN * by_processes.get(fewer, 0.0) and taken >= MUCH * most


def _on_the_run(
    measured: Measured, limit: Limit, expected: float, needed: float | None, batch_size: int
) -> list[str]:
    storage, decoding = measured.storage_rows_per_second, measured.decode_rows_per_second
    cpus = count_text(measured.machine.usable_cpus, "CPU")
    supply = f"storage gives {storage:,.0f} rows/s, {cpus} decode {decoding:,.0f}"
    if limit is Limit.STEP:
        return [
            f"The training step will be the bottleneck: it takes {needed:,.0f} rows/s; {supply}."
        ]
    name = "Storage" if limit is Limit.STORAGE else "Decoding"
    step = batch_size / expected
    if needed is None:
        return [f"{name} will be the bottleneck of steps shorter than {step:,.2f} s: {supply}."]
    text = (
        f"{name} will be the bottleneck: the step takes {needed:,.0f} rows/s; {supply}. A step "
        f"will take {step:,.2f} s instead of {batch_size / needed:,.2f} s."
    )
    if limit is Limit.DECODING:
        enough = math.ceil(needed * HEADROOM / max(measured.cpu_rows_per_second, 1e-9))
        more = f"About {count_text(enough, 'CPU')} like these would keep up, or shorter crops."
        return [text, more]
    return [text]


def _scales(measured: Measured) -> bool:
    """Whether all CPUs together decode about as many times what one does as they are."""
    n_cpus, one = measured.machine.usable_cpus, measured.thread_rows_per_second
    return n_cpus == 1 or measured.decode_rows_per_second >= SCALES * n_cpus * one


def _on_cpus(measured: Measured) -> list[str]:
    """Whether all CPUs are available to this process."""
    n_cpus, one = measured.machine.usable_cpus, measured.thread_rows_per_second
    all_of_them = measured.decode_rows_per_second
    machine = measured.machine
    sentences: list[str] = []
    if n_cpus < machine.cpus:
        sentences.append(
            f"This process may use {count_text(n_cpus, 'CPU')} of the machine's {machine.cpus} "
            "(affinity or a quota; Slurm: --cpus-per-task)."
        )
    if not _scales(measured):
        sentences.append(
            f"{n_cpus} threads decode {all_of_them / max(one, 1e-9):.1f} times what one does: the "
            "CPUs are busy with something else, or two of them share a core."
        )
    return sentences


def _on_an_index(measured: Measured, limit: Limit) -> list[str]:
    """What audio indexes would do, where storage is the limit and they would do much."""
    needed = 1 - measured.spare_share
    if limit is not Limit.STORAGE or measured.spare_share < SPARED:
        return []
    rows = measured.storage_rows_per_second / needed
    text = (
        f"Crops need about {needed:.0%} of their rows' bytes. Training learns which in its first "
        f"epoch, and gristmill index --audio ahead of it: then storage gives up to {rows:,.0f} "
        "rows/s."
    )
    return [text]


def _on_a_copy(measured: Measured, limit: Limit, helps: bool, storage: float) -> list[str]:
    if measured.store is not None:
        return on_a_cache(measured, is_limit=limit is Limit.STORAGE, helps=helps)
    size = f"{measured.dataset_bytes / 1e9:,.1f} GB"
    if not helps:
        if limit is Limit.STORAGE:
            return []
        return ["A local copy would not help: storage is not the bottleneck."]
    fits = measured.dataset_bytes < measured.machine.usable_bytes * BUDGET_SHARE
    if fits:
        text = (
            f"The {size} fit into memory: the page cache will keep them after the first epoch. A "
            f"local copy helps before that: storage gives {storage:,.0f} rows/s."
        )
    else:
        text = (
            f"A local copy ({size}) would pay: storage gives {storage:,.0f} rows/s of the "
            f"{measured.decode_rows_per_second:,.0f} that can be decoded."
        )
    return [text]
