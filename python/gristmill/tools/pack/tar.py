"""WebDataset tars: members that share a name up to its first dot are one sample."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import errno
import json
import os
import tarfile
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from gristmill.bad_rows.line_file import open_regular
from gristmill.checks import is_text
from gristmill.errors import SchemaError
from gristmill.tools.pack.report import BadFile
from gristmill.tools.pack.source import Recording, Source, is_audio, is_hidden, on_disk

_JSON = frozenset(("json", "jsn"))
_TEXT = frozenset(("txt", "text", "transcript"))
_INTEGER = frozenset(("cls", "cls2", "index", "inx", "id"))
_MOST_METADATA_BYTES = 16 << 20
_MOST_HEADER_BYTES = 1 << 20
_ZEROS_BYTES = 1 << 20
_CHUNK_ROWS = 4096
"""Samples whose values are Python's before they become Arrow's."""


class _Bounded:
    """The file of a tar: no header in it makes a read of any size."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file = file
        self._end = end
        self.tell = file.tell

    def seek(self, offset: int) -> int:
        return self._file.seek(min(offset, self._end))  # beyond 2**63 it would raise OSError

    def read(self, n_bytes: int) -> bytes:
        if not 0 <= n_bytes <= _MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header claims {n_bytes:,} bytes")
        return self._file.read(n_bytes)


@dataclass
class _Sample:
    key: str
    recording: Recording | None = None
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    others: list[str] = field(default_factory=list[str])
    is_bad: bool = False

    def duplicates(self) -> list[BadFile]:
        """Its recordings but the first."""
        first = self.recording.name if self.recording else ""
        then = "and neither is packed" if self.is_bad else "and the first is packed"
        found: list[BadFile] = []
        for name in self.others:
            if name == first:
                why = f"the tar has this member twice, {then}; make the tar again"
            else:
                why = (
                    f"the sample has another recording, {then}; members whose names are equal up "
                    "to the first dot are one sample, so rename those that are not"
                )
            found.append(BadFile(name, "duplicate", why))
        return found


def with_samples(root: str, tars: list[str], source: Source) -> Source:
    """The samples of all tars: their recordings, and text, JSON and integers beside them.

    Columns are called after the members' endings, as in `datasets`; the key of a sample is
    `__key__`, the tar's path `__url__`.

    Raises:
        OSError: A tar cannot be read.
        SchemaError: A column has values of several types.
    """
    columns = _Columns()
    for tar in tars:
        if not is_text(tar):
            shown = tar.encode("utf-8", "replace").decode()
            source.bad.append(BadFile(shown, "name", "its name is not UTF-8; rename it"))
            continue
        if not tar.lower().endswith(".tar"):
            raise ValueError(f"{Path(root, tar)} is compressed; decompress it first")
        for sample in _samples(on_disk(root, tar), tar, source):
            source.bad += sample.duplicates()
            if sample.recording is None:
                if not sample.is_bad:
                    why = "the sample has no recording"
                    source.bad.append(BadFile(f"{tar}/{sample.key}", "no_audio", why))
            elif not sample.is_bad:
                source.recordings.append(sample.recording)
                columns.add({**sample.values, "__key__": sample.key, "__url__": tar})
    source.columns = columns.table()
    return source


class _Columns:
    """Values by sample, in chunks of which each has the types that its values have."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._chunks: list[pa.Table] = []

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= _CHUNK_ROWS:
            self._flush()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        names = sorted({name for row in rows for name in row})
        arrays: list[pa.Array] = []
        for name in names:
            try:
                arrays.append(pa.array([row.get(name) for row in rows]))
            except (pa.ArrowException, OverflowError, ValueError, RecursionError) as error:
                where = f"from {rows[0]['__key__']} to {rows[-1]['__key__']}"
                raise SchemaError(
                    f"the members .{name} {where} have values of several types: {error}",
                    column=name,
                ) from error
        self._chunks.append(pa.table(arrays, names=names))

    def table(self) -> pa.Table | None:
        if self._rows:
            self._flush()
        if not self._chunks:
            return None
        try:
            joined = pa.concat_tables(self._chunks, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(f"samples have values of several types: {error}") from error
        # The fields of a sample first, its key and tar last, as in datasets.
        names = sorted(cast("list[str]", joined.column_names))
        last = [name for name in names if name.startswith("__")]
        return joined.select([name for name in names if name not in last] + last)


def _samples(path: str, tar: str, source: Source) -> Generator[_Sample]:
    """The samples of one tar, in its order."""
    current: _Sample | None = None
    with open_regular(path) as file:
        changed_ns = os.fstat(file.fileno()).st_mtime_ns
        for member in _members(file, tar, source):
            name = f"{tar}/{member.name}"
            folder, _, last = member.name.rpartition("/")
            stem, dot, ending = last.partition(".")
            if is_hidden(last) or not (stem and dot):
                source.ignored[""] += 1
                continue
            key = f"{folder}/{stem}" if folder else stem
            if current is None or current.key != key:
                if current is not None:
                    yield current
                current = _Sample(key)
            if not is_audio(last):
                _take_value(current, ending.lower(), member, file, source, name)
            elif current.recording is not None:
                current.others.append(name)
            else:
                at, size = member.offset_data, member.size
                current.recording = Recording(name, member.name, path, at, size, changed_ns)
    if current is not None:
        yield current


def _members(file: BinaryIO, tar: str, source: Source) -> Generator[tarfile.TarInfo]:
    """The regular files of a tar. Others are listed as bad, like its rest where it is corrupt."""
    end = os.fstat(file.fileno()).st_size
    offset = -1
    bounded: Any = _Bounded(file, end)
    try:
        archive = tarfile.TarFile(fileobj=bounded, mode="r", name=tar, encoding="utf-8")
        kept: list[Any] = vars(archive)["members"]  # it would remember all of them
        start: int | None = 0
        while start is not None:
            while (member := archive.next()) is not None:
                kept.clear()
                if member.offset <= offset or member.size < 0:
                    raise tarfile.ReadError("a header has a size below 0")
                offset = member.offset
                if member.isdir():
                    continue
                if why := _refusal(member, end):
                    shown = member.name.encode("utf-8", "replace").decode()
                    source.bad.append(BadFile(f"{tar}/{shown}", *why))
                    continue
                yield member
            # tarfile takes zeros for the end, though `cat` may have put another tar behind them.
            start = _next_tar(file, archive.offset, end, tar, source)
            if start is not None:
                archive.offset = start
                archive.pax_headers = {}
                file.seek(start)
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, EOFError) as error:
        message = f"the tar is corrupt after byte {max(offset, 0):,}: {error}; make it again"
        source.bad.append(BadFile(tar, "corrupt_tar", message))


def _next_tar(file: BinaryIO, at: int, end: int, tar: str, source: Source) -> int | None:
    """Where a tar begins behind the one that ends at `at`; `None` if none does.

    Raises:
        tarfile.ReadError: The first tar does not end there: tarfile takes a corrupt header for the
            end, too.
    """
    start = at
    while start < end:
        try:
            data_at = file.seek(start, os.SEEK_DATA)  # over holes, which may be of any length
        except OSError as error:
            if error.errno == errno.ENXIO:  # there is nothing but a hole
                return None
            data_at = start  # some file systems have no such call
        start += (data_at - start) // tarfile.BLOCKSIZE * tarfile.BLOCKSIZE
        file.seek(start)
        chunk = file.read(_ZEROS_BYTES)
        zeros = len(chunk) - len(chunk.lstrip(b"\0"))
        if zeros == len(chunk):
            start += len(chunk)
            continue
        skipped = zeros // tarfile.BLOCKSIZE * tarfile.BLOCKSIZE
        start += skipped
        if start == at:
            raise tarfile.ReadError("there is no header where one should be")
        file.seek(start)
        try:
            tarfile.TarInfo.frombuf(file.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
        except tarfile.TarError:
            what = f"{end - start:,} bytes behind its end are no tar, and were ignored"
            source.notes.append(f"{tar}: {what}.")
            return None
        return start
    return None


def _refusal(member: tarfile.TarInfo, end: int) -> tuple[str, str] | None:
    """Why a member cannot be packed."""
    if not is_text(member.name) or "\0" in member.name:
        return "name", "its name is not UTF-8"
    if member.issym() or member.islnk():
        return "link", "it is a link; put the file itself into the tar"
    if not member.isreg() or member.issparse():
        return "not_a_file", "it is no regular file"
    if member.name.startswith("/") or ".." in member.name.split("/"):
        return "outside", "its name leads out of the tar"
    if member.offset_data + member.size > end:
        return "truncated", "the tar ends before it does"
    return None


def _take_value(
    sample: _Sample,
    ending: str,
    member: tarfile.TarInfo,
    file: BinaryIO,
    source: Source,
    name: str,
) -> None:
    """Keeps what a member says about its sample."""
    kind = ending.rpartition(".")[2]
    if kind not in _JSON | _TEXT | _INTEGER:
        source.ignored[f".{kind}"] += 1
        return
    why = ""
    if ending in sample.values:
        why = "the sample has another member of this ending"
    elif member.size > _MOST_METADATA_BYTES:
        why = f"it has {member.size:,} bytes, and {_MOST_METADATA_BYTES:,} are read"
    else:
        here = file.tell()
        file.seek(member.offset_data)
        data = file.read(member.size)
        file.seek(here)
        try:
            sample.values[ending] = _parsed(kind, data)
        except (ValueError, OverflowError, RecursionError, pa.ArrowException) as error:
            why = f"it cannot be read: {error}"
    if why:
        source.bad.append(BadFile(name, "metadata", why))
        sample.is_bad = True


def _parsed(kind: str, data: bytes) -> Any:
    """The value of a member; an error where Arrow could not hold it, or not write it."""
    if kind in _TEXT:
        return data.decode()
    value: Any = json.loads(data) if kind in _JSON else int(data)
    array = pa.array([value], None if kind in _JSON else pa.int64())
    _ = pa.record_batch([array], [kind]).serialize()  # values within values have a limit there
    return value
