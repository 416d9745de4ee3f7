"""The private parts of Grain that are used, each with a fallback should it go."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar

_NO_PROFILER = "Failed to load jax profiler"


def _is_other(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_NO_PROFILER)


# Without JAX, importing Grain logs a warning that JAX's profiler is missing, which helps no user.
# Its logger is absl's, which absl itself has to create.
with contextlib.suppress(ImportError):
    import absl.logging  # noqa: F401 # pyright: ignore[reportUnusedImport]
_absl = logging.getLogger("absl")
_absl.addFilter(_is_other)
try:
    import grain
finally:
    _absl.removeFilter(_is_other)

_Next = TypeVar("_Next", bound=Callable[..., Any])

SOURCE_NAME = "gristmill"
"""The name of our reads in Grain's metrics."""

ElementSpec: Any = grain.experimental.ShapeDtypeStruct


def _recording_stats() -> type | tuple[type, ...]:
    try:
        from grain._src.python.dataset import stats as grain_stats
    except ImportError:
        return object
    return getattr(grain_stats, "_VisualizationStats", object)


RECORDING_STATS = _recording_stats()
"""Statistics that record something: the base class of all of them.

Others (those of a pipeline that nobody looks at, and from Grain 0.2.19 on of one that has them
switched off) are not called: that would take 4 us of a batch's 40.
"""


def recorded(next_method: _Next) -> _Next:
    """Makes `__next__` show up in Grain's execution summary as the reading stage."""
    try:
        from grain._src.python.dataset import stats as grain_stats

        stats: Any = grain_stats
        traced = stats.trace_input_pipeline_next(stage_category=stats.IPL_CAT_READ)(next_method)
        return stats.record_next_duration_if_output(traced)
    except (ImportError, AttributeError):
        return next_method


def is_of_another_process(iterator: Any) -> bool:
    """Whether it stands for an iterator in a worker process."""
    return any("ProcessPrefetch" in kind.__name__ for kind in type(iterator).__mro__)


def record_reads(n_requests: int, n_bytes: int, seconds: float) -> None:
    """Adds reads to Grain's metrics (Prometheus, where it is switched on).

    The bytes are counted as they are; of the requests, one observation of their mean time, since
    Grain's function takes 4 us for each.
    """
    if n_requests <= 0:
        return
    try:
        from grain._src.core import monitoring as grain_monitoring

        monitoring: Any = grain_monitoring
        monitoring.record_bytes_read_and_latency(
            SOURCE_NAME,
            num_bytes=n_bytes,
            latency_ns=round(1e9 * seconds / n_requests),
            num_reads=1,
        )
    except (ImportError, AttributeError, TypeError):
        return
