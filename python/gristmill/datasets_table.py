"""The files and rows behind a `datasets.Dataset`, without importing `datasets`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol, cast

import numpy as np

from gristmill import checks
from gristmill.troubleshooting import explain

_KINDS: Final = ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")
_SAVE: Final = (
    "save it and load it again:\n"
    '    ds.save_to_disk("folder")\n'
    '    ds = datasets.load_from_disk("folder")\n'
    "    gm.ArrowIterDataset(ds)"
)
_NO_CHANGE: Final = {"combine_chunks", "replace_schema_metadata"}
"""Changes of a table that leave its rows and columns."""
_COLUMNS: Final = {"remove_column", "drop", "select", "cast"}
"""Changes that leave the rows, and of the columns those that are left."""


class DatasetsObject(Protocol):
    """A `datasets.Dataset`."""

    @property
    def cache_files(self) -> list[dict[str, str]]:
        """The files behind it."""
        ...


class DatasetsTable(NamedTuple):
    """The rows of a `datasets.Dataset`.

    Attributes:
        paths: Its files.
        columns: Its columns.
        audio_rates: The rates in Hz that its features name for columns of audio, or `None`.
        runs: `(number of the file, first row, rows)`, laid end to end.
        indices: The rows of these that it has, as 64-bit integers; `None` for all.
        is_list: Whether they are in another order than that of the files, or some come twice.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...]
    audio_rates: tuple[tuple[str, int | None], ...]
    runs: tuple[tuple[int, int, int], ...]
    indices: bytes | None
    is_list: bool

    def __repr__(self) -> str:
        return f"<datasets.Dataset of {len(self.paths)} files>"


def table_of(given: Any) -> DatasetsTable | None:
    """The rows of a `datasets.Dataset`; `None` for anything else.

    Raises:
        ValueError: The object is of `datasets`, and its rows are not those of Arrow files.
    """
    kind = next(
        (
            base.__name__
            for base in type(given).__mro__
            if base.__name__ in _KINDS and base.__module__.partition(".")[0] == "datasets"
        ),
        None,
    )
    if kind is None:
        return None
    if kind == "DatasetDict":
        names = [str(name) for name in given]
        raise ValueError(
            f"this DatasetDict has several splits ({', '.join(names)}): write "
            f"gm.ArrowIterDataset(ds[{names[0] if names else 'train'!r}])"
        )
    if kind != "Dataset":
        raise explain(
            ValueError(
                f"this {kind} streams its rows, and gristmill reads files: load it without "
                'streaming=True, as ds = datasets.load_dataset(..., split="train")'
            )
        )
    if getattr(given, "_format_type", None) == "custom":
        raise ValueError(
            "this datasets object has a Python function as its transform, which gristmill does not "
            "run: write ds.reset_format(), and apply the function to the elements, as "
            "gm.ArrowIterDataset(ds).map(function)"
        )
    return _table(given)


def _table(given: Any) -> DatasetsTable:
    if not len(given):
        raise ValueError("this datasets object has no rows: give one with rows")
    # A format may have fewer columns than the table.
    formatted = getattr(given, "_format_columns", None)
    columns = tuple(
        str(name) for name in given.column_names if formatted is None or name in formatted
    )
    paths: dict[str, int] = {}
    runs: list[tuple[int, int, int]] = []
    for block in _blocks(given.data):
        path, first, n_rows = _rows_of(block, columns)
        number = paths.setdefault(path, len(paths))
        if runs and runs[-1][0] == number and sum(runs[-1][1:]) == first:
            runs[-1] = (number, runs[-1][1], runs[-1][2] + n_rows)
        else:
            runs.append((number, first, n_rows))
    indices = None
    is_list = any(
        (later[0], later[1]) < (sooner[0], sooner[1] + sooner[2])
        for sooner, later in pairwise(runs)
    )
    if (table := getattr(given, "_indices", None)) is not None:
        rows = table.column(0).to_numpy().astype(np.uint64)
        indices = rows.tobytes()
        is_list = is_list or not bool(np.all(rows[1:] > rows[:-1]))
    return DatasetsTable(tuple(paths), columns, _audio_rates(given), tuple(runs), indices, is_list)


def _audio_rates(given: Any) -> tuple[tuple[str, int | None], ...]:
    """The rates of its columns of audio: `cast_column` changes them, and not the files."""
    features = cast("dict[str, Any]", getattr(given, "features", None) or {})
    return tuple(
        (str(name), checks.as_int(getattr(feature, "sampling_rate", None)))
        for name, feature in features.items()
        if type(feature).__name__ == "Audio"
    )


def _blocks(table: Any) -> Iterable[Any]:
    """The tables of which it is made, one after the other."""
    if not hasattr(table, "blocks"):
        return (table,)
    for beside in table.blocks:
        if len(beside) != 1:
            raise ValueError(
                "this datasets object has columns of several tables side by side, which are in no "
                f"file together: {_SAVE}"
            )
    return tuple(beside[0] for beside in table.blocks)


def _rows_of(block: Any, columns: tuple[str, ...]) -> tuple[str, int, int]:
    """The file of a table, the first of its rows, and their number."""
    if not hasattr(block, "path"):
        what = f"this datasets object is in memory only, and gristmill reads files: {_SAVE}"
        raise explain(ValueError(what))
    path, first, is_cast = str(block.path), 0, False
    for name, args, named in cast(
        "Iterable[tuple[str, tuple[Any, ...], dict[str, Any]]]", block.replays
    ):
        if name == "slice":
            first += int(args[0] if args else named.get("offset", 0))
        elif name in _COLUMNS:
            is_cast = is_cast or name == "cast"
        elif name not in _NO_CHANGE:
            raise ValueError(
                f"the table of this datasets object was changed in memory ({name}), so that its "
                f"files differ from it: {_SAVE}"
            )
    schema = block.table.schema
    lacks = [name for name in columns if name not in schema.names]
    if lacks or (is_cast and not _has_types(path, schema, columns)):
        what = f"the column {lacks[0]!r} is not in all" if lacks else "columns were cast from those"
        raise ValueError(f"in this datasets object {what} of its files: {_SAVE}")
    return path, first, int(block.table.num_rows)


def _has_types(path: str, schema: Any, columns: tuple[str, ...]) -> bool:
    """Whether the file has these columns in the types of the schema."""
    # `datasets` needs pyarrow, so it is there.
    arrow: Any = importlib.import_module("pyarrow")
    with arrow.memory_map(path) as source:
        of_file = arrow.ipc.open_stream(source).schema
    return all(
        name in of_file.names and of_file.field(name).type == schema.field(name).type
        for name in columns
    )
