"""What is in a data set: headers of all shards, and a sample of their rows."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from gristmill import _core, checks
from gristmill.audio import AudioInfo
from gristmill.dataset import ArrowIterDataset
from gristmill.errors import DecodeError, LimitError, SchemaError
from gristmill.options import Limits, ReadOptions, Shuffle, read_options
from gristmill.paths import Paths
from gristmill.tools.headers import (
    OnShard,
    ShardHeader,
    UnreadableShard,
    audio_column,
    class_names,
    read_headers,
)

_DECODE_SECONDS = 1.0
"""How long rows of the sample are decoded for their cost."""
_MOST_BATCHES = 4096
"""Record batches above which labels are not counted: each takes a request."""
_DURATIONS_S = (0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
"""Where the bars of the histogram begin."""


@dataclass(frozen=True)
class AudioSample:
    """Rows drawn from all shards.

    Attributes:
        rows: How many.
        refused: Those among them whose headers do not parse, or that are null.
        bytes: Encoded audio of all of them.
        codecs: Rows by codec, the most frequent first.
        sample_rates: Rows by rate in Hz, likewise.
        channels: Rows by number of channels, likewise.
        durations: Lengths in seconds, ascending.
        read_seconds: Mean time of a row's request, with others beside it; `None` of no row.
        decode_seconds: Mean time to decode a whole row on one thread; `None` of no row.
    """

    rows: int = 0
    refused: int = 0
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
        """Length in seconds that so many percent of the recordings do not exceed."""
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


@dataclass(frozen=True)
class Inspection:
    """What is in a data set.

    Attributes:
        shards: The headers of each shard that can be opened.
        unreadable: Shards that are no sound Arrow IPC.
        audio_column: The column that holds audio; `None` if there is none that is known.
        class_names: By column, for those that the Hugging Face features call `ClassLabel`.
        class_counts: Rows of each class, in the order of the names, where counting is cheap.
        sample: What a sample of the audio is; `None` without an audio column.
    """

    shards: tuple[ShardHeader, ...]
    unreadable: tuple[UnreadableShard, ...]
    audio_column: str | None
    class_names: Mapping[str, list[str]]
    class_counts: Mapping[str, list[int]]
    sample: AudioSample | None

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.rows for shard in self.shards)

    @property
    def record_batches(self) -> int:
        """Record batches of all shards."""
        return sum(shard.record_batches for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Size of all shards."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def audio_seconds(self) -> float | None:
        """Length of all recordings together, as the sample suggests."""
        return None if self.sample is None else self.sample.mean_seconds * self.rows

    def __str__(self) -> str:
        from gristmill.cli import pages  # noqa: PLC0415 - the command line speaks of this module

        return pages.inspection(self)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON; of each shard without its metadata."""
        shards = [asdict(replace(shard, metadata={})) for shard in self.shards]
        for shard in shards:
            del shard["metadata"]
        sample: dict[str, Any] | None = None
        if self.sample is not None:
            sample = {
                **asdict(self.sample),
                "row_bytes": self.sample.row_bytes,
                "mean_seconds": self.sample.mean_seconds,
                "histogram": self.sample.histogram(),
            }
        return {
            "rows": self.rows,
            "record_batches": self.record_batches,
            "bytes": self.bytes,
            "audio_seconds": self.audio_seconds,
            "audio_column": self.audio_column,
            "class_names": dict(self.class_names),
            "class_counts": dict(self.class_counts),
            "sample": sample,
            "shards": shards,
            "unreadable": [asdict(shard) for shard in self.unreadable],
        }


def inspect(
    paths: Paths,
    *,
    column: str | None = None,
    sample: int = 200,
    read: ReadOptions | None = None,
    on_shards: Callable[[int], None] | None = None,
    on_shard: OnShard | None = None,
) -> Inspection:
    """Looks at the headers of all shards and at a sample of their rows.

    Args:
        paths: As in `ArrowIterDataset`.
        column: The audio column; `None` takes the one that the Hugging Face features call audio.
        sample: Rows that are read, drawn from all of them; the same ones each time.
        read: Where sidecars are, and how often a request is sent again.
        on_shards: Is told the number of shards first.
        on_shard: Is called after each of them.

    Raises:
        OSError: A shard cannot be read.
        SchemaError: There is no such column, or shards differ.
    """
    options = read_options(read)
    column = checks.text("column", column, write='column="audio"', none=True)
    sample = checks.integer("sample", sample, 1, 2**31, write="sample=200, in rows")
    headers, unreadable = read_headers(paths, options, on_shards, on_shard)
    audio: str | None = None
    # Without audio there is still much to tell.
    if headers and (column is not None or headers[0].audio_columns):
        audio = audio_column(headers, column)
    names = class_names(headers[0]) if headers else {}
    return Inspection(
        shards=tuple(headers),
        unreadable=tuple(unreadable),
        audio_column=audio,
        class_names=names,
        class_counts=_count_classes(headers, names, options),
        sample=None if audio is None else draw(headers, audio, sample, options)[0],
    )


def draw(
    headers: Sequence[ShardHeader], column: str, n_rows: int, read: ReadOptions
) -> tuple[AudioSample, list[bytes]]:
    """A sample of the audio, and the encoded rows of it that can be decoded."""
    encoded, read_seconds = _read(headers, column, n_rows, read)
    infos: list[AudioInfo] = []
    rows: list[bytes] = []
    for data in encoded:
        if data is not None:
            with contextlib.suppress(DecodeError, LimitError):
                infos.append(AudioInfo(*_core.probe(data, limits=Limits())))
                rows.append(data)
    found = AudioSample(
        rows=len(encoded),
        refused=len(encoded) - len(infos),
        bytes=sum(len(data or b"") for data in encoded),
        codecs=_counts(info.codec for info in infos),
        sample_rates=_counts(info.sample_rate for info in infos),
        channels=_counts(info.channels for info in infos),
        durations=tuple(sorted(info.duration for info in infos)),
        read_seconds=read_seconds,
        decode_seconds=_decode_seconds(rows),
    )
    return found, rows


_Value = TypeVar("_Value")


def _counts(values: Iterable[_Value]) -> dict[_Value, int]:
    return dict(Counter(values).most_common())


def _read(
    headers: Sequence[ShardHeader], column: str, n_rows: int, read: ReadOptions
) -> tuple[list[bytes | None], float | None]:
    """Encoded rows of a shuffle, and the mean time that the storage took for one."""
    dataset = ArrowIterDataset(
        [header.path for header in headers],
        columns=[column],
        audio=None,
        shuffle=Shuffle(0),
        read=replace(read, num_threads=1),
    )
    n_rows = min(n_rows, sum(header.rows for header in headers))
    dataset.set_slice(slice(0, n_rows))
    encoded: list[bytes | None] = []
    with contextlib.closing(iter(dataset)) as rows:
        while len(encoded) < n_rows:
            value: Any = next(rows)[column]
            if isinstance(value, dict):
                value = cast("dict[str, Any]", value).get("bytes")
            if not (value is None or isinstance(value, bytes)):
                what = f"column {column!r} holds no bytes of audio; name another"
                raise SchemaError(what, column=column)
            encoded.append(value)
        stage = rows.stats().stages.read
    return encoded, stage.busy_seconds / stage.count if stage.count else None


def _decode_seconds(rows: Sequence[bytes]) -> float | None:
    began = time.perf_counter()
    n_decoded = 0
    for data in rows:
        with contextlib.suppress(DecodeError, LimitError):
            _core.check(data, decode=True, limits=Limits())
        n_decoded += 1
        if time.perf_counter() - began >= _DECODE_SECONDS:
            break
    return (time.perf_counter() - began) / n_decoded if n_decoded else None


def _count_classes(
    headers: Sequence[ShardHeader], names: Mapping[str, list[str]], read: ReadOptions
) -> dict[str, list[int]]:
    """Rows of each class, where few record batches have to be looked at."""
    if not names or sum(header.record_batches for header in headers) > _MOST_BATCHES:
        return {}
    dataset = ArrowIterDataset(
        [header.path for header in headers],
        columns=list(names),
        audio=None,
        batch_size=4096,
        fill_value=-1,  # what `datasets` writes for a class that is not known
        read=replace(read, num_threads=1),
    )
    counts = {name: np.zeros(len(classes), np.int64) for name, classes in names.items()}
    with contextlib.closing(iter(dataset)) as batches:
        for batch in batches:
            for name, total in counts.items():
                labels = np.asarray(batch[name])
                n_classes = len(total)
                known = labels[(labels >= 0) & (labels < n_classes)]
                np.add(total, np.bincount(known, minlength=n_classes), out=total)
    return {name: count.tolist() for name, count in counts.items()}
