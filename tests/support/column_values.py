"""What columns are to become, told from pyarrow's values by a plain recursion over the type.

The mapping is the one of `docs/columns.md`, written down a second time: single rows as nested
Python values, batches as nested lists, numbers of times as counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


class NoValueError(Exception):
    """A null, or lists of unequal lengths, where a batch needs a number."""


PAD = object()


def dtype(of: pa.DataType) -> np.dtype[Any] | None:
    """The dtype that the table in docs/columns.md gives the type; `None` for objects."""
    t = pa.types
    if t.is_boolean(of):
        return np.dtype("?")
    if t.is_integer(of) or t.is_floating(of):
        return np.dtype(of.to_pandas_dtype())
    if t.is_date32(of):
        return np.dtype("M8[D]")
    if t.is_date64(of):
        return np.dtype("M8[ms]")
    if t.is_timestamp(of):
        return np.dtype(f"M8[{of.unit}]")
    if t.is_duration(of) or t.is_time(of):
        return np.dtype(f"m8[{of.unit}]")
    return None


def is_list(of: pa.DataType) -> bool:
    t = pa.types
    return t.is_list(of) or t.is_large_list(of) or t.is_list_view(of) or t.is_large_list_view(of)


def decoded(of: pa.DataType) -> pa.DataType:
    while pa.types.is_dictionary(of) or pa.types.is_run_end_encoded(of):
        of = of.value_type
    return of


def number(scalar: pa.Scalar) -> Any:
    """Counts for times, so that no unit is rounded."""
    if pa.types.is_time(scalar.type):
        width = pa.int32() if pa.types.is_time32(scalar.type) else pa.int64()
        return scalar.cast(width).as_py()
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()


def unwrapped(scalar: Any) -> Any:
    """The scalar that a dictionary's or run-end encoded one stands for."""
    while scalar is not None and scalar is not PAD:
        if isinstance(scalar, pa.ExtensionScalar) or pa.types.is_dictionary(scalar.type):
            scalar = scalar.value
        elif pa.types.is_run_end_encoded(scalar.type):
            scalar = pa.scalar(scalar.as_py(), scalar.type.value_type)
        else:
            break
    return None if scalar is None or (scalar is not PAD and not scalar.is_valid) else scalar


def items(scalar: pa.Scalar) -> list[pa.Scalar]:
    return list(scalar.values)


def row(scalar: pa.Scalar) -> Any:
    """A single row's value."""
    scalar = unwrapped(scalar)
    if scalar is None:
        return None
    of = scalar.type
    if is_list(of) or pa.types.is_fixed_size_list(of):
        return [row(item) for item in items(scalar)]
    if pa.types.is_map(of):
        return [(row(pair[0]), row(pair[1])) for pair in items(scalar)]
    if pa.types.is_struct(of):
        return {name: row(scalar[name]) for name in (field.name for field in of)}
    return number(scalar) if dtype(of) is not None else scalar.as_py()


def batch(scalars: Sequence[Any], of: pa.DataType, ragged: str, fill: Any) -> Any:
    """A batch's column, as nested lists; `fill` as the dtype has it, `None` for none."""
    of = decoded(of)
    scalars = [unwrapped(scalar) if scalar is not PAD else PAD for scalar in scalars]
    missing = [scalar is None or scalar is PAD for scalar in scalars]
    if dtype(of) is not None:
        return [
            _missing(scalar, fill, dtype(of)) if gone else number(scalar)
            for scalar, gone in zip(scalars, missing, strict=True)
        ]
    if pa.types.is_struct(of):
        columns: dict[str, Any] = {}
        for field in of:
            children = [
                s if gone else s[field.name] for s, gone in zip(scalars, missing, strict=True)
            ]
            columns[field.name] = batch(children, field.type, ragged, fill)
            if ragged == "pad":
                columns |= named_lengths(field.name, lengths(children, field.type))
        return columns
    if pa.types.is_fixed_size_list(of) and not is_record(of.value_type):
        flat = batch(fixed_items(scalars, of.list_size), of.value_type, ragged, fill)
        return folded(flat, len(scalars), of.list_size)
    if not is_list(of) or is_record(of.value_type):
        return [None if gone else row(s) for s, gone in zip(scalars, missing, strict=True)]
    if ragged == "object":
        return [
            None if gone else batch(items(s), of.value_type, ragged, fill)
            for s, gone in zip(scalars, missing, strict=True)
        ]
    if any(scalar is None for scalar in scalars) and fill is None:
        raise NoValueError
    there = {len(items(s)) for s, gone in zip(scalars, missing, strict=True) if not gone}
    if ragged == "error" and len(there | ({0} if PAD in scalars else set())) > 1:
        raise NoValueError
    flat = batch(padded_items(scalars), of.value_type, ragged, fill)
    return folded(flat, len(scalars), max(there, default=0))


def lengths(scalars: Sequence[Any], of: pa.DataType) -> list[Any]:
    """The lengths that come beside a padded column, outermost first."""
    of = decoded(of)
    scalars = [unwrapped(scalar) if scalar is not PAD else PAD for scalar in scalars]
    if pa.types.is_fixed_size_list(of) and not is_record(of.value_type):
        inner = lengths(fixed_items(scalars, of.list_size), of.value_type)
        return [folded(part, len(scalars), of.list_size) for part in inner]
    if not is_list(of) or is_record(of.value_type):
        return []
    own = [0 if s is None or s is PAD else len(items(s)) for s in scalars]
    inner = lengths(padded_items(scalars), of.value_type)
    return [own, *(folded(part, len(scalars), max(own, default=0)) for part in inner)]


def named_lengths(column: str, found: list[Any]) -> dict[str, Any]:
    return {
        f"{column}_lengths" + (f"_{depth + 1}" if depth else ""): part
        for depth, part in enumerate(found)
    }


def fixed_items(scalars: Sequence[Any], width: int) -> list[Any]:
    parts = [[s] * width if s is None or s is PAD else items(s) for s in scalars]
    return [item for part in parts for item in part]


def padded_items(scalars: Sequence[Any]) -> list[Any]:
    parts = [[] if s is None or s is PAD else items(s) for s in scalars]
    width = max((len(part) for part in parts), default=0)
    return [
        item
        for part, s in zip(parts, scalars, strict=True)
        for item in part + [None if s is None else PAD] * (width - len(part))
    ]


def folded(flat: list[Any], n: int, width: int) -> list[Any]:
    return [flat[k * width : (k + 1) * width] for k in range(n)]


def is_record(of: pa.DataType) -> bool:
    return pa.types.is_struct(decoded(of))


def _missing(scalar: Any, fill: Any, of: np.dtype[Any]) -> Any:
    if fill is None and scalar is not PAD:
        raise NoValueError
    return {"b": bool, "f": float}.get(of.kind, int)(fill or 0)


def plain(ours: Any) -> Any:
    """What Gristmill delivered, as the functions above write it."""
    if isinstance(ours, np.ndarray):
        if ours.dtype.kind in "Mm":
            ours = ours.view("i8")
        return [plain(value) for value in ours]
    if isinstance(ours, np.datetime64 | np.timedelta64):
        return int(ours.view("i8"))
    if isinstance(ours, np.generic):
        return ours.item()
    if isinstance(ours, dict):
        return {name: plain(value) for name, value in ours.items()}
    if isinstance(ours, list | tuple):
        return type(ours)(plain(value) for value in ours)
    return ours
