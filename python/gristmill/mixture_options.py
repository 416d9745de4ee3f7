"""What a mixture was asked for, checked, and as the native core takes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from gristmill import _core, checks
from gristmill.bad_rows.policy import BadRowPolicy
from gristmill.columns import Labels
from gristmill.dataset_options import Columns, DatasetOptions
from gristmill.metrics.stats import Stats
from gristmill.options import ReadOptions
from gristmill.partition import Partition
from gristmill.state import Position

Stop: TypeAlias = Literal["first", "all"]

_WRITE: Final = "weights=[0.7, 0.3]"


@dataclass(frozen=True, kw_only=True)
class MixtureOptions:
    """The options of `Mixture`.

    Attributes:
        parts: Those of its data sets. The options of batches are the mixture's in all of them.
        weights: Whole numbers in the ratio of the weights.
        stop: When it ends.
        labels: What is done where data sets list other classes.
    """

    parts: tuple[DatasetOptions, ...]
    weights: tuple[int, ...]
    stop: Stop
    labels: Labels

    @property
    def partition(self) -> Partition:
        """The part of the stream that is delivered here."""
        return self.parts[0].partition

    @property
    def policy(self) -> BadRowPolicy:
        """What is done about bad rows."""
        return self.parts[0].policy

    @property
    def read(self) -> ReadOptions:
        """Threads, memory and readahead."""
        return self.parts[0].read

    @property
    def rows_per_element(self) -> int:
        """Rows in a full element."""
        return self.parts[0].rows_per_element

    @property
    def may_leave_rows(self) -> bool:
        """Whether rows may be left over at the end."""
        return self.parts[0].may_leave_rows

    @property
    def pads(self) -> bool:
        """Whether all hosts have as many batches, the last ones filled up."""
        return self.parts[0].pads

    def steps_of(self, rows: int) -> int:
        """The elements that are delivered here of a stream of so many rows."""
        return self.parts[0].steps_of(rows)

    def with_partition(self, partition: Partition) -> MixtureOptions:
        """The same of another part of the stream."""
        return replace(self, parts=tuple(replace(part, partition=partition) for part in self.parts))

    def of_all_hosts(self) -> MixtureOptions:
        """The same of the whole stream."""
        return self.with_partition(Partition())

    def native(self) -> _core.Mixture:
        """The options as the core takes them. Looks at the file system for the shards."""
        return _core.Mixture(
            data_sets=[part.native() for part in self.parts],
            weights=list(self.weights),
            stop=self.stop,
            labels=self.labels,
        )

    def start(self, position: Position) -> _core.Start:
        """Where the core takes the stream up."""
        return self.parts[0].start(position)

    def with_settings(self, stats: Stats, columns: Columns, row_tokens: int | None) -> Stats:
        """The figures, with the settings that they were measured with."""
        if self.parts[0].with_row_id:
            columns = {name: kind for name, kind in columns.items() if name != "dataset"}
        stats = self.parts[0].with_settings(stats, columns, row_tokens)
        if len({part.row_seconds for part in self.parts}) == 1:
            return stats
        return replace(stats, settings=replace(stats.settings, row_seconds=None))


IteratorOptions: TypeAlias = DatasetOptions | MixtureOptions
"""What an iterator is made of."""


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
