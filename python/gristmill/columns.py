"""How columns are delivered: `binary`, `ragged`, `fill_value`, `multi_hot`, `labels` and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np

from gristmill import checks

Binary: TypeAlias = Literal["bytes", "numpy"]
RaggedMode: TypeAlias = Literal["object", "pad", "error"]
Ragged: TypeAlias = RaggedMode | int | Mapping[str, RaggedMode | int]
Remainder: TypeAlias = Literal["keep", "drop", "pad"]
Labels: TypeAlias = Literal["map", "strict"]
Classes: TypeAlias = int | tuple[str, ...] | None
"""How many classes there are, or their names; `None` for the names that the shards tell."""
MultiHot: TypeAlias = Sequence[str] | Mapping[str, int | Sequence[str] | None]
FillNumber: TypeAlias = bool | int | float | np.generic
FillValue: TypeAlias = FillNumber | Mapping[str, FillNumber] | None


class PerColumn(NamedTuple):
    """An option's value for all columns, and for single ones by name."""

    default: Any
    named: tuple[tuple[str, Any], ...] = ()

    @property
    def shown(self) -> Any:
        """As it would be typed."""
        return dict(self.named) or self.default


def checked_binary(binary: Binary) -> Binary:
    """Refuses what is not one of them."""
    return checks.choice("binary", binary, get_args(Binary))


def checked_labels(labels: Labels) -> Labels:
    """Refuses what is not one of them."""
    return checks.choice("labels", labels, get_args(Labels))


def checked_ragged(ragged: Ragged) -> PerColumn:
    """The modes of all columns, and of single ones."""
    named = dict(ragged) if isinstance(ragged, Mapping) else {}
    default = "object" if isinstance(ragged, Mapping) else ragged
    _check_names("ragged", named, '{"tokens": "pad"}')
    return PerColumn(_ragged(default), tuple((name, _ragged(mode)) for name, mode in named.items()))


def checked_multi_hot(multi_hot: Any) -> tuple[tuple[str, Classes], ...]:
    """The columns, each with what was given of its classes."""
    write = 'multi_hot=["labels"], or {"labels": 10}'
    if isinstance(multi_hot, Mapping):
        named = cast("Mapping[str, Any]", multi_hot)
        _check_names("multi_hot", named, '{"labels": 10}')
        return tuple((name, _classes(classes, write)) for name, classes in named.items())
    return tuple((name, None) for name in checks.names("multi_hot", multi_hot, write=write))


def checked_remainder(remainder: Any, drop_remainder: Any, batch_size: int | None) -> Remainder:
    """What becomes of a short last batch, by both of the options that say it."""
    drop = checks.flag("drop_remainder", drop_remainder)
    checks.choice("remainder", remainder, get_args(Remainder))
    if drop and remainder == "pad":
        raise ValueError(
            "remainder='pad' keeps the last rows and drop_remainder=True leaves them out: write "
            "one of the two"
        )
    if remainder == "pad" and batch_size is None:
        raise ValueError("remainder='pad' fills up a batch: write batch_size=64 too")
    return "drop" if drop else remainder


def _ragged(mode: Any) -> Any:
    width = checks.as_int(mode)
    if width is not None:
        return checks.integer("ragged", width, 1, 2**31 - 1, write='ragged={"tokens": 128}')
    write = '"pad", a length such as 128, or {"tokens": "pad"}'
    return checks.choice("ragged", mode, get_args(RaggedMode), write=write)


def _classes(classes: Any, write: str) -> Classes:
    if classes is None:
        return None
    if checks.as_int(classes) is not None:
        return checks.integer("multi_hot", classes, 1, 2**24, write='multi_hot={"labels": 10}')
    return checks.names("multi_hot", checks.in_order("multi_hot", classes), write=write)


def checked_fill(fill: FillValue) -> PerColumn:
    """The fill values of all columns, and of single ones, as plain Python numbers."""
    if isinstance(fill, Mapping):
        _check_names("fill_value", fill, '{"count": -1}')
        return PerColumn(None, tuple((name, _number(value)) for name, value in fill.items()))
    return PerColumn(None if fill is None else _number(fill))


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
