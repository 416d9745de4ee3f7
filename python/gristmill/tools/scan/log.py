"""The log next to a quarantine file, from which a stopped scan resumes.

JSON Lines, appended to: a header that says what is scanned and how; a line for each finding; every
few seconds a checkpoint, a line that says how many rows are done. All lines before a checkpoint are
about rows that are done; what follows the last one is dropped and found again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from gristmill.bad_rows.line_file import LineFile
from gristmill.bad_rows.rows import BadRow
from gristmill.tools.scan.report import Finding
from gristmill.tools.shards import UnreadableShard
from gristmill.troubleshooting import explain

VERSION = 1
SUFFIX = ".scan"
_MARK = "gristmill_scan"
_DECIDES = ("root", "column", "limits")
"""Options that decide which rows are bad: a file of others may name rows that are sound."""

_OF_SHARDS = ("data", "written")
"""What another scan of the same shards may differ in, after they were written again."""


@dataclass
class Checkpoint:
    """How far a scan is.

    Attributes:
        done: Rows of the part that are done, those of unreadable shards included.
        rows: Those among them that were checked.
    """

    done: int = 0
    rows: int = 0
    bytes: int = 0
    audio_seconds: float = 0.0
    marked: int = 0
    noted: int = 0
    notes: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0
    is_finished: bool = False


@dataclass
class LogContent:
    """What a log holds."""

    header: dict[str, Any] = field(default_factory=dict[str, Any])
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    findings: list[Finding] = field(default_factory=list[Finding])
    unreadable: list[UnreadableShard] = field(default_factory=list[UnreadableShard])


class ScanLog(LineFile):
    """Opens the log of a scan, or begins one.

    `content` is what an earlier run of the same scan left, up to its last checkpoint.

    Raises:
        OSError: The file cannot be read or written.
        ValueError: It is not the log of a scan, or of another scan, or another process writes it.
    """

    def __init__(self, path: str, header: dict[str, Any], *, restart: bool = False) -> None:
        super().__init__(path)
        header = {_MARK: VERSION, **header}
        try:
            # What has ended is only read, by any number of processes.
            self.content, _ = _parse(Path(path).read_bytes(), path)
            if self.content.checkpoint.is_finished and not restart:
                _check_same(path, self.content.header, header)
                return
            self._lock_alone()
            data = Path(path).read_bytes()
            if restart and data:
                old, _ = _parse(data, path)  # what is no log is not ours to empty
                if old.findings:
                    # The quarantine file keeps their lines, which would exclude sound rows.
                    _check_same(path, old.header, header, _DECIDES)
                data = b""
            self.content, length = _parse(data, path)
            os.ftruncate(self._fd, length)
            if length:
                _check_same(path, self.content.header, header)
            else:
                self._append(header)
        except BaseException:
            self.close()
            raise

    def finding(self, finding: Finding) -> None:
        """Adds a bad row."""
        self._append({"finding": asdict(finding)})

    def unreadable(self, shard: UnreadableShard) -> None:
        """Adds a shard that cannot be read."""
        self._append({"unreadable": asdict(shard)})

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Adds how far the scan is."""
        self._append({"progress": asdict(checkpoint)})

    def _lock_alone(self) -> None:
        """Keeps others out: each would drop what the other has found since its last checkpoint."""
        try:
            self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file = self._path.removesuffix(SUFFIX)
            what = f"another scan writes to {file}; wait until it ends, or give another file"
            raise explain(ValueError(what)) from None

    def _append(self, content: dict[str, Any]) -> None:
        self._add((json.dumps(content) + "\n").encode(), os.fstat(self._fd).st_size)


def read_log(path: str) -> LogContent:
    """What the log of a scan holds.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not the log of a scan.
    """
    return _parse(Path(path).read_bytes(), path)[0]


def _parse(data: bytes, path: str) -> tuple[LogContent, int]:
    """What is done, and the length of the lines up to the last checkpoint."""
    content, pending = LogContent(), LogContent()
    whole = length = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            entry = cast("dict[str, Any]", json.loads(line))
            whole += len(line)
            if number == 1:
                if entry[_MARK] != VERSION:
                    raise _unlike(path, f"it is of version {entry[_MARK]!r}, and this reads 1")
                # Logs of before have no root, and were scanned without any as a rule.
                content.header, length = {"root": None, **entry}, whole
            elif "finding" in entry:
                pending.findings.append(_finding(entry["finding"]))
            elif "unreadable" in entry:
                pending.unreadable.append(UnreadableShard(**entry["unreadable"]))
            else:
                content.checkpoint = Checkpoint(**entry["progress"])
                content.findings += pending.findings
                content.unreadable += pending.unreadable
                pending, length = LogContent(), whole
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, ValueError) and str(error).startswith(path):
                raise
            raise _unlike(path, f"line {number} is none of its lines") from error
    if data and not length and not b'{"gristmill_scan"'.startswith(data[:17]):
        raise _unlike(path, "its first line has no end")
    return content, length


def _finding(fields: dict[str, Any]) -> Finding:
    whole: dict[str, Any] = {**fields, "row": BadRow(**fields["row"])}
    return Finding(**whole)


def _check_same(
    path: str, old: dict[str, Any], new: dict[str, Any], names: Iterable[str] = ()
) -> None:
    file = path.removesuffix(SUFFIX)
    for name in names or (*new, *old):
        if old.get(name) == new.get(name):
            continue
        if name == "written" and name not in old:  # a log of before
            continue
        what = "start over with --restart, or give another file to write to"
        if name in _OF_SHARDS:
            what = (
                f"if shards were repaired, delete {file}, whose lines would exclude sound rows; "
                + what
            )
        if name == "written":
            raise ValueError(f"{path} is about shards that were written again since; {what}")
        if name in _DECIDES:
            what = (
                f"give another file to write to, or delete {path} and {file}: with this {name}, "
                "rows in it may be sound"
            )
        what = (
            f"{path} belongs to another scan: its {name} is {old.get(name)}, and here it is "
            f"{new.get(name)}; {what}"
        )
        raise explain(ValueError(what))


def _unlike(path: str, why: str) -> ValueError:
    return ValueError(
        f"{path} is not what a scan writes: {why}; delete it to scan from the start, or give "
        "another file to write to"
    )
