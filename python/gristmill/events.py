"""Events that fall into the crops of a batch, and labels made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, overload

import numpy as np

from gristmill import checks

_Array = np.ndarray[Any, np.dtype[Any]]


@overload
def events_in(
    batch: Mapping[str, Any],
    *,
    sample_rate: int,
    start: str = ...,
    end: str = ...,
    pairs: str | None = ...,
    min_overlap: float = ...,
    labels: None = ...,
    num_classes: None = ...,
) -> _Array: ...
@overload
def events_in(
    batch: Mapping[str, Any],
    *,
    sample_rate: int,
    start: str = ...,
    end: str = ...,
    pairs: str | None = ...,
    min_overlap: float = ...,
    labels: str,
    num_classes: int,
) -> np.ndarray[Any, np.dtype[np.float32]]: ...
def events_in(
    batch: Mapping[str, Any],
    *,
    sample_rate: int,
    start: str = "start_time",
    end: str = "end_time",
    pairs: str | None = None,
    min_overlap: float = 0.0,
    labels: str | None = None,
    num_classes: int | None = None,
) -> _Array:
    """Which of each row's events fall into its crop, or the classes of those that do.

    The data set must have `with_crop=True` and deliver the event columns, lists with
    `ragged="object"` (the default) or `"pad"`. A dotted path names a field of structs or of lists
    of structs, as in `EventCrop`, whether the batch has the field or the structs. Padding contains
    no event, and neither does a row without a crop (`"valid"` is False).

    An event counts if it and the crop overlap by more than nothing, and by `min_overlap` seconds or
    its whole length if that is shorter. An event without length counts if it is in the crop, whose
    end is excluded. A null among the events counts in no crop, and a null list has no event.

    Args:
        batch: A batch, or a single row.
        sample_rate: Rate of the crops in Hz, as in `Audio`.
        start: Column of the events' starts in seconds: numbers, or lists of numbers.
        end: Column of their ends.
        pairs: A column of lists of `[start, end]` instead of these two.
        min_overlap: Seconds, at least 0.
        labels: A column of class ids, one for each event, or one for all events of a row.
        num_classes: The number of classes, with `labels`.

    Returns:
        Without `labels`, objects `(batch,)` of bool `(events,)`. With them, float32 `(batch,
        num_classes)` of 0 and 1: the targets of a multi-label loss. Of a single row, without the
        batch axis.

    Raises:
        ValueError: An option is out of range, a column is missing, an event is no pair of numbers,
            or a label is no class.
    """
    write = "gm.events_in(batch, sample_rate=32_000)"
    checks.instance("batch", batch, Mapping, write=write)
    checks.text("start", start, write='start="start_time"')
    checks.text("end", end, write='end="end_time"')
    checks.text("pairs", pairs, write='pairs="detected_events"', none=True)
    checks.text("labels", labels, write='labels="label"', none=True)
    n_classes = checks.integer("num_classes", num_classes, 1, write="num_classes=10", none=True)
    sample_rate = checks.integer("sample_rate", sample_rate, 1, write=write)
    min_overlap = checks.number("min_overlap", min_overlap, 0, 86_400, write="min_overlap=0.1")
    if (labels is None) != (num_classes is None):
        raise ValueError('labels and num_classes go together: write labels="label", num_classes=10')
    starts_s = np.asarray(_column(batch, "crop_start", "with_crop=True adds it"), np.float64)
    frames = np.asarray(_column(batch, "crop_frames", "with_crop=True adds it"))
    is_single = starts_s.ndim == 0
    crops = zip(np.atleast_1d(starts_s), np.atleast_1d(frames), strict=True)
    found: list[_Array] = []
    for row, (crop_s, n_frames) in enumerate(crops):
        if n_frames == 0:
            # It is masked or fills the batch up; its own events may be what is wrong with it.
            found.append(np.zeros(_n_events(batch, pairs or start, row, is_single), bool))
            continue
        begins, ends = _times(batch, row, is_single, (start, end), pairs)
        # In whole frames, so that an event at the end lies behind it whatever sums are rounded to.
        crop_end_s = (round(crop_s * sample_rate) + n_frames) / sample_rate
        overlap = np.minimum(ends, crop_end_s) - np.maximum(begins, crop_s)
        least = np.minimum(min_overlap, ends - begins)
        is_instant = (begins == ends) & (crop_s <= begins) & (begins < crop_end_s)
        found.append(((overlap > 0) & (overlap >= least)) | is_instant)
    if labels is None:
        masks = np.empty(len(found), object)
        masks[:] = found
        return found[0] if is_single else masks
    targets = np.zeros((len(found), n_classes), np.float32)
    for row, mask in enumerate(found):
        if not np.atleast_1d(frames)[row]:
            continue
        ids = np.asarray(_of_row(batch, labels, row, is_single))
        ids = np.broadcast_to(ids, mask.shape) if ids.ndim == 0 else ids[: len(mask)]
        if len(ids) < len(mask):
            raise ValueError(
                f"column {labels!r} has {len(ids)} labels for the {len(mask)} events of a row; "
                "name a column of one label for each event, or of one for all of them"
            )
        classes = ids[mask]
        is_class = [checks.as_int(i) is not None and 0 <= i < n_classes for i in classes]
        if not all(is_class):
            wrong = classes.tolist()[is_class.index(False)]
            raise ValueError(
                f"column {labels!r} has the label {checks.shown(wrong)}, which is no class id from "
                f"0 to {n_classes - 1}: give another num_classes="
            )
        targets[row, classes.astype(np.int64)] = 1
    return targets[0] if is_single else targets


def _column(batch: Mapping[str, Any], name: str, hint: str) -> Any:
    if name not in batch:
        raise ValueError(f"the batch has no column {name!r}: {hint}")
    return batch[name]


def _of_row(batch: Mapping[str, Any], name: str, row: int, is_single: bool) -> Any:
    """The value of one row, without what pads a list."""
    if name not in batch:
        for top, held in batch.items():
            if name.startswith(f"{top}."):
                field = name[len(top) + 1 :]
                if isinstance(held, Mapping):
                    return _of_row(cast("Mapping[str, Any]", held), field, row, is_single)
                return _field(held if is_single else held[row], field, name)
    column = _column(batch, name, "name one of its columns, or add it to columns=")
    if is_single:
        return column
    lengths = batch.get(f"{name}_lengths")
    return column[row] if lengths is None else column[row][: int(lengths[row])]


def _field(of: Any, field: str, name: str) -> Any:
    """The field at a dotted path of a struct, or a list of those of a list of structs."""
    if of is None:
        return None
    if not isinstance(of, Mapping):
        return [_field(one, field, name) for one in of]
    fields = cast("Mapping[str, Any]", of)
    if field in fields:
        return fields[field]
    within = [top for top in fields if field.startswith(f"{top}.")]
    if not within:
        raise ValueError(f"the batch has no column {name!r}: {field!r} is none of its fields")
    return _field(fields[within[0]], field[len(within[0]) + 1 :], name)


def _n_events(batch: Mapping[str, Any], name: str, row: int, is_single: bool) -> int:
    """The number of a row's events, whatever they are."""
    return len(np.atleast_1d(_items(_of_row(batch, name, row, is_single))))


def _times(
    batch: Mapping[str, Any],
    row: int,
    is_single: bool,
    columns: tuple[str, str],
    pairs: str | None,
) -> tuple[_Array, _Array]:
    """The starts and ends of a row's events."""
    if pairs is not None:
        listed = _of_row(batch, pairs, row, is_single)
        events = np.array([_pair(pairs, pair) for pair in _items(listed)], np.float64)
        events = events.reshape(-1, 2)
        return events[:, 0], events[:, 1]
    begins, ends = (
        np.atleast_1d(np.asarray(_items(_of_row(batch, name, row, is_single)), np.float64))
        for name in columns
    )
    if len(begins) != len(ends):
        raise ValueError(
            f"columns {columns[0]!r} and {columns[1]!r} have {len(begins)} starts and {len(ends)} "
            "ends in one row; exclude the row, or name other columns"
        )
    return begins, ends


def _items(events: Any) -> Any:
    """A row's list, or its one number; a null list has no event."""
    return () if events is None else events


def _pair(name: str, pair: Any) -> tuple[float, float]:
    """An event of a list of pairs; a null lies in no crop, as a null among starts or ends does."""
    times = np.atleast_1d(np.asarray((np.nan, np.nan) if pair is None else pair, np.float64))
    if times.shape != (2,):
        raise ValueError(
            f"column {name!r} has an event of {times.size} numbers, where [start, end] is wanted; "
            "exclude the row, or name another column"
        )
    return times[0], times[1]
