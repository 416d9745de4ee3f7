"""`gristmill inspect`: what is in a data set, from headers and a sample of rows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gristmill import checks
from gristmill.dataset import ArrowIterDataset
from gristmill.options import ReadOptions, check_root, read_options
from gristmill.paths import Paths
from gristmill.storage import Given, StorageOptions, checked_storage_options
from gristmill.tools.audio_index import audio_coverage
from gristmill.tools.headers import OnShard, OnShards, read_headers
from gristmill.tools.inspection import Inspection
from gristmill.tools.sample import draw
from gristmill.tools.shards import ShardHeader, audio_column, joined_class_names

_MOST_BATCHES = 4096
"""Record batches above which labels are not counted: each takes a request."""


def inspect(
    paths: Paths,
    *,
    column: str | None = None,
    sample: int = 200,
    root: str | os.PathLike[str] | None = None,
    read: ReadOptions | None = None,
    on_shards: OnShards | None = None,
    on_shard: OnShard | None = None,
    storage_options: Given | None = None,
) -> Inspection:
    """Looks at the headers of all shards and at a sample of their rows.

    Args:
        paths: As in `ArrowIterDataset`.
        column: The audio column; `None` takes the one that is found, as `ArrowIterDataset` does.
        sample: Rows that are read, drawn from all of them; the same ones each time.
        root: The folder of the recordings, if rows contain paths, as in `Audio`.
        read: Where sidecars are, and how often a request is retried.
        on_shards: Is called first, with the number of shards.
        on_shard: Is called after each of them.
        storage_options: As in `ArrowIterDataset`, for shards behind URLs.

    Raises:
        OSError: A shard cannot be read.
        SchemaError: There is no such column, or shards differ.
    """
    options = read_options(read)
    storage = checked_storage_options(storage_options)
    column = checks.text("column", column, write='column="audio"', none=True)
    folder = check_root("root", root)
    sample = checks.integer("sample", sample, 1, 2**31, write="sample=200, in rows")
    headers, unreadable = read_headers(paths, options, on_shards, on_shard, storage=storage)
    audio: str | None = None
    if headers and (column is not None or headers[0].audio_columns):
        audio = audio_column(headers, column)
    names = joined_class_names(headers)
    return Inspection(
        shards=tuple(headers),
        unreadable=tuple(unreadable),
        audio_column=audio,
        class_names=names,
        class_counts=_count_classes(headers, names, options, storage),
        sample=None if audio is None else draw(headers, audio, sample, options, folder, storage)[0],
        audio_index=None if audio is None else audio_coverage(headers, options, storage),
    )


def _count_classes(
    headers: Sequence[ShardHeader],
    names: Mapping[str, list[str]],
    read: ReadOptions,
    storage: StorageOptions,
) -> dict[str, list[int]]:
    """Rows of each class, where few record batches have to be read."""
    if not names or sum(header.record_batches for header in headers) > _MOST_BATCHES:
        return {}
    dataset = ArrowIterDataset(
        [header.path for header in headers],
        columns=list(names),
        audio=None,
        batch_size=4096,
        fill_value=-1,  # what `datasets` writes for a class that is not known
        read=replace(read, num_threads=1),
        storage_options=storage,
    )
    counts = {name: np.zeros(len(classes), np.int64) for name, classes in names.items()}
    with contextlib.closing(iter(dataset)) as batches:
        for batch in batches:
            for name, total in counts.items():
                labels = np.asarray(batch[name])
                n_classes = len(total)
                known = labels[(labels >= 0) & (labels < n_classes)]
                np.add(total, np.bincount(known, minlength=n_classes), out=total)
    return {name: count.tolist() for name, count in counts.items()}
