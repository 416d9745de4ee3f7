"""The loops that are timed: reads of the size of rows, and crops of rows in memory.

They run in threads of a process that may have been forked, so they share no state with others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from gristmill import _core
from gristmill.options import Audio
from gristmill.tools.crops import decode_crop

_MOST_BYTES = 64 << 20
"""No read is larger, whatever the size of a row in the sample."""
MOST_LATENCIES = 4096
"""Kept of each thread."""


@dataclass(frozen=True)
class Material:
    """What the loops work on.

    Attributes:
        files: Paths and sizes of the shards.
        sizes: Bytes of the rows in a sample.
        rows: Encoded rows, and the length of each in seconds.
        sample_rate: Of the crops, in Hz.
        crop_seconds: Their length.
    """

    files: Sequence[tuple[str, int]]
    sizes: Sequence[int]
    rows: Sequence[tuple[bytes, float]]
    sample_rate: int
    crop_seconds: float


@dataclass
class Tally:
    """What one thread did, and how long after the start it ended."""

    seconds: float = 0.0
    reads: int = 0
    bytes: int = 0
    latencies: list[float] = field(default_factory=list[float])
    cold: int = 0
    warm: int = 0
    crops: int = 0
    throttled: int = 0
    failed: int = 0


@dataclass(frozen=True)
class ReadTrial:
    """Reads of the size of rows, at random places of the shards, by some readers at a time.

    Attributes:
        processes: Number of processes.
        threads: Number of threads in each.
        reads: Number of reads.
        bytes: In them.
        seconds: In this time.
        p50_seconds: Half of them took less.
        p90_seconds: 90 % took less.
        p99_seconds: 99 % took less.
        cold_share: The part whose bytes were not in this machine's page cache; `None` if the file
            system does not tell.
        throttled: Requests beside them that a store refused with 429 or 503.
        failed: Requests beside them that failed in another way, which passes.
    """

    processes: int
    threads: int
    reads: int
    bytes: int
    seconds: float
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    cold_share: float | None
    throttled: int = 0
    failed: int = 0

    @property
    def bytes_per_second(self) -> float:
        """Of all readers together."""
        return self.bytes / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return {**asdict(self), "bytes_per_second": self.bytes_per_second}


@dataclass(frozen=True)
class DecodeTrial:
    """Crops that were decoded, by some threads at a time; with a read before each, or without.

    Attributes:
        processes: Number of processes.
        threads: Number of threads in each.
        crops: Number of crops that were decoded.
        seconds: In this time.
        reads_too: Whether a row was read from the shards for each.
    """

    processes: int
    threads: int
    crops: int
    seconds: float
    reads_too: bool

    @property
    def rows_per_second(self) -> float:
        """Of all threads together."""
        return self.crops / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return {**asdict(self), "rows_per_second": self.rows_per_second}


def work(material: Material, n_threads: int, what: str, start: float, end: float) -> list[Tally]:
    """Runs `"read"`, `"decode"` or `"both"` in threads from one instant of the clock to another."""

    def loop(thread: int) -> Tally:
        tally, draw = Tally(), random.Random(f"{os.getpid()} {thread}")
        buffer = bytearray(max(material.sizes, default=1))
        step = _steps(material, files, tally, draw, buffer)[what]
        time.sleep(max(0.0, start - time.monotonic()))
        # Once at least, however late the system lets a thread begin.
        while tally.seconds == 0 or start + tally.seconds < end:
            step()
            tally.seconds = time.monotonic() - start
        return tally

    with contextlib.closing(_Files(material)) as files, ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(loop, range(n_threads)))


def summarize_decodes(tallies: Sequence[Tally], processes: int, *, reads_too: bool) -> DecodeTrial:
    """Adds up what all threads of all processes did."""
    return DecodeTrial(
        processes=processes,
        threads=len(tallies) // processes,
        crops=sum(tally.crops for tally in tallies),
        seconds=max(tally.seconds for tally in tallies),
        reads_too=reads_too,
    )


def summarize_reads(tallies: Sequence[Tally], processes: int) -> ReadTrial:
    """The same for reads."""
    latencies = sorted(latency for tally in tallies for latency in tally.latencies)
    told = sum(tally.cold + tally.warm for tally in tallies)
    return ReadTrial(
        processes=processes,
        threads=len(tallies) // processes,
        reads=sum(tally.reads for tally in tallies),
        bytes=sum(tally.bytes for tally in tallies),
        seconds=max(tally.seconds for tally in tallies),
        p50_seconds=_at(latencies, 0.5),
        p90_seconds=_at(latencies, 0.9),
        p99_seconds=_at(latencies, 0.99),
        cold_share=sum(tally.cold for tally in tallies) / told if told else None,
        throttled=sum(tally.throttled for tally in tallies),
        failed=sum(tally.failed for tally in tallies),
    )


def _at(ascending: Sequence[float], share: float) -> float:
    return ascending[int(share * (len(ascending) - 1))] if ascending else 0.0


_OPEN_SHARE = 4
"""Of the descriptors that a process may have, at most this part is for shards: the rest is for the
program and the iterators of this process."""


class _Files:
    """The shards, each opened when it is first read; of very many, a random sample."""

    def __init__(self, material: Material) -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = max(limit // _OPEN_SHARE, 1)
        self._files = material.files
        if limit != resource.RLIM_INFINITY and len(self._files) > most:
            self._files = random.Random(os.getpid()).sample(self._files, most)
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()
        # Large shards have more rows.
        self._weights = [size for _, size in self._files]

    def draw(self, draw: random.Random, n_bytes: int) -> tuple[int, int, int]:
        """A descriptor, an offset in it, and the number of bytes to read there."""
        path, size = draw.choices(self._files, self._weights)[0]
        with self._lock:
            fd = self._open.get(path)
            if fd is None:
                fd = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        n_bytes = max(1, min(n_bytes, size, _MOST_BYTES))
        return fd, draw.randrange(size - n_bytes + 1) if size > n_bytes else 0, n_bytes

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)


def _steps(
    material: Material, files: _Files, tally: Tally, draw: random.Random, buffer: bytearray
) -> dict[str, Callable[[], None]]:
    def read() -> None:
        fd, offset, n_bytes = files.draw(draw, draw.choice(material.sizes))
        _count_cold(fd, offset, n_bytes, tally)
        view = memoryview(buffer)[:n_bytes]
        began = time.perf_counter()
        n_read = 0
        while n_read < n_bytes:
            got = os.preadv(fd, [view[n_read:]], offset + n_read)
            if got == 0:
                break
            n_read += got
        if len(tally.latencies) < MOST_LATENCIES:
            tally.latencies.append(time.perf_counter() - began)
        tally.reads += 1
        tally.bytes += n_read

    audio = _core.AudioSpec(Audio(sample_rate=material.sample_rate, strict=False))

    def decode() -> None:
        data, duration = draw.choice(material.rows)
        start = draw.random() * max(duration - material.crop_seconds, 0.0)
        decode_crop(data, audio, start, material.crop_seconds)
        tally.crops += 1

    def both() -> None:
        read()
        decode()

    return {"read": read, "decode": decode, "both": both}


def _count_cold(fd: int, offset: int, n_bytes: int, tally: Tally) -> None:
    """Asks the page cache to drop a range, and counts whether it has.

    Pages that are mapped or dirty stay, and so does what a server caches in its own memory.
    """
    try:
        os.posix_fadvise(fd, offset, n_bytes, os.POSIX_FADV_DONTNEED)
        os.preadv(fd, [bytearray(1)], offset + n_bytes // 2, os.RWF_NOWAIT)
        tally.warm += 1
    except BlockingIOError:
        tally.cold += 1
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
