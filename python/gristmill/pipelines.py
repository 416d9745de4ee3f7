"""The Gristmill sources inside a Grain pipeline, and what they say of themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grain

from gristmill._grain import is_of_another_process
from gristmill.checks import shown
from gristmill.errors import SourceNotFoundError
from gristmill.iterator import ArrowIterator
from gristmill.metrics.stats import Stats
from gristmill.metrics.verdict import Verdict

_Told = TypeVar("_Told", bound="Stats | Verdict")

_MOST_VISITED = 10_000
"""Iterators that are looked into: a pipeline has tens."""


class PerSource(tuple[_Told, ...]):
    """What each source of a pipeline says, in the order of the pipeline; print it.

    Attributes:
        sources: The iterators that say it.
    """

    sources: tuple[ArrowIterator, ...]

    @classmethod
    def of(
        cls, sources: Iterable[ArrowIterator], tell: Callable[[ArrowIterator], _Told]
    ) -> PerSource[_Told]:
        """Asks each of them."""
        asked = tuple(sources)
        told = cls(map(tell, asked))
        told.sources = asked
        return told

    def __str__(self) -> str:
        if len(self) == 1:
            return str(self[0])
        named = zip(self.sources, self, strict=True)
        return "\n\n".join(f"{source}:\n{told}" for source, told in named)


def stats(iterator: Iterator[Any]) -> PerSource[Stats]:
    """What has been measured of the sources inside a Grain pipeline.

    Args:
        iterator: What training takes its batches from: a Grain iterator of any transformations
            (`batch`, `mix`, `InterleaveIterDataset`, shuffles, prefetching threads, `device_put`),
            or an iterator over an `ArrowIterDataset` itself.

    Returns:
        The `Stats` of each source, a tuple that prints as text.

    Raises:
        SourceNotFoundError: There is none, or they are in worker processes.
        ValueError: `iterator` is no iterator.
    """
    return PerSource[Stats].of(sources(iterator), ArrowIterator.stats)


def verdict(iterator: Iterator[Any]) -> PerSource[Verdict]:
    """What limits the sources inside a Grain pipeline, and what would help; print it.

    A source behind prefetching threads is asked for as fast as these take, so that "the training
    loop is the limit" means that all of what is prefetched is waiting.

    Args:
        iterator: As in `stats`.

    Returns:
        The `Verdict` of each source, a tuple that prints as text.

    Raises:
        SourceNotFoundError: There is none, or they are in worker processes.
        ValueError: `iterator` is no iterator.
    """
    return PerSource[Verdict].of(sources(iterator), ArrowIterator.verdict)


def sources(iterator: Any) -> list[ArrowIterator]:
    """The sources, nearest first."""
    if isinstance(iterator, (grain.IterDataset, grain.MapDataset)):
        raise ValueError(
            f"iterator is a data set, {shown(iterator)}, and only its iterators know more: write "
            "it = iter(dataset), and ask of it"
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
            "the sources of this pipeline are in worker processes (mp_prefetch), out of reach from "
            "here; have them log with gm.ReadOptions(log_every_seconds=60), or take batches from "
            "an ArrowIterDataset in this process, whose threads need no workers"
        )
    raise SourceNotFoundError(
        f"there is no source of gristmill in {shown(iterator)}; a pipeline that makes its sources "
        "as it goes (InterleaveIterDataset) has some after the first next()"
    )


def _inside(iterator: Any) -> Iterator[Any]:
    """The iterators that it holds, in lists and pairs too."""
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
