"""What an iterator has measured of itself, `it.stats()`: plain, frozen values.

The native core makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import groupby
from typing import Any, cast

from gristmill.metrics.text import Printed, count_text

_MB = 1e6


@dataclass(frozen=True)
class StageStats:
    """One stage. Seconds are summed over its threads.

    Attributes:
        count: Rows, requests, batches or elements that went through it.
        busy_seconds: At work.
        waiting_seconds: Asleep.
        p50_seconds: Half of the rows (requests, ...) took less; exact to a sixteenth, as the next.
        p90_seconds: 90 % took less.
        p99_seconds: 99 % took less.
    """

    count: int = 0
    busy_seconds: float = 0.0
    waiting_seconds: float = 0.0
    p50_seconds: float = 0.0
    p90_seconds: float = 0.0
    p99_seconds: float = 0.0


@dataclass(frozen=True)
class Stages:
    """The stages of the data's path.

    Attributes:
        plan: Rows: finding the next one, and its bytes in a record batch. Busy is the readers' time
            outside requests and waits, so where nothing is decoded it is also the work on rows;
            waiting is for record batches that other readers are loading. The percentiles are of
            loading a record batch's columns.
        read: Requests to the storage, after the shards were opened. Readers wait for the readahead
            limit, the memory budget, and before they repeat a request that failed.
        decode: Rows, from encoded bytes to samples at their own rate, and reading substitutes for
            bad ones. The threads wait for rows to be read.
        resample: Rows that were resampled, in the decode threads.
        assemble: Batches, assembled by the thread that finishes their last row: a reader where
            nothing is decoded.
        deliver: Elements made of batches for Python. Waiting for the GIL counts as work.
        consumer: Elements taken. Busy is what the caller does between two calls of `next`, waiting
            is how long those calls waited for data, and the percentiles are of these waits. The
            first wait is not among them; it is `Stats.first_element_seconds`.
    """

    plan: StageStats = field(default_factory=StageStats)
    read: StageStats = field(default_factory=StageStats)
    decode: StageStats = field(default_factory=StageStats)
    resample: StageStats = field(default_factory=StageStats)
    assemble: StageStats = field(default_factory=StageStats)
    deliver: StageStats = field(default_factory=StageStats)
    consumer: StageStats = field(default_factory=StageStats)


@dataclass(frozen=True)
class StorageStats:
    """Positional reads of the shards, those that opened them included.

    Attributes:
        requests: Number of requests.
        bytes: Bytes read.
        busy_seconds: Thread seconds inside requests.
        latency_seconds: Time of a request apart from its bytes, which more readers would hide. From
            a least-squares fit of a request's time over the bytes that all readers have in flight,
            since these share the bandwidth. `None` while requests are few or all alike.
        seconds_per_byte: The inverse of the bandwidth, from the same fit.
        spare_bytes: Bytes around crops, in recordings that were read whole because no audio index
            knew them; by their lengths, since only an index tells what exactly it spares.
        throttled: Requests that a store answered with 429 or 503: it has too many.
        retries: Requests that failed and were repeated.
    """

    requests: int = 0
    bytes: int = 0
    busy_seconds: float = 0.0
    latency_seconds: float | None = None
    seconds_per_byte: float | None = None
    spare_bytes: int = 0
    throttled: int = 0
    retries: int = 0


@dataclass(frozen=True)
class CacheStats:
    """Caches of record batches' columns (tables), of open files, and of ranges in `cache_dir`.

    Attributes:
        table_hits: Rows whose table was in memory.
        table_loads: Tables that were loaded.
        table_bytes: Bytes of tables in memory now.
        file_hits: Requests that found their file open.
        file_opens: Files that were opened.
        range_hits: Reads that `cache_dir` answered without a request, of 4 MiB at most each.
        range_bytes: Their bytes.
    """

    table_hits: int = 0
    table_loads: int = 0
    table_bytes: int = 0
    file_hits: int = 0
    file_opens: int = 0
    range_hits: int = 0
    range_bytes: int = 0


@dataclass(frozen=True)
class QueueStats:
    """The queues between the stages now, and their mean depth over the elements taken.

    Attributes:
        unfinished_rows: Rows that a reader has taken on and that are not decoded yet.
        read_rows: Rows among them that are read and wait for a decode thread.
        read_bytes: Bytes charged to the budget for these.
        open_batches: Batches under way or waiting for the consumer.
        ready_batches: Batches among them that wait for the consumer.
        mean_read_rows: Mean of `read_rows`.
        mean_ready_batches: Mean of `ready_batches`, the one taken included.
    """

    unfinished_rows: int = 0
    read_rows: int = 0
    read_bytes: int = 0
    open_batches: int = 0
    ready_batches: int = 0
    mean_read_rows: float = 0.0
    mean_ready_batches: float = 0.0


@dataclass(frozen=True)
class MemoryStats:
    """Bytes in flight, as they count for the budget.

    Attributes:
        used_bytes: Now.
        peak_bytes: The most so far.
        budget_bytes: The most allowed.
    """

    used_bytes: int = 0
    peak_bytes: int = 0
    budget_bytes: int = 0


@dataclass(frozen=True)
class ReaderWaitStats:
    """Why reader threads were asleep, in thread seconds.

    Attributes:
        look_ahead_seconds: The readahead limit: `prefetch_batches` were under way.
        memory_budget_seconds: The next batch or row did not fit into `memory_budget`.
        tables_seconds: Another reader was loading the same record batch's columns, or large ones.
        retries_seconds: A request had failed, and was repeated after a while.
    """

    look_ahead_seconds: float = 0.0
    memory_budget_seconds: float = 0.0
    tables_seconds: float = 0.0
    retries_seconds: float = 0.0


@dataclass(frozen=True)
class PauseStats:
    """Pauses of the consumer: ten times as long between two elements as on average, or longer.

    A loop that takes a step for each element has none. One that fills a shuffle window or a batch
    takes elements in bursts, and pauses after each; so does one that evaluates now and then.

    Attributes:
        count: Number of pauses. The last one counts once it has ended.
        seconds: All of them together, exact to a sixteenth.
    """

    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class ThreadStats:
    """One kind of threads. Decode threads are shared by all iterators of a process.

    Attributes:
        count: Number of threads; of decode threads, those that may work here at a time.
        alive_seconds: Thread seconds since the shards were opened.
        cpu_seconds: On a CPU; `None` where the system does not tell. Of shared threads, this
            iterator's part by the time that they worked for it.
        cpu_queue_seconds: Ready to run, and no CPU was free; `None` as above.
        elsewhere_seconds: Decode threads only: rows were ready here, and the threads worked for
            other iterators. Neither busy nor waiting in `Stages.decode`.
    """

    count: int = 0
    alive_seconds: float = 0.0
    cpu_seconds: float | None = None
    cpu_queue_seconds: float | None = None
    elsewhere_seconds: float = 0.0


@dataclass(frozen=True)
class ShardStats:
    """One shard: the requests to it, and its rows where they are decoded.

    A row counts each time that it is decoded, also if it is read ahead or a substitute.

    Attributes:
        path: As it was given.
        requests: To the storage.
        bytes: Bytes read.
        busy_seconds: Thread seconds inside requests.
        decoded_rows: Rows that were decoded, or tried.
        bad_rows: Those that could not be used.
        damaged_rows: Those that were used although something is wrong with them.
        bad_busy_seconds: Decode threads' time for bad rows: finding that they are, and reading
            substitutes.
        decode_busy_seconds: Decode threads' time for all rows.
        dataset: Number of its data set in a mixture.
        throttled: Requests that its store answered with 429 or 503: it has too many.
        retries: Requests that failed and were repeated.
    """

    path: str
    requests: int = 0
    bytes: int = 0
    busy_seconds: float = 0.0
    decoded_rows: int = 0
    bad_rows: int = 0
    damaged_rows: int = 0
    bad_busy_seconds: float = 0.0
    decode_busy_seconds: float = 0.0
    dataset: int = 0
    throttled: int = 0
    retries: int = 0


@dataclass(frozen=True)
class DatasetStats:
    """One data set of a mixture: the sums over its shards.

    Attributes:
        number: Its number in the mixture.
        first_path: The path of its first shard.
        shards: Number of its shards.
        bytes: Bytes read.
        busy_seconds: Thread seconds inside requests.
        decoded_rows: Rows that were decoded, or tried.
        decode_busy_seconds: Decode threads' time for these.
    """

    number: int
    first_path: str
    shards: int
    bytes: int
    busy_seconds: float
    decoded_rows: int
    decode_busy_seconds: float

    @classmethod
    def of(cls, shards: Sequence[ShardStats]) -> DatasetStats:
        """That of these shards."""
        return cls(
            number=shards[0].dataset,
            first_path=shards[0].path,
            shards=len(shards),
            bytes=sum(shard.bytes for shard in shards),
            busy_seconds=sum(shard.busy_seconds for shard in shards),
            decoded_rows=sum(shard.decoded_rows for shard in shards),
            decode_busy_seconds=sum(shard.decode_busy_seconds for shard in shards),
        )


@dataclass(frozen=True)
class Settings:
    """The options and the machine that the figures were measured with.

    Attributes:
        num_threads: Decode threads that may work for this iterator at a time.
        num_requests: Reader threads.
        prefetch_batches: As in `ReadOptions`.
        memory_budget_bytes: As in `ReadOptions`, in bytes.
        batch_size: Rows in a batch; `None` for single rows.
        resampler: The filter, `None` where no rate was asked for.
        columns: Names of the columns that are delivered; empty before the first element.
        object_columns: Those that are Python objects, and not arrays of numbers.
        machine_cpus: CPUs of the machine.
        usable_cpus: CPUs that this process may use, by affinity and cgroup quota.
        is_worker: Whether this is a worker process, such as those of `mp_prefetch`.
        audio_index: Whether audio indexes are used, and there is a folder for them.
        row_seconds: Seconds of audio in a row, padding included; `None` for whole recordings,
            crops as long as their events, and without audio.
        row_tokens: Integers of 32 or 64 bits in the lists of a row, if these are equally long
            (`ragged="error"`, lists of fixed size); `None` without such lists, and of single rows.
    """

    num_threads: int = 0
    num_requests: int = 0
    prefetch_batches: int = 0
    memory_budget_bytes: int = 0
    batch_size: int | None = None
    resampler: str | None = None
    columns: tuple[str, ...] = ()
    object_columns: tuple[str, ...] = ()
    machine_cpus: int = 1
    usable_cpus: int = 1
    is_worker: bool = False
    audio_index: bool = True
    row_seconds: float | None = None
    row_tokens: int | None = None


@dataclass(frozen=True)
class Stats(Printed):
    """All figures since the native threads started; a restored iterator begins anew.

    `str()` gives a table. `to_dict()` is safe for JSON.

    Attributes:
        elapsed_seconds: Since the threads were started.
        opening_seconds: Time for opening the shards; `None` while they are not open.
        first_element_seconds: How long the first `next` waited; `None` before it returned.
        elements: Elements delivered.
        rows: Rows delivered.
        bad_rows: Rows that could not be used, in the places of these, each time that one was met.
        stages: Each stage of the data's path.
        storage: Reads of the shards.
        caches: Cache hits and loads.
        queues: What waits between the stages.
        memory: Bytes in flight.
        reader_waits: Why readers waited.
        pauses: Pauses of the consumer.
        readers: The threads that read.
        decoders: The threads that decode.
        shards: The shards that were read from, in their order.
        settings: The options and the machine that all of this was measured with.
    """

    elapsed_seconds: float = 0.0
    opening_seconds: float | None = None
    first_element_seconds: float | None = None
    elements: int = 0
    rows: int = 0
    bad_rows: int = 0
    stages: Stages = field(default_factory=Stages)
    storage: StorageStats = field(default_factory=StorageStats)
    caches: CacheStats = field(default_factory=CacheStats)
    queues: QueueStats = field(default_factory=QueueStats)
    memory: MemoryStats = field(default_factory=MemoryStats)
    reader_waits: ReaderWaitStats = field(default_factory=ReaderWaitStats)
    pauses: PauseStats = field(default_factory=PauseStats)
    readers: ThreadStats = field(default_factory=ThreadStats)
    decoders: ThreadStats = field(default_factory=ThreadStats)
    shards: tuple[ShardStats, ...] = ()
    settings: Settings = field(default_factory=Settings)

    @property
    def loop_seconds(self) -> float:
        """The consumer's time since the first element: its own work, waiting, and delivery."""
        consumer = self.stages.consumer
        return consumer.busy_seconds + consumer.waiting_seconds + self.stages.deliver.busy_seconds

    @property
    def rows_per_second(self) -> float:
        """Throughput after the first element."""
        if self.elements < 2 or self.loop_seconds <= 0:
            return 0.0
        return self.rows * (self.elements - 1) / self.elements / self.loop_seconds

    @property
    def audio_seconds_per_second(self) -> float | None:
        """Seconds of audio that are delivered in a second; `None` as in `Settings.row_seconds`."""
        seconds = self.settings.row_seconds
        return None if seconds is None else seconds * self.rows_per_second

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that are delivered in a second; `None` as in `Settings.row_tokens`."""
        tokens = self.settings.row_tokens
        return None if tokens is None else tokens * self.rows_per_second

    @property
    def waiting_share(self) -> float:
        """The part of the consumer's time in which it waited for data, 0 to 1."""
        loop = self.loop_seconds
        return self.stages.consumer.waiting_seconds / loop if loop > 0 else 0.0

    @property
    def datasets(self) -> tuple[DatasetStats, ...]:
        """The data sets of a mixture; one, of all shards, without one."""
        by_number = groupby(self.shards, key=lambda shard: shard.dataset)
        return tuple(DatasetStats.of(list(shards)) for _, shards in by_number)

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries and lists of numbers and strings: safe for JSON."""
        return _plain(self)

    def __str__(self) -> str:
        return "\n".join(_table(self))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("tuple[Any, ...]", value)]
    return value


def _table(stats: Stats) -> list[str]:
    """The most important figures, within 80 columns."""
    memory, storage, queues = stats.memory, stats.storage, stats.queues
    delivered = f"{count_text(stats.rows, 'row')} in {count_text(stats.elements, 'element')}"
    lines = [
        f"{delivered}, {stats.elapsed_seconds:.1f} s",
        f"{throughput_text(stats)}, waiting {stats.waiting_share:.1%} of the time",
        "stage          count    busy s    wait s    p50 ms    p90 ms    p99 ms",
    ]
    for part in fields(stats.stages):
        stage: StageStats = getattr(stats.stages, part.name)
        times = (stage.p50_seconds, stage.p90_seconds, stage.p99_seconds)
        start = f"{part.name:<9}{stage.count:>11,}{stage.busy_seconds:>10.2f}"
        rest = "".join(f"{1e3 * time:>10.3f}" for time in times)
        lines.append(f"{start}{stage.waiting_seconds:>10.2f}{rest}")
    used, peak, budget = (
        f"{n / _MB:,.0f}" for n in (memory.used_bytes, memory.peak_bytes, memory.budget_bytes)
    )
    depths = f"{queues.mean_read_rows:.1f} and {queues.mean_ready_batches:.1f}"
    reads = f"storage: {storage.requests:,} requests, {storage.bytes / _MB:,.1f} MB"
    lines.append(reads if storage.latency_seconds is None else f"{reads}, {_cost(storage)}")
    if storage.retries:
        pause = stats.reader_waits.retries_seconds
        lines.append(f"retries: {storage.retries:,}, after waits of {pause:.1f} s together")
    if (caches := stats.caches).range_hits:
        n, n_bytes = caches.range_hits, caches.range_bytes
        lines.append(f"cache_dir: {n:,} reads without a request, {n_bytes / _MB:,.1f} MB")
    lines.append(f"memory: {used} MB used, {peak} MB at most, {budget} MB allowed")
    if stats.bad_rows:
        lines.append(f"bad rows: {stats.bad_rows:,}, see bad_rows() of the iterator")
    lines.append(f"queues: {depths} rows read and batches ready, on average")
    return lines


def throughput_text(stats: Stats) -> str:
    """Rows a second, and the audio and tokens in them where these are known."""
    text = f"{stats.rows_per_second:,.0f} rows/s"
    if (seconds := stats.audio_seconds_per_second) is not None:
        text += f", {seconds:,.0f} s of audio/s"
    if (tokens := stats.tokens_per_second) is not None:
        text += f", {tokens:,.0f} tokens/s"
    return text


def _cost(storage: StorageStats) -> str:
    text = f"latency {1e3 * (storage.latency_seconds or 0):.2f} ms"
    if storage.seconds_per_byte:
        text += f", bandwidth {1 / storage.seconds_per_byte / _MB:,.0f} MB/s"
    return text
