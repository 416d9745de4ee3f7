"""The parts of recordings that users ask for. Plain, frozen, picklable values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from gristmill import _core, checks

Tail: TypeAlias = Literal["pad", "drop", "back"]
Place: TypeAlias = Literal["random", "center", "start"]
Pick: TypeAlias = Literal["random", "all"]


@dataclass(frozen=True)
class _Crop:
    """A part of each recording, `seconds` long, rounded to whole frames at the target rate."""

    _kind: ClassVar[str]
    """What the core calls it."""

    seconds: float

    def __post_init__(self) -> None:
        name = type(self).__name__
        seconds = check_crop_seconds(f"{name}(seconds)", self.seconds, f"gm.{name}(seconds=5)")
        object.__setattr__(self, "seconds", seconds)


@dataclass(frozen=True)
class StartCrop(_Crop):
    """The first `seconds` of each recording.

    Args:
        seconds: Length of the crop, above 0.
    """

    _kind: ClassVar[str] = "start"


@dataclass(frozen=True)
class CenterCrop(_Crop):
    """The middle `seconds` of each recording.

    Args:
        seconds: Length of the crop, above 0.
    """

    _kind: ClassVar[str] = "center"


@dataclass(frozen=True)
class RandomCrop(_Crop):
    """`seconds` from anywhere in each recording, every start frame being equally likely.

    The place depends on the seed, the epoch, the shard's base name and the row: not on the order,
    the batch size, threads or workers. If a row can repeat within an epoch (with `sampling=`, or
    twice in `rows=`), the place also depends on the position in the epoch.

    Args:
        seconds: Length of the crop, above 0.
        seed: `None` takes the seed of `Shuffle`, or 0 without one. If Grain repeats a data set of
            one epoch, draw a new seed for each epoch: see "Different crops in each epoch" in
            `docs/guide.md`.
    """

    _kind: ClassVar[str] = "random"

    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.settle(self, seed=checks.seed("gm.RandomCrop(seconds=5, seed=0)", none=True))


@dataclass(frozen=True)
class Windows(_Crop):
    """Every window of every recording, each an element of its own.

    For evaluation. Windows are delivered in file order, or shuffled with `Shuffle`. `batch_size`,
    states, slices, hosts and `rows_per_epoch()` then count windows instead of rows.
    `with_crop=True` adds the number of each window.

    Their number follows from the lengths of the recordings. The first opening reads the headers of
    recordings of unknown length, on all threads, and stores the lengths in the shards' index files;
    the logger `gristmill` reports its progress. A recording whose headers cannot be read has one
    window, which is a bad row.

    Args:
        seconds: Length of a window, above 0, rounded to whole frames at the target rate.
        hop: Seconds from the start of a window to the start of the next, rounded likewise; `None`
            is `seconds`: no overlap and no gap.
        tail: How to handle the end of a recording that windows do not divide evenly. `"pad"`: the
            last window reaches over the end, and is padded as `Audio(pad=...)` says. `"drop"`: no
            window reaches over the end; recordings shorter than a window have none. `"back"`: the
            last window ends with the recording and overlaps the one before.
    """

    _kind: ClassVar[str] = "windows"

    hop: float | None = None
    tail: Tail = "pad"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hop is not None:
            hop = check_crop_seconds("Windows(hop)", self.hop, "gm.Windows(seconds=5, hop=2.5)")
            object.__setattr__(self, "hop", hop)
        checks.settle(self, tail=partial(checks.choice, choices=get_args(Tail)))


@dataclass(frozen=True)
class EventCrop:
    """A part of each recording around an annotated event.

    Events are read from columns of seconds: numbers, one event a row, or lists of numbers, any
    number of events. The crop contains the event if it can; an event that reaches beyond the
    recording ends with it. A crop that is shorter than its event is within the event. No crop
    reaches over an end of the recording if it can avoid it; a recording that is shorter than the
    crop is padded.

    A row is a bad row, which `on_error` handles (its reason is `"event"`), if one of its times is
    null, NaN, infinite or negative, if an event ends before it begins, if starts and ends differ in
    number, or if the event begins at or after the end of the recording. With `pick="random"`, so is
    a row without events.

    Args:
        start: Column of the events' starts, or the dotted path of a field of structs or of lists of
            structs, as `"events.start"`. It is read whether `columns` names it or not.
        end: Column of their ends.
        pairs: A column of lists of `[start, end]` instead of these two, as BirdSet's
            `"detected_events"`.
        seconds: Length of the crop, above 0. `None` is that of the event: lengths differ then, so
            take single rows, with `batch_size=None`.
        place: Place of the event in its crop, or of the crop in a longer event: `"random"` (every
            start frame is equally likely), `"center"` or `"start"`.
        pick: `"random"`: one of the row's events in each epoch, all equally likely. `"all"`: each
            event is an element of its own, as windows are with `Windows`; rows without events have
            none.
        seed: As in `RandomCrop`.
    """

    _kind: ClassVar[str] = "events"

    start: str = "start_time"
    end: str = "end_time"
    pairs: str | None = None
    seconds: float | None = None
    place: Place = "random"
    pick: Pick = "random"
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.pairs is not None and (self.start, self.end) != ("start_time", "end_time"):
            raise ValueError(
                "events are in start= and end=, or in pairs=, not in both: write "
                'gm.EventCrop(pairs="detected_events", seconds=5)'
            )
        write = 'gm.EventCrop(start="start_time", end="end_time", seconds=5)'
        checks.settle(
            self,
            start=partial(checks.text, write=write),
            end=partial(checks.text, write=write),
            pairs=partial(
                checks.text, write='gm.EventCrop(pairs="detected_events", seconds=5)', none=True
            ),
            place=partial(checks.choice, choices=get_args(Place)),
            pick=partial(checks.choice, choices=get_args(Pick)),
            seed=checks.seed("gm.EventCrop(seconds=5, seed=0)", none=True),
        )
        if self.seconds is not None:
            seconds = check_crop_seconds("EventCrop(seconds)", self.seconds, write)
            object.__setattr__(self, "seconds", seconds)


Crop: TypeAlias = RandomCrop | CenterCrop | StartCrop | Windows | EventCrop


def check_crop(name: str, crop: Any) -> Any:
    """A crop of one of the classes, or `None`."""
    if crop is None or isinstance(crop, get_args(Crop)):
        return crop
    raise checks.wrong(name, "a crop", crop, "crop=gm.RandomCrop(seconds=5)", none=True)


def check_crop_seconds(name: str, seconds: Any, write: str) -> float:
    """The length of a crop."""
    return checks.number(name, seconds, 0, _core.MAX_CROP_SECONDS, above=True, write=write)


def crop_seed(crop: Crop | None) -> int | None:
    """The crop's own seed, if it has one."""
    return crop.seed if isinstance(crop, (RandomCrop, EventCrop)) else None
