"""A sample of a data set's audio: codecs, lengths, and the time that a row takes."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from gristmill import _core
from gristmill.audio import probe
from gristmill.dataset import ArrowIterDataset
from gristmill.errors import DecodeError, LimitError, SchemaError
from gristmill.options import Limits, ReadOptions, Shuffle
from gristmill.report import AudioInfo
from gristmill.storage import NO_OPTIONS, StorageOptions
from gristmill.tools.shards import ShardHeader

_DECODE_SECONDS = 1.0
"""How long rows of the sample are decoded to learn what that takes."""
_DURATIONS_S = (0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
"""Where the bars of the histogram begin."""

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class AudioSample:
    """Rows drawn from all shards.

    Attributes:
        rows: Number of rows.
        refused: Those among them whose headers do not parse, or that are null.
        noted: Those whose headers, counts or times contradict their sound.
        notes: The number of such rows by kind, as in `DecodeReport.notes`.
        bytes: Encoded audio of all of them.
        codecs: Rows by codec, the most frequent first.
        sample_rates: Rows by rate in Hz, likewise.
        channels: Rows by number of channels, likewise.
        durations: Lengths in seconds, ascending.
        read_seconds: Mean time of a row's request, with others in flight; `None` without rows.
        decode_seconds: Mean time to decode a whole row on one thread; `None` without rows.
    """

    rows: int = 0
    refused: int = 0
    noted: int = 0
    notes: Mapping[str, int] = field(default_factory=dict[str, int])
    bytes: int = 0
    codecs: Mapping[str, int] = field(default_factory=dict[str, int])
    sample_rates: Mapping[int, int] = field(default_factory=dict[int, int])
    channels: Mapping[int, int] = field(default_factory=dict[int, int])
    durations: tuple[float, ...] = ()
    read_seconds: float | None = None
    decode_seconds: float | None = None

    @property
    def row_bytes(self) -> float:
        """Mean bytes of a row's audio."""
        return self.bytes / self.rows if self.rows else 0.0

    @property
    def mean_seconds(self) -> float:
        """Mean length of a recording."""
        return sum(self.durations) / len(self.durations) if self.durations else 0.0

    def percentile(self, percent: float) -> float:
        """Length in seconds that this percentage of the recordings does not exceed."""
        return float(np.percentile(self.durations, percent)) if self.durations else 0.0

    def histogram(self) -> list[tuple[float, float | None, int]]:
        """`(from, to, rows)` by length in seconds, from the shortest to the longest."""
        ends = (*_DURATIONS_S[1:], None)
        bars = [
            (float(low), None if high is None else float(high), self._within(low, high))
            for low, high in zip(_DURATIONS_S, ends, strict=True)
        ]
        filled = [k for k, (_, _, n) in enumerate(bars) if n]
        return bars[filled[0] : filled[-1] + 1] if filled else []

    def _within(self, low: float, high: float | None) -> int:
        return sum(low <= d and (high is None or d < high) for d in self.durations)


def draw(
    headers: Sequence[ShardHeader],
    column: str,
    n_rows: int,
    read: ReadOptions,
    root: str | None = None,
    storage: StorageOptions = NO_OPTIONS,
) -> tuple[AudioSample, list[tuple[bytes, AudioInfo]]]:
    """A sample of the audio, and its encoded rows, of those whose headers parse.

    Raises:
        SchemaError: The column holds no bytes.
    """
    encoded, read_seconds = _read(headers, column, n_rows, read, root, storage)
    rows: list[tuple[bytes, AudioInfo]] = []
    for data in encoded:
        if data is not None:
            with contextlib.suppress(DecodeError, LimitError):
                rows.append((data, probe(data)))
    infos = [info for _, info in rows]
    noted = _notes([data for data, _ in rows])
    sample = AudioSample(
        rows=len(encoded),
        refused=len(encoded) - len(rows),
        noted=len(noted),
        notes=_counts(kind for kinds in noted for kind in kinds),
        bytes=sum(len(data or b"") for data in encoded),
        codecs=_counts(info.codec for info in infos),
        sample_rates=_counts(info.sample_rate for info in infos),
        channels=_counts(info.channels for info in infos),
        durations=tuple(sorted(info.duration for info in infos)),
        read_seconds=read_seconds,
        decode_seconds=_decode_seconds([data for data, _ in rows]),
    )
    return sample, rows


def _notes(rows: Sequence[bytes]) -> list[tuple[str, ...]]:
    """The kinds of notes of each row that has any, by its headers and framing."""
    limits = Limits()
    noted: list[tuple[str, ...]] = []
    for data in rows:
        with contextlib.suppress(DecodeError, LimitError):
            noted.append(tuple(_core.check(data, decode=False, limits=limits).report.notes))
    return [kinds for kinds in noted if kinds]


def _counts(values: Iterable[_Value]) -> dict[_Value, int]:
    return dict(Counter(values).most_common())


def _read(
    headers: Sequence[ShardHeader],
    column: str,
    n_rows: int,
    read: ReadOptions,
    root: str | None,
    storage: StorageOptions,
) -> tuple[list[bytes | None], float | None]:
    """Encoded rows of a shuffle, and the mean time of a request to the storage."""
    dataset = ArrowIterDataset(
        [header.path for header in headers],
        columns=[column],
        audio=None,
        shuffle=Shuffle(0),
        read=replace(read, num_threads=1),
        storage_options=storage,
    )
    n_rows = min(n_rows, sum(header.rows for header in headers))
    dataset.set_slice(slice(0, n_rows))
    encoded: list[bytes | None] = []
    recordings = _core.Recordings(root, retries=read.retries)
    limits = Limits()
    with contextlib.closing(iter(dataset)) as rows:
        while len(encoded) < n_rows:
            value: Any = next(rows)[column]
            if isinstance(value, dict):
                fields = cast("dict[str, Any]", value)
                value = fields.get("bytes")
                if value is None and root is not None:
                    with contextlib.suppress(DecodeError, LimitError):
                        value = recordings.read(fields.get("path"), limits=limits)
            if not (value is None or isinstance(value, bytes)):
                what = f"column {column!r} contains no audio bytes; name another"
                raise SchemaError(what, column=column)
            encoded.append(value)
        stage = rows.stats().stages.read
    return encoded, stage.busy_seconds / stage.count if stage.count else None


def _decode_seconds(rows: Sequence[bytes]) -> float | None:
    limits = Limits()
    began = time.perf_counter()
    n_decoded = 0
    for data in rows:
        with contextlib.suppress(DecodeError, LimitError):
            _core.check(data, decode=True, limits=limits)
        n_decoded += 1
        if time.perf_counter() - began >= _DECODE_SECONDS:
            break
    return (time.perf_counter() - began) / n_decoded if n_decoded else None
