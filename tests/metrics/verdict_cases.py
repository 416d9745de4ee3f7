"""Makes each case of the verdict true, asks for the verdict, follows its advice, and asks again.

A script of its own, since it changes its affinity, and has worker processes that import it:
`python verdict_cases.py FOLDER CASE...` prints what was measured as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

import gristmill as gm
import shards
from gristmill.metrics import decide
from signals import RATE, encode, synthetic
from slow_storage import SlowStorage

SECONDS = 1.2  # of each measurement; more than ENOUGH_SECONDS
Options = dict[str, Any]
Measured = dict[str, Any]


def measure(
    paths: Any,
    *,
    step_s: float = 0.0,
    cpu_bound: bool = False,
    at_work: bool = False,
    **options: Any,
) -> Measured:
    """Takes elements for a while, a step after each; the figures and both verdicts.

    Where the loop is `cpu_bound`, the while is CPU time of its thread.
    """
    read = gm.ReadOptions(**options.pop("read", {}))
    cpu = cpu_seconds()
    iterator = iter(gm.ArrowIterDataset(paths, epochs=None, read=read, **options))
    element = next(iterator)
    clock = time.thread_time if cpu_bound else time.monotonic
    began, n_taken = clock(), 1
    while clock() - began < SECONDS or n_taken < 8:
        if step_s:
            time.sleep(step_s)
        element = next(iterator)
        n_taken += 1
    del element
    stats = iterator.stats()
    iterator.close()
    loop_cpu_s = clock() - began if cpu_bound else None
    cpu_of_row = (cpu_seconds() - cpu) / stats.rows
    return {**told(stats, loop_cpu_s, at_work=at_work), "cpu_seconds_per_row": cpu_of_row}


def told(stats: gm.Stats, loop_cpu_s: float | None = None, *, at_work: bool = False) -> Measured:
    """The figures and both verdicts; of a loop that is CPU-bound, its CPU seconds.

    With `at_work`, the time in which decode threads had no CPU does not count as theirs.
    """
    # As it would be on a machine where nobody else wants the CPUs.
    stages, alive = stats.stages, stats.decoders.alive_seconds
    if at_work:
        alive -= stats.decoders.cpu_queue_seconds or 0.0
    if loop_cpu_s is not None:
        own = max(loop_cpu_s - stages.deliver.busy_seconds, 0.0)
        stages = replace(stages, consumer=replace(stages.consumer, busy_seconds=own))
    alone = replace(
        stats,
        stages=stages,
        decoders=replace(stats.decoders, alive_seconds=alive, cpu_queue_seconds=0.0),
        settings=replace(stats.settings, machine_cpus=stats.settings.usable_cpus),
    )
    return {
        "verdict": decide(stats).to_dict(),
        "alone": decide(alone).to_dict(),
        "stats": stats.to_dict(),
        "rows_per_second": stats.rows_per_second,
        "str": str(stats),
    }


def advised(measured: Measured, option: str, now: Any, verdict: str = "verdict") -> Any:
    """What the verdict says an option should be; as it is now where that is not said."""
    advice = measured[verdict]["advice"]
    return next((a["to"] for a in advice if a["option"] == option), now)


def make(folder: Path) -> None:
    """The shards: six of short WAV, and one each of what is dear in its own way."""
    rng = np.random.default_rng(0)
    for k in range(6):
        made = [
            encode(synthetic(rng.uniform(0.6, 1.6), RATE, 1, 40 * k + i), RATE, "wav16")
            for i in range(40)
        ]
        shards.write_audio(folder / f"wav-{k}.arrow", made, batch_rows=100)
    vorbis = [encode(synthetic(4, RATE, 2, i), RATE, "vorbis") for i in range(6)]
    shards.write_audio(folder / "vorbis.arrow", vorbis, batch_rows=100)
    # Its ratio to the target rate has long terms: there the longer filter is dearer.
    other_rate = [encode(synthetic(12, 44_099, 1, i), 44_099, "wav16") for i in range(6)]
    shards.write_audio(folder / "other-rate.arrow", other_rate, batch_rows=100)
    many = [shards.row(i, None) for i in range(4096)]
    shards.write(folder / "objects.arrow", many, batch_rows=4096)
    write_tokens(folder / "tokens.arrow", batch_rows=1000)


def write_tokens(path: Path, batch_rows: int) -> None:
    """4,000 rows of 250 numbers, compressed, in record batches of so many rows."""
    schema = pa.schema([("tokens", pa.list_(pa.int32(), 250))])
    rng = np.random.default_rng(0)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as out:
        for _ in range(0, 4000, batch_rows):
            values = pa.array(rng.integers(0, 50_000, 250 * batch_rows, dtype=np.int32))
            lists = pa.FixedSizeListArray.from_arrays(values, 250)
            out.write_batch(pa.record_batch([lists], schema=schema))


def slow(folder: Path, **options: Any) -> SlowStorage:
    """The shards behind slow storage, each read a request to it."""
    return SlowStorage(folder, direct=True, **options)


def audio(seconds: float = 0.5, **options: Any) -> Options:
    crop = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(seconds), **options)
    return {"columns": ["audio", "label"], "audio": crop, "shuffle": gm.Shuffle(1)}


def consumer(folder: Path) -> list[Measured]:
    return [measure(f"{folder}/wav-*.arrow", step_s=0.05, batch_size=4, **audio())]


def decode(folder: Path) -> list[Measured]:
    job = {"batch_size": 2, **audio(4.0)}
    read = {"num_threads": 1, "prefetch_batches": 16}
    before = measure(folder / "vorbis.arrow", read=read, **job)
    read["num_threads"] = advised(before, "num_threads", 1, "alone")
    return [before, measure(folder / "vorbis.arrow", read=read, **job)]


def resample(folder: Path) -> list[Measured]:
    def run(resampler: str) -> Measured:
        job = audio(12.0, resampler=resampler)
        return measure(folder / "other-rate.arrow", read={"num_threads": 1}, batch_size=2, **job)

    before = run("best")
    return [before, run(advised(before, "resampler", "best", "alone"))]


def storage_bandwidth(folder: Path) -> list[Measured]:
    job = {
        "batch_size": 4,
        "read": {"num_threads": 2, "num_requests": 4, "prefetch_batches": 8},
        **audio(),
    }
    with slow(folder, bandwidth=4e6) as mount:
        before = measure(f"{mount}/wav-*.arrow", **job)
    near = folder / "local"  # the advice: a copy on faster storage
    near.mkdir()
    for path in folder.glob("wav-*.arrow"):
        shutil.copy(path, near / path.name.replace("wav", "copy"))
    return [before, measure(near, **job)]


def storage_latency(folder: Path) -> list[Measured]:
    job = {"batch_size": 8, **audio()}
    read = {"num_threads": 2, "num_requests": 4, "prefetch_batches": 8}
    with slow(folder, latency=0.025) as mount:
        before = measure(f"{mount}/wav-*.arrow", read=read, **job)
        read["num_requests"] = advised(before, "num_requests", None)
        return [before, measure(f"{mount}/wav-*.arrow", read=read, **job)]


def memory_budget(folder: Path) -> list[Measured]:
    job = {"batch_size": 8, "step_s": 0.03, **audio()}
    read = {"num_threads": 2, "num_requests": 8, "memory_budget": 1_100_000}
    with slow(folder, latency=0.02) as mount:
        before = measure(f"{mount}/wav-*.arrow", read=read, **job)
        read["memory_budget"] = advised(before, "memory_budget", read["memory_budget"])
        return [before, measure(f"{mount}/wav-*.arrow", read=read, **job)]


def look_ahead(folder: Path) -> list[Measured]:
    job = {"batch_size": 2, **audio()}
    read = {"num_threads": 2, "num_requests": 12, "prefetch_batches": 1}
    with slow(folder, latency=0.02) as mount:
        before = measure(f"{mount}/wav-*.arrow", read=read, **job)
        read["prefetch_batches"] = advised(before, "prefetch_batches", 1)
        return [before, measure(f"{mount}/wav-*.arrow", read=read, **job)]


def slow_shard(folder: Path) -> list[Measured]:
    job = {"batch_size": 4, "read": {"num_threads": 2, "num_requests": 4}, **audio()}
    with slow(folder, latency=0.06, only="wav-3") as mount:
        paths = sorted(mount.glob("wav-*.arrow"))
        before = measure(paths, **job)
        blamed = Path(before["verdict"]["figures"].get("shard", paths[0]))
        copy = folder / f"copy-of-{blamed.name}"
        shutil.copy(blamed, copy)
        return [before, measure([copy if path == blamed else path for path in paths], **job)]


def bad_shard(folder: Path) -> list[Measured]:
    """Three shards of Vorbis, one of which is overwritten near the ends of half its recordings."""
    short = [encode(synthetic(1, RATE, 1, i), RATE, "vorbis") for i in range(12)]
    long = [encode(synthetic(8, RATE, 1, 50 + i), RATE, "vorbis") for i in range(2)]
    spoiled = [data[: (at := 9 * len(data) // 10)] + bytes(64) + data[at + 64 :] for data in long]
    for k in range(3):
        made = [spoiled[i // 2 % 2] if k == 1 and i % 2 else short[i % 12] for i in range(24)]
        shards.write_audio(folder / f"part-{k}.arrow", made, batch_rows=100)
    whole = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(8.0))
    job = {"columns": ["audio", "label"], "audio": whole, "shuffle": gm.Shuffle(1)}
    job |= {"batch_size": 4, "on_error": "substitute", "read": {"num_threads": 1}, "at_work": True}
    paths = sorted(folder.glob("part-*.arrow"))
    before = measure(paths, **job)
    found = folder / "bad.jsonl"
    gm.scan(before["alone"]["figures"].get("shard", paths[0]), quarantine=found)
    return [before, measure(paths, exclude=found, **job)]


def python(folder: Path) -> list[Measured]:
    columns: Any = ["label", "count", "name", "tags", "place"]
    job: Options = {"audio": None, "batch_size": 512, "cpu_bound": True}
    before = measure(folder / "objects.arrow", columns=columns, **job)
    columns = list(advised(before, "columns", columns, "alone"))
    return [before, measure(folder / "objects.arrow", columns=columns, **job)]


def assemble(folder: Path) -> list[Measured]:
    # A table of a record batch is 1 MB, the cache of them half of that: each row loads one. By one
    # reader: of several, all but one would wait for room in the budget.
    read = {"memory_budget": 2 << 20, "num_requests": 1}
    job: Options = {"batch_size": 32, "shuffle": gm.Shuffle(1), "read": read}
    before = measure(folder / "tokens.arrow", **job)
    smaller = folder / "tokens-in-smaller-batches.arrow"
    write_tokens(smaller, batch_rows=10)
    return [before, measure(smaller, **job)]


def cpu_quota(folder: Path) -> list[Measured]:
    read = {"num_threads": 2, "prefetch_batches": 16}
    job = {"batch_size": 2, "read": read, **audio(4.0)}
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    before = measure(folder / "vorbis.arrow", **job)
    os.sched_setaffinity(0, cpus)
    return [before, measure(folder / "vorbis.arrow", **job)]


class Watched(gm.ArrowIterDataset):
    """Keeps its iterators, which those that are built on them do not show."""

    made: ClassVar[list[gm.ArrowIterator]] = []

    def __iter__(self) -> gm.ArrowIterator:
        self.made.append(super().__iter__())
        return self.made[-1]


def shuffle_window(folder: Path) -> list[Measured]:
    # Reading a window takes a third of the time that the loop needs for it, so that the pauses are
    # longer than the reading on a busy machine too. Neither needs the CPU.
    with slow(folder, latency=0.002) as mount:
        return windows(mount)


def windows(folder: Path) -> list[Measured]:
    import grain

    rows, batch_size, step_s = 320, 16, 0.1
    n_batches = 3 * rows // batch_size

    def run(*, window: bool, shuffle: gm.Shuffle | None = None, ahead: int = 2) -> Measured:
        read = gm.ReadOptions(num_threads=1, num_requests=1, prefetch_batches=ahead)
        job = {**audio(), "shuffle": shuffle}
        dataset: Any = Watched(f"{folder}/wav-*.arrow", epochs=None, read=read, **job)
        if window:
            shuffled = grain.experimental.WindowShuffleIterDataset
            dataset = shuffled(dataset, window_size=rows, seed=1)
        batches = iter(dataset.batch(batch_size))
        next(batches)
        began = time.monotonic()
        for _ in range(n_batches):
            time.sleep(step_s)
            next(batches)
        speed = n_batches * batch_size / (time.monotonic() - began)
        iterator = Watched.made.pop()
        stats = iterator.stats()
        iterator.close()
        return {**told(stats), "rows_per_second": speed}

    before = run(window=True)
    here = before["alone"]["advice"][0]["option"] == "shuffle"
    after = run(window=not here, shuffle=gm.Shuffle(1) if here else None)
    return [before, after, run(window=True, ahead=advised(before, "prefetch_batches", 2, "alone"))]


class VerdictFile(logging.Handler):
    """Writes the verdict of each line that the logger `gristmill` gets."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.path = Path(folder, f"verdicts-{os.getpid()}.jsonl")

    def emit(self, record: logging.LogRecord) -> None:
        verdict: gm.Verdict = record.__dict__["verdict"]
        with self.path.open("a") as out:
            out.write(json.dumps(verdict.to_dict()) + "\n")


class LogVerdicts:
    """What a worker does first, as `worker_init_fn`."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, worker_index: int, worker_count: int) -> None:
        logger = logging.getLogger("gristmill")
        logger.setLevel(logging.INFO)
        logger.addHandler(VerdictFile(self.folder))


def oversubscribed(folder: Path) -> list[Measured]:
    import grain
    from absl import flags

    flags.FLAGS.mark_as_parsed()
    n = len(os.sched_getaffinity(0))
    # Much to decode and little to hand over, so that the workers' decode threads are what competes.
    wanted = gm.Audio(sample_rate=1000, crop=gm.StartCrop(4))
    job: Options = {"columns": ["audio", "label"], "audio": wanted, "batch_size": 4}
    read = {"num_threads": n, "prefetch_batches": 16}
    options = gm.ReadOptions(log_every_seconds=0.5, **read)
    path = folder / "vorbis.arrow"
    dataset = gm.ArrowIterDataset(path, read=options, epochs=None, **job)
    workers = dataset.mp_prefetch(
        grain.MultiprocessingOptions(num_workers=2), worker_init_fn=LogVerdicts(folder)
    )
    cpu = cpu_seconds()
    iterator = iter(workers)
    next(iterator)
    began, taken = time.monotonic(), 0
    # A worker that the others hold up says that it keeps up: until one of them says it.
    until = began + 40
    while time.monotonic() < until and not any(map(is_oversubscribed, logged(folder))):
        taken += len(next(iterator)["label"])
    speed = taken / (time.monotonic() - began)
    iterator.close()
    del iterator
    cost = (cpu_seconds() - cpu) / taken
    lines = sorted(logged(folder), key=is_oversubscribed)
    before = {"verdict": lines[-1], "rows_per_second": speed, "cpu_seconds_per_row": cost}

    return [before, measure(path, read=read, **job)]  # the advice: no workers


def logged(folder: Path) -> list[dict[str, Any]]:
    """The verdicts that workers have logged."""
    files = [path.read_text().splitlines() for path in folder.glob("verdicts-*.jsonl")]
    return [json.loads(line) for lines in files for line in lines]


def is_oversubscribed(verdict: dict[str, Any]) -> bool:
    return verdict["case"] == "oversubscribed"


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


CASES: dict[str, Callable[[Path], list[Measured]]] = {
    "consumer": consumer,
    "decode": decode,
    "resample": resample,
    "storage-bandwidth": storage_bandwidth,
    "storage-latency": storage_latency,
    "memory-budget": memory_budget,
    "look-ahead": look_ahead,
    "shuffle-window": shuffle_window,
    "slow-shard": slow_shard,
    "bad-shard": bad_shard,
    "python": python,
    "assemble": assemble,
    "cpu-quota": cpu_quota,
    "oversubscribed": oversubscribed,
}


def main(folder: Path, names: list[str]) -> None:
    make(folder)
    measured = {}
    for name in names or CASES:
        measured[name] = CASES[name](folder)
    sys.stdout.write(json.dumps(measured))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
