"""The option `filters`: conditions on columns, as pyarrow, pandas and `datasets` write them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from gristmill.checks import as_int, is_text, items, shown

Filter: TypeAlias = tuple[str, str, Any]
"""`(column, operator, value)`."""
Filters: TypeAlias = Sequence[Filter] | Sequence[Sequence[Filter]]
"""Conditions that must all hold, or several such lists of which one must."""
Scalar: TypeAlias = bool | int | float | str | bytes | tuple[str, int]
"""A value as the core takes it: a time is its kind, and nanoseconds."""

_OPERATORS: Final = ("==", "=", "!=", "<", "<=", ">", ">=", "in", "not in")
_WRITE: Final = 'write filters=[("quality", "in", ["A", "B"]), ("length", ">", 3)]'
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_NANOSECONDS: Final = {
    "W": 604_800 * 10**9,
    "D": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
"""Of NumPy's units of one length each."""


class Condition(NamedTuple):
    """A condition on one column; `in` and `not in` have any number of values, others one."""

    column: str
    operator: str
    values: tuple[Scalar | None, ...]


Checked: TypeAlias = tuple[tuple[Condition, ...], ...]


def checked_filters(filters: Filters | None) -> Checked:
    """The conditions, as lists of which one must hold; none for `None`."""
    if filters is None:
        return ()
    is_text_or_map = isinstance(filters, (str, bytes, Mapping))
    given = None if is_text_or_map else items(filters)
    if given is None:
        raise ValueError(f"filters is a list of conditions, not {shown(filters)}: {_WRITE}")
    if not given:
        return ()
    if isinstance(given[0], str):
        raise ValueError(
            f"filters is a list of conditions, not one: write filters=[{shown(filters)}]"
        )
    # As in pyarrow: where the first item begins with a name, it is a condition.
    first = None if isinstance(given[0], Mapping) else items(given[0])
    groups = (given,) if first and isinstance(first[0], str) else given
    return tuple(_group(group) for group in groups)


def _group(group: object) -> tuple[Condition, ...]:
    conditions = None if isinstance(group, (str, bytes, Mapping)) else items(group)
    if not conditions:
        raise ValueError(
            f"filters has {shown(group)} in the place of a list of conditions: {_WRITE}"
        )
    return tuple(map(_condition, conditions))


def _condition(condition: Any) -> Condition:
    parts = items(condition) if isinstance(condition, (tuple, list)) else None
    if parts is None or len(parts) != 3:
        raise ValueError(
            f"filters has {shown(condition)}, and a condition is (column, operator, value): "
            f"{_WRITE}"
        )
    column, operator, value = parts
    if not is_text(column):
        raise ValueError(f"filters has {shown(column)} for the name of a column: {_WRITE}")
    operator = " ".join(operator.split()) if isinstance(operator, str) else operator
    if operator not in _OPERATORS:
        listed = ", ".join(map(repr, _OPERATORS))
        raise ValueError(f"filters compares by {shown(operator)}: write one of {listed}")
    if operator in {"in", "not in"}:
        is_one = isinstance(value, (str, bytes, Mapping))
        values = None if is_one else items(value)
        if values is None:
            raise ValueError(
                f'filters compares "{column}" by "{operator}" with {shown(value)}: write a list, '
                f'("{column}", "{operator}", [{shown(value)}])'
            )
        found = {repr(one): one for one in (scalar("filters", value) for value in values)}
        # A set has no order of its own, and the core remembers answers by the question.
        return Condition(column, operator, tuple(found[text] for text in sorted(found)))
    return Condition(column, "==" if operator == "=" else operator, (scalar("filters", value),))


def scalar(option: str, value: Any) -> Scalar | None:
    """A value as the core takes it; NaT is `None`."""
    if value is None or isinstance(value, (str, bytes)):
        if isinstance(value, str) and not is_text(value):
            raise ValueError(f"{option} has {shown(value)}, which is no text")
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(cast("bool", value))
    number = as_int(value)
    if number is not None:
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"{option} has {shown(value)}: write an integer of at most 64 bits")
        return number
    if isinstance(value, (float, np.floating)):
        return float(cast("float", value))
    time = _time(value)
    if time is None:
        raise ValueError(
            f"{option} has {shown(value)} of type {type(value).__name__}: write a boolean, number, "
            "string, bytes, date, datetime or timedelta"
        )
    return None if time[1] is None else (time[0], time[1])


def _time(value: Any) -> tuple[str, int | None] | None:
    """The kind of a time, and nanoseconds: `None` for NaT. `None` for what is no time."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        kind = "naive" if isinstance(value, np.datetime64) else "duration"
        if np.isnat(cast("np.datetime64", value)):
            return kind, None
        return kind, _numpy_nanoseconds(cast("np.datetime64 | np.timedelta64", value))
    if isinstance(value, dt.datetime):
        if value != value:  # noqa: PLR0124 - pandas' NaT is a datetime that differs from itself
            return "naive", None
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        # pandas' times have nanoseconds beside.
        beside = int(getattr(value, "nanosecond", 0))
        since = (aware - _EPOCH) // _MICROSECOND * 1000 + beside
        return "aware" if value.tzinfo else "naive", since
    if isinstance(value, dt.date):
        return "naive", (value.toordinal() - _EPOCH.toordinal()) * 86_400 * 10**9
    if isinstance(value, dt.timedelta):
        return "duration", value // _MICROSECOND * 1000 + int(getattr(value, "nanoseconds", 0))
    if isinstance(value, dt.time) and value.tzinfo is None:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return "of_day", (seconds * 10**6 + value.microsecond) * 1000
    return None


def _numpy_nanoseconds(value: np.datetime64 | np.timedelta64) -> int:
    """Those of a time that is no NaT, in Python's integers: NumPy's own would overflow."""
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] in {"Y", "M"}:
        value = value.astype("datetime64[D]")  # months differ in length
    unit, count = np.datetime_data(value)
    if unit not in _NANOSECONDS:
        raise ValueError(
            f"a time of NumPy's unit {unit!r} has no length in nanoseconds: {shown(value)}; write "
            'it in days or shorter units down to nanoseconds, as np.timedelta64(4, "h")'
        )
    return int(value.astype(np.int64)) * count * _NANOSECONDS[unit]
