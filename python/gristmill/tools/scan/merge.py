"""Joins what the parts of a job array have found."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Any

from gristmill import checks
from gristmill.bad_rows.quarantine import QuarantineFile, read_quarantine
from gristmill.tools.scan.log import SUFFIX, Known, read_log
from gristmill.tools.scan.report import ScanReport


def merge_scans(quarantine: str | os.PathLike[str]) -> ScanReport:
    """Joins the files of all parts of a scan into `quarantine`, and says the totals.

    The parts' own files stay where they are, so that merging again does no harm.

    Args:
        quarantine: What the parts were given; theirs lie beside it.

    Raises:
        FileNotFoundError: There are no parts.
        ValueError: A part is missing or not finished, or the parts are not of one scan.
        OSError: The file cannot be written.
    """
    quarantine = checks.file_path("quarantine", quarantine)
    parts = _read(Path(quarantine))
    known = [parts[number] for number in sorted(parts)]
    findings = [finding for one in known for finding in one.findings]
    unreadable = {shard.shard: shard for one in reversed(known) for shard in one.unreadable}
    header = known[0].header
    with QuarantineFile(quarantine) as file:
        there = {(row.shard, row.row) for row in read_quarantine(quarantine)}
        rows = [finding.row for finding in findings]
        file.append(row for row in rows if (Path(row.shard).name, row.row) not in there)
    return ScanReport(
        shards=header["shards"] - sum(not shard.from_row for shard in unreadable.values()),
        rows=sum(one.progress.rows for one in known),
        rows_to_scan=header["rows"],
        bytes=sum(one.progress.bytes for one in known),
        audio_seconds=sum(one.progress.audio_seconds for one in known),
        marked=sum(one.progress.marked for one in known),
        findings=tuple(findings),
        unreadable=tuple(unreadable[shard] for shard in sorted(unreadable)),
        fast=header["fast"],
        is_finished=True,
        seconds=sum(one.progress.seconds for one in known),
    )


def _read(path: Path) -> dict[int, Known]:
    """The logs of all parts, by their numbers; they are whole and of one scan."""
    pattern = f"{glob.escape(path.stem)}.part-*-of-*{glob.escape(path.suffix + SUFFIX)}"
    logs = sorted(path.parent.glob(pattern))
    if not logs:
        raise FileNotFoundError(2, "There are no parts of a scan beside this file", str(path))
    parts: dict[int, Known] = {}
    expected: dict[str, Any] = {}
    for log in logs:
        known = read_log(str(log))
        of_part = {**known.header, "part": None}
        if not known.header:
            raise ValueError(f"{log} is empty: its part has only begun; run it again")
        if expected and expected != of_part:
            what = next(name for name in of_part if of_part[name] != expected.get(name))
            raise ValueError(
                f"{log} is of another scan than {logs[0]}: its {what} is {of_part[what]}, and not "
                f"{expected.get(what)}; delete the files of the one that is not wanted"
            )
        expected = of_part
        parts[known.header["part"][0]] = known
    counts = {int(match[1]) for log in logs if (match := re.search(r"-of-(\d+)", log.name))}
    if len(counts) > 1:
        listed = " and ".join(map(str, sorted(counts)))
        raise ValueError(
            f"beside {path} are parts of {listed}; delete the files of the scan that is not wanted"
        )
    (count,) = counts
    for number in range(1, count + 1):
        if number not in parts:
            raise ValueError(f"part {number} of {count} is missing; run it with --part")
        progress = parts[number].progress
        if not progress.is_finished:
            raise ValueError(
                f"part {number} of {count} is not finished, {progress.done:,} rows are done; run "
                "it again, it goes on from there"
            )
    return parts
