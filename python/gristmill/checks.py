"""Checks of options where users give them, with one sentence that says what to write instead.

A wrong type is a `ValueError` like any other wrong option. Integers of NumPy are integers, booleans
are not: `True` for a number is a slip. Each check gives the value as it is kept.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

import grain
import numpy as np

from gristmill.urls import is_shortened

_BYTE_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}

Rule: TypeAlias = Callable[[str, Any], Any]
"""A check of an option by its name and value."""


def settle(options: object, **rules: Rule) -> None:
    """Checks the attributes of a frozen class, and keeps what the rules give."""
    for name, rule in rules.items():
        object.__setattr__(options, name, rule(name, getattr(options, name)))


def within(low: int, high: int, write: str, *, none: bool = False) -> Rule:
    """The rule of an integer within these bounds; with `none`, also `None`."""
    return partial(integer, low=low, high=high, write=write, none=none)


def above_0(high: float, write: str, *, none: bool = False) -> Rule:
    """The rule of a number above 0, up to `high`; with `none`, also `None`."""
    return partial(number, low=0, high=high, above=True, write=write, none=none)


def seed(write: str, *, none: bool = False) -> Rule:
    """The rule of a seed; with `none`, also `None`."""
    return within(0, 2**64 - 1, write, none=none)


def as_int(value: Any) -> int | None:
    """The integer that `value` is, of whatever library; `None` of anything else."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def as_float(value: Any) -> float | None:
    """The number that `value` is, of whatever library; `None` of anything else, and of NaN."""
    whole = as_int(value)
    if whole is not None:
        return float(whole) if abs(whole) < 2**1000 else None
    if isinstance(value, (float, np.floating)):
        number = float(cast("float", value))
        return None if math.isnan(number) else number
    return None


def shown(value: Any) -> str:
    """The value for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def items(value: Any) -> tuple[Any, ...] | None:
    """The items of a list or another iterable; `None` if it is none."""
    # A data set is none: it would be read to its end, which it may not have.
    is_data = isinstance(value, (grain.IterDataset, grain.DatasetIterator))
    if is_data or not isinstance(value, Iterable):
        return None
    try:
        return tuple(cast("Iterable[object]", value))
    except TypeError:  # NumPy's 0-d arrays claim to be iterable
        return None


def in_order(name: str, value: Any) -> Any:
    """Refuses a set where the order counts: that of strings is another in each process."""
    if isinstance(value, (set, frozenset)):
        raise ValueError(
            f"{name} is a set, which has no order, and here the order counts: write a list"
        )
    return cast("object", value)


def is_path(path: str) -> bool:
    """Whether a file can have this name."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def is_text(text: object) -> bool:
    """Whether it is a string that can be written as UTF-8."""
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def integer(
    name: str, value: Any, low: int, high: int | None = None, *, write: str, none: bool = False
) -> Any:
    """An integer of `low` to `high`; with `none`, also `None`."""
    if value is None and none:
        return None
    found = as_int(value)
    if found is None or found < low or (high is not None and found > high):
        span = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise wrong(name, f"an integer {span}", value, write, none=none)
    return found


def number(
    name: str,
    value: Any,
    low: float,
    high: float,
    *,
    write: str,
    above: bool = False,
    none: bool = False,
) -> Any:
    """A number of `low` to `high`, or above `low`; with `none`, also `None`."""
    if value is None and none:
        return None
    found = as_float(value)
    if found is None or not low <= found <= high or (above and found == low):
        begin = f"above {low:g}" if above else f"from {low:g}"
        end = f" to {high:,.10g}" if math.isfinite(high) else " on"
        end = f", at most {high:,.10g}" if above and math.isfinite(high) else end
        end = "" if above and math.isinf(high) else end
        raise wrong(name, f"a number {begin}{end}", value, write, none=none)
    return found


def byte_count(name: str, value: Any, *, write: str) -> int:
    """A number of bytes: an integer, or a string such as `"512MB"` or `"2GiB"`."""
    found = as_int(value)
    if isinstance(value, str):
        text = value.strip().upper()
        match = re.fullmatch(r"(\d{1,20}(?:\.\d+)?)\s*([KMGT]?I?)B?", text, re.ASCII)
        factor = _BYTE_UNITS.get(match[2]) if match else None
        if match is not None and factor is not None:
            found = int(float(match[1]) * factor)
    if found is None or not 1 <= found < 2**63:
        what = "a number of bytes, at least 1, or a string of one with a unit"
        raise wrong(name, what, value, write)
    return found


def bytes_or_share(name: str, value: Any, *, write: str) -> int | float:
    """A number of bytes as in `byte_count`, or a share such as `"80%"` as a float, 0 to 1."""
    match = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*", value) if is_text(value) else None
    if match is None:
        return byte_count(name, value, write=write)
    share = float(match[1]) / 100
    if not 0 < share <= 1:
        raise wrong(name, "a number of bytes, or a share above 0% and up to 100%", value, write)
    return share


def flag(name: str, value: Any) -> bool:
    """`True` or `False`."""
    if type(value) in (bool, np.bool_):
        return bool(value)
    raise ValueError(f"{name} is True or False, not {shown(value)}")


def choice(name: str, value: Any, choices: Sequence[object], *, write: str = "") -> Any:
    """One of `choices`, strings as a rule."""
    # `in` would compare arrays by element.
    if isinstance(value, str) or value is None:
        for one in choices:
            if value == one:
                return one
    listed = ", ".join(map(repr, choices))
    raise ValueError(f"{name} is one of {listed}, not {shown(value)}" + (write and f": {write}"))


def text(name: str, value: Any, *, write: str, none: bool = False) -> Any:
    """A string; with `none`, also `None`."""
    if is_text(value) or (value is None and none):
        return value
    raise wrong(name, "a string", value, write, none=none)


def instance(name: str, value: Any, kind: type, *, write: str, none: bool = False) -> Any:
    """A value of this class; with `none`, also `None`."""
    if isinstance(value, kind) or (value is None and none):
        return value
    raise wrong(name, kind.__name__, value, write, none=none)


def file_path(name: str, value: Any, *, none: bool = False, is_folder: bool = False) -> Any:
    """A path of a file or a folder, as a string; with `none`, also `None`."""
    if value is None and none:
        return None
    what = "a folder" if is_folder else "a file"
    if isinstance(value, (str, os.PathLike)):
        path = os.fsdecode(cast("os.PathLike[str]", value))
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) or is_shortened(path):
            # It would make a folder `s3:` here. It may have a password.
            raise ValueError(f"{name} is the path of {what} on this machine, not a URL")
        if path and is_path(path):
            return path
    write = f"{name}='{'folder' if is_folder else 'folder/file'}'"
    raise wrong(name, f"the path of {what}", value, write, none=none)


def names(name: str, value: Any, *, write: str, none: bool = False) -> Any:
    """A tuple of strings; with `none`, also `None`."""
    if value is None and none:
        return None
    if isinstance(value, str):
        raise ValueError(f"{name} is a list of names: write {name}=[{shown(value)}]")
    listed = items(value)
    if listed is not None and all(map(is_text, listed)):
        return listed
    raise wrong(name, "a list of names", value, write, none=none)


def function(name: str, value: Any) -> Any:
    """Something that can be called, or `None`."""
    if value is None or callable(value):
        return value
    raise ValueError(f"{name} is a function or None, not {shown(value)}")


def wrong(name: str, what: str, value: Any, write: str, *, none: bool = False) -> ValueError:
    """What is raised, in one sentence."""
    allowed = f"{what} or None" if none else what
    return ValueError(f"{name} is {allowed}, not {shown(value)}: write {write}")
