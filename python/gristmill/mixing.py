"""How data sets are mixed: the options of `Mixture` that are its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from gristmill import _core, checks
from gristmill.columns import Labels

Stop: TypeAlias = Literal["first", "all"]

_WRITE: Final = "weights=[0.7, 0.3]"


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """How data sets are mixed. The core reads this by name.

    Attributes:
        weights: Whole numbers in the ratio of the weights.
        stop: When the mixture ends.
        labels: What is done where data sets list other classes.
    """

    weights: tuple[int, ...]
    stop: Stop
    labels: Labels


def listed_weights(weights: Any) -> tuple[Any, ...] | None:
    """The weights as they were given, one by one."""
    checks.in_order("weights", weights)
    listed = None if isinstance(weights, (str, bytes, dict)) else checks.items(weights)
    if listed is None and weights is not None:
        raise checks.wrong("weights", "a list of numbers", weights, _WRITE, none=True)
    return listed


def checked_weights(weights: tuple[Any, ...] | None, n: int) -> tuple[int, ...]:
    """Whole numbers in the ratio of the weights of `n` data sets.

    A float stands for its shortest decimal, so that 0.7 and 0.3 are 7 and 3. Where the sum is more
    than the core takes, they are rounded to about a millionth of it, and none to 0.
    """
    if weights is None:
        return (1,) * n
    if len(weights) != n:
        raise ValueError(
            f"weights has one number for each data set, and there are {len(weights)} for {n} data "
            f"sets: write {_write(n)}"
        )
    exact = [_exact(k, weight, n) for k, weight in enumerate(weights)]
    if not any(exact):
        raise ValueError(f"all {n} weights are 0: write at least one above 0, as in {_write(n)}")
    denominator = math.lcm(*(weight.denominator for weight in exact))
    whole = [int(weight * denominator) for weight in exact]
    divisor = math.gcd(*whole)
    whole = [weight // divisor for weight in whole]
    total = sum(whole)
    if total > _core.MAX_MIXTURE_TOTAL:
        most = _core.MAX_MIXTURE_TOTAL - n
        whole = [weight * most // total + 1 if weight else 0 for weight in whole]
    return tuple(whole)


def _exact(k: int, weight: Any, n: int) -> Fraction:
    number = checks.as_float(weight)
    if number is None or not 0 <= number < math.inf:
        raise ValueError(
            f"weight {k} of the mixture is {checks.shown(weight)}, and a weight is a number of at "
            f"least 0: write {_write(n)}"
        )
    whole = checks.as_int(weight)
    return Fraction(whole) if whole is not None else Fraction(repr(number))


def _write(n: int) -> str:
    return _WRITE if n == 2 else f"weights={[1] * min(n, 8)}"
