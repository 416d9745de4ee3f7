"""What columns become: the options `binary`, `ragged` and `fill_value`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from gristmill import checks

Binary: TypeAlias = Literal["bytes", "numpy"]
RaggedMode: TypeAlias = Literal["object", "pad", "error"]
Ragged: TypeAlias = RaggedMode | Mapping[str, RaggedMode]
FillNumber: TypeAlias = bool | int | float | np.generic
FillValue: TypeAlias = FillNumber | Mapping[str, FillNumber] | None


def checked_binary(binary: Binary) -> Binary:
    """Refuses what is not one of them."""
    return checks.choice("binary", binary, get_args(Binary))


def native_ragged(ragged: Ragged) -> tuple[str, list[tuple[str, str]]]:
    """What holds for all columns, and what for single ones."""
    by_name = dict(ragged) if isinstance(ragged, Mapping) else {}
    default = "object" if isinstance(ragged, Mapping) else ragged
    _check_names("ragged", by_name, '{"tokens": "pad"}')
    for mode in (default, *by_name.values()):
        checks.choice("ragged", mode, get_args(RaggedMode), write='"pad", or {"tokens": "pad"}')
    return default, list(by_name.items())


def native_fill(fill: FillValue) -> tuple[Any, list[tuple[str, Any]]]:
    """What holds for all columns, and what for single ones, as plain Python numbers."""
    if isinstance(fill, Mapping):
        _check_names("fill_value", fill, '{"count": -1}')
        return None, [(name, _number(value)) for name, value in fill.items()]
    return (None if fill is None else _number(fill)), []


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
