"""What `gristmill inspect` finds, and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from gristmill.metrics.text import Printed, bytes_text, plural, time_text
from gristmill.tools.audio_index import AudioCoverage
from gristmill.tools.page import MOST_LISTED, WIDTH, Page, cut
from gristmill.tools.sample import AudioSample
from gristmill.tools.shards import ShardHeader, UnreadableShard, features
from gristmill.urls import base_name, shown_path


@dataclass(frozen=True)
class Inspection(Printed):
    """What is in a data set.

    Attributes:
        shards: The headers of each shard that can be opened.
        unreadable: Shards that are not valid Arrow IPC or Parquet.
        audio_column: The audio column; `None` if none is known.
        class_names: By column, for those that the Hugging Face features call `ClassLabel`.
        class_counts: Rows of each class, in the order of the names, where counting is cheap.
        sample: A sample of the audio; `None` without an audio column.
        audio_index: What the shards' audio indexes know; `None` without an audio column.
    """

    shards: tuple[ShardHeader, ...]
    unreadable: tuple[UnreadableShard, ...]
    audio_column: str | None
    class_names: Mapping[str, list[str]]
    class_counts: Mapping[str, list[int]]
    sample: AudioSample | None
    audio_index: AudioCoverage | None = None

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
        """Length of all recordings together, estimated from the sample."""
        return None if self.sample is None else self.sample.mean_seconds * self.rows

    def __str__(self) -> str:
        return str(page_of(self))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON; of each shard without its metadata."""
        shards = [
            asdict(replace(shard, path=shown_path(shard.path), metadata={}))
            for shard in self.shards
        ]
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
            "audio_index": None if self.audio_index is None else asdict(self.audio_index),
            "shards": shards,
            "unreadable": [asdict(shard) for shard in self.unreadable],
        }


FORMAT_NAMES = {"file": "Arrow IPC file", "stream": "Arrow IPC stream", "parquet": "Parquet"}


def page_of(found: Inspection, bar: str = "#") -> Page:
    """The page that `gristmill inspect` prints."""
    page = Page(bar)
    rows = [shard.rows for shard in found.shards]
    page.say(
        f"{_count(len(rows), 'shard')}, {_count(found.rows, 'row')}, "
        f"{_count(found.record_batches, 'record batch', 'record batches')}, "
        f"{bytes_text(found.bytes)}"
    )
    if rows:
        _shards(found, page)
        page.table("Columns", _columns(found))
        for name, classes in found.class_names.items():
            _classes(name, classes, found.class_counts.get(name), page)
    if found.sample is not None:
        _sample(found, found.sample, page)
    elif rows:
        page.section("No column is marked as audio in the features; name it with --column.")
    list_unreadable(found.unreadable, page)
    return page


def list_unreadable(shards: Sequence[UnreadableShard], page: Page) -> None:
    """Lists the shards that cannot be read."""
    if not shards:
        return
    page.section("Broken shards: write them again, or leave them out")
    for shard in shards[:MOST_LISTED]:
        since = f" from row {shard.from_row:,} on" if shard.from_row else ""
        # The message begins with the path.
        what = shard.message.removeprefix(shard.shard)
        what = what if what != shard.message else f": {what}"
        page.paragraph(f"{base_name(shard.shard)}{since}{what}", "  ", "    ")
    if len(shards) > MOST_LISTED:
        page.say(f"  and {len(shards) - MOST_LISTED} more")


def _shards(found: Inspection, page: Page) -> None:
    rows = [shard.rows for shard in found.shards]
    formats = sorted({FORMAT_NAMES[shard.format] for shard in found.shards})
    kinds = sorted({shard.compression or "not compressed" for shard in found.shards})
    per_batch = found.rows / max(found.record_batches, 1)
    table = [
        ("format", f"{' and '.join(formats)}, {' and '.join(kinds)}"),
        ("rows in a shard", f"{min(rows):,} to {max(rows):,}"),
        ("rows in a record batch", f"{per_batch:,.1f} on average"),
    ]
    known = found.audio_index
    if known is not None and known.known:
        text = f"of {known.known:,} recordings, crops of {known.in_parts:,} are read alone"
        table.append(("audio index", text))
    page.table("Shards", table)


def _columns(found: Inspection) -> list[tuple[str, str]]:
    known = features(found.shards[0])
    # Shards may differ: the types of all of them, in the order in which they first appear.
    kinds: dict[str, list[str]] = {}
    for name, kind in (column for shard in found.shards for column in shard.columns):
        kinds.setdefault(name, []).append(kind)
    table: list[tuple[str, str]] = []
    for name, all_kinds in kinds.items():
        kind = " or ".join(dict.fromkeys(all_kinds))
        feature: Any = known.get(name)
        is_dict = isinstance(feature, dict)
        mark: object = cast("dict[str, Any]", feature).get("_type") if is_dict else None
        marks = [] if mark in (None, "Value") else [str(mark)]
        if name == found.audio_column and "Audio" not in marks:
            marks.append("audio")
        if len(all_kinds) < len(found.shards):
            marks.append(f"in {len(all_kinds):,} of {len(found.shards):,} shards")
        table.append((name, kind + (f"  ({', '.join(marks)})" if marks else "")))
    return table


def _classes(name: str, classes: Sequence[str], counts: Sequence[int] | None, page: Page) -> None:
    page.section(f"Classes of {name}: {len(classes):,}")
    if counts is None:
        page.say(f"  {cut(', '.join(classes), WIDTH - 2)}")
        return
    ranked = sorted(zip(classes, counts, strict=True), key=lambda pair: -pair[1])
    shown = ranked if len(ranked) <= 10 else [*ranked[:5], *ranked[-3:]]
    page.bars([(cut(label, 30), count) for label, count in shown], width=30)
    if len(ranked) > len(shown):
        page.say(f"  (the 5 with most rows and the 3 with fewest, of {len(ranked):,})")


def _sample(found: Inspection, sample: AudioSample, page: Page) -> None:
    rates = {f"{rate:,} Hz": n for rate, n in sample.sample_rates.items()}
    channels = {_count(n, "channel"): rows for n, rows in sample.channels.items()}
    table = [
        ("codecs", _shares(sample.codecs)),
        ("rates", _shares(rates)),
        *_features_rate(found),
        ("channels", _shares(channels)),
        ("encoded row", f"{bytes_text(sample.row_bytes)} on average"),
    ]
    if sample.refused:
        table.append(("refused", f"{sample.refused} rows; gristmill scan names them"))
    if sample.noted:
        table.append(("notes", f"{sample.noted:,} rows: {notes_text(sample.notes)}"))
    if sample.durations:
        shortest, longest = sample.durations[0], sample.durations[-1]
        table.append(
            ("length", f"{shortest:.1f} to {longest:.1f} s, {sample.mean_seconds:.1f} s on average")
        )
        hours = (found.audio_seconds or 0) / 3600
        table.append(("all recordings", f"about {hours:,.1f} hours"))
    if sample.read_seconds is not None:
        table.append(("reading a row", f"{1e3 * sample.read_seconds:.1f} ms, as cached now"))
    if sample.decode_seconds:
        rate = 1 / sample.decode_seconds
        whole = found.rows * sample.decode_seconds
        text = f"{1e3 * sample.decode_seconds:.1f} ms, {rate:,.0f} rows/s a thread"
        table.append(("decoding a whole row", text))
        table.append(("decoding them all", f"{time_text(whole)} on one thread"))
    page.table(f"Audio in {found.audio_column!r}, from {sample.rows:,} rows", table)
    if sample.durations:
        page.section("Lengths")
        page.bars([(_span(low, high), n) for low, high, n in sample.histogram()])


def notes_text(notes: Mapping[str, int]) -> str:
    """The kinds of notes, those of most rows first."""
    ranked = sorted(notes.items(), key=lambda pair: (-pair[1], pair[0]))
    return cut(", ".join(f"{kind} {n:,}" for kind, n in ranked), WIDTH - 30)


def _features_rate(found: Inspection) -> list[tuple[str, str]]:
    """The rate that audio is decoded at if no `sample_rate=` is given."""
    feature: Any = features(found.shards[0]).get(found.audio_column or "")
    rate = (
        cast("dict[str, Any]", feature).get("sampling_rate") if isinstance(feature, dict) else None
    )
    if not isinstance(rate, int) or not found.shards:
        return []
    return [("rate of the features", f"{rate:,} Hz, unless sample_rate= is given")]


def _span(low: float, high: float | None) -> str:
    return f"{low:g} s and more" if high is None else f"{low:g} to {high:g} s"


def _shares(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    text = ""
    for name, count in counts.items():
        more = f"{', ' if text else ''}{name} {count / total:.0%}"
        if len(text) + len(more) > WIDTH - 30:
            return f"{text}, ..."
        text += more
    return text or "-"


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {plural(n, one, many)}"
