"""Windows and events of rows that are chosen, listed twice, drawn by weight, or in Parquet."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import parquet_files
import shards
from signals import encode

import oracle

RATE = 8_000
WINDOW = 800  # frames
COUNTS = [3, 1, 4, 2]  # windows of each row
EVENTS = [[(0.01, 0.05)], [(0.0, 0.02), (0.05, 0.06)], [], [(0.02, 0.03)]]
SECONDS = 0.1

Seen = tuple[int, int, float, bytes]  # row, part, start, samples


def recording(row: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(row)
    n_frames = COUNTS[row] * WINDOW - 10
    return rng.uniform(-0.5, 0.5, (n_frames, 1)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        {
            "audio": {"bytes": encode(recording(row), RATE, "wavf32"), "path": ""},
            "count": row,
            "pairs": [list(event) for event in EVENTS[row]],
        }
        for row in range(len(COUNTS))
    ]
    fields = {
        "audio": shards.AUDIO,
        "count": pa.int32(),
        "pairs": pa.list_(pa.list_(pa.float64())),
    }
    path = tmp_path_factory.mktemp("chosen") / "chosen.arrow"
    return shards.write(path, rows, of=shards.schema(fields))


WINDOWS = gm.Windows(SECONDS)
ALL_EVENTS = gm.EventCrop(pairs="pairs", pick="all", seconds=0.02, seed=5)


def dataset(path: Path, crop: Any = WINDOWS, **options: Any) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(
        [path],
        columns=["count"],
        audio=gm.Audio("audio", crop=crop),
        with_row_id=True,
        with_crop=True,
        **options,
    )


def seen(ds: Any, part: str = "window") -> list[Seen]:
    return [(int(e["row"]), int(e[part]), float(e["crop_start"]), e["audio"].tobytes()) for e in ds]


def naive(rows: Any) -> list[Seen]:
    """The windows of these rows, one after another."""
    found = []
    for row in rows:
        whole = np.pad(recording(row)[:, 0], (0, 10)).reshape(-1, WINDOW)
        found += [(row, k, k * SECONDS, part.tobytes()) for k, part in enumerate(whole)]
    return found


def same(got: list[Seen], expected: list[Seen]) -> None:
    assert [(row, part) for row, part, *_ in got] == [(row, part) for row, part, *_ in expected]
    assert np.allclose([start for *_, start, _ in got], [start for *_, start, _ in expected])
    assert [samples for *_, samples in got] == [samples for *_, samples in expected]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"rows": [1, 3]}, [1, 3]),
        ({"rows": [3, 0, 3, 1]}, [3, 0, 3, 1]),
        ({"rows": np.array([True, False, False, True])}, [0, 3]),
        ({"filters": [("count", ">", 1)]}, [2, 3]),
        ({"filters": [("count", ">", 1)], "exclude": [(0, 2)]}, [3]),
    ],
)
def test_windows_of_chosen_rows(path: Path, options: dict[str, Any], rows: list[int]) -> None:
    ds = dataset(path, **options)
    expected = naive(rows)
    assert ds.rows_per_epoch() == len(expected)
    same(seen(ds), expected)
    shuffled = seen(dataset(path, shuffle=gm.Shuffle(3), **options))
    order = oracle.permutation(len(expected), 3, 0)
    same(shuffled, [expected[i] for i in order])


def test_windows_are_drawn_by_the_weights_of_their_rows(path: Path) -> None:
    weights = [1.0, 5.0, 0.0, 2.0]
    windows = {(row, k): of for row, k, *of in naive(range(4))}
    ds = dataset(path, sampling=gm.Weighted(weights, draws=60, seed=8), epochs=2)
    drawn = [d for epoch in range(2) for d in oracle.part_draws(weights, COUNTS, 8, epoch, 60)]
    same(seen(ds), [(*window, *windows[window]) for window in drawn])
    # As many draws as there are windows, where no number is given.
    assert dataset(path, sampling=gm.Weighted(weights)).rows_per_epoch() == sum(COUNTS)


def test_parts_of_a_row_share_its_weight(path: Path) -> None:
    """Rows come by their weights, however many windows or events they have."""
    weights, n = [1.0, 5.0, 0.0, 2.0], 8_000
    sampling = gm.Weighted(weights, draws=n, seed=8)
    counts = Counter(w[:2] for w in seen(dataset(path, sampling=sampling)))
    for row, weight in enumerate(weights):
        for k in range(COUNTS[row]):
            share = weight / sum(weights) / COUNTS[row]
            assert abs(counts[row, k] - n * share) <= 5 * math.sqrt(n * share)
    # A row without events is never drawn, whatever its weight.
    sampling = gm.Weighted([1.0, 1, 1e9, 1], draws=90)
    drawn = [w[:2] for w in seen(dataset(path, ALL_EVENTS, sampling=sampling), "event")]
    numbers = [len(events) for events in EVENTS]
    assert drawn == oracle.part_draws([1.0, 1, 1e9, 1], numbers, 0, 0, 90)
    assert {row for row, _ in drawn} == {0, 1, 3}


@pytest.mark.parametrize("sampled", [False, True])
def test_an_event_that_comes_twice_has_crops_of_its_own(path: Path, sampled: bool) -> None:
    """The position in the epoch is one more word of the draw, behind the event's number."""
    if sampled:
        ds = dataset(path, ALL_EVENTS, sampling=gm.Weighted([1.0, 1, 1, 1], draws=30, seed=1))
    else:
        ds = dataset(path, ALL_EVENTS, rows=[1, 0, 1, 1])
    elements = list(ds)
    assert len(elements) == (30 if sampled else 7)
    length = round(0.02 * RATE)
    for position, element in enumerate(elements):
        row, number = int(element["row"]), int(element["event"])
        key = oracle.fnv1a(path.name)
        draw = oracle.hash_words(5, 0, key, row, number, position, 20)
        start, end = (round(second * RATE) for second in EVENTS[row][number])
        last = len(recording(row)) - length
        low = min(start, max(end - length, 0), last)
        high = min(max(start, end - length), last)
        first = low + (draw * (high - low + 1) >> 64)
        assert element["crop_start"] == first / RATE
        part = recording(row)[first : first + length, 0]
        assert element["audio"].tobytes() == part.tobytes()


@pytest.mark.parametrize("options", parquet_files.OPTIONS)
def test_parquet_has_the_same_parts(path: Path, tmp_path: Path, options: str) -> None:
    table = oracle.read_table(path)
    if "column_encoding" in parquet_files.OPTIONS[options]:
        table = table.append_column("name", pa.array(["a"] * len(table)))
    # The name decides random crops.
    written = parquet_files.write(tmp_path / path.name, table, **parquet_files.OPTIONS[options])
    same(seen(dataset(written)), naive(range(4)))
    events = seen(dataset(path, ALL_EVENTS), "event")
    assert len(events) == 4
    same(seen(dataset(written, ALL_EVENTS), "event"), events)


def test_an_index_is_that_of_a_row(path: Path) -> None:
    """So a source refuses what makes several elements of a row, and takes one event of each."""
    for crop in (WINDOWS, ALL_EVENTS):
        source = gm.ArrowDataSource([path], audio=gm.Audio("audio", crop=crop))
        with pytest.raises(ValueError, match="an index names a row"):
            len(source)
        with pytest.raises(ValueError, match="DecodeAudio makes one element of one"):
            gm.DecodeAudio(gm.Audio(crop=crop))
    crop = gm.EventCrop(pairs="pairs", seconds=0.02, seed=5)
    options: dict[str, Any] = {"columns": ["count"], "with_row_id": True, "with_crop": True}
    audio = gm.Audio("audio", crop=crop)
    source = gm.ArrowDataSource([path], audio=audio, on_error="mask", **options)
    stream = seen(gm.ArrowIterDataset([path], audio=audio, on_error="mask", **options), "event")
    same(seen(source, "event"), stream)
    assert len(stream) == 4


def test_windows_are_of_recordings_in_the_shards(path: Path, tmp_path: Path) -> None:
    audio = gm.Audio("audio", crop=WINDOWS, root=tmp_path)
    with pytest.raises(ValueError, match="windows of recordings in the shards"):
        next(iter(gm.ArrowIterDataset([path], audio=audio)))
