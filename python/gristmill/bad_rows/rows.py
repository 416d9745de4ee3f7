"""Rows with damaged or unusable audio, as users get them."""

from __future__ import annotations

from dataclasses import dataclass

from gristmill.report import DecodeReport


@dataclass(frozen=True)
class BadRow:
    """A row whose audio could not be used.

    Attributes:
        shard: Path of the shard; its base name alone where the row was read from a file.
        row: Index of the row in its shard.
        path: The `path` beside the bytes in the audio column; `None` if there is none.
        codec: As in `AudioInfo`; `None` if the format is unknown.
        reason: One word for programs to compare: `DecodeError.reason`, `LimitError.limit` where a
            limit was exceeded, or `"missing"` where more was missing than `max_missing` allows.
        message: The same for people, with the place and what to do. Where several columns are
            decoded, it names the recording's.
        bytes: Size of the encoded audio; `None` if it is null.
        shard_rows: Number of rows in the shard.
    """

    shard: str
    row: int
    path: str | None
    codec: str | None
    reason: str
    message: str
    bytes: int | None
    shard_rows: int


@dataclass(frozen=True)
class DamagedRow:
    """A row that was delivered although its audio is damaged.

    Attributes:
        shard: Path of the shard.
        row: Index of the row in its shard.
        report: How decoding it went; `report.codec` is its codec.
        column: The column of the damaged recording, where several are decoded; otherwise `None`.
    """

    shard: str
    row: int
    report: DecodeReport
    column: str | None = None
