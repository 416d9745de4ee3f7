"""The options that users write. Plain, frozen, picklable values; nothing is opened here."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from gristmill import _core, checks
from gristmill.crops import Crop, check_crop

Resampler: TypeAlias = Literal["hq", "best", "torchaudio"]
Dtype: TypeAlias = Literal["float32", "float16", "bfloat16", "int16"]
Channels: TypeAlias = Literal["mono", "keep"] | int | Sequence[int]
Strict: TypeAlias = bool | Literal["pedantic"]

MAX_THREADS = 65_536
MAX_REQUESTS = 256
"""More requests at a time are a slip: each has a thread of its own."""

_LIMITS = _core.DefaultLimits()

MIN_SAMPLE_RATE: Final = 1_000
"""A lower target rate is a slip: kHz were meant."""


def check_sample_rate(name: str, rate: Any) -> Any:
    """A target rate in Hz, or `None`."""
    found = checks.as_int(rate)
    if found is not None and 0 < found < MIN_SAMPLE_RATE:
        raise ValueError(
            f"{name}={found} is a rate of {found} Hz, and below {MIN_SAMPLE_RATE:,} Hz there is "
            f"hardly any sound left. Hz? If kHz are meant, write {name}={found * 1000:_}"
        )
    most = _core.MAX_SAMPLE_RATE
    write = "sample_rate=32_000, in Hz"
    return checks.integer(name, rate, MIN_SAMPLE_RATE, most, write=write, none=True)


def _check_rate(name: str, rate: Any) -> Any:
    """A target rate, `"auto"`, or `None`."""
    return rate if isinstance(rate, str) and rate == "auto" else check_sample_rate(name, rate)


@dataclass(frozen=True)
class Limits:
    """What a recording may ask for. More raises `LimitError` before anything is decoded.

    Args:
        max_bytes: Bytes of the encoded recording. A data set does not read longer ones.
        max_sample_rate: Its rate in Hz, at most 768,000.
        max_channels: Its channels, at most 1,024. Coded files have 8 at most; WAV, AIFF, CAF and
            SPHERE may have more, as of an array of microphones.
        max_seconds: Its length in seconds, at most 30 days.
        max_frames_per_byte: Frames that its headers promise, for each byte of the file. Sound has 1
            to 30 of them, digital silence in FLAC or Opus up to 300. Recordings of at most
            16,777,216 frames are exempt.
        max_decoded_bytes: Bytes that the wanted part takes as float32, whatever the dtype: its
            samples, and where the rate changes those that they are resampled from. The default is
            6.2 hours of stereo at 48 kHz, or 3.7 hours resampled to 32 kHz. In a data set the
            memory budget is a limit as well. Probing and scanning keep no samples.
        max_decode_seconds: Seconds that decoding one recording may take, checked between packets.
            `None` is any. With a limit, results depend on how fast and how busy the machine is.
    """

    max_bytes: int = _LIMITS.max_bytes
    max_sample_rate: int = _LIMITS.max_sample_rate
    max_channels: int = _LIMITS.max_channels
    max_seconds: float = _LIMITS.max_seconds
    max_frames_per_byte: int = _LIMITS.max_frames_per_byte
    max_decoded_bytes: int = _LIMITS.max_decoded_bytes
    max_decode_seconds: float | None = _LIMITS.max_decode_seconds

    def __post_init__(self) -> None:
        most = {
            "max_bytes": 2**64 - 1,
            "max_sample_rate": _core.MAX_SAMPLE_RATE,
            "max_channels": _core.MAX_PCM_CHANNELS,
            "max_frames_per_byte": 2**64 - 1,
            "max_decoded_bytes": 2**64 - 1,
        }
        for name, high in most.items():
            checks.settle(self, **{name: checks.within(1, high, f"{name}={high}")})
        checks.settle(
            self,
            max_seconds=checks.above_0(_core.MAX_RECORDING_SECONDS, "max_seconds=3600"),
            max_decode_seconds=checks.above_0(1e9, "max_decode_seconds=60", none=True),
        )


@dataclass(frozen=True)
class Audio:
    """Which column to decode, and to what.

    Args:
        column: The column, of type `struct<bytes: binary, ...>` or `binary`, also as views or as a
            dictionary; with `root`, also text: the paths of recordings. A dotted path names a field
            of a struct: `"x.rec"`. `None` takes the column that the Hugging Face features in the
            schema call audio, or without features the one `struct<bytes: binary, path: string>`.
        sample_rate: Target rate in Hz, 1,000 to 768,000. `None` keeps each file's own. `"auto"`,
            the default, is the rate that the Hugging Face features name for the column, as
            `cast_column("audio", Audio(sampling_rate=16_000))` sets it, or else each file's own. If
            recordings are resampled because of the features, the logger `gristmill` says so once.
        channels: `"mono"` is the mean of all channels, `(frames,)`. `"keep"` gives
            `(channels, frames)` as in the file. A number `n` gives `(n, frames)`: the file's first
            `n` channels, a mono file repeated; a file with other counts below `n` is an error. A
            list such as `[2, 0]` picks channels by number, from 0: `(2, frames)`.
        crop: One part of each recording: `RandomCrop`, `CenterCrop`, `StartCrop`, or `EventCrop`
            around an annotated event; or every part of it, each an element of its own: `Windows`,
            or `EventCrop(pick="all")`. `None` is the whole recording.
        pad: What follows a recording that is shorter than the crop: `"zero"`, `"repeat"` (the
            recording again), or `None` (nothing: the result is short).
        resampler: The filter for recordings of another rate. `"hq"` follows soxr's HQ setting,
            which is librosa's default; `"best"` has a wider passband and takes up to twice the
            time; `"torchaudio"` is torchaudio's default filter, for models trained with it.
        dtype: How samples are stored: `"float32"`; `"float16"` or `"bfloat16"`, rounded to the
            nearest; `"int16"`, times 32,768, rounded to the nearest and clipped to its range, so
            that 16-bit files keep their numbers. `"bfloat16"` needs the package `ml_dtypes`, which
            comes with JAX.
        strict: Which recordings raise `DecodeError`. `True`: those with missing or wrong sound.
            `False`: only those of which nothing can be decoded; zeros fill gaps of known length,
            and `damaged_rows()` of the iterator lists the damage. `"pedantic"`: also those whose
            headers, counts or times contradict the sound (`DecodeReport.notes`).
        limits: What a recording may ask for before it is refused.
        max_missing: With `strict=False`, the share of a row's frames that may be missing, 0 to 1. A
            row with more zeros, where nothing could be decoded, is a bad row, which `on_error=`
            handles (its reason is `"missing"`). Of a crop, the crop's frames count. `None` accepts
            any share, even a recording of nothing but zeros.
        root: The folder of the recordings, for rows that contain a path and no bytes, as `datasets`
            makes of local files. Relative paths count from it, and absolute paths must lead into
            it, with links resolved: otherwise the row is a bad row, as it is if its file is
            missing. `~` is the user's home. `docs/paths.md` has more.

    Whatever the dtype, everything is computed in float32. A crop equals the same slice of the
    whole decoded and resampled recording, bit for bit.
    """

    column: str | None = None
    sample_rate: int | Literal["auto"] | None = "auto"
    channels: Channels = "mono"
    crop: Crop | None = None
    pad: Literal["zero", "repeat"] | None = "zero"
    resampler: Resampler = "hq"
    dtype: Dtype = "float32"
    strict: Strict = True
    limits: Limits = field(default_factory=Limits)
    max_missing: float | None = None
    root: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        checks.settle(
            self,
            column=partial(checks.text, write='gm.Audio("audio")', none=True),
            sample_rate=_check_rate,
            channels=check_channels,
            crop=check_crop,
            pad=partial(checks.choice, choices=("zero", "repeat", None)),
            resampler=partial(checks.choice, choices=get_args(Resampler)),
            dtype=check_dtype,
            strict=check_strict,
            limits=partial(checks.instance, kind=Limits, write=_WRITE_LIMITS),
            max_missing=partial(checks.number, low=0, high=1, write="max_missing=0.1", none=True),
            root=check_root,
        )
        if self.max_missing is not None and self.strict:
            raise ValueError(
                "with strict=True nothing may be missing; max_missing= goes with strict=False"
            )


@dataclass(frozen=True)
class Shuffle:
    """A shuffle: global, where every row is equally likely at any position, or windowed.

    The order is a pure function of the seed, the epoch and the position (`docs/order.md`).

    A windowed shuffle reads forward only, each byte about once an epoch: for rows of a few
    kilobytes, and for storage that must be read in sequence. The shards are put in a random order
    and cut into `streams` equal runs, which are read alternately; each run is shuffled in blocks of
    `window / streams` rows, rounded up.

    Args:
        seed: 0 to 2**64 - 1.
        window: Rows that are shuffled among each other, at least 1; `None` is all of them.
        streams: Runs that are read concurrently, at least 1: a batch mixes rows of so many places.
            Only for a windowed shuffle. If the number of hosts divides it, each host reads its own
            runs only.
        reshuffle_each_epoch: Whether each epoch has its own order. Otherwise all have that of epoch
            0; random crops still differ.
    """

    seed: int
    window: int | None = None
    streams: int = 16
    reshuffle_each_epoch: bool = True

    def __post_init__(self) -> None:
        most = 2**63 - 1
        checks.settle(
            self,
            seed=checks.seed("gm.Shuffle(seed=42)"),
            window=checks.within(1, most, "window=100_000, in rows", none=True),
            streams=checks.within(1, most, "streams=16"),
            reshuffle_each_epoch=checks.flag,
        )


_DEFAULT_CACHE_SIZE: Final = "80%"


@dataclass(frozen=True)
class ReadOptions:
    """How shards are read, and how much of the machine is used for it.

    Args:
        num_threads: Threads that decode for an iterator; `None` takes one per CPU that this process
            may use (by affinity and cgroup quota). All iterators of a process share these threads,
            evenly while they all have rows to decode.
        memory_budget: Bytes in flight at most: encoded rows, batches and cached columns. An int, or
            a string such as `"512MB"` or `"2GiB"`. A batch counts until its arrays are gone, so
            batches that you keep leave less for readahead.
        prefetch_batches: Batches that may be in progress or ready, at least 1. For single rows,
            each stands for as many rows as there are threads, at least 8.
        num_requests: Storage requests in flight, 1 to 256. `None` starts with two per decode
            thread, at least 8 and at most 32, or with 32 for shards behind URLs, and goes up to 128
            if the loop waits and more requests bring more bytes. While the page cache has the rows,
            it is one per decode thread.
        index_dir: Where sidecars are stored, which save reading the shards' headers again: a folder
            (`~` is the user's home); `"beside"` for each shard's own folder; `"auto"` for `index`
            in `$GRISTMILL_CACHE`, or else in `gristmill` in the user's cache folder
            (`$XDG_CACHE_HOME` or `~/.cache`); `None` stores none. You can delete them at any time.
        audio_index: Whether to read a crop without the rest of its recording, once that was read
            before: the sidecars then store where decoding can begin. Samples are the same either
            way.
        cache_dir: A folder on a local disk that caches what is read of shards, for later epochs,
            other processes and later runs (`docs/remote.md`). Use it for shards behind URLs and on
            slow mounts. `None` caches nothing.
        cache_size: The most bytes in that folder, of all that use it: an int, a string such as
            `"200GB"`, or a share such as `"80%"` of what would be free on its disk without it.
            `None` is `"80%"`. When it is full, data sets that are no longer read are removed first.
        retries: How often to retry a request that failed by an I/O error, a stale handle, a lost
            connection or a vanished mount, after 0.1 s, 0.2 s, 0.4 s and so on to 10 s. Then
            `OSError` names the shard, the byte and the cause.
        page_cache: Whether to leave what was read in the operating system's page cache. Use `False`
            for data sets larger than memory on machines where others need it.
        log_every_seconds: How often the logger `gristmill` gets a line with the throughput and the
            verdict, at level INFO; `None` is once a minute at level DEBUG.
    """

    num_threads: int | None = None
    memory_budget: int | str = "2GiB"
    prefetch_batches: int = 4
    num_requests: int | None = None
    index_dir: str | os.PathLike[str] | None = "auto"
    audio_index: bool = True
    cache_dir: str | os.PathLike[str] | None = None
    cache_size: int | str | None = None
    retries: int = 5
    page_cache: bool = True
    log_every_seconds: float | None = None

    def __post_init__(self) -> None:
        checks.settle(
            self,
            num_threads=checks.within(1, MAX_THREADS, "num_threads=8", none=True),
            memory_budget=lambda _, budget: checks.as_int(budget) or budget,
            cache_size=lambda _, size: checks.as_int(size) or size,
            prefetch_batches=checks.within(1, 2**31, "prefetch_batches=4"),
            num_requests=checks.within(1, MAX_REQUESTS, "num_requests=32", none=True),
            retries=checks.within(0, 1000, "retries=5"),
            audio_index=checks.flag,
            page_cache=checks.flag,
            log_every_seconds=checks.above_0(math.inf, "log_every_seconds=60", none=True),
        )
        checks.file_path("index_dir", self.index_dir, none=True, is_folder=True)
        checks.file_path("cache_dir", self.cache_dir, none=True, is_folder=True)
        _ = self.memory_budget_bytes, self.cache_limit
        if self.cache_size is not None and self.cache_dir is None:
            raise ValueError("cache_size= is about the folder that cache_dir= names: give both")

    @property
    def resolved_index_dir(self) -> str | None:
        """The folder for sidecars as an absolute path, `"beside"`, or `None` for nowhere."""
        if self.index_dir is None:
            return None
        if self.index_dir == "beside":
            return "beside"
        if self.index_dir != "auto":
            return str(Path(self.index_dir).expanduser().absolute())
        if cache := os.environ.get("GRISTMILL_CACHE"):
            return str(Path(cache).absolute() / "index")
        try:
            cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        except RuntimeError:  # this user has no home
            return None
        return str(Path(cache).absolute() / "gristmill" / "index")

    @property
    def resolved_cache_dir(self) -> str | None:
        """The folder for what is read of shards as an absolute path, or `None`."""
        if self.cache_dir is None:
            return None
        return os.path.abspath(Path(self.cache_dir).expanduser())  # noqa: PTH100

    @property
    def cache_limit(self) -> int | float:
        """`cache_size`: in bytes as an int, or a share, 0 to 1, as a float."""
        size = _DEFAULT_CACHE_SIZE if self.cache_size is None else self.cache_size
        return checks.bytes_or_share("cache_size", size, write="cache_size='200GB' or '80%'")

    @property
    def memory_budget_bytes(self) -> int:
        """`memory_budget` in bytes."""
        write = "memory_budget='2GiB' or '500MB'"
        return checks.byte_count("memory_budget", self.memory_budget, write=write)


_WRITE_LIMITS: Final = "limits=gm.Limits(max_seconds=3600)"


def read_options(read: Any) -> ReadOptions:
    """What was given for `read=`, or the defaults for `None`."""
    write = "read=gm.ReadOptions(num_threads=8)"
    return checks.instance("read", read, ReadOptions, write=write, none=True) or ReadOptions()


def check_limits(limits: Any) -> Limits:
    """What was given for `limits=`, or the defaults for `None`."""
    return (
        checks.instance("limits", limits, Limits, write=_WRITE_LIMITS, none=True) or _DEFAULT_LIMITS
    )


def check_dtype(name: str, dtype: Any) -> Any:
    """Refuses what samples cannot be stored as, here or without a package that is missing."""
    checks.choice(name, dtype, get_args(Dtype), write='dtype="float32"')
    if dtype == "bfloat16" and importlib.util.find_spec("ml_dtypes") is None:
        raise ImportError(
            "dtype='bfloat16' needs the package ml_dtypes, which comes with JAX: "
            "pip install ml_dtypes"
        )
    return dtype


def check_strict(name: str, strict: Any) -> Any:
    """Refuses what is neither a flag nor `"pedantic"`."""
    if isinstance(strict, str) and strict == "pedantic":
        return "pedantic"
    if type(strict) in (bool, np.bool_):
        return bool(strict)
    raise ValueError(f'{name} is True, False or "pedantic", not {checks.shown(strict)}')


def check_root(name: str, root: Any) -> str | None:
    """The folder of recordings, as an absolute path: a worker may have another folder."""
    folder = checks.file_path(name, root, none=True, is_folder=True)
    return None if folder is None else os.path.abspath(Path(folder).expanduser())  # noqa: PTH100


def check_channels(name: str, channels: Any) -> Any:
    """`"mono"`, `"keep"`, a number of channels, or a tuple of those that are picked."""
    count = checks.as_int(channels)
    if count is not None and 1 <= count <= _core.MAX_PCM_CHANNELS:
        return count
    if isinstance(channels, str) and channels in ("mono", "keep"):
        return channels
    unordered = (str, bytes, dict, set, frozenset)
    picked = None if isinstance(channels, unordered) else checks.items(channels)
    if picked is not None and 1 <= len(picked) <= _core.MAX_CHANNELS:
        numbers = tuple(map(checks.as_int, picked))
        if all(n is not None and 0 <= n < _core.MAX_PCM_CHANNELS for n in numbers):
            return numbers
    raise ValueError(
        f"{name} is 'mono', 'keep', a number of channels from 1 to {_core.MAX_PCM_CHANNELS}, or a "
        f"list of 1 to {_core.MAX_CHANNELS} numbers such as [0, 1], not {checks.shown(channels)}"
    )


_DEFAULT_LIMITS: Final = Limits()
