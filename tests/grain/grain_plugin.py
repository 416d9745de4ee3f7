"""A pytest plugin that has Grain's own tests read from our source.

`MapDataset.to_iter_dataset` writes what a finite data set holds into an Arrow shard, one pickled
element a row, and returns our source over it. Grain's tests make nearly all their iterators so.
What cannot be written (too long, endless, unpicklable, side effects) stays Grain's own.

What the tests leave open is closed after each: left to the collector, an iterator drains pipes that
are closed before it, and its worker process is still there when the interpreter ends.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import weakref
from pathlib import Path
from typing import Any

import cloudpickle
import grain
import numpy as np
import pyarrow as pa
from absl import flags
from grain._src.python.dataset import dataset as grain_dataset
from grain._src.python.dataset.transformations import prefetch, process_prefetch

import gristmill as gm
from gristmill._grain import ElementSpec

MAX_ROWS = 10_000
FOLDER = Path(os.environ["GRAIN_PLUGIN_FOLDER"])
COUNTS = {"replaced": 0, "kept": 0}
# In the order in which they are closed: threads read from worker processes, not the other way.
STARTED: dict[type, weakref.WeakSet[Any]] = {
    prefetch.ThreadPrefetchDatasetIterator: weakref.WeakSet(),
    process_prefetch.ProcessPrefetchDatasetIterator: weakref.WeakSet(),
}


class Rows(gm.ArrowIterDataset):
    """The elements that the shard holds."""

    def __init__(self, path: Path, spec: Any) -> None:
        read = gm.ReadOptions(num_threads=1)
        super().__init__(path, columns=["element"], audio=None, read=read)
        self.spec = spec

    def __iter__(self) -> gm.ArrowIterator:
        return RowsIterator(self._options, str(self))

    @property
    def _element_spec(self) -> Any:
        return self.spec


class RowsIterator(gm.ArrowIterator):
    def _advance(self) -> Any:
        return cloudpickle.loads(super()._advance()["element"])


def written(elements: list[Any]) -> Path:
    rows = [cloudpickle.dumps(element) for element in elements]
    path = FOLDER / f"{hashlib.sha256(b'|'.join(rows)).hexdigest()}.arrow"
    if not path.exists():
        batch = pa.record_batch({"element": pa.array(rows, pa.binary())})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    return path


def spec_of(element: Any) -> Any:
    if isinstance(element, dict):
        return {key: spec_of(value) for key, value in element.items()}
    array = np.asarray(element)
    return ElementSpec(shape=array.shape, dtype=array.dtype)


def substitute() -> None:
    ours = grain_dataset.MapDataset.to_iter_dataset

    @functools.wraps(ours)
    def to_iter_dataset(
        self: Any, read_options: Any = None, *, allow_nones: bool = False
    ) -> grain.IterDataset[Any]:
        try:
            if len(self) > MAX_ROWS:
                raise ValueError("endless")  # noqa: TRY301
            elements = [self[i] for i in range(len(self))]
            elements = [e for e in elements if allow_nones or e is not None]
            path = written(elements)
        except Exception:  # noqa: BLE001
            COUNTS["kept"] += 1
            return ours(self, read_options, allow_nones=allow_nones)
        COUNTS["replaced"] += 1
        return Rows(path, spec_of(elements[0]) if elements else None)

    grain_dataset.MapDataset.to_iter_dataset = to_iter_dataset


def note_started(kind: type, started: weakref.WeakSet[Any]) -> None:
    theirs = kind.start_prefetch

    @functools.wraps(theirs)
    def start_prefetch(self: Any) -> None:
        started.add(self)
        theirs(self)

    kind.start_prefetch = start_prefetch


def pytest_configure() -> None:
    flags.FLAGS.mark_as_parsed()
    substitute()
    for kind, started in STARTED.items():
        note_started(kind, started)


def pytest_runtest_logfinish() -> None:
    for started in STARTED.values():
        for it in list(started):
            it.close()
        started.clear()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line("SUBSTITUTED " + json.dumps(COUNTS))
