"""Joins what the parts of a job array have found."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from gristmill import checks
from gristmill.bad_rows.quarantine import QuarantineFile, read_quarantine
from gristmill.tools.scan.log import SUFFIX, LogContent, read_log
from gristmill.tools.scan.report import ScanReport
from gristmill.troubleshooting import explain
from gristmill.urls import base_name


def merge_scans(quarantine: str | os.PathLike[str]) -> ScanReport:
    """Joins the files of all parts of a scan into `quarantine`, and reports the totals.

    The parts' own files stay where they are, so that merging again does no harm.

    Args:
        quarantine: The file that the parts were given; theirs are next to it.

    Raises:
        FileNotFoundError: There are no parts.
        ValueError: A part is missing or not finished, or the parts are not of one scan.
        OSError: The file cannot be written.
    """
    quarantine = checks.file_path("quarantine", quarantine)
    parts = _read(Path(quarantine))
    logs = [parts[number] for number in sorted(parts)]
    findings = [finding for log in logs for finding in log.findings]
    unreadable = {shard.shard: shard for log in reversed(logs) for shard in log.unreadable}
    header, checkpoints = logs[0].header, [log.checkpoint for log in logs]
    notes: Counter[str] = Counter()
    for one in checkpoints:
        notes.update(one.notes)
    with QuarantineFile(quarantine) as file:
        there = {(row.shard, row.row) for row in read_quarantine(quarantine)}
        rows = [finding.row for finding in findings]
        file.append(row for row in rows if (base_name(row.shard), row.row) not in there)
    return ScanReport(
        shards=header["shards"] - sum(not shard.from_row for shard in unreadable.values()),
        rows=sum(one.rows for one in checkpoints),
        rows_to_scan=header["rows"],
        bytes=sum(one.bytes for one in checkpoints),
        audio_seconds=sum(one.audio_seconds for one in checkpoints),
        marked=sum(one.marked for one in checkpoints),
        noted=sum(one.noted for one in checkpoints),
        notes=dict(notes),
        findings=tuple(findings),
        unreadable=tuple(unreadable[shard] for shard in sorted(unreadable)),
        fast=header["fast"],
        is_finished=True,
        seconds=sum(one.seconds for one in checkpoints),
    )


def _read(path: Path) -> dict[int, LogContent]:
    """The logs of all parts, by their numbers; they are whole and of one scan."""
    pattern = f"{glob.escape(path.stem)}.part-*-of-*{glob.escape(path.suffix + SUFFIX)}"
    logs = sorted(path.parent.glob(pattern))
    if not logs:
        raise FileNotFoundError(2, "There are no parts of a scan beside this file", str(path))
    parts: dict[int, LogContent] = {}
    expected: dict[str, Any] = {}
    for log in logs:
        content = read_log(str(log))
        if not content.header:
            raise ValueError(f"{log} is empty: its part has only begun; run it again")
        # A job may have its own copies of the shards and the recordings.
        root = "none" if content.header["root"] is None else "given"
        of_part = {**content.header, "part": None, "written": None, "root": root}
        if expected and expected != of_part:
            what = next(name for name in of_part if of_part[name] != expected.get(name))
            raise ValueError(
                f"{log} belongs to another scan than {logs[0]}: its {what} is {of_part[what]}, "
                f"and not {expected.get(what)}; delete the files of the unwanted scan"
            )
        expected = of_part
        parts[content.header["part"][0]] = content
    counts = {int(match[1]) for log in logs if (match := re.search(r"-of-(\d+)", log.name))}
    if len(counts) > 1:
        listed = " and ".join(map(str, sorted(counts)))
        raise ValueError(
            f"beside {path} are parts of {listed}; delete the files of the unwanted scan"
        )
    (count,) = counts
    for number in range(1, count + 1):
        if number not in parts:
            what = f"part {number} of {count} is missing; run it with --part"
            raise explain(ValueError(what))
        checkpoint = parts[number].checkpoint
        if not checkpoint.is_finished:
            raise ValueError(
                f"part {number} of {count} is not finished, {checkpoint.done:,} rows are done; "
                "run it again to resume"
            )
    return parts
