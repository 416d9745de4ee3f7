"""Crops around annotated events, compared with a naive reference."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from rounds import rounds
from signals import encode

import oracle

RATE = 8_000
N = 16_000  # frames of each recording, two seconds
Event = tuple[float, float]

# The events of each row: in the middle, at the very start, up to the very end and beyond it, longer
# than the crops, an instant, several, and overlapping ones.
EVENTS: list[list[Event]] = [
    [(0.7, 0.9)],
    [(0.0, 0.1)],
    [(1.9, 2.0)],
    [(1.5, 7.0)],
    [(0.2, 1.8)],
    [(1.0, 1.0)],
    [(0.1, 0.2), (1.1, 1.3), (0.15, 1.9)],
    [(1.99999, 2.0), (0.00001, 0.00002)],
]
TIMES = pa.list_(pa.float64())
LISTS = {"audio": shards.AUDIO, "start": TIMES, "end": TIMES, "pairs": pa.list_(TIMES)}


def recording(seed: int, n: int = N) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, (n, 1)).astype(np.float32)


def write(path: Path, events: list[Any], n_frames: int = N) -> Path:
    """A shard of one recording for each list of events, as lists and as pairs."""
    rows = []
    for i, of_row in enumerate(events):
        data = encode(recording(i, n_frames), RATE, "wavf32")
        starts = None if of_row is None else [e[0] for e in of_row]
        ends = None if of_row is None else [e[1] for e in of_row]
        pairs = None if of_row is None else [list(e) for e in of_row]
        audio = {"bytes": data, "path": f"{i}.wav"}
        rows.append({"audio": audio, "start": starts, "end": ends, "pairs": pairs})
    shards.write(path, rows, of=shards.schema(LISTS))
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("events") / "events.arrow", EVENTS)


COLUMNS: dict[str, dict[str, Any]] = {
    "lists": {"start": "start", "end": "end"},
    "pairs": {"pairs": "pairs"},
}


def dataset(path: Path, crop: gm.EventCrop, **options: Any) -> gm.ArrowIterDataset:
    audio = gm.Audio("audio", crop=crop, **options.pop("audio", {"sample_rate": RATE}))
    options = {"columns": [], "with_row_id": True, "with_crop": True, **options}
    return gm.ArrowIterDataset([path], audio=audio, **options)


def crop_of(event: Event, seconds: float | None, place: str, draw: int, n: int) -> tuple[int, int]:
    """The first frame and the length of a crop: the nearest one, moved so that it has the event."""
    start, length = nearest_crop(event, seconds, place, draw, n)
    first = next(f for f in range(n - 1, -1, -1) if f / RATE <= event[0])
    if seconds is None:
        whole = min(round(event[1] * RATE), n) > start
        return (start, length) if whole else (first, 1)
    behind = next((f for f in range(first + 1, n) if f / RATE >= event[1]), n)
    if behind - first <= length:
        start = max(min(start, first), behind - length, 0)
    return min(start, max(n - length, 0)), length


def nearest_crop(
    event: Event, seconds: float | None, place: str, draw: int, n: int
) -> tuple[int, int]:
    """The same with the event's times rounded, by looking at every start there is."""
    start = min(round(event[0] * RATE), n - 1)
    end = min(round(event[1] * RATE), n)
    if seconds is None:
        return start, max(end - start, 1)
    length, end = round(seconds * RATE), max(start, end)
    all_starts = range(max(n - length, 0) + 1)

    def held(first: int) -> int:
        return max(min(first + length, end) - max(first, start), 0)

    if place == "start":
        return min(start, all_starts[-1]), length
    if place == "center":
        return min(max((start + end - length) // 2, 0), all_starts[-1]), length
    most = max(map(held, all_starts))
    good = [f for f in all_starts if held(f) == most]
    if start == end:
        good = [f for f in all_starts if f <= start <= f + length]
    return good[draw * len(good) >> 64], length


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("place", ["random", "center", "start"])
@pytest.mark.parametrize("seconds", [0.5, 0.05, 1.7, 3.0])
@pytest.mark.parametrize("pick", ["random", "all"])
def test_crops_are_those_of_the_reference(
    path: Path, kind: str, place: Any, seconds: float, pick: Any
) -> None:
    crop = gm.EventCrop(**COLUMNS[kind], seconds=seconds, place=place, pick=pick, seed=5)
    elements = iter(dataset(path, crop, epochs=2))
    for epoch in range(2):
        for row, events in enumerate(EVENTS):
            words = (5, epoch, oracle.fnv1a(path.name), row)
            numbers = range(len(events))
            if pick == "random":
                number = oracle.hash_words(*words, 19) * len(events) >> 64
                numbers, drawn = range(number, number + 1), [oracle.hash_words(*words, 20)]
            else:
                drawn = [oracle.hash_words(*words, k, 20) for k in numbers]
            for number, draw in zip(numbers, drawn, strict=True):
                start, length = crop_of(events[number], seconds, place, draw, N)
                element = next(elements)
                assert (element["row"], element["event"]) == (row, number)
                assert element["n_events"] == len(events)
                part = recording(row)[start : start + length, 0]
                assert element["crop_start"] == start / RATE
                assert element["crop_frames"] == len(part)
                padded = np.pad(part, (0, length - len(part)))
                assert element["audio"].tobytes() == padded.tobytes()
    assert next(elements, None) is None


def test_the_events_themselves(path: Path) -> None:
    crop = gm.EventCrop(pairs="pairs", pick="all")
    found = [(int(e["row"]), e["audio"]) for e in dataset(path, crop, on_error="skip")]
    expected = [
        (row, recording(row)[slice(*np.cumsum(crop_of(event, None, "start", 0, N)))][:, 0])
        for row, events in enumerate(EVENTS)
        for event in events
        if event[0] < event[1]
    ]
    assert [row for row, _ in found] == [row for row, _ in expected]
    for (_, audio), (_, whole) in zip(found, expected, strict=True):
        assert audio.tobytes() == whole.tobytes()
    with pytest.raises(gm.DecodeError, match=r"no length.*give EventCrop"):
        list(dataset(path, crop))


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int64(), pa.uint8()])
def test_numbers_are_one_event_a_row(tmp_path: Path, kind: pa.DataType) -> None:
    data = encode(recording(0), RATE, "wavf32")
    rows = [{"audio": {"bytes": data, "path": ""}, "start_time": 1, "end_time": 2}]
    fields = {"audio": shards.AUDIO, "start_time": kind, "end_time": kind}
    path = shards.write(tmp_path / "one.arrow", rows, of=shards.schema(fields))
    (element,) = dataset(path, gm.EventCrop(seconds=0.5, place="start"))
    assert element["crop_start"] == 1.0
    (element,) = dataset(path, gm.EventCrop(pick="all"))
    assert element["audio"].shape == (RATE,)


def test_event_columns_need_not_be_delivered(path: Path) -> None:
    crop = gm.EventCrop(pairs="pairs", seconds=0.5)
    ds = dataset(path, crop, with_row_id=False, with_crop=False)
    assert set(next(iter(ds))) == {"audio"}
    assert set(next(iter(dataset(path, crop, columns=["end"])))) >= {"audio", "end"}


BAD: list[tuple[Any, str]] = [
    (None, "is null"),
    ([(None, 1.0)], "is null"),
    ([(0.5, math.nan)], "NaN"),
    ([(0.5, math.inf)], "inf"),
    ([(-0.5, 1.0)], "begins at -0.5 s"),
    ([(1.0, 0.5)], "not after its end"),
    ([(2.0, 2.5)], "begins at 2 s, and the recording ends at 2 s"),
    ([(5.0, 6.0)], "the recording ends at 2 s"),
]


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("pick", ["random", "all"])
@pytest.mark.parametrize(("events", "told"), BAD)
def test_nonsense_is_a_bad_row(
    tmp_path: Path, kind: str, pick: Any, events: Any, told: str
) -> None:
    path = write(tmp_path / "bad.arrow", [[(0.5, 1.0)], events, [(0.5, 1.0)]])
    crop = gm.EventCrop(**COLUMNS[kind], seconds=0.5, pick=pick)
    with pytest.raises(gm.DecodeError) as caught:
        list(dataset(path, crop))
    assert (caught.value.reason, caught.value.row) == ("event", 1)
    assert told in str(caught.value)
    it = iter(dataset(path, crop, on_error="mask"))
    assert [bool(e["valid"]) for e in it] == [True, False, True]
    assert [row.reason for row in it.bad_rows()] == ["event"]
    assert [int(e["row"]) for e in dataset(path, crop, on_error="skip")] == [0, 2]


def test_rows_without_events(tmp_path: Path) -> None:
    path = write(tmp_path / "none.arrow", [[], [(0.5, 1.0)], []])
    some = gm.EventCrop(pairs="pairs", seconds=0.5, pick="all")
    assert [int(e["row"]) for e in dataset(path, some)] == [1]
    one = gm.EventCrop(pairs="pairs", seconds=0.5)
    it = iter(dataset(path, one, on_error="skip"))
    assert [int(e["row"]) for e in it] == [1]
    assert all("has no event" in row.message for row in it.bad_rows())
    nothing = write(tmp_path / "nothing.arrow", [[], []])
    with pytest.raises(ValueError, match=r'pick="all"\) finds no event'):
        next(iter(dataset(nothing, some)))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"start": "gone", "end": "end"}, "column 'gone'"),
        ({"pairs": "start"}, "column 'start'.*lists of \\[start, end\\]"),
        ({"start": "audio", "end": "end"}, "column 'audio'"),
    ],
)
def test_wrong_columns(path: Path, columns: dict[str, str], told: str) -> None:
    with pytest.raises(gm.SchemaError, match=told):
        next(iter(dataset(path, gm.EventCrop(**columns, seconds=0.5))))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"start": "a", "pairs": "b"}, "not in both"),
        ({"pairs": 5}, "pairs is a string or None, not 5"),
        ({"seconds": 0}, r"EventCrop\(seconds\) is a number above 0"),
        ({"place": "end"}, "place is one of 'random', 'center', 'start', not 'end'"),
        ({"pick": "first"}, "pick is one of 'random', 'all', not 'first'"),
        ({"seed": -1}, "seed is an integer"),
    ],
)
def test_wrong_options(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        gm.EventCrop(**options)


@pytest.mark.parametrize("pick", ["random", "all"])
def test_restored_at_every_position(path: Path, pick: Any) -> None:
    crop = gm.EventCrop(pairs="pairs", seconds=0.5, pick=pick)
    ds = dataset(path, crop, shuffle=gm.Shuffle(1), epochs=2)

    def seen(element: dict[str, Any]) -> Any:
        return (
            *(element[n].item() for n in ("row", "event", "crop_start")),
            element["audio"].sum(),
        )

    whole = [seen(e) for e in ds]
    it = iter(ds)
    for done in range(len(whole) + 1):
        other = iter(ds)
        other.set_state(json.loads(json.dumps(it.get_state())))
        assert [seen(e) for e in other] == whole[done:]
        next(it, None)


@settings(max_examples=rounds(40), deadline=None)
@given(
    events=st.lists(
        st.tuples(st.floats(0, 0.3), st.floats(0, 0.3)).map(lambda e: (min(e), max(e))),
        min_size=1,
        max_size=5,
    ),
    n_frames=st.integers(1, 2_000),
    seconds=st.floats(0.001, 0.4),
    place=st.sampled_from(["random", "center", "start"]),
)
def test_any_events(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[Event],
    n_frames: int,
    seconds: float,
    place: Any,
) -> None:
    path = write(tmp_path_factory.mktemp("any") / "any.arrow", [events], n_frames)
    crop = gm.EventCrop(pairs="pairs", seconds=seconds, place=place, pick="all")
    found = list(dataset(path, crop, on_error="mask"))
    whole = recording(0, n_frames)[:, 0]
    assert len(found) == len(events)
    for number, (event, element) in enumerate(zip(events, found, strict=True)):
        assert bool(element["valid"]) == (event[0] * RATE < n_frames)
        if not element["valid"]:
            continue
        draw = oracle.hash_words(0, 0, oracle.fnv1a(path.name), 0, number, 20)
        start, length = crop_of(event, seconds, place, draw, n_frames)
        part = whole[start : start + length]
        assert element["crop_start"] == start / RATE
        assert element["audio"].tobytes() == np.pad(part, (0, length - len(part))).tobytes()
