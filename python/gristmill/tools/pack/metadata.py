"""`metadata.csv`, `.jsonl` and `.parquet`: a row for each recording, named in `file_name`."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import csv
import io
import os
import posixpath
import re
from collections import Counter
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pa_parquet

from gristmill.bad_rows.line_file import open_regular
from gristmill.errors import SchemaError
from gristmill.tools.pack.columns import DEEPEST, check_classes, known_classes
from gristmill.tools.pack.folder import Folder
from gristmill.tools.pack.report import BadFile
from gristmill.tools.pack.source import Recording, Source, on_disk

_compute: Any = pyarrow.compute  # its functions are made when it is imported
_FILE_NAME = "file_name"
_BLOCK_BYTES = 16 << 20
"""No row of a text file may be longer; a block is read at a time."""
_GUESSES = (pa.int64(), pa.uint64(), pa.float64(), pa.bool_())
"""What a column of a CSV file is, if all of its values are; otherwise strings."""
_HEXADECIMAL = "^[+-]?0[xX]"  # Arrow takes it for an integer, and pandas for a string
_NO_INTEGER = "[^0-9+-]"
_QUOTED = re.compile(rb'(?:\A(?:\xef\xbb\xbf)?|[,\r\n])(?P<quote>")(?:[^"]++|"")*+(?P<end>"|\Z)')
"""A quoted value of a CSV file; `end` is empty where the file ends before it."""
_JSON_STRING = re.compile(rb'"(?:[^"\\\n]++|\\[^\n])*+"?')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def with_metadata(folder: Folder) -> Source:
    """The recordings that metadata files name, in their order, with their columns.

    A recording is found from the folder of the metadata file that names it, and lies in the source.

    Raises:
        OSError: A file cannot be read.
        SchemaError: A file is not what its name says, has no column `file_name`, or several differ.
    """
    source = folder.source
    tables: list[pa.Table] = []
    seen: set[str] = set()
    audio_at: set[int] = set()
    listed = {bad.file for bad in source.bad}
    for path in folder.metadata:
        table = _read(folder, path)
        at = table.schema.get_field_index(_FILE_NAME)
        if at < 0 or not _is_string(table.schema.field(at).type):
            raise _wrong(path, f"there is no column {_FILE_NAME!r} of strings", table)
        for bad, n_times in Counter(table.column_names).items():
            if n_times > 1 or bad == "audio":
                raise _wrong(path, f"there is a column {bad!r} too many", table)
        kept: list[int] = []
        for row, name in enumerate(cast("list[str | None]", table.column(at).to_pylist())):
            recording = _find(folder, posixpath.dirname(path), name, f"{path} row {row + 1:,}")
            if isinstance(recording, BadFile):
                if recording.file not in listed:  # the walk may have found it bad already
                    listed.add(recording.file)
                    source.bad.append(recording)
                continue
            seen.add(recording.name)
            source.recordings.append(recording)
            kept.append(row)
        known = known_classes(table.schema)
        check_classes(path, table, known)
        for name, classes in known.items():
            if source.features.setdefault(name, classes) != classes:
                raise _wrong(path, f"the classes of {name!r} are not those of other files", table)
        audio_at.add(at)
        rest = table.take(pa.array(kept, pa.int64())).remove_column(at)
        tables.append(rest.replace_schema_metadata(None))
    try:
        columns = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        files = ", ".join(folder.metadata)
        raise SchemaError(f"the columns of {files} are of different types: {error}") from error
    source.columns = columns if columns.num_columns else None
    source.audio_at = min(audio_at)
    source.unlisted = len(folder.recordings.keys() - seen)
    return source


def _find(folder: Folder, parent: str, name: str | None, where: str) -> Recording | BadFile:
    """The recording that a metadata file in the folder `parent` names."""
    if not name:
        return BadFile(where, "missing", f"{_FILE_NAME} is empty")
    path = posixpath.normpath(posixpath.join(parent, name))
    if "\0" in name or posixpath.isabs(name) or path.split("/")[0] == "..":
        return BadFile(name, "outside", f"{where} names a file that is not in the source")
    if (found := folder.recordings.get(path)) is not None:
        return found
    there = os.path.lexists(on_disk(folder.root, path))
    why = "whose ending is not that of a recording" if there else "which does not exist"
    return BadFile(path, "missing", f"{where} names this file, {why}")


def _read(folder: Folder, name: str) -> pa.Table:
    path = on_disk(folder.root, name)
    kind = name.rpartition(".")[2]
    with open_regular(path) as file:  # a pipe would block what follows
        data = file.read() if kind == "csv" else b""
    try:
        # A Python file, which threads of Arrow's may still read when the interpreter ends, would
        # make them abort the process.
        with pa.OSFile(os.fsencode(path)) as native:
            if kind == "csv":
                return _read_csv(data, native)
            if kind == "jsonl":
                _check_depth(path)
                options = pa_json.ReadOptions(block_size=_BLOCK_BYTES)
                return pa_json.read_json(native, read_options=options)
            return pa_parquet.read_table(native)
    except (pa.ArrowException, UnicodeDecodeError, EOFError, csv.Error) as error:
        raise _unreadable(path, kind, error) from error
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or path
            raise
        # So Arrow calls a Parquet file whose pages are corrupt.
        raise _unreadable(path, kind, error) from error


def _unreadable(path: str, kind: str, why: object) -> SchemaError:
    return SchemaError(f"{path} cannot be read as {kind}: {why}; repair it")


def _read_csv(data: bytes, file: pa.NativeFile) -> pa.Table:
    """Numbers and booleans where a whole column is, else strings; never dates, as in pandas."""
    if (line := _open_quote(data)) is not None:
        raise csv.Error(f"the quote that opens in line {line:,} is never closed")
    strings = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(_header(data), pa.string()), strings_can_be_null=True
    )
    table = pa_csv.read_csv(
        file,
        read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=strings,
    )
    names = table.column_names
    columns = [
        column if name == _FILE_NAME else _guessed(column)
        for name, column in zip(names, table.columns, strict=True)
    ]
    return pa.table(columns, names=names)


def _guessed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of strings as what all of its values are."""
    if column.null_count == len(column) or _any(column, _HEXADECIMAL):
        return column
    for kind in _GUESSES:
        if kind == pa.float64() and not _any(column, _NO_INTEGER):
            continue  # as floats, different ids would be equal
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


def _check_depth(path: str) -> None:
    """Refuses JSON that is nested so deeply that Arrow would overflow the stack of the process.

    Brackets are counted as far as Arrow reads: it begins with none open, behind a line's end.

    Raises:
        SchemaError: It is.
    """
    depth = 0
    number = 1
    with open_regular(path) as file:
        while piece := file.readline(_BLOCK_BYTES):
            for mark in _JSON_STRING.sub(b"", piece).translate(None, _NO_BRACKETS):
                depth = depth + 1 if mark in b"[{" else max(depth - 1, 0)
                if depth > DEEPEST + 1:  # a row is an object itself
                    raise SchemaError(
                        f"{path} cannot be read as jsonl: line {number:,} nests more than "
                        f"{DEEPEST} levels of values, which Arrow cannot write; leave them out, or "
                        "write a string"
                    )
            number += piece.endswith(b"\n")


def _header(data: bytes) -> list[str]:
    """The names of the columns."""
    text = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", errors="replace", newline="")
    return next((row for row in csv.reader(text) if row), [])


def _open_quote(data: bytes) -> int | None:
    """The line of the quote that is open at the end of a CSV file."""
    for value in _QUOTED.finditer(data):
        if not value["end"]:
            return data.count(b"\n", 0, value.start("quote")) + 1
    return None


def _any(column: pa.ChunkedArray, pattern: str) -> bool:
    return bool(_compute.any(_compute.match_substring_regex(column, pattern)).as_py())


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _wrong(path: str, what: str, table: pa.Table) -> SchemaError:
    return SchemaError(f"{path}: {what}; its columns are {', '.join(table.column_names)}")
