"""The parts of Grain that are not public, each with what stands in for it should it go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import grain

_Next = TypeVar("_Next", bound=Callable[..., Any])

ElementSpec: Any = grain.experimental.ShapeDtypeStruct


def recorded(next_method: _Next) -> _Next:
    """Makes `__next__` show up in Grain's execution summary as the reading stage."""
    try:
        from grain._src.python.dataset import stats as grain_stats

        stats: Any = grain_stats
        traced = stats.trace_input_pipeline_next(stage_category=stats.IPL_CAT_READ)(next_method)
        return stats.record_next_duration_if_output(traced)
    except (ImportError, AttributeError):
        return next_method
