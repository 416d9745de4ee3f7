"""Columns beside the audio: their features, and strings as classes."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute

from gristmill.errors import SchemaError
from gristmill.tools.pack.source import Source

_compute: Any = pyarrow.compute  # its functions are made when it is imported
AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_NAMES = {
    "float": "float32",
    "double": "float64",
    "halffloat": "float16",
    "date32[day]": "date32",
    "date64[ms]": "date64",
}
"""Where `datasets` names a type otherwise than Arrow does."""


DEEPEST = 63
"""Types within types that Arrow writes to a file."""


def feature(column: str, kind: pa.DataType, depth: int = 0) -> Any:
    """A type as `datasets` describes it in a schema's metadata."""
    if depth > DEEPEST:
        raise SchemaError(
            f"column {column!r} of the metadata is nested more than {DEEPEST} levels deep, which "
            "Arrow cannot write; leave it out, or write it as a string",
            column=column,
        )
    if pa.types.is_struct(kind):
        return {field.name: feature(column, field.type, depth + 1) for field in kind}
    if pa.types.is_fixed_size_list(kind):
        of = feature(column, kind.value_type, depth + 1)
        return {"feature": of, "length": kind.list_size, "_type": "List"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        name = "List" if pa.types.is_list(kind) else "LargeList"
        return {"feature": feature(column, kind.value_type, depth + 1), "_type": name}
    is_extension = isinstance(kind, pa.BaseExtensionType)
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or is_extension:
        raise SchemaError(
            f"column {column!r} of the metadata is of type {kind}, which datasets has no feature "
            "for; leave it out, or write it as another type",
            column=column,
        )
    return {"dtype": _NAMES.get(str(kind), str(kind)), "_type": "Value"}


def known_classes(schema: pa.Schema) -> dict[str, Any]:
    """The classes that the schema of a Parquet file names, for columns of integers."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        items = list(cast("dict[str, Any]", features).items())
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    for name, one in items:
        names: Any = one.get("names") if isinstance(one, dict) else None
        if (
            isinstance(names, list)
            and cast("dict[str, Any]", one).get("_type") == "ClassLabel"
            and all(isinstance(label, str) for label in names)
            and schema.get_field_index(name) >= 0
            and pa.types.is_integer(schema.field(name).type)
        ):
            found[name] = {"names": names, "_type": "ClassLabel"}
    return found


def check_classes(path: str, table: pa.Table, features: dict[str, Any]) -> None:
    """Refuses numbers of classes that have no name; -1 stands for none, as in `datasets`.

    Raises:
        SchemaError: There is one.
    """
    for column, one in features.items():
        n_names = len(one["names"])
        for row, number in enumerate(cast("list[int | None]", table.column(column).to_pylist())):
            if number is None or -1 <= number < n_names:
                continue
            raise SchemaError(
                f"{path} row {row + 1:,}: {column!r} is {number}, and the features in its schema "
                f"name {n_names:,} classes, from 0 on; name all of them, or repair the value",
                column=column,
            )


def encode_classes(source: Source, columns: Sequence[str]) -> None:
    """Turns columns of strings into classes, whose names are the strings, sorted."""
    for name in columns:
        table = source.columns
        at = -1 if table is None else table.schema.get_field_index(name)
        if table is None or at < 0:
            there = "none" if table is None else ", ".join(table.column_names)
            raise SchemaError(
                f"there is no column {name!r} to make classes of; there are {there}", column=name
            )
        if name in source.features:
            continue
        values = table.column(at)
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            raise SchemaError(
                f"column {name!r} is of type {values.type}, and classes are made of strings",
                column=name,
            )
        values = values.cast(pa.string())
        classes = sorted(_compute.drop_null(_compute.unique(values)).to_pylist())
        ids = _compute.index_in(values, pa.array(classes, pa.string())).cast(pa.int64())
        source.columns = table.set_column(at, name, ids)
        source.features[name] = {"names": classes, "_type": "ClassLabel"}


def schema_of(source: Source) -> tuple[pa.Schema, dict[str, Any]]:
    """The schema of the shards as `datasets` writes it, and the features in it."""
    fields: list[tuple[str, Any, Any]] = []
    if source.columns is not None:
        for field in source.columns.schema:
            known = source.features.get(field.name)
            fields.append((field.name, field.type, known or feature(field.name, field.type)))
    fields.insert(source.audio_at, (source.audio_name, AUDIO, source.audio_feature))
    features = {name: one for name, _, one in fields}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema([(name, kind) for name, kind, _ in fields], metadata), features
