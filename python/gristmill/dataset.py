"""Shards as a Grain `IterDataset`: order, reading, decoding and batching in native threads."""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, cast

import grain
import numpy as np

from gristmill import _core, checks
from gristmill import paths as _paths
from gristmill._grain import ElementSpec
from gristmill.bad_rows import exclude as _exclude
from gristmill.bad_rows.tracker import OnError, Policy, quarantine_path
from gristmill.columns import (
    Binary,
    FillValue,
    Ragged,
    checked_binary,
    native_fill,
    native_ragged,
)
from gristmill.iterator import ArrowIterator, Columns, Element
from gristmill.metrics.stats import Settings, machine_cpus
from gristmill.options import Audio, RandomCrop, ReadOptions, Shuffle, read_options
from gristmill.partition import Part
from gristmill.state import Position

_ROW_ID = ("shard", "row")
_VALID = "valid"
_LONGEST_PATHS = 200


class ArrowIterDataset(grain.IterDataset[Element]):
    """Rows of Arrow IPC shards, with their audio decoded, in a reproducible order.

    Each element is a dictionary by column name. In batches, numbers, booleans and times are
    arrays `(batch,)` of the column's dtype; audio is float32 `(batch, frames)`, or `(batch,
    channels, frames)`; fixed-size lists are `(batch, width)`; strings and binary are object arrays
    `(batch,)`, lists what `ragged` says; structs are nested dictionaries. Single rows hold the
    values themselves: NumPy scalars, `str`, `bytes`, arrays, dictionaries, and `None` for null. A
    null number cannot stand in a batch: it raises `SchemaError` unless there is a `fill_value`.
    `docs/columns.md` has the table of all types.

    Nothing is opened and no thread starts before the first `next` of an iterator (or its
    `start_prefetch`). The order depends on the seed, the epoch and the position alone: not on
    threads, workers, the batch size, or where a run was stopped and resumed.

    Args:
        paths: Shards, in IPC stream or file format: a path, a glob pattern or a directory (its
            `*.arrow` files), or several of these. Patterns and directories are sorted by name.
        columns: The columns wanted; `None` for all. They come in the order of the schema.
        audio: What to decode, and how. `"auto"` decodes the column that the Hugging Face features
            in the schema call audio, if there is one: whole recordings, mono, at their own rate.
            `None` leaves audio encoded, as `{"bytes": ..., "path": ...}`.
        shuffle: A global or windowed shuffle; `None` is file order.
        batch_size: Rows in a batch, on this host; `None` gives single rows. Batches run across the
            ends of epochs.
        drop_remainder: Whether to leave out a last batch that is short. With `shard_options`, all
            hosts then deliver equally many batches.
        epochs: Passes over the data; `None` is for ever.
        shard_options: Which host this is, of how many: `grain.sharding.ShardOptions(...)` or
            `ShardByJaxProcess()`. Hosts take turns in the stream of rows, so that the hosts'
            batches of one step together are the same rows for any number of hosts that divides
            the global batch. Its `drop_remainder` gives all hosts equally many rows.
        allow_changed: Whether a state of changed data (other shards, row counts, shuffle, seeds or
            exclusions) is taken up at the same place of the same epoch, instead of refused. Some
            rows of that epoch may then be lost or come twice.
        on_error: What becomes of a row whose audio cannot be used (it is damaged, exceeds a limit,
            or more of it is missing than `Audio(max_missing=...)` allows). `"raise"`: `DecodeError`
            or `LimitError`. `"substitute"`: another row of the same shard, or window, is delivered
            in its place, drawn by seed, epoch and row: shapes and steps stay what they are, on all
            hosts. `"mask"`: the row comes with zeros for audio (with no frames, where recordings
            are whole and come singly), and every element has `"valid"`, bool `(batch,)`. `"skip"`:
            its batch is shorter, so that hosts do not stay alike; empty elements are left out.
            Shards that are corrupt or cannot be read raise in any case. See `docs/bad-rows.md`.
        max_bad_rows: How many rows may turn out bad before `LimitError` is raised: an int counts
            different rows; a float is a share of the rows whose turn has come, which are taken for
            1,000 (or an epoch, if that is less) while they are fewer. They are counted since the
            iterator was made or its state set. `None` is any number.
        quarantine: A file to which bad rows are appended as they are delivered, and from which
            another run may `exclude=` them. It is opened by the first `next`, which raises if that
            fails. If it cannot be written later, that is logged once, and `bad_rows()` has them.
        exclude: Rows to leave out, which are never read: the path of a quarantine file (as
            `quarantine=` and `gristmill scan` write them), or `(shard, row)` pairs, or a list of
            both. In a pair a shard is its number in the resolved paths, its path, or its base name
            where that is unique. A file may name other shards too, but not only those.
        binary: What binary values become, encoded audio among them. `"bytes"`: `bytes`, a copy in
            memory of their own. `"numpy"`: arrays `(length,)` of uint8, which may be written to.
            Those of encoded audio are the memory that the row was read into, without a copy: for
            rows of a megabyte that is several times as fast. It counts for `memory_budget`, and is
            not used again, while the array or a part of it lives.
        ragged: How batches hold lists of variable length. `"object"`: an object array, each row's
            list an array of its own. `"pad"`: one array `(batch, longest)`, rows padded with
            `fill_value` or 0, and their lengths, int32 `(batch,)`, beside it as
            `"<column>_lengths"`. `"error"`: one array `(batch, length)`; rows of unequal lengths
            raise `SchemaError`. Or a mapping by column, `"object"` for the others.
        fill_value: A number that stands in batches for a null, and behind the end of padded rows;
            NaN or NaT for times; or a mapping by column. It has to be a value of the dtype of
            each column in which it is needed. `None`: a null raises `SchemaError`. Strings and
            other objects keep their `None`.
        with_row_id: Whether elements also hold `"shard"` (int32, the number of the shard) and
            `"row"` (int64, the number of the row in its shard).
        read: Threads, memory and look-ahead.

    Raises:
        ValueError: An option is out of range. What is wrong with the data is raised by the first
            `next` of an iterator: `FileNotFoundError`, `CorruptShardError`, `SchemaError`, ...
    """

    def __init__(
        self,
        paths: _paths.Paths,
        *,
        columns: Sequence[str] | None = None,
        audio: Audio | Literal["auto"] | None = "auto",
        shuffle: Shuffle | None = None,
        batch_size: int | None = None,
        drop_remainder: bool = False,
        epochs: int | None = 1,
        shard_options: grain.sharding.ShardOptions | None = None,
        allow_changed: bool = False,
        on_error: OnError = "raise",
        max_bad_rows: float | None = None,
        quarantine: str | os.PathLike[str] | None = None,
        exclude: _exclude.Exclude = (),
        binary: Binary = "bytes",
        ragged: Ragged = "object",
        fill_value: FillValue = None,
        with_row_id: bool = False,
        read: ReadOptions | None = None,
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        if not (audio is None or isinstance(audio, (Audio, str))) or (
            isinstance(audio, str) and audio != "auto"
        ):
            raise ValueError(f"audio is gm.Audio(...), 'auto' or None, not {checks.shown(audio)}")
        seed = checks.as_int(shuffle)
        self._paths = _paths.as_list(paths)
        self._columns = checks.names("columns", columns, write='columns=["audio"]', none=True)
        self._audio = audio
        self._shuffle = checks.instance(
            "shuffle",
            shuffle,
            Shuffle,
            write=f"shuffle=gm.Shuffle(seed={42 if seed is None else seed})",
            none=True,
        )
        self._batch_size = checks.integer(
            "batch_size", batch_size, 1, 2**31 - 1, write="batch_size=64", none=True
        )
        self._drop_remainder = checks.flag("drop_remainder", drop_remainder)
        self._epochs = checks.integer(
            "epochs", epochs, 1, 2**63 - 1, write="epochs=10, or None for ever", none=True
        )
        self._exclude = _exclude.as_items(exclude)
        written = quarantine_path(quarantine, self._exclude)
        self._policy = Policy(on_error, max_bad_rows, written)
        self._binary = checked_binary(binary)
        self._ragged = native_ragged(ragged)
        self._fill_value = native_fill(fill_value)
        self._with_row_id = checks.flag("with_row_id", with_row_id)
        self._read = read_options(read)
        self._allow_changed = checks.flag("allow_changed", allow_changed)
        self._part = Part()
        checks.instance(
            "shard_options",
            shard_options,
            grain.sharding.ShardOptions,
            write="shard_options=grain.sharding.ShardOptions(0, 2)",
            none=True,
        )
        if shard_options is not None:
            is_even = bool(shard_options.drop_remainder) or self.drops_remainder
            most = 2**31
            self._part = Part(
                checks.integer("shard_index", shard_options.shard_index, 0, most, write="0"),
                checks.integer("shard_count", shard_options.shard_count, 1, most, write="2"),
                is_even,
            )

    def __iter__(self) -> ArrowIterator:
        return ArrowIterator(self)

    def __str__(self) -> str:
        shards = self._paths[0] if len(self._paths) == 1 else f"{len(self._paths)} paths"
        return f"ArrowIterDataset({shards})"

    def __repr__(self) -> str:
        named = {
            "columns": None if self._columns is None else list(self._columns),
            "audio": self._audio,
            "shuffle": self._shuffle,
            "batch_size": self._batch_size,
            "drop_remainder": self._drop_remainder,
            "epochs": self._epochs,
            "allow_changed": self._allow_changed,
            "on_error": self._policy.on_error,
            "max_bad_rows": self._policy.max_bad_rows,
            "quarantine": self._policy.quarantine,
            "binary": self._binary,
            "ragged": dict(self._ragged[1]) or self._ragged[0],
            "fill_value": dict(self._fill_value[1]) or self._fill_value[0],
            "with_row_id": self._with_row_id,
            "read": self._read,
        }
        usual = inspect.signature(ArrowIterDataset).parameters
        # What is as it would be anyway is left out, in the options' own values too.
        usual_values = {**{name: usual[name].default for name in named}, "read": ReadOptions()}
        given = [repr(self._paths[0] if len(self._paths) == 1 else list(self._paths))]
        if len(given[0]) > _LONGEST_PATHS:
            given = [f"[{self._paths[0]!r}, ... {len(self._paths)} paths]"]
        given += [
            f"{name}={_short(value)}"
            for name, value in named.items()
            if value != usual_values[name]
        ]
        if self._exclude:
            given.append(f"exclude=[{len(self._exclude)} given]")
        part = self._part
        if part.hosts > 1 or part.stride > 1 or part.slices:
            given.append(f"part={_short(part)}")
        return f"ArrowIterDataset({', '.join(given)})"

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Thins the rows, in place: Grain's workers share a data set by this.

        `slice(k, None, n)` with k below n takes turns in the stream of all epochs. Of any other
        slice, position `i` of each epoch is position `range(rows)[sl][i]` of the whole one; with
        `sequential_slice`, `slice(k, None, n)` stands for the k-th of n contiguous blocks. Slices
        compose, and one that leaves no rows gives an empty data set.
        """
        checks.instance("sl", sl, slice, write="set_slice(slice(0, None, 2))")
        self._part = self._part.narrow(sl, checks.flag("sequential_slice", sequential_slice))

    @property
    def part(self) -> Part:
        """What of the stream this host and worker deliver."""
        return self._part

    @property
    def _element_spec(self) -> Any:
        """Shapes and dtypes of the elements, from the header of the first shard."""
        spec = _core.element_spec(**self.native_options(start=Position()))
        return {name: _spec(leaf) for name, leaf in spec.items()}

    def rows_per_epoch(self) -> int:
        """Rows in an epoch, for all hosts and workers together. Reads the shards' headers."""
        return _core.Order(**self.native_options(start=Position())).rows_per_epoch()

    def column_in_file_order(self, column: str) -> tuple[Any, Any, Any]:
        """`(shard, row, value)` of every row, by shard and row; reads this column alone."""
        once = ArrowIterDataset(
            self._paths,
            columns=[column],
            audio=None,
            batch_size=4096,
            exclude=self._exclude,
            with_row_id=True,
            read=self._read,
        )
        with contextlib.closing(iter(once)) as batches:
            parts = [(b["shard"], b["row"], b[column]) for b in batches]
        if parts and isinstance(parts[0][2], dict):
            raise ValueError(
                f"labels are one value a row, and no structs; name another column than {column!r}"
            )
        shard, row, values = zip(*parts, strict=True) if parts else ((), (), ())
        joined = [np.concatenate(part) if part else np.empty(0, np.int64) for part in (shard, row)]
        return joined[0].astype(np.int64), joined[1], np.concatenate(values or [np.empty(0)])

    def native_options(self, start: Position) -> dict[str, Any]:
        """The options as the native core takes them. Looks at the file system for the shards."""
        shards = _paths.resolve(self._paths)
        excluded = _exclude.resolve(self._exclude, shards)
        crop = self._audio.crop if isinstance(self._audio, Audio) else None
        seeds = [
            crop.seed if isinstance(crop, RandomCrop) else None,
            self._shuffle.seed if self._shuffle else None,
        ]
        return {
            "paths": shards,
            "columns": None if self._columns is None else list(self._columns),
            "audio": self._audio,
            "shuffle": self._shuffle,
            "crop_seed": next((seed for seed in seeds if seed is not None), 0),
            "exclude": excluded.native_rows(),
            "expected_rows": excluded.counts,
            "slices": list(self._part.slices),
            "lane": self._part.lane,
            "on_error": self._policy.on_error,
            "max_missing": self._audio.max_missing if isinstance(self._audio, Audio) else None,
            "epochs": self._epochs,
            "batch_size": self._batch_size,
            "drop_remainder": self._drop_remainder,
            "binary": self._binary,
            "ragged": self._ragged,
            "fill_value": self._fill_value,
            "with_row_id": self._with_row_id,
            "num_threads": self._read.num_threads,
            "num_requests": self._read.num_requests,
            "memory_budget": self._read.memory_budget_bytes,
            "prefetch_batches": self._read.prefetch_batches,
            "index_dir": self._read.resolved_index_dir,
            "retries": self._read.retries,
            "page_cache": self._read.page_cache,
            "start_epoch": start.epoch,
            "start_index": start.next_index,
            "fingerprint": start.fingerprint or None,
            "allow_changed": self._allow_changed,
        }

    def settings(self, native: Mapping[str, Any] | None, columns: Columns) -> Settings:
        """What statistics are measured with; `native` is what the native core tells."""
        counts = native or {"readers": {"count": 0}, "decoders": {"count": 0}, "usable_cpus": 1}
        audio = self._audio if isinstance(self._audio, Audio) else None
        added = _ROW_ID if self._with_row_id else ()
        if self._policy.on_error == "mask":
            added = (*added, _VALID)
        columns = {name: kind for name, kind in columns.items() if name not in added}
        return Settings(
            num_threads=counts["decoders"]["count"],
            num_requests=counts["readers"]["count"],
            prefetch_batches=self._read.prefetch_batches,
            memory_budget_bytes=self._read.memory_budget_bytes,
            batch_size=self._batch_size,
            resampler=audio.resampler if audio and audio.sample_rate else None,
            columns=tuple(columns),
            object_columns=tuple(name for name, is_object in columns.items() if is_object),
            machine_cpus=machine_cpus(),
            usable_cpus=counts["usable_cpus"],
            is_worker=multiprocessing.parent_process() is not None,
        )

    @property
    def policy(self) -> Policy:
        """What is done about bad rows."""
        return self._policy

    @property
    def log_every_seconds(self) -> float | None:
        """As in `ReadOptions`."""
        return self._read.log_every_seconds

    @property
    def drops_remainder(self) -> bool:
        """Whether rows may be left over at the end."""
        return self._drop_remainder and self._batch_size is not None

    @property
    def rows_per_element(self) -> int:
        """Rows in a full element."""
        return self._batch_size or 1


def _short(value: Any) -> str:
    """A value as it may be written, of a data class only what is not as usual."""
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    parts: list[str] = []
    for part in fields(value):
        found = getattr(value, part.name)
        usual = part.default if part.default_factory is MISSING else part.default_factory()
        if usual is MISSING or found != usual:
            parts.append(f"{part.name}={_short(found)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _spec(leaf: Any) -> Any:
    if isinstance(leaf, dict):
        children = cast("dict[str, Any]", leaf)
        return {name: _spec(child) for name, child in children.items()}
    shape, dtype = leaf
    return ElementSpec(shape=tuple(shape), dtype=np.dtype(dtype))
