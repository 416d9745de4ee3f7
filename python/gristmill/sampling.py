"""The option `sampling`: how often rows come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, cast

import numpy as np

from gristmill import _core, checks
from gristmill.filters import Scalar, scalar
from gristmill.options import Shuffle

Weights: TypeAlias = str | Sequence[float] | np.ndarray[Any, np.dtype[Any]] | Mapping[Any, float]

_WRITE: Final = 'sampling=gm.Weighted("weight"), or gm.Weighted({"wren": 5}, by="species")'
_MOST_DRAWS: Final = 2**62


@dataclass(frozen=True, eq=False)
class Weighted:
    """Draws rows by weights, with replacement: twice the weight is drawn twice as often.

    Each draw depends on the seed, the epoch and the position alone, and takes constant time. A row
    may be drawn several times in an epoch, each time with its own crop, and others not at all.
    `docs/balance.md` has more.

    Args:
        weights: A column of numbers; or one number for each row of the shards, in file order (for a
            `datasets.Dataset`, for each of its rows); or a mapping of the values of the column `by`
            to weights, others weighing 1. A weight is at least 0, and a row of weight 0 is never
            drawn. Only ratios matter.
        by: The column whose values a mapping names: any small column, or the dotted path of a
            struct's field. A class is a name or a number. A list of values has the largest of
            their weights.
        draws: Rows in an epoch; `None` is the number of rows that take part, or of their parts with
            `Windows` and `EventCrop(pick="all")`, where those of a row share its weight equally.
        seed: 0 to 2**64 - 1. `None` takes the seed of `Shuffle`, or 0 without one.
    """

    weights: Weights
    by: str | None = None
    draws: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        weights: Any = self.weights
        if isinstance(weights, Mapping):
            weights = self._mapping(cast("Mapping[Any, Any]", weights))
        elif not isinstance(weights, str):
            weights = _array(weights)
        elif not checks.is_text(weights) or not weights:
            raise checks.wrong("weights", "a column, numbers or a mapping", weights, _WRITE)
        object.__setattr__(self, "weights", weights)
        checks.settle(self, by=partial(checks.text, write='by="species"', none=True), **_RULES)
        if isinstance(weights, dict) and self.by is None:
            raise ValueError(
                "weights by value need the column of the values: write "
                'gm.Weighted({"wren": 5}, by="species")'
            )
        if not isinstance(weights, dict) and self.by is not None:
            raise ValueError(
                f"by={self.by!r} goes with a mapping of values to weights: write "
                'gm.Weighted({"wren": 5}, by="species")'
            )

    @staticmethod
    def _mapping(given: Mapping[Any, Any]) -> dict[Any, float]:
        if not given:
            raise checks.wrong("weights", "a mapping with at least one value", given, _WRITE)
        for value in given:
            _value(value)
        return {value: _weight(weight, f"of {value!r}") for value, weight in given.items()}

    def __repr__(self) -> str:
        weights = self.weights
        shown = f"<{len(weights)} weights>" if isinstance(weights, np.ndarray) else repr(weights)
        named = {"by": self.by, "draws": self.draws, "seed": self.seed}
        given = [f"{name}={value!r}" for name, value in named.items() if value is not None]
        return f"Weighted({', '.join([shown, *given])})"


@dataclass(frozen=True)
class Balanced:
    """Draws rows so that the values of a column, such as classes, are equally frequent.

    A row weighs `count ** -power`, where `count` is the number of rows that take part and have its
    value. As with `Weighted`, rows are drawn with replacement. `docs/balance.md` has more.

    Args:
        column: The column: any small one, or the dotted path of a struct's field. Null is a value
            of its own. In a column of lists, as of several labels a row, a row counts for each of
            its values and weighs as the rarest of them; empty lists count as null.
        power: 1 gives all values equal shares; 0 keeps their frequencies; 0.5 weighs by the square
            root.
        draws: Rows in an epoch; `None` is the number of rows that take part, or of their parts with
            `Windows` and `EventCrop(pick="all")`, where those of a row share its weight equally.
        seed: 0 to 2**64 - 1. `None` takes the seed of `Shuffle`, or 0 without one.
    """

    column: str
    power: float = 1.0
    draws: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        checks.settle(
            self,
            column=partial(checks.text, write='gm.Balanced("species")'),
            power=partial(checks.number, low=0, high=10, write="power=1.0"),
            **_RULES,
        )


Sampling: TypeAlias = Weighted | Balanced

_RULES: Final[dict[str, checks.Rule]] = {
    "draws": checks.within(1, _MOST_DRAWS, "draws=100_000", none=True),
    "seed": checks.within(0, 2**64 - 1, "seed=0", none=True),
}


def checked_sampling(sampling: Any, shuffle: Shuffle | None) -> Sampling | None:
    """What was given for `sampling=`, if it goes with the shuffle."""
    if sampling is None:
        return None
    if not isinstance(sampling, (Weighted, Balanced)):
        column = f'"{sampling}"' if isinstance(sampling, str) else '"species"'
        raise checks.wrong(
            "sampling",
            "gm.Weighted(...) or gm.Balanced(...)",
            sampling,
            f"sampling=gm.Balanced({column})",
            none=True,
        )
    if shuffle is not None and shuffle.window is not None:
        raise ValueError(
            f"sampling= draws from all rows, and Shuffle(window={shuffle.window}) shuffles within "
            f"windows: write shuffle=gm.Shuffle(seed={shuffle.seed}), or leave sampling= out"
        )
    return sampling


def native_sampling(sampling: Sampling | None, shuffle: Shuffle | None) -> _core.Sampling | None:
    """The sampling as the core takes it."""
    if sampling is None:
        return None
    weights = sampling.weights if isinstance(sampling, Weighted) else None
    seeds = (sampling.seed, shuffle.seed if shuffle else None)
    values: list[tuple[Scalar, float]] | None = None
    if isinstance(weights, Mapping):
        values = [(_value(value), float(weight)) for value, weight in weights.items()]
    return _core.Sampling(
        column=weights if isinstance(weights, str) else None,
        rows=weights.tobytes() if isinstance(weights, np.ndarray) else None,
        by=sampling.by if isinstance(sampling, Weighted) else sampling.column,
        values=values,
        power=None if isinstance(sampling, Weighted) else float(sampling.power),
        seed=next((seed for seed in seeds if seed is not None), 0),
        draws=sampling.draws,
        reshuffle_each_epoch=shuffle is None or shuffle.reshuffle_each_epoch,
    )


def _value(value: Any) -> Scalar:
    found = scalar("weights", value)
    if found is None:
        raise ValueError(
            "weights has a weight for None: null weighs 1; leave such rows out by filters="
        )
    return found


def _weight(weight: Any, what: str) -> float:
    number = checks.as_float(weight)
    if number is None or not 0 <= number < float("inf"):
        raise ValueError(
            f"the weight {what} is {checks.shown(weight)}, and a weight is a number of at least 0: "
            f"write {_WRITE}"
        )
    return number


def _array(weights: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    try:
        array = np.asarray(weights)
    except ValueError:  # lists of several lengths
        array = np.empty((0, 0))
    if isinstance(weights, bytes) or array.ndim != 1 or array.dtype.kind not in "iuf":
        raise checks.wrong("weights", "a column, numbers or a mapping", weights, _WRITE)
    array = array.astype(np.float64)
    wrong = np.flatnonzero(~((array >= 0) & np.isfinite(array)))
    if wrong.size:
        row = int(wrong[0])
        _weight(float(array[row]), f"of row {row}")
        raise ValueError(f"the weight of row {row} is NaN: write {_WRITE}")
    if not array.sum():
        raise ValueError(f"all {array.size} weights are 0: write at least one above 0")
    array.flags.writeable = False
    return array
