"""The quarantine file, which keeps bad rows from run to run.

It is JSON Lines. Its first line is `{"gristmill_quarantine": 1}`; every other one is a row:

    {"shard": "train-0003.arrow", "rows": 2855, "row": 812, "path": "XC1.ogg", "codec": "vorbis",
     "reason": "truncated", "message": "...", "bytes": 40113}

`rows` is the number of rows in the shard, so that a shard of the same name in another data set is
noticed. The same row may occur more than once, and files may be joined with `cat`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Generator, Iterable
from dataclasses import asdict
from typing import Any, cast

from gristmill.bad_rows.line_file import LineFile, open_regular
from gristmill.bad_rows.rows import BadRow
from gristmill.checks import file_path, items, wrong
from gristmill.urls import base_name

VERSION = 1
_MARK = "gristmill_quarantine"
_LONGEST = 1 << 20
_HEADER = (json.dumps({_MARK: VERSION}) + "\n").encode()


class QuarantineFile(LineFile):
    """Appends bad rows to a quarantine file, whole lines only.

    Several processes may append to one file. A last line that was cut short, by a full disk or a
    kill, is removed before the next one is written. Nothing else is ever changed.

    Raises:
        OSError: The file cannot be opened or written; what it held is still there.
        ValueError: The file exists and is no quarantine file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(file_path("path", path))
        try:
            with self._locked():
                self._write(b"")
        except BaseException:
            self.close()
            raise

    def append(self, rows: Iterable[BadRow]) -> None:
        """Adds these rows, each with one write.

        Raises:
            OSError: A row could not be written: it and those after it are not in the file.
            ValueError: The argument is no list of rows.
        """
        given = items(rows)
        if given is None or not all(isinstance(row, BadRow) for row in given):
            raise wrong("rows", "a list of gm.BadRow", rows, "append(it.bad_rows())")
        with self._locked():
            for row in given:
                self._write(_line(row))

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        if self._fd < 0:
            raise ValueError(f"{self._path} is closed")
        self._lock(fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _write(self, line: bytes) -> None:
        """Writes a line after the last whole one, and the header before the first."""
        end = self._repair()
        if end == 0:
            line = _HEADER + line
        self._add(line, end)

    def _repair(self) -> int:
        """Removes an incomplete last line; the length of what is left."""
        end = os.fstat(self._fd).st_size
        if end == 0:
            return 0
        start = os.pread(self._fd, len(_HEADER), 0)
        if not _HEADER.startswith(start) and _version(start.partition(b"\n")[0]) is None:
            raise _unlike(self._path)
        if os.pread(self._fd, 1, end - 1) == b"\n":
            return end
        whole = end
        while whole > 0:
            block = min(whole, 1 << 16)
            newline = os.pread(self._fd, block, whole - block).rfind(b"\n")
            whole -= block if newline < 0 else block - newline - 1
            if newline >= 0:
                break
        os.ftruncate(self._fd, whole)
        return whole


def read_quarantine(path: str | os.PathLike[str]) -> list[BadRow]:
    """The rows in a quarantine file, in its order; the same row may occur more than once.

    A last line without its end is ignored: a writer is at work, or was stopped.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is a pipe or a device, or a line is not a row of a quarantine file; the
            message names it.
    """
    return [_bad_row(fields) for fields in read_fields(path)]


def read_fields(path: str | os.PathLike[str]) -> Generator[dict[str, Any]]:
    """The fields of each row, checked, by their names in the file; one line at a time."""
    path = str(file_path("path", path))
    with open_regular(path) as file:
        number = 0
        # No writer makes longer lines: a file without any end of line is not read as a whole.
        while line := file.readline(_LONGEST):
            number += 1
            if not line.endswith(b"\n") and len(line) < _LONGEST:
                if number == 1 and not _HEADER.startswith(line):
                    raise _unlike(path)
                return
            fields = _json(line)
            # Where files were joined, there is a header in the middle.
            version = (fields or {}).get(_MARK)
            if version is not None:
                if version != VERSION:
                    raise ValueError(
                        f"{path}, line {number}: a quarantine file of version {version}, and this "
                        f"is gristmill with version {VERSION}; read it with the version that wrote "
                        "it"
                    )
            elif number == 1:
                raise _unlike(path)
            elif fields is not None:
                _check(fields, path, number)
                yield fields
            elif line.strip():
                raise ValueError(
                    f"{path}, line {number}: not a row of a quarantine file; delete the line"
                )


def _line(row: BadRow) -> bytes:
    fields = asdict(row)
    fields["shard"] = base_name(row.shard)
    rows = fields.pop("shard_rows")
    ordered = {"shard": fields.pop("shard"), "rows": rows, **fields}
    return (json.dumps(ordered) + "\n").encode()


def _json(line: bytes) -> dict[str, Any] | None:
    try:
        content: object = json.loads(line.decode())  # of bytes it takes twice as long
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def _version(line: bytes) -> object:
    """The version that a header names; `None` for any other line."""
    return (_json(line) or {}).get(_MARK)


def _check(fields: dict[str, Any], path: str, number: int) -> None:
    for name in ("shard", "path", "codec", "reason", "message"):
        value = fields.get(name)
        if not (isinstance(value, str) or (value is None and name != "shard")):
            raise _wrong(path, number, name, value)
    row, rows, size = fields.get("row"), fields.get("rows"), fields.get("bytes")
    if type(row) is not int or row < 0:
        raise _wrong(path, number, "row", row)
    if type(rows) is not int or not row < rows < 2**63:
        raise _wrong(path, number, "rows", rows)
    if size is not None and (type(size) is not int or size < 0):
        raise _wrong(path, number, "bytes", size)


def _bad_row(fields: dict[str, Any]) -> BadRow:
    return BadRow(
        shard=base_name(fields["shard"]),
        row=fields["row"],
        path=fields.get("path"),
        codec=fields.get("codec"),
        reason=fields.get("reason") or "",
        message=fields.get("message") or "",
        bytes=fields.get("bytes"),
        shard_rows=fields["rows"],
    )


def _wrong(path: str, number: int, name: str, value: object) -> ValueError:
    shown = str(value)[:80]
    return ValueError(
        f"{path}, line {number}: {name!r} is {shown!r}; repair the line, or delete it"
    )


def _unlike(path: str) -> ValueError:
    return ValueError(
        f"{path} is no quarantine file: its first line is not {_HEADER.decode().strip()}; "
        "give the file that gristmill wrote, or a name that is free"
    )
