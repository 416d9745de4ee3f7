"""Measures storage, decoding and workers on a user's own shards, in a bounded time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from gristmill import checks
from gristmill.errors import SchemaError
from gristmill.options import ReadOptions, check_root
from gristmill.paths import Paths, as_list
from gristmill.report import AudioInfo
from gristmill.storage import Given, checked_storage_options
from gristmill.tools.crops import CropJob, take
from gristmill.tools.doctor import machine
from gristmill.tools.doctor.conclude import conclude
from gristmill.tools.doctor.lab import Lab
from gristmill.tools.doctor.loops import DecodeTrial, Material, ReadTrial
from gristmill.tools.doctor.measured import Measured
from gristmill.tools.doctor.report import Diagnosis
from gristmill.tools.doctor.store import (
    IN_FLIGHT,
    LARGE_BYTES,
    SMALL_BYTES,
    StoreFiles,
    StoreTrials,
)
from gristmill.tools.headers import read_headers
from gristmill.tools.sample import draw
from gristmill.tools.shards import audio_column
from gristmill.urls import is_url

_READERS = (1, 2, 4, 8)
_SAMPLE_ROWS = 48
_BATCH_SIZE = 16
"""Of the native threads' batches, which small ones do not slow down."""
_MOST_SAMPLE_BYTES = 64 << 20
_LEAST_INDEXED_BYTES = 64 << 10
_MOST_INDEXED_SHARE = 0.6
"""Smaller recordings, and those of which a crop needs more, are read whole in any case."""
_SHORTEST_SECONDS = 0.1
"""Of one measurement: less is noise."""

OnStep = Callable[[str, int, int], None]
"""Called before each measurement with its name, its number from 0, and the number of them."""


def diagnose(
    paths: Paths,
    *,
    batch_size: int = 64,
    step_seconds: float | None = None,
    crop_seconds: float = 5.0,
    sample_rate: int | None = None,
    column: str | None = None,
    root: str | os.PathLike[str] | None = None,
    seconds: float = 24.0,
    on_step: OnStep | None = None,
    storage_options: Given | None = None,
) -> Diagnosis:
    """Measures the storage and the machine, and says what will limit a training run.

    It reads pieces of the size of rows at random places of the shards, with 1, 2, 4 and 8 readers,
    in threads of one process and in as many processes; decodes crops of a sample in 1, 2, 4 and so
    on threads; and has 1, 2, 4 and 8 worker processes do both, and then one process of native
    threads. Before a read the page cache is asked to drop what is read.

    Of shards behind URLs the store is measured by itself: the time of a small request, one
    connection, and 1, 8, 32 and 128 requests of the size of rows in flight, by threads of this
    process.

    Args:
        paths: As in `ArrowIterDataset`.
        batch_size: Of the run.
        step_seconds: Time of its training step by itself; `None` asks for the shortest step that
            can be supplied.
        crop_seconds: Length of its random crops.
        sample_rate: Their rate in Hz; `None` takes the one that most rows of a sample have.
        column: The audio column; `None` takes the one that is found, as `ArrowIterDataset` does.
        root: The folder of the recordings, if rows contain paths, as in `Audio`.
        seconds: Time for all measurements together, about.
        on_step: Is told what is measured.
        storage_options: As in `ArrowIterDataset`, for shards behind URLs.

    Raises:
        OSError: A shard cannot be read.
        SchemaError: There is no audio column, or nothing in it can be decoded.
        ValueError: A number is out of range, or some shards are local and others behind URLs.
    """
    job = CropJob(batch_size, crop_seconds, sample_rate, column, seconds, check_root("root", root))
    step_seconds = checks.number(
        "step_seconds", step_seconds, 0, 1e9, above=True, write="step_seconds=0.3", none=True
    )
    checks.function("on_step", on_step)
    began = time.monotonic()
    storage = checked_storage_options(storage_options)
    given = as_list(paths)
    is_remote = any(map(is_url, given))
    if is_remote and not all(map(is_url, given)):
        raise ValueError(
            "some of these shards are local and others behind URLs, which are measured in another "
            "way: run doctor for each kind by itself"
        )
    headers, unreadable = read_headers(given, storage=storage)
    name = audio_column(headers, job.column)
    sample, rows = draw(headers, name, _SAMPLE_ROWS, ReadOptions(), job.root, storage)
    if not rows:
        raise SchemaError(
            f"nothing in a sample of {sample.rows} rows of column {name!r} can be decoded; "
            "gristmill scan says what is wrong",
            column=name,
        )
    audio = job.audio(name, sample)
    rate = audio.sample_rate if isinstance(audio.sample_rate, int) else 0
    files = [(header.path, header.bytes) for header in headers if header.rows]
    sizes = [len(data) for data, _ in rows]
    material = Material(files, sizes, _within(rows), rate, job.crop_seconds)
    here = machine.look()
    plan = _plan(here.usable_cpus, is_remote=is_remote)
    unit = max(job.seconds / (len(plan) + 2), _SHORTEST_SECONDS)
    reads: list[ReadTrial] = []
    decodes: list[DecodeTrial] = []
    workers: list[DecodeTrial] = []
    store = StoreFiles(headers, storage) if is_remote else None
    alone: list[ReadTrial] = []
    with Lab(material) as lab:
        for number, (what, processes, n) in enumerate(plan):
            if on_step:
                on_step(_NAMES[what], number, len(plan) + 1)
            if store is not None and what in _ALONE:
                alone.append(store.measure([_ALONE[what]], n, unit))
            elif store is not None and what == "read":
                reads.append(store.measure(sizes, n, unit))
            elif what == "read":
                reads.append(lab.read(processes, n, unit))
            elif what == "decode":
                decodes.append(lab.decode(processes, n, unit, reads=False))
            else:
                workers.append(lab.decode(processes, n, unit, reads=True))
    if on_step:
        on_step(_NAMES["pipeline"], len(plan), len(plan) + 1)
    # Whole rows, as the first epoch reads them.
    options = ReadOptions(page_cache=False, audio_index=False)
    crops = take(headers, audio, _BATCH_SIZE, options, 2 * unit, storage=storage)
    measured = Measured(
        machine=here,
        row_bytes=sample.row_bytes,
        crop_bytes=4 * round(job.crop_seconds * rate),
        dataset_bytes=sum(header.bytes for header in headers),
        reads=tuple(reads),
        decodes=tuple(decodes),
        workers=tuple(workers),
        pipeline_rows_per_second=crops.rows / crops.seconds,
        # Of recordings that lie in the shards by themselves.
        spare_share=0.0
        if job.root is not None or any(header.compression for header in headers)
        else _spare_share(rows, job.crop_seconds),
        store=StoreTrials(*alone) if alone else None,
    )
    return Diagnosis(
        rows=sum(header.rows for header in headers),
        batch_size=job.batch_size,
        step_seconds=step_seconds,
        crop_seconds=job.crop_seconds,
        sample=sample,
        measured=measured,
        conclusion=conclude(measured, job.batch_size, step_seconds),
        seconds=time.monotonic() - began,
        unreadable=tuple(unreadable),
    )


_NAMES = {
    "small": "latency",
    "one": "one connection",
    "read": "reading",
    "decode": "decoding",
    "work": "workers",
    "pipeline": "native threads",
}
_ALONE = {"small": SMALL_BYTES, "one": LARGE_BYTES}
"""Requests one after the other, by their size."""


def _plan(cpus: int, *, is_remote: bool) -> list[tuple[str, int, int]]:
    """What is measured, in how many processes, and with how many threads in each."""
    decodes = [("decode", 1, n) for n in _thread_counts(cpus)]
    if is_remote:
        alone = [(name, 1, 1) for name in _ALONE]
        return [*alone, *(("read", 1, n) for n in IN_FLIGHT), *decodes]
    return [
        *(("read", 1, n) for n in _READERS),
        *(("read", n, 1) for n in _READERS[1:]),
        *decodes,
        *(("work", n, 1) for n in _READERS),
    ]


def _thread_counts(cpus: int) -> list[int]:
    """1, 2, 4 and so on, and the number of CPUs."""
    counts = [1]
    while 2 * counts[-1] < cpus:
        counts.append(2 * counts[-1])
    return counts if cpus == 1 else [*counts, cpus]


def _spare_share(rows: Sequence[tuple[bytes, AudioInfo]], crop_seconds: float) -> float:
    """The part of these rows' bytes that lies around a crop, where it is worth reading it alone."""
    spared = 0.0
    for data, info in rows:
        share = crop_seconds / max(info.duration, crop_seconds)
        if len(data) >= _LEAST_INDEXED_BYTES and share <= _MOST_INDEXED_SHARE:
            spared += (1 - share) * len(data)
    return spared / max(sum(len(data) for data, _ in rows), 1)


def _within(rows: Sequence[tuple[bytes, AudioInfo]]) -> list[tuple[bytes, float]]:
    """The first rows, of not much more than `_MOST_SAMPLE_BYTES`, with their lengths in seconds."""
    kept: list[tuple[bytes, float]] = []
    n_bytes = 0
    for data, info in rows:
        kept.append((data, info.duration))
        n_bytes += len(data)
        if n_bytes > _MOST_SAMPLE_BYTES:
            break
    return kept
