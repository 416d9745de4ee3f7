"""What a scan finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from gristmill.bad_rows.quarantine import BadRow
from gristmill.tools.headers import UnreadableShard

Kind: TypeAlias = Literal["undecodable", "damaged"]


@dataclass(frozen=True)
class Finding:
    """A row that raises where damage is an error (`Audio(strict=True)`).

    Attributes:
        kind: `"undecodable"` if nothing of it can be had, not even with `strict=False`; otherwise
            `"damaged"`.
        row: Which, and why.
        frames_promised: Frames that its headers promise; 0 if nothing can be had.
        frames_missing: Those of them that could not be decoded. Not known of a fast scan: 0.
        damage: As in `DecodeReport`.
    """

    kind: Kind
    row: BadRow
    frames_promised: int = 0
    frames_missing: int = 0
    damage: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class ScanReport:
    """What a scan, or a part of it, has found so far.

    Attributes:
        shards: Shards that could be opened.
        rows: Rows that were looked at.
        rows_to_scan: Rows of this part.
        bytes: Encoded audio that was looked at.
        audio_seconds: Its length, as far as headers tell.
        marked: Sound rows that end inside a frame, which nobody can tell to be damage
            (`"partial_frame"`).
        findings: The bad rows, by shard and row.
        unreadable: Shards that are no sound Arrow IPC, or not to their end.
        fast: Whether only headers, framing and checksums were looked at.
        part: Which part this is, of how many: `(1, 1)` is all.
        is_finished: Whether nothing is left to scan.
        seconds: What it took, stops not counted.
    """

    shards: int = 0
    rows: int = 0
    rows_to_scan: int = 0
    bytes: int = 0
    audio_seconds: float = 0.0
    marked: int = 0
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[UnreadableShard, ...] = ()
    fast: bool = False
    part: tuple[int, int] = (1, 1)
    is_finished: bool = False
    seconds: float = 0.0

    @property
    def damaged(self) -> int:
        """Bad rows of which something can be had."""
        return sum(finding.kind == "damaged" for finding in self.findings)

    @property
    def undecodable(self) -> int:
        """Bad rows of which nothing can be had."""
        return sum(finding.kind == "undecodable" for finding in self.findings)

    @property
    def is_clean(self) -> bool:
        """Whether no row and no shard is bad."""
        return not self.findings and not self.unreadable

    @property
    def reasons(self) -> dict[str, int]:
        """How many rows are bad for which reason, the most frequent first."""
        return dict(Counter(finding.row.reason for finding in self.findings).most_common())

    @property
    def rows_per_second(self) -> float:
        """Rows that were looked at, by the time that it took."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        from gristmill.cli import pages  # noqa: PLC0415 - the command line speaks of this module

        return pages.scan(self)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, safe for JSON."""
        return {
            **asdict(self),
            "damaged": self.damaged,
            "undecodable": self.undecodable,
            "reasons": self.reasons,
            "rows_per_second": self.rows_per_second,
        }
