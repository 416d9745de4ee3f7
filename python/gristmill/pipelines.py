"""The Gristmill sources inside a Grain pipeline: their statistics and verdicts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import grain

from gristmill._grain import is_of_another_process
from gristmill.checks import shown
from gristmill.errors import SourceNotFoundError
from gristmill.iterator import ArrowIterator
from gristmill.metrics.stats import Stats
from gristmill.metrics.verdict import Verdict

_Result = TypeVar("_Result", bound="Stats | Verdict")

_MOST_VISITED = 10_000
"""Iterators that are looked into: a pipeline has tens."""


class PerSource(tuple[_Result, ...]):
    """The result of each source of a pipeline, in the order of the pipeline; print it.

    Attributes:
        sources: The iterators that the results are of.
    """

    sources: tuple[ArrowIterator, ...]

    def __str__(self) -> str:
        if len(self) == 1:
            return str(self[0])
        named = zip(self.sources, self, strict=True)
        return "\n\n".join(f"{source}:\n{result}" for source, result in named)


def stats(iterator: Iterator[Any]) -> PerSource[Stats]:
    """What has been measured of the sources inside a Grain pipeline.

    Args:
        iterator: The iterator that training takes its batches from: of any Grain transformations
            (`batch`, `mix`, `InterleaveIterDataset`, shuffles, prefetching threads, `device_put`),
            or over an `ArrowIterDataset` itself.

    Returns:
        The `Stats` of each source, a tuple that prints as text.

    Raises:
        SourceNotFoundError: There is none, or they are in worker processes.
        ValueError: `iterator` is no iterator.
    """
    return _ask(iterator, ArrowIterator.stats)


def verdict(iterator: Iterator[Any]) -> PerSource[Verdict]:
    """What limits the sources inside a Grain pipeline, and what would help; print it.

    A source behind prefetching threads is consumed by these threads, so that "input is not the
    bottleneck" means that their buffers are full.

    Args:
        iterator: As in `stats`.

    Returns:
        The `Verdict` of each source, a tuple that prints as text.

    Raises:
        SourceNotFoundError: There is none, or they are in worker processes.
        ValueError: `iterator` is no iterator.
    """
    return _ask(iterator, ArrowIterator.verdict)


def _ask(iterator: Any, question: Callable[[ArrowIterator], _Result]) -> PerSource[_Result]:
    sources = tuple(_sources(iterator))
    results = PerSource(map(question, sources))
    results.sources = sources
    return results


def _sources(iterator: Any) -> list[ArrowIterator]:
    """The sources, nearest first."""
    if isinstance(iterator, (grain.IterDataset, grain.MapDataset)):
        raise ValueError(
            f"iterator is a data set, {shown(iterator)}, and only an iterator has these: write "
            "it = iter(dataset), and pass it"
        )
    if not hasattr(iterator, "__next__"):
        raise ValueError(f"iterator is no iterator: {shown(iterator)}; write it = iter(dataset)")
    found: list[ArrowIterator] = []
    has_workers = False
    seen: set[int] = set()
    waiting: deque[Any] = deque([iterator])
    while waiting and len(seen) < _MOST_VISITED:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, ArrowIterator):
            found.append(one)
        elif is_of_another_process(one):
            has_workers = True
        else:
            waiting.extend(_inside(one))
    if found:
        return found
    if has_workers:
        raise SourceNotFoundError(
            "the sources of this pipeline are in worker processes (mp_prefetch), which cannot be "
            "reached from here; let them log with gm.ReadOptions(log_every_seconds=60), or take "
            "batches from an ArrowIterDataset in this process, whose threads need no workers"
        )
    raise SourceNotFoundError(
        f"there is no source of gristmill in {shown(iterator)}; a pipeline that makes its sources "
        "as it goes (InterleaveIterDataset) has some from the first next() on, until they end"
    )


def _inside(iterator: Any) -> Iterator[Any]:
    """The iterators that it holds, also in lists and pairs."""
    attributes: dict[str, Any] = getattr(iterator, "__dict__", {})
    parents: tuple[Any, ...] = tuple(attributes.get("_parents", ()))
    for value in (*parents, *attributes.values()):
        for one in _flat(value, 2):
            if hasattr(one, "__next__"):
                yield one


def _flat(value: Any, depth: int) -> Iterator[Any]:
    if depth and isinstance(value, (list, tuple)):
        for one in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _flat(one, depth - 1)
    else:
        yield value
