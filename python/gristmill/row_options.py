"""Which rows are read, and what of them: options that data sets and sources have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from gristmill import checks
from gristmill import paths as _paths
from gristmill.columns import Labels, checked_labels
from gristmill.dataset_options import DatasetOptions
from gristmill.datasets_table import DatasetsObject, table_of
from gristmill.filters import Filters, checked_filters
from gristmill.options import Audio
from gristmill.selection import Rows, Split, checked_rows, checked_split
from gristmill.signature import paths_text
from gristmill.storage import Given, checked_storage_options


def checked_row_options(
    paths: _paths.Paths | DatasetsObject,
    *,
    columns: Sequence[str] | None,
    audio: Audio | Literal["auto"] | None,
    filters: Filters | None,
    rows: Rows | None,
    split: Split | None,
    labels: Labels,
    storage_options: Given | None,
) -> dict[str, Any]:
    """These fields of `DatasetOptions`. A `datasets.Dataset` brings its files and columns along."""
    table = table_of(paths)
    if table is not None and columns is None:
        columns = table.columns
    return {
        "paths": table.paths if table is not None else _paths.as_list(paths),
        "labels": checked_labels(labels),
        "storage_options": checked_storage_options(storage_options),
        "columns": checks.names("columns", columns, write='columns=["audio"]', none=True),
        "audio": _checked_audio(audio),
        "table": table,
        "rows": checked_rows(rows),
        "filters": checked_filters(filters),
        "split": checked_split(split),
    }


def _checked_audio(audio: Any) -> Audio | Literal["auto"] | None:
    """What is decoded of the audio column."""
    if audio is None or isinstance(audio, Audio) or (isinstance(audio, str) and audio == "auto"):
        return audio
    if isinstance(audio, Mapping) and audio:
        first, *others = cast("Mapping[Any, Any]", audio)
        other = others[0] if others else "other"
        raise ValueError(
            f"a data set decodes one column: write audio=gm.Audio({first!r}, ...), and decode "
            f"another one of single rows with ds.map(gm.DecodeAudio(gm.Audio(...), key={other!r}))"
        )
    raise ValueError(f"audio is gm.Audio(...), 'auto' or None, not {checks.shown(audio)}")


def source_text(options: DatasetOptions) -> str:
    """What is read, for a `repr`."""
    return repr(options.table) if options.table else paths_text(options.paths)
