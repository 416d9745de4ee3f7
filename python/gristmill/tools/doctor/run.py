"""Measures storage, decoding and workers on a user's own shards, in a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gristmill import _core, checks
from gristmill.errors import SchemaError
from gristmill.options import Audio, Limits, RandomCrop, ReadOptions
from gristmill.paths import Paths
from gristmill.tools.crops import take
from gristmill.tools.doctor import machine
from gristmill.tools.doctor.conclude import Conclusion, Measured, conclude
from gristmill.tools.doctor.lab import Lab
from gristmill.tools.doctor.loops import DecodeRun, Material, ReadRun
from gristmill.tools.headers import ShardHeader, audio_column, read_headers
from gristmill.tools.inspect import AudioSample, draw

_READERS = (1, 2, 4, 8)
_SAMPLE_ROWS = 48
_BATCH_SIZE = 16
"""Of the native threads' batches, which small ones do not slow down."""
_MOST_SAMPLE_BYTES = 64 << 20
_SHORTEST_SECONDS = 0.1
"""Of one measurement: less is noise."""

OnStep = Callable[[str, int, int], None]
"""Called before each measurement with what it is, its number from 0, and how many there are."""


@dataclass(frozen=True)
class Diagnosis:
    """What was measured and what follows from it.

    Attributes:
        rows: Of all shards.
        batch_size: Of the run that was asked about.
        step_seconds: What its step takes; `None` if that was not told.
        crop_seconds: Length of its crops.
        sample: The rows that were looked at.
        measured: The figures.
        conclusion: What follows.
        seconds: What measuring took.
    """

    rows: int
    batch_size: int
    step_seconds: float | None
    crop_seconds: float
    sample: AudioSample
    measured: Measured
    conclusion: Conclusion
    seconds: float

    def __str__(self) -> str:
        from gristmill.cli import pages  # noqa: PLC0415 - the command line speaks of this module

        return pages.diagnosis(self)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        measured = asdict(self.measured)
        for runs, of in (
            ("reads", [{"bytes_per_second": run.bytes_per_second} for run in self.measured.reads]),
            ("decodes", [_rate(run.rows_per_second) for run in self.measured.decodes]),
            ("workers", [_rate(run.rows_per_second) for run in self.measured.workers]),
        ):
            pairs = zip(measured[runs], of, strict=True)
            measured[runs] = [{**run, **rate} for run, rate in pairs]
        conclusion = asdict(self.conclusion)
        conclusion["read"] = {
            "num_threads": self.conclusion.read.num_threads,
            "num_requests": self.conclusion.read.num_requests,
            "memory_budget": self.conclusion.read.memory_budget,
        }
        return {
            "rows": self.rows,
            "batch_size": self.batch_size,
            "step_seconds": self.step_seconds,
            "crop_seconds": self.crop_seconds,
            "sample": asdict(self.sample),
            "measured": measured,
            "conclusion": {**conclusion, "settings": self.conclusion.settings},
            "seconds": self.seconds,
        }


def diagnose(
    paths: Paths,
    *,
    batch_size: int = 64,
    step_seconds: float | None = None,
    crop_seconds: float = 5.0,
    sample_rate: int | None = None,
    column: str | None = None,
    seconds: float = 24.0,
    on_step: OnStep | None = None,
) -> Diagnosis:
    """Measures the storage and the machine, and says what will limit a training run.

    It reads pieces of the size of rows at random places of the shards, with 1, 2, 4 and 8 readers,
    in threads of one process and in as many processes; decodes crops of a sample in 1, 2, 4 and so
    on threads; and has 1, 2, 4 and 8 worker processes do both, beside one process of native
    threads. Before a read the page cache is asked to forget what is read.

    Args:
        paths: As in `ArrowIterDataset`.
        batch_size: Of the run.
        step_seconds: What its training step takes by itself; `None` asks for the shortest step
            that can be supplied.
        crop_seconds: Length of its random crops.
        sample_rate: Their rate in Hz; `None` takes the one that most rows of a sample have.
        column: The audio column; `None` takes the one that the Hugging Face features call audio.
        seconds: What all measurements together take, about.
        on_step: Is told what is measured.

    Raises:
        OSError: A shard cannot be read.
        SchemaError: There is no audio column, or nothing in it can be decoded.
        ValueError: A number is out of range.
    """
    batch_size = checks.integer("batch_size", batch_size, 1, 2**31 - 1, write="batch_size=64")
    crop_seconds = checks.number(
        "crop_seconds", crop_seconds, 0, 86_400, above=True, write="crop_seconds=5"
    )
    sample_rate = checks.integer(
        "sample_rate", sample_rate, 1, 768_000, write="sample_rate=32_000, in Hz", none=True
    )
    column = checks.text("column", column, write='column="audio"', none=True)
    seconds = checks.number("seconds", seconds, 0, 1e9, above=True, write="seconds=10")
    step_seconds = checks.number(
        "step_seconds", step_seconds, 0, 1e9, above=True, write="step_seconds=0.3", none=True
    )
    checks.function("on_step", on_step)
    began = time.monotonic()
    headers, _ = read_headers(paths)
    name = audio_column(headers, column)
    material, sample = _material(headers, name, sample_rate, crop_seconds)
    audio = Audio(name, material.sample_rate, crop=RandomCrop(crop_seconds), strict=False)
    here = machine.look()
    threads = _thread_counts(here.usable_cpus)
    plan: list[tuple[str, int, int]] = [
        *(("read", 1, n) for n in _READERS),
        *(("read", n, 1) for n in _READERS[1:]),
        *(("decode", 1, n) for n in threads),
        *(("work", n, 1) for n in _READERS),
    ]
    unit = max(seconds / (len(plan) + 2), _SHORTEST_SECONDS)
    reads: list[ReadRun] = []
    decodes: list[DecodeRun] = []
    workers: list[DecodeRun] = []
    with Lab(material) as lab:
        for number, (what, processes, n) in enumerate(plan):
            if on_step:
                on_step(_NAMES[what], number, len(plan) + 1)
            if what == "read":
                reads.append(lab.read(processes, n, unit))
            elif what == "decode":
                decodes.append(lab.decode(processes, n, unit, reads=False))
            else:
                workers.append(lab.decode(processes, n, unit, reads=True))
    if on_step:
        on_step(_NAMES["pipeline"], len(plan), len(plan) + 1)
    crops = take(headers, audio, _BATCH_SIZE, ReadOptions(page_cache=False), 2 * unit)
    measured = Measured(
        machine=here,
        row_bytes=sample.row_bytes,
        crop_bytes=4 * round(crop_seconds * material.sample_rate),
        dataset_bytes=sum(header.bytes for header in headers),
        reads=tuple(reads),
        decodes=tuple(decodes),
        workers=tuple(workers),
        pipeline_rows_per_second=crops.rows / crops.seconds,
    )
    return Diagnosis(
        rows=sum(header.rows for header in headers),
        batch_size=batch_size,
        step_seconds=step_seconds,
        crop_seconds=crop_seconds,
        sample=sample,
        measured=measured,
        conclusion=conclude(measured, batch_size, step_seconds),
        seconds=time.monotonic() - began,
    )


_NAMES = {"read": "reading", "decode": "decoding", "work": "workers", "pipeline": "native threads"}


def _rate(rows_per_second: float) -> dict[str, float]:
    return {"rows_per_second": rows_per_second}


def _thread_counts(cpus: int) -> list[int]:
    """1, 2, 4 and so on, and the number of CPUs."""
    counts = [1]
    while 2 * counts[-1] < cpus:
        counts.append(2 * counts[-1])
    return counts if cpus == 1 else [*counts, cpus]


def _material(
    headers: Sequence[ShardHeader], column: str, sample_rate: int | None, crop_seconds: float
) -> tuple[Material, AudioSample]:
    """What the loops work on: the shards, and rows of a sample."""
    sample, encoded = draw(headers, column, _SAMPLE_ROWS, ReadOptions())
    if not encoded:
        raise SchemaError(
            f"nothing in a sample of {sample.rows} rows of column {column!r} can be decoded; "
            "gristmill scan says what is wrong",
            column=column,
        )
    rows: list[tuple[bytes, float]] = []
    n_bytes = 0
    for data in encoded:
        _, own_rate, _, frames = _core.probe(data, limits=Limits())
        rows.append((data, frames / own_rate))
        n_bytes += len(data)
        if n_bytes > _MOST_SAMPLE_BYTES:
            break
    rate = sample_rate or next(iter(sample.sample_rates))
    files = [(header.path, header.bytes) for header in headers if header.rows]
    return Material(files, [len(d) for d in encoded], rows, rate, crop_seconds), sample
