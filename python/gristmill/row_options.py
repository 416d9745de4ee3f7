"""Which rows are read, in which order, and what of them: the options of one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from gristmill import _core, checks
from gristmill import paths as _paths
from gristmill.audio_columns import AudioOption, checked_audio
from gristmill.bad_rows import exclude as _exclude
from gristmill.columns import Labels, checked_labels
from gristmill.crops import crop_seed
from gristmill.datasets_table import DatasetsObject, DatasetsTable, table_of
from gristmill.filters import Checked, Filters, checked_filters
from gristmill.options import Audio, Shuffle
from gristmill.sampling import Sampling, checked_sampling, native_sampling
from gristmill.selection import RowChoice, Rows, Split, checked_rows, checked_split
from gristmill.signature import paths_text
from gristmill.storage import Given, StorageOptions, checked_storage_options


class Shards(NamedTuple):
    """What the file system says of the options.

    Attributes:
        paths: The shards, in the order in which their rows are numbered.
        storage_options: Keys and values with which those are reached.
        exclude: The rows of each shard that are left out, by its number, as 64-bit integers.
        expected_rows: `(number of the shard, rows that it must have)`.
    """

    paths: list[str]
    storage_options: list[tuple[str, str]]
    exclude: list[tuple[int, bytes]]
    expected_rows: list[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """The options of `ArrowIterDataset` of the same names, checked. The core reads them by name."""

    paths: tuple[str, ...]
    labels: Labels
    storage_options: StorageOptions
    columns: tuple[str, ...] | None
    audio: Audio | Literal["auto"] | None
    other_audio: tuple[Audio, ...]
    table: DatasetsTable | None
    rows: RowChoice | None
    filters: Checked
    split: Split | None
    sampling: Sampling | None
    shuffle: Shuffle | None
    epochs: int | None
    exclude: tuple[_exclude.Item, ...]

    def shards(self, retries: int) -> Shards:
        """Looks at the file system for the shards, and for files of excluded rows."""
        paths = _paths.resolve(self.paths, self.storage_options, retries)
        excluded = _exclude.resolve(self.exclude, paths)
        rows = [(shard, rows.tobytes()) for shard, rows in excluded.rows.items()]
        return Shards(paths, self.storage_options.native(paths), rows, excluded.counts)

    @property
    def decoded(self) -> Audio | None:
        """What is decoded of which column, if the options say it; of several, the first."""
        return self.audio if isinstance(self.audio, Audio) else None

    @property
    def crop_seed(self) -> int:
        """The seed of random crops."""
        seed = crop_seed(self.decoded.crop if self.decoded else None)
        if seed is None and self.shuffle is not None:
            return self.shuffle.seed
        return seed or 0

    @property
    def draws(self) -> _core.Sampling | None:
        """The sampling as the core takes it."""
        return native_sampling(self.sampling, self.shuffle)

    @property
    def is_list(self) -> bool:
        """Whether rows may be in another order than that of the files, or come twice."""
        return any(chosen is not None and chosen.is_list for chosen in (self.table, self.rows))

    @property
    def row_seconds(self) -> float | None:
        """Seconds of audio in each row, where all have as many."""
        audio = self.decoded
        if audio is None or audio.crop is None or audio.pad is None:
            return None
        return audio.crop.seconds

    @property
    def source_text(self) -> str:
        """What is read, for a `repr`."""
        return repr(self.table) if self.table else paths_text(self.paths)

    @property
    def shown(self) -> dict[str, Any]:
        """The options by their names, as they would be typed."""
        decoded = (self.audio, *self.other_audio)
        several = {one.column: one for one in decoded if isinstance(one, Audio)}
        return {
            **vars(self),
            "audio": several if self.other_audio else self.audio,
            "columns": None if self.columns is None else list(self.columns),
            "filters": [list(map(tuple, group)) for group in self.filters] or None,
            "storage_options": self.storage_options.shown,
        }


def checked_row_options(
    paths: _paths.Paths | DatasetsObject,
    *,
    columns: Sequence[str] | None,
    audio: AudioOption,
    filters: Filters | None,
    rows: Rows | None,
    split: Split | None,
    labels: Labels,
    storage_options: Given | None,
    exclude: _exclude.Exclude,
    sampling: Sampling | None = None,
    shuffle: Shuffle | None = None,
    epochs: int | None = 1,
) -> RowOptions:
    """The options as they were given, checked.

    A `datasets.Dataset` brings its files and columns along.
    """
    seed = checks.as_int(shuffle)
    table = table_of(paths)
    decoded, other_audio = checked_audio(audio)
    if table is not None and columns is None:
        columns = table.columns
    return RowOptions(
        paths=table.paths if table is not None else _paths.as_list(paths),
        labels=checked_labels(labels),
        storage_options=checked_storage_options(storage_options),
        columns=checks.names("columns", columns, write='columns=["audio"]', none=True),
        audio=decoded,
        other_audio=other_audio,
        table=table,
        rows=checked_rows(rows),
        filters=checked_filters(filters),
        split=checked_split(split),
        shuffle=checks.instance(
            "shuffle",
            shuffle,
            Shuffle,
            write=f"shuffle=gm.Shuffle(seed={42 if seed is None else seed})",
            none=True,
        ),
        epochs=check_epochs(epochs),
        sampling=checked_sampling(sampling, shuffle),
        exclude=_exclude.as_items(exclude),
    )


def check_epochs(epochs: Any) -> int | None:
    """A number of epochs, or `None` without end."""
    return checks.integer(
        "epochs", epochs, 1, 2**63 - 1, write="epochs=10, or None for ever", none=True
    )
