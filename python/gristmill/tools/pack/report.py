"""What `gristmill pack` did, and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from gristmill.metrics.text import Printed, bytes_text, count_text, time_text
from gristmill.tools.page import MOST_LISTED, WIDTH, Page, cut

BAD_FILES = "bad_files.jsonl"
"""The list of bad files, in the folder of the shards."""


@dataclass(frozen=True, slots=True)
class BadFile:
    """A recording that is broken, or cannot be packed.

    Attributes:
        file: Its path in the source.
        reason: As in `DecodeError.reason` where it cannot be decoded, or a field of `gm.Limits`;
            otherwise `"missing"`, `"outside"` (a path or a link that leads out of the source),
            `"link"`, `"not_a_file"` (a pipe, a device), `"permission"`, `"name"` (it is not UTF-8),
            `"no_audio"` (a sample of a tar without a recording), `"duplicate"`, `"metadata"` (a
            member of a tar that cannot be read) or `"corrupt_tar"` (nothing after it can be read).
        message: What is wrong, in a sentence.
        codec: As in `AudioInfo`; `None` if it is not known.
        kept: Whether it is a row all the same, as `keep_bad` has it.
    """

    file: str
    reason: str
    message: str
    codec: str | None = None
    kept: bool = False


@dataclass(frozen=True)
class PackedShard:
    """A shard that is whole.

    Attributes:
        file: Its path in the folder, such as `"data-00000-of-00012.arrow"`.
        split: Its split.
        rows: Recordings in it.
        bytes: Of the file.
        audio_seconds: Length of its recordings, as far as their headers tell.
        converted: Recordings in it that became FLAC, as `convert` has it.
    """

    file: str
    split: str
    rows: int
    bytes: int
    audio_seconds: float
    converted: int = 0


@dataclass(frozen=True)
class PackReport(Printed):
    """What `gm.pack` did.

    Attributes:
        folder: Where the shards are.
        shards: All of them, in order.
        reused: How many of them an earlier run had left.
        features: The features of `datasets`, by column, as they stand in the shards' schema.
        bad: The bad files, by name.
        unlisted: Recordings that no metadata file names. They are left out.
        ignored: Other files that were ignored, by their ending.
        notes: What else is worth knowing, in sentences.
        seconds: Time that this run took.
    """

    folder: str
    shards: tuple[PackedShard, ...]
    reused: int
    features: Mapping[str, Any]
    bad: tuple[BadFile, ...] = ()
    unlisted: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """Recordings in all shards."""
        return sum(shard.rows for shard in self.shards)

    @property
    def converted(self) -> int:
        """Recordings that became FLAC, in all shards."""
        return sum(shard.converted for shard in self.shards)

    @property
    def splits(self) -> dict[str, int]:
        """Rows of each split."""
        rows: Counter[str] = Counter()
        for shard in self.shards:
            rows[shard.split] += shard.rows
        return dict(rows)

    @property
    def reasons(self) -> dict[str, int]:
        """Number of bad files by reason, the most frequent first."""
        return dict(Counter(bad.reason for bad in self.bad).most_common())

    def __str__(self) -> str:
        return str(page_of(self))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return {
            **asdict(self),
            "rows": self.rows,
            "converted": self.converted,
            "splits": self.splits,
            "reasons": self.reasons,
        }


def page_of(report: PackReport) -> Page:
    """The page that `gristmill pack` prints."""
    page = Page()
    n_bytes = sum(shard.bytes for shard in report.shards)
    hours = sum(shard.audio_seconds for shard in report.shards) / 3600
    page.say(
        f"{count_text(report.rows, 'recording')} in {count_text(len(report.shards), 'shard')}, "
        f"{bytes_text(n_bytes)}, {hours:,.1f} hours of audio"
    )
    there = f", {count_text(report.reused, 'shard')} from an earlier run" if report.reused else ""
    page.say(f"in {time_text(report.seconds)}{there}; they are in {report.folder}")
    if report.converted:
        page.say(f"{count_text(report.converted, 'recording')} converted to FLAC")
    if len(report.splits) > 1:
        page.table(
            "Splits", [(name, count_text(rows, "row")) for name, rows in report.splits.items()]
        )
    names = report.features.items()
    page.table("Columns", [(name, cut(_kind(feature), WIDTH - 20)) for name, feature in names])
    if report.bad:
        page.table("Reasons", [(reason, f"{n:,}") for reason, n in report.reasons.items()])
        any_kept = any(bad.kept for bad in report.bad)
        page.section("Bad files" if any_kept else "Bad files, left out")
        for bad in report.bad[:MOST_LISTED]:
            kept = "kept  " if bad.kept else ""
            page.say(cut(f"  {bad.file}  {kept}{bad.codec or 'no codec'}  {bad.reason}", WIDTH))
        if (more := len(report.bad) - MOST_LISTED) > 0:
            page.say(f"  and {more:,} more")
        page.section(f"They are listed in {report.folder}/{BAD_FILES}.")
    if others := _others(report):
        page.say()
        for sentence in others:
            page.paragraph(sentence)
    return page


def _others(report: PackReport) -> list[str]:
    sentences = list(report.notes)
    if report.unlisted:
        what = count_text(report.unlisted, "recording")
        sentences.append(f"No metadata file names {what}, left out.")
    if report.ignored:
        most = Counter(report.ignored).most_common(5)
        listed = ", ".join(f"{ending or 'no ending'} {n:,}" for ending, n in most)
        sentences.append(f"Other files, ignored: {listed}.")
    return sentences


def _kind(feature: Any) -> str:
    """A feature in a word or two."""
    if not isinstance(feature, dict):
        return "List"
    fields = cast("dict[str, Any]", feature)
    kind = fields.get("_type")
    if kind == "Value":
        return str(fields.get("dtype"))
    if kind == "ClassLabel":
        names = cast("list[str]", fields.get("names") or [])
        return f"ClassLabel of {len(names)}: {', '.join(map(str, names))}"
    if kind in ("List", "LargeList"):
        return f"{kind} of {_kind(fields.get('feature'))}"
    return str(kind) if isinstance(kind, str) else f"Struct of {', '.join(fields)}"
