"""What `gristmill scan` finds, and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from gristmill.bad_rows.rows import BadRow
from gristmill.metrics.text import Printed, bytes_text, count_text, time_text
from gristmill.tools.inspection import list_unreadable, notes_text
from gristmill.tools.page import MOST_LISTED, WIDTH, Page, cut
from gristmill.tools.shards import UnreadableShard
from gristmill.urls import base_name

Kind: TypeAlias = Literal["undecodable", "damaged"]


@dataclass(frozen=True)
class Finding:
    """A row that raises where damage is an error (`Audio(strict=True)`).

    Attributes:
        kind: `"undecodable"` if nothing of it can be decoded, not even with `strict=False`;
            otherwise `"damaged"`.
        row: The row, and the reason.
        frames_promised: Frames that its headers promise; 0 if nothing can be decoded.
        frames_missing: Those of them that could not be decoded; 0 in a fast scan, which does not
            know.
        damage: As in `DecodeReport`.
    """

    kind: Kind
    row: BadRow
    frames_promised: int = 0
    frames_missing: int = 0
    damage: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class ScanReport(Printed):
    """What a scan, or a part of it, has found so far.

    Attributes:
        shards: Shards that could be opened.
        rows: Rows that were checked.
        rows_to_scan: Rows of this part.
        bytes: Encoded audio that was checked.
        audio_seconds: Its length, as far as headers tell.
        marked: Sound rows that end inside a frame, which may or may not be damage
            (`"partial_frame"`).
        noted: Rows whose headers, counts or times contradict their sound. Such a row is not bad
            unless it is damaged as well.
        notes: The number of such rows by kind, as in `DecodeReport.notes`.
        findings: The bad rows, by shard and row.
        unreadable: Shards that are not valid Arrow IPC or Parquet, or not to their end.
        fast: Whether only headers, framing and checksums were checked.
        part: `(i, n)`: the i-th of n parts; `(1, 1)` is all.
        is_finished: Whether nothing is left to scan.
        seconds: Time that it took, interruptions not counted.
    """

    shards: int = 0
    rows: int = 0
    rows_to_scan: int = 0
    bytes: int = 0
    audio_seconds: float = 0.0
    marked: int = 0
    noted: int = 0
    notes: Mapping[str, int] = field(default_factory=dict[str, int])
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[UnreadableShard, ...] = ()
    fast: bool = False
    part: tuple[int, int] = (1, 1)
    is_finished: bool = False
    seconds: float = 0.0

    @property
    def damaged(self) -> int:
        """Bad rows of which something can be decoded."""
        return sum(finding.kind == "damaged" for finding in self.findings)

    @property
    def undecodable(self) -> int:
        """Bad rows of which nothing can be decoded."""
        return sum(finding.kind == "undecodable" for finding in self.findings)

    @property
    def is_clean(self) -> bool:
        """Whether no row and no shard is bad."""
        return not self.findings and not self.unreadable

    @property
    def reasons(self) -> dict[str, int]:
        """Number of bad rows by reason, the most frequent first."""
        return dict(Counter(finding.row.reason for finding in self.findings).most_common())

    @property
    def rows_per_second(self) -> float:
        """Throughput of the scan."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        # Not a word on files: a report knows of none.
        return str(page_of(self, ""))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return {
            **asdict(self),
            "damaged": self.damaged,
            "undecodable": self.undecodable,
            "reasons": self.reasons,
            "rows_per_second": self.rows_per_second,
        }


def page_of(report: ScanReport, written: str | None) -> Page:
    """The page that `gristmill scan` prints.

    Args:
        report: What was found.
        written: The file with the bad rows; `None` if there is none, empty if that is not known.
    """
    page = Page()
    number, count = report.part
    part = f"Part {number} of {count}: " if count > 1 else ""
    hours = report.audio_seconds / 3600
    how = "headers and checksums of " if report.fast else ""
    page.say(
        f"{part}{how}{count_text(report.rows, 'row')} of {count_text(report.shards, 'shard')}, "
        f"{bytes_text(report.bytes)}, {hours:,.1f} hours of audio"
    )
    page.say(f"in {time_text(report.seconds)}, {report.rows_per_second:,.0f} rows/s")
    sound = report.rows - len(report.findings)
    notes = f"; {report.marked:,} of them end inside a frame" if report.marked else ""
    table = [
        ("sound", f"{sound:,}{notes}"),
        ("damaged", f"{report.damaged:,} of which a part can be decoded"),
        ("undecodable", f"{report.undecodable:,}"),
    ]
    if report.noted:
        table.append(("notes", f"{report.noted:,}: {notes_text(report.notes)}"))
    page.table("Rows", table)
    if report.reasons:
        page.table("Reasons", [(reason, f"{n:,}") for reason, n in report.reasons.items()])
        page.section("Bad rows")
        for finding in report.findings[:MOST_LISTED]:
            page.say(finding_line(finding))
        if (more := len(report.findings) - MOST_LISTED) > 0:
            page.say(f"  and {more:,} more")
    list_unreadable(report.unreadable, page)
    if written is None:
        if report.findings:
            page.section("Scan with --quarantine FILE to list them for exclude=FILE.")
    elif written and report.findings:
        page.section(f"The bad rows are in {written}, for exclude=.")
    if report.unreadable:
        page.say()
        page.paragraph(
            "No exclude= helps against a broken shard: write it again, or give the other shards."
        )
    return page


def finding_line(finding: Finding) -> str:
    """A bad row, in a line of at most 80 columns."""
    row = finding.row
    parts = [f"{base_name(row.shard)} row {row.row:,}", row.codec or "no codec", row.reason]
    if finding.frames_missing:
        parts.append(f"{finding.frames_missing / finding.frames_promised:.1%} missing")
    if row.path:
        parts.append(row.path)
    return cut("  " + "  ".join(parts), WIDTH)
