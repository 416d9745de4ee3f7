"""How columns are delivered: the options `binary`, `ragged` and `fill_value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from gristmill import checks

Binary: TypeAlias = Literal["bytes", "numpy"]
RaggedMode: TypeAlias = Literal["object", "pad", "error"]
Ragged: TypeAlias = RaggedMode | Mapping[str, RaggedMode]
FillNumber: TypeAlias = bool | int | float | np.generic
FillValue: TypeAlias = FillNumber | Mapping[str, FillNumber] | None


class PerColumn(NamedTuple):
    """An option's value for all columns, and for single ones by name."""

    default: Any
    named: dict[str, Any]


def checked_binary(binary: Binary) -> Binary:
    """Refuses what is not one of them."""
    return checks.choice("binary", binary, get_args(Binary))


def checked_ragged(ragged: Ragged) -> PerColumn:
    """The modes of all columns, and of single ones."""
    named = dict(ragged) if isinstance(ragged, Mapping) else {}
    default = "object" if isinstance(ragged, Mapping) else ragged
    _check_names("ragged", named, '{"tokens": "pad"}')
    for mode in (default, *named.values()):
        checks.choice("ragged", mode, get_args(RaggedMode), write='"pad", or {"tokens": "pad"}')
    return PerColumn(default, named)


def checked_fill(fill: FillValue) -> PerColumn:
    """The fill values of all columns, and of single ones, as plain Python numbers."""
    if isinstance(fill, Mapping):
        _check_names("fill_value", fill, '{"count": -1}')
        return PerColumn(None, {name: _number(value) for name, value in fill.items()})
    return PerColumn(None if fill is None else _number(fill), {})


def _number(value: FillNumber) -> bool | int | float:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        if np.isnat(value):
            return float("nan")
    else:
        number: object = value.item() if isinstance(value, np.generic) else value
        is_small = not isinstance(number, int) or -(2**63) <= number < 2**64
        if isinstance(number, (bool, int, float)) and is_small:
            return number
    raise ValueError(
        "fill_value is a number of at most 64 bits, or NaT, or a mapping of these by column, not "
        f"{checks.shown(value)}: write fill_value=-1"
    )


def _check_names(option: str, by_name: Mapping[Any, object], example: str) -> None:
    for name in by_name:
        if not checks.is_text(name):
            raise ValueError(
                f"{option} is by the names of columns, and {checks.shown(name)} is none: write "
                f"{option}={example}"
            )
