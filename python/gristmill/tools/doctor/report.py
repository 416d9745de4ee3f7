"""What `gristmill doctor` finds, and its page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gristmill.metrics.text import Printed, bytes_text, count_text
from gristmill.tools.doctor.conclude import Conclusion
from gristmill.tools.doctor.loops import ReadTrial
from gristmill.tools.doctor.measured import Measured
from gristmill.tools.doctor.store import StoreTrials
from gristmill.tools.inspection import list_unreadable
from gristmill.tools.page import Page
from gristmill.tools.sample import AudioSample
from gristmill.tools.shards import UnreadableShard


@dataclass(frozen=True)
class Diagnosis(Printed):
    """What was measured and what follows from it.

    Attributes:
        rows: Of all shards.
        batch_size: Of the run that was asked about.
        step_seconds: Time of its step; `None` if it was not given.
        crop_seconds: Length of its crops.
        sample: A sample of the rows.
        measured: The figures.
        conclusion: What follows.
        seconds: Time that measuring took.
        unreadable: Shards that are not valid Arrow IPC or Parquet, and were left out.
    """

    rows: int
    batch_size: int
    step_seconds: float | None
    crop_seconds: float
    sample: AudioSample
    measured: Measured
    conclusion: Conclusion
    seconds: float
    unreadable: tuple[UnreadableShard, ...] = ()

    def __str__(self) -> str:
        return str(page_of(self))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        measured, conclusion, read = self.measured, self.conclusion, self.conclusion.read
        trials = {name: getattr(measured, name) for name in ("reads", "decodes", "workers")}
        store = measured.store and {
            name: getattr(measured.store, name).to_dict() for name in ("small", "one")
        }
        shown = ("num_threads", "num_requests", "memory_budget")
        return {
            **asdict(self),
            "measured": {
                **asdict(measured),
                **{name: [trial.to_dict() for trial in found] for name, found in trials.items()},
                "store": store,
            },
            "conclusion": {
                **asdict(conclusion),
                "read": {name: getattr(read, name) for name in shown},
                "settings": conclusion.settings,
            },
        }


def page_of(found: Diagnosis) -> Page:
    """The page that `gristmill doctor` prints."""
    page = Page()
    measured, machine = found.measured, found.measured.machine
    quota = f", a quota of {machine.cpu_quota:g}" if machine.cpu_quota is not None else ""
    limit = machine.memory_limit_bytes
    page.table(
        "Machine",
        [
            ("CPUs", f"{machine.usable_cpus} usable of {machine.cpus}{quota}"),
            (
                "memory",
                f"{bytes_text(machine.available_bytes)} free of {bytes_text(machine.memory_bytes)}"
                + (f", a limit of {bytes_text(limit)}" if limit is not None else ""),
            ),
            ("shards", f"{bytes_text(measured.dataset_bytes)}, {found.rows:,} rows"),
            ("encoded row", f"{bytes_text(measured.row_bytes)} on average"),
        ],
    )
    if measured.store is None:
        _say_storage(measured, page)
    else:
        _say_store(measured, measured.store, page)
    page.section(f"Decoding: crops of {found.crop_seconds:g} s")
    for trial in measured.decodes:
        rate, threads = trial.rows_per_second, count_text(trial.threads, "thread")
        page.say(f"  {threads:<10}  {rate:>8,.0f} rows/s, {rate / trial.threads:,.0f} a thread")
    list_unreadable(found.unreadable, page)
    page.section("Diagnosis")
    for sentence in found.conclusion.sentences:
        page.paragraph(sentence, "- ", "  ")
    page.section("Settings")
    page.say(f"  {found.conclusion.settings}")
    return page


def _say_storage(measured: Measured, page: Page) -> None:
    cold = measured.cold_share
    told = "not told by the file system" if cold is None else f"{cold:.0%} not from a cache"
    page.section(f"Storage: reads of the size of rows, {told}")
    page.say("  readers            in     MB/s   rows/s    p50 ms    p90 ms    p99 ms")
    for trial in measured.reads:
        page.say(f"  {_read_line(trial, measured.row_bytes)}")


def _say_store(measured: Measured, store: StoreTrials, page: Page) -> None:
    page.section("Store: requests one after the other")
    page.say("  requests of     MB/s    p50 ms    p90 ms    p99 ms   429/503")
    for size, trial in (("4 KiB", store.small), ("4 MiB", store.one)):
        page.say(
            f"  {size:>11} {trial.bytes_per_second / 1e6:>8,.1f}{_latencies(trial)}"
            f"{trial.throttled:>10,}"
        )
    page.section("Store: requests of the size of rows")
    page.say("  in flight     MB/s   rows/s    p50 ms    p90 ms    p99 ms   429/503")
    for trial in measured.reads:
        rate = trial.bytes_per_second
        page.say(
            f"  {trial.threads:>9} {rate / 1e6:>8,.1f} {rate / max(measured.row_bytes, 1):>8,.0f}"
            f"{_latencies(trial)}{trial.throttled:>10,}"
        )


def _read_line(trial: ReadTrial, row_bytes: float) -> str:
    n = trial.processes * trial.threads
    where = "one process" if trial.processes == 1 else f"{trial.processes} processes"
    rate = trial.bytes_per_second
    return (
        f"{n:>7}  {where:>12} {rate / 1e6:>8,.0f} {rate / max(row_bytes, 1):>8,.0f}"
        f"{_latencies(trial)}"
    )


def _latencies(trial: ReadTrial) -> str:
    times = (trial.p50_seconds, trial.p90_seconds, trial.p99_seconds)
    return "".join(f"{1e3 * time:>10,.1f}" for time in times)
