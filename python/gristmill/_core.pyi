"""The native core. Private: `gristmill`'s own modules are its only callers."""

from typing import Any, Literal, TypeAlias, final

import numpy as np

from gristmill.options import Limits

_Report: TypeAlias = tuple[str, int, int, int, dict[str, int]]
_Bad: TypeAlias = tuple[str, int, str | None, str | None, str, str, int | None, int]

__version__: str

def decode(
    data: bytes | bytearray,
    *,
    sample_rate: int | None,
    channels: str | int,
    start: float,
    seconds: float | None,
    resampler: str,
    dtype: str,
    strict: bool,
    limits: Limits,
) -> tuple[np.ndarray[Any, np.dtype[Any]], _Report]:
    """Decodes one recording, or the part from `start` on for `seconds`; with what came of it."""

def probe(data: bytes | bytearray, *, limits: Limits) -> tuple[str, int, int, int]:
    """`(codec, sample_rate, channels, frames)` from the headers alone."""

def usable_cpus() -> int:
    """CPUs that this process may use, by affinity and cgroup quota."""

def path_kinds(paths: list[str]) -> list[Literal["folder", "file"] | None]:
    """What lies at each path, asked side by side; `None` where it is nothing of the two."""

def check(
    data: bytes | bytearray | None,
    *,
    decode: bool,
    limits: Limits,
    shard: str | None = None,
    row: int | None = None,
) -> tuple[tuple[str, int, int, int], _Report, Exception | None]:
    """Decodes a whole recording, or looks at its checksums alone, and keeps nothing of it.

    `(info, report, exception)`: what `probe` gives, what came of it with damage passed over, and
    what it would raise where damage is an error. Raises where nothing of it can be decoded, and for
    `None`, which stands for null. Exceptions name `shard` and `row`.
    """

def read_header(path: str, *, index_dir: str | None, retries: int) -> dict[str, Any]:
    """The fields of `gristmill.tools.headers.ShardHeader`."""

def element_spec(**kwargs: Any) -> dict[str, Any]:
    """`{column: (shape, dtype)}`, nested for structs, from the first shard's header."""

@final
class Buffer:
    """Bytes from the core, exported through the buffer protocol without a copy."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Order:
    """An order: that of a data set, by `ArrowIterDataset.native_options`, or of `counts` rows."""

    def __new__(cls, **kwargs: Any) -> Order: ...
    def total(self) -> int | None:
        """Rows delivered here in all epochs; `None` without end."""

    def rows_per_epoch(self) -> int:
        """Rows in an epoch, for all hosts and workers together."""

    def take(
        self, start: int, step: int, n: int
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """`(epoch, shard, row)` of `n` positions from `start` on, without the GIL."""

@final
class Pipeline:
    """A running stream of batches. Its options are those of `ArrowIterDataset.native_options`."""

    def __new__(cls, **kwargs: Any) -> Pipeline: ...
    def next(self) -> tuple[int, dict[str, Any] | None] | None:
        """`(rows of the stream, columns)` of the next element; `None` at the end.

        The columns are `None` where all of its rows were bad and left out.

        Waits without the GIL and answers signals. After an exception all threads have ended.
        """

    def wait_open(self) -> None:
        """Waits until the shards are open, or have failed to open."""

    def opened(self) -> tuple[int, int | None, str, tuple[int, int]] | None:
        """What `gristmill.state.Opened` holds, once the shards are open."""

    def reads(self) -> tuple[int, int]:
        """`(requests, bytes)` read so far."""

    def take_damaged(self) -> list[tuple[str, int, _Report]]:
        """The damaged rows among those delivered since the last call: shard, row, report."""

    def take_bad(self) -> list[tuple[_Bad, bool]]:
        """The bad rows in the places of those delivered since the last call.

        Each as the fields of `gristmill.BadRow`, and whether it was tried in the place of another.
        """

    def read_seconds(self) -> float:
        """Thread seconds spent inside reads so far."""

    def stats(self) -> dict[str, Any] | None:
        """What has been measured so far, for `gristmill.metrics.stats`; `None` after a fork."""

    def close(self) -> None:
        """Ends all threads and waits for them. Safe to call again, and from any thread."""
