"""The native core. Private: `gristmill`'s own modules are its only callers.

Options come in as Python's data classes, once they are checked: `rust/python/src/options.rs` reads
their attributes. What users get comes out as Python's own classes, and everything else as classes
of this module.
"""

from typing import Any, Final, Literal, TypeAlias, final

import numpy as np

from gristmill.bad_rows.rows import BadRow, DamagedRow
from gristmill.metrics.stats import Stats
from gristmill.options import Audio, Limits, Shuffle
from gristmill.report import AudioInfo, DecodeReport
from gristmill.stream_options import StreamOptions
from gristmill.tools.shards import ShardHeader

_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_Scalar: TypeAlias = bool | int | float | str | bytes | tuple[str, int]
_ElementSpec: TypeAlias = dict[str, ColumnSpec | _ElementSpec]

__version__: str

MAX_SAMPLE_RATE: Final[int]
"""In Hz, of files and of results."""
MAX_CHANNELS: Final[int]
MAX_PCM_CHANNELS: Final[int]
"""Of a file, and of results."""
MAX_CROP_SECONDS: Final[float]
"""Of a crop."""
MAX_MIXTURE_TOTAL: Final[int]
"""Of the weights of a mixture."""
MAX_RECORDING_SECONDS: Final[float]
"""The most that `Limits.max_seconds` can be."""
SETTLED_SECONDS: Final[int]
"""A shard that changed less than this ago gets no sidecar."""

def usable_cpus() -> int:
    """CPUs that this process may use, by affinity and cgroup quota."""

def default_requests(num_threads: int) -> int:
    """Requests to the storage at a time, by the number of threads that decode."""

def single_rows_of_a_batch(num_threads: int) -> int:
    """Single rows that count as one of `prefetch_batches`."""

def max_open_rows(prefetch_batches: int, num_threads: int) -> int:
    """Single rows that may be under way or waiting."""

@final
class DefaultLimits:
    """The core's defaults of `gristmill.Limits`."""

    def __new__(cls) -> DefaultLimits: ...
    max_bytes: Final[int]
    max_sample_rate: Final[int]
    max_channels: Final[int]
    max_seconds: Final[float]
    max_frames_per_byte: Final[int]
    max_decoded_bytes: Final[int]
    max_decode_seconds: Final[float | None]

@final
class AudioSpec:
    """What is decoded of recordings, and how."""

    def __new__(cls, audio: Audio) -> AudioSpec: ...

@final
class Sampling:
    """How often rows come.

    By a column, by the doubles in `rows`, by the values of the column `by`, or balanced by these to
    a power.
    """

    def __new__(
        cls,
        column: str | None,
        rows: bytes | None,
        by: str | None,
        values: list[tuple[_Scalar, float]] | None,
        power: float | None,
        seed: int,
        draws: int | None,
        reshuffle_each_epoch: bool,
    ) -> Sampling: ...

@final
class Start:
    """The position at which the stream starts; without a fingerprint it may be of any data."""

    def __new__(
        cls, epoch: int, next_index: int, fingerprint: str | None, allow_changed: bool
    ) -> Start: ...

@final
class ColumnSpec:
    """What a column's arrays look like; `None` stands for a length that is not known."""

    shape: Final[list[int | None]]
    dtype: Final[Any]

def element_spec(options: StreamOptions) -> _ElementSpec:
    """The columns of an element, nested for structs, from the shards' headers."""

@final
class Positions:
    """Rows at some positions: int64 arrays, one entry a position."""

    epoch: Final[_Array]
    dataset: Final[_Array]
    shard: Final[_Array]
    row: Final[_Array]

@final
class Order:
    """The order of a data set or of a mixture, whose headers are read.

    Rows are read only to count windows or events, where no file has the counts. Signals are
    answered meanwhile.
    """

    def __new__(cls, options: StreamOptions) -> Order: ...
    @staticmethod
    def of_counts(counts: list[int], shuffle: Shuffle | None, epochs: int | None) -> Order:
        """The order of shards with these row counts."""

    def total(self) -> int | None:
        """Rows delivered here in all epochs; `None` without end."""

    def rows_per_epoch(self) -> int:
        """Rows in an epoch, for all hosts and workers together."""

    def take(self, start: int, step: int, n: int) -> Positions:
        """The rows at `n` positions from `start` on, `step` apart, without the GIL."""

@final
class Element:
    """What one call of `Pipeline.next` delivers."""

    n_rows: Final[int]
    """Rows of the stream that it covers."""
    columns: Final[dict[str, Any] | None]
    """The element; `None` where all of its rows were bad and left out."""
    damaged_rows: Final[tuple[DamagedRow, ...]]
    """The damaged rows in it."""
    bad_rows: Final[tuple[BadRow, ...]]
    """The bad rows in the places of its rows, and those tried as substitutes."""
    n_bad: Final[int]
    """The bad rows among them that were not tried as substitutes."""

@final
class Opened:
    """What is known once the shards are open."""

    rows_per_epoch: Final[int]
    """Rows in an epoch, for all hosts and workers together."""
    stream_rows: Final[int | None]
    """Rows in all epochs likewise; `None` without end."""
    fingerprint: Final[str]
    """What the order depends on, in parts."""
    start_epoch: Final[int]
    """The epoch in which the stream was taken up."""
    start_index: Final[int]
    """The row of that epoch at which it was."""
    added_columns: Final[list[str]]
    """The columns of elements that are ours and not the data's."""

@final
class Reads:
    """Positional reads so far."""

    requests: Final[int]
    bytes: Final[int]
    seconds: Final[float]
    """Thread seconds inside them."""

@final
class Turns:
    """Turns of threads, one after the other."""

    def __new__(cls) -> Turns: ...
    def take(self) -> Turn:
        """Waits for a turn without the GIL, and answers signals.

        Raises:
            ValueError: This thread has it already.
        """

@final
class Turn:
    """A turn, which ends with `end` or when it is collected."""

    def end(self) -> None: ...
    def __enter__(self) -> Turn: ...
    def __exit__(self, kind: object, error: object, traceback: object) -> None: ...

@final
class Pipeline:
    """A running stream of batches."""

    def __new__(cls, options: StreamOptions, start: Start) -> Pipeline: ...
    def next(self) -> Element | None:
        """The next element; `None` at the end.

        Waits without the GIL and answers signals. After an exception all threads have ended.
        """

    def wait_open(self) -> None:
        """Waits until the shards are open, or have failed to open."""

    def opened(self) -> Opened | None:
        """What is known of the data set, once the shards are open."""

    def reads(self) -> Reads:
        """Positional reads so far."""

    def stats(self) -> Stats | None:
        """What has been measured so far; `None` in a forked child."""

    def take_cache_problem(self) -> str | None:
        """Why nothing more is written to `cache_dir`, if that has come to pass; once."""

    def take_rate_notice(self) -> str | None:
        """That recordings are resampled to the rate of the features, if they are; once."""

    def take_budget_notice(self) -> str | None:
        """That rows took more than `memory_budget`, if they did; once."""

    def close(self) -> None:
        """Ends all threads and waits for them. Safe to call again, and from any thread."""

@final
class Recordings:
    """The files that rows with a path and without bytes name."""

    def __new__(cls, root: str | None, *, retries: int) -> Recordings:
        """Those in this folder; `None` where nothing says which."""

    def read(
        self, path: str | None, *, limits: Limits, shard: str | None = None, row: int | None = None
    ) -> bytes:
        """The bytes of the file that a row's path names, read without the GIL.

        Raises where there is no path, or it leads to no file that can be used. Exceptions name
        `shard` and `row`.
        """

@final
class RandomAccess:
    """The rows of a data set by their index, for any number of threads at once."""

    def __new__(cls, options: StreamOptions) -> RandomAccess:
        """Opens the shards; the options of order and batches do not matter."""

    def n_rows(self) -> int:
        """The number of rows, without those that are excluded."""

    def take(self, indices: list[int], epoch: int) -> list[Element]:
        """The elements of these rows of an epoch, each of a single row.

        Waits without the GIL and answers signals. Raises what is wrong with the first row, in the
        order of `indices`, that cannot be used.
        """

    def take_cache_problem(self) -> str | None:
        """As `Pipeline.take_cache_problem`."""

    def take_rate_notice(self) -> str | None:
        """As `Pipeline.take_rate_notice`."""

    def close(self) -> None:
        """Ends all work and frees all memory. Safe to call again, and from any thread."""

def decode(
    data: bytes | bytearray, audio: AudioSpec, *, start: float, seconds: float | None
) -> tuple[_Array, DecodeReport]:
    """Decodes one recording, or the part from `start` on for `seconds`, without the GIL.

    The part stands in place of the crop, and nothing is padded.
    """

def decode_row(
    data: bytes | bytearray, audio: AudioSpec, *, draw: int, max_missing: float | None
) -> _Array:
    """Decodes one recording as a row of a data set, with its crop and padding, without the GIL.

    A random crop lies where `draw` says, 0 to 2**64 - 1.
    """

def probe(data: bytes | bytearray, *, limits: Limits) -> AudioInfo:
    """What the headers of a recording say."""

@final
class Checked:
    """What checking a recording found."""

    info: Final[AudioInfo]
    report: Final[DecodeReport]
    """How decoding went, with damage passed over."""
    error: Final[Exception | None]
    """What decoding would raise where damage is an error."""

def check(
    data: bytes | bytearray | None,
    *,
    decode: bool,
    limits: Limits,
    shard: str | None = None,
    row: int | None = None,
    learner: tuple[Pipeline, int] | None = None,
) -> Checked:
    """Decodes a whole recording, or looks at its checksums alone, and keeps no samples.

    `learner` is the stream that delivered the row, and the number of the shard there: the shard's
    audio index learns of the recording.

    Raises where nothing of it can be decoded, and for `None`, which stands for null. Exceptions
    name `shard` and `row`.
    """

def path_kinds(paths: list[str]) -> list[Literal["folder", "file"] | None]:
    """What lies at each path, asked all at once; `None` where it is neither."""

def audio_coverage(
    path: str,
    *,
    index_dir: str | None,
    retries: int,
    storage_options: list[tuple[str, str]],
) -> tuple[int, int]:
    """Recordings that a shard's audio index knows, and those of which parts can be read."""

def shown_path(path: str) -> str:
    """A path for messages: of a URL without the user's name, password and query."""

def list_url(
    folder: str, storage_options: list[tuple[str, str]], *, recursive: bool, retries: int
) -> tuple[list[str], list[str]]:
    """The files and folders in a folder of a bucket or a data set of the Hub, by their paths in it.

    With `recursive` all files below it, and no folders. After a transient error it begins anew.
    Waits for the network without the GIL, and answers signals.
    """

def read_url(url: str, storage_options: list[tuple[str, str]], *, retries: int) -> bytes:
    """A file of at most 64 MiB as a whole."""

@final
class MeasuredFile:
    """A file of which ranges are asked for, each once, and thrown away: for measuring a store.

    Its first request is for the file's version. May be used by several threads at a time.
    """

    def __new__(cls, path: str, storage_options: list[tuple[str, str]]) -> MeasuredFile: ...
    def request(self, offset: int, n_bytes: int) -> int | None:
        """Asks for a range and waits for it, without the GIL.

        Returns the bytes that came, fewer where the file ends; `None` where the server answers with
        429 or 503, which is not repeated. No other error is repeated either.
        """

def read_header(
    path: str,
    *,
    index_dir: str | None,
    retries: int,
    complete: bool,
    storage_options: list[tuple[str, str]],
    cancel: Cancel,
) -> ShardHeader:
    """The headers of one shard; its sidecar is written if it had none.

    With `complete`, the sidecar gets all that it can have: of Parquet, where large values are.
    `cancel` ends it, also while it waits for storage.
    """

@final
class Cancel:
    """Ends calls that were given it, from any thread."""

    def __new__(cls) -> Cancel: ...
    def cancel(self) -> None:
        """Ends them, and those to come."""

    def is_cancelled(self) -> bool:
        """Whether they are ended."""

def read_joint_header(
    paths: list[str],
    *,
    labels: str,
    column: str | None,
    index_dir: str | None,
    retries: int,
    storage_options: list[tuple[str, str]],
) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """What the headers of shards say together.

    The Hugging Face metadata, each once, in the order of the shards; the columns that all of them
    have; and the class names of all, by dotted path. A `column`, or a field at that dotted path,
    that the shards do not have in common is refused.
    """

@final
class Buffer:
    """Bytes from the core, exported through the buffer protocol without a copy."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
