"""What a part of a scan sends back: totals, whose size does not depend on the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gristmill.metrics.text import Printed, bytes_text, count_text, time_text
from gristmill.tools.inspection import list_unreadable
from gristmill.tools.page import Page
from gristmill.tools.scan.report import ScanReport
from gristmill.tools.shards import UnreadableShard


@dataclass(frozen=True)
class ScanSummary(Printed):
    """The totals of a scan, or of a part of it. The bad rows are in the files of `quarantine`.

    Attributes:
        part: `(i, n)`: the i-th of n parts; `(1, 1)` is all.
        shards: Shards that could be opened.
        rows: Rows that were checked.
        bytes: Encoded audio that was checked.
        audio_seconds: Its length, as far as headers tell.
        marked: As in `ScanReport`.
        damaged: Bad rows of which something can be decoded.
        undecodable: Bad rows of which nothing can be decoded.
        reasons: Number of bad rows by reason.
        unreadable: Shards that are not valid Arrow IPC or Parquet, or not to their end.
        quarantine: The files that list the bad rows, for `exclude=`.
        fast: Whether only headers, framing and checksums were checked.
        seconds: Time that it took, the parts' added up, interruptions not counted.
    """

    part: tuple[int, int] = (1, 1)
    shards: int = 0
    rows: int = 0
    bytes: int = 0
    audio_seconds: float = 0.0
    marked: int = 0
    damaged: int = 0
    undecodable: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    unreadable: tuple[UnreadableShard, ...] = ()
    quarantine: tuple[str, ...] = ()
    fast: bool = False
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether no row and no shard is bad."""
        return not (self.damaged or self.undecodable or self.unreadable)

    def __str__(self) -> str:
        page = Page()
        number, count = self.part
        part = f"Part {number} of {count}: " if count > 1 else ""
        page.say(
            f"{part}{count_text(self.rows, 'row')} of {count_text(self.shards, 'shard')}, "
            f"{bytes_text(self.bytes)}, {self.audio_seconds / 3600:,.1f} hours of audio"
        )
        page.say(f"in {time_text(self.seconds)} of all parts")
        sound = self.rows - self.damaged - self.undecodable
        counts = (("sound", sound), ("damaged", self.damaged), ("undecodable", self.undecodable))
        page.table("Rows", [(name, f"{n:,}") for name, n in counts])
        if self.reasons:
            page.table("Reasons", [(reason, f"{n:,}") for reason, n in self.reasons.items()])
        list_unreadable(self.unreadable, page)
        return str(page)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return asdict(self)


def summary_of(report: ScanReport, quarantine: str | None) -> ScanSummary:
    """The totals of a report."""
    return ScanSummary(
        part=report.part,
        shards=report.shards,
        rows=report.rows,
        bytes=report.bytes,
        audio_seconds=report.audio_seconds,
        marked=report.marked,
        damaged=report.damaged,
        undecodable=report.undecodable,
        reasons=report.reasons,
        unreadable=report.unreadable,
        quarantine=() if quarantine is None else (quarantine,),
        fast=report.fast,
        seconds=report.seconds,
    )


def joined(one: ScanSummary, other: ScanSummary) -> ScanSummary:
    """Both together; shards are opened by every part, and so are counted once."""
    unreadable = {shard.shard: shard for shard in (*one.unreadable, *other.unreadable)}
    reasons = Counter(one.reasons) + Counter(other.reasons)
    return ScanSummary(
        shards=one.shards,
        rows=one.rows + other.rows,
        bytes=one.bytes + other.bytes,
        audio_seconds=one.audio_seconds + other.audio_seconds,
        marked=one.marked + other.marked,
        damaged=one.damaged + other.damaged,
        undecodable=one.undecodable + other.undecodable,
        reasons=dict(reasons.most_common()),
        unreadable=tuple(unreadable[shard] for shard in sorted(unreadable)),
        quarantine=tuple(sorted({*one.quarantine, *other.quarantine})),
        fast=one.fast,
        seconds=one.seconds + other.seconds,
    )
