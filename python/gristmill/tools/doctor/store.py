"""What is measured of a store behind URLs: requests by threads of this process.

Threads, as training has them, and connections that stay open from one trial to the next: a process
of its own for each trial would measure how connections are made.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from gristmill import _core
from gristmill.storage import StorageOptions
from gristmill.tools.doctor.loops import MOST_LATENCIES, ReadTrial, Tally, summarize_reads
from gristmill.tools.shards import ShardHeader

IN_FLIGHT = (1, 8, 32, 128)
"""The last is the most that a run has."""
SMALL_BYTES = 4 << 10
LARGE_BYTES = 4 << 20
"""The core asks for no more in one request."""
_PAUSE_SECONDS = 0.1
"""After a request that failed, as training begins to wait."""


@dataclass(frozen=True)
class StoreTrials:
    """What was measured of a store by itself, one request after the other.

    Attributes:
        small: Requests of 4 KiB, which take the latency.
        one: Requests of 4 MiB, which take the bandwidth of one connection.
    """

    small: ReadTrial
    one: ReadTrial


class StoreFiles:
    """The shards, at random places of which is read. Used by any number of threads.

    Args:
        headers: Of the shards, all behind URLs.
        storage: How they are reached.
    """

    def __init__(self, headers: Sequence[ShardHeader], storage: StorageOptions) -> None:
        full = [header for header in headers if header.rows]
        reached = storage.native(header.path for header in full)
        self._files = [(_core.MeasuredFile(header.path, reached), header.bytes) for header in full]
        self._weights = [header.bytes for header in full]

    def request(self, draw: random.Random, n_bytes: int) -> int | None:
        """Asks for that many bytes, 4 MiB at most; `None` where the store throttles."""
        file, size = draw.choices(self._files, self._weights)[0]
        n_bytes = max(1, min(n_bytes, size, LARGE_BYTES))
        return file.request(draw.randrange(size - n_bytes + 1), n_bytes)

    def measure(self, sizes: Sequence[int], n_threads: int, seconds: float) -> ReadTrial:
        """Requests of these sizes for that long, with as many in flight as there are threads.

        What fails for a moment is counted, and not repeated.

        Raises:
            OSError: All of them failed, or one in a way that does not pass.
        """
        start = threading.Barrier(n_threads)

        def loop(thread: int) -> tuple[Tally, OSError | None]:
            tally, draw, last = Tally(), random.Random(thread), None
            try:
                # Not measured: it opens a connection.
                with suppress(ConnectionError, TimeoutError):
                    self.request(draw, draw.choice(sizes))
                start.wait()
            except threading.BrokenBarrierError:
                return tally, None
            except BaseException:
                start.abort()
                raise
            began = time.monotonic()
            while tally.seconds == 0 or tally.seconds < seconds:
                last = self._count(tally, draw, draw.choice(sizes)) or last
                tally.seconds = time.monotonic() - began
            return tally, last

        with ThreadPoolExecutor(n_threads, thread_name_prefix="gristmill-doctor") as pool:
            done = list(pool.map(loop, range(n_threads)))
        trial = summarize_reads([tally for tally, _ in done], 1)
        if not trial.reads:
            raise next((error for _, error in done if error), _refused(trial.throttled))
        # By the rates of the threads: a request that ends late is not waited for by the others.
        rate = sum(tally.bytes / tally.seconds for tally, _ in done)
        return replace(trial, seconds=trial.bytes / rate)

    def _count(self, tally: Tally, draw: random.Random, n_bytes: int) -> OSError | None:
        """One request, measured; its error where it failed for a moment."""
        began, failure = time.perf_counter(), None
        try:
            got = self.request(draw, n_bytes)
        except (PermissionError, FileNotFoundError):
            raise
        except OSError as error:
            got, failure = None, error
        if got is not None:
            if len(tally.latencies) < MOST_LATENCIES:
                tally.latencies.append(time.perf_counter() - began)
            tally.reads += 1
            tally.bytes += got
            return None
        tally.throttled += failure is None
        tally.failed += failure is not None
        time.sleep(_PAUSE_SECONDS)
        return failure


def _refused(n_requests: int) -> OSError:
    return OSError(
        f"the store answered all of {n_requests} requests with 429 or 503: it has too many; leave "
        "it alone for a while, and measure again"
    )
