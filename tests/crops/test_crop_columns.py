"""Which part of a recording came, and which events are in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gristmill as gm
import shards
from signals import RATE, encode, synthetic

import oracle

SECONDS = [0.3, 1.0, 0.05, 0.5]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = [encode(synthetic(s, 44_100, 1, i), 44_100, "flac16") for i, s in enumerate(SECONDS)]
    return shards.write_audio(tmp_path_factory.mktemp("crops") / "crops.arrow", made)


@pytest.mark.parametrize("rate", [None, RATE])
@pytest.mark.parametrize("crop", [gm.StartCrop(0.2), gm.CenterCrop(0.2), gm.RandomCrop(0.2), None])
@pytest.mark.parametrize("batch_size", [4, None])
def test_what_came(path: Path, rate: int | None, crop: Any, batch_size: int | None) -> None:
    if batch_size and crop is None:
        pytest.skip("whole recordings of several lengths form no batch")
    audio = gm.Audio(sample_rate=rate, crop=crop)
    ds = gm.ArrowIterDataset(
        [path], columns=["audio"], audio=audio, batch_size=batch_size, with_crop=True
    )
    spec = ds._element_spec
    assert (spec["crop_start"].dtype, spec["crop_frames"].dtype) == (np.float64, np.int32)
    rows = list(ds)
    if batch_size:
        assert rows[0]["crop_start"].dtype == np.float64
        assert rows[0]["crop_frames"].dtype == np.int32
        rows = [{name: column[k] for name, column in rows[0].items()} for k in range(4)]
    data = oracle.read_table(path)["audio"].to_pylist()
    rate_hz = rate or 44_100
    for recording, row in zip(data, rows, strict=True):
        whole = gm.decode(recording["bytes"], sample_rate=rate)
        start = round(row["crop_start"] * rate_hz)
        assert row["crop_start"] == start / rate_hz
        part = whole[start : start + row["crop_frames"]]
        assert len(part) == row["crop_frames"]
        assert row["audio"][: len(part)].tobytes() == part.tobytes()
        assert not row["audio"][len(part) :].any()
        assert len(part) == min(len(whole), len(row["audio"]))


def test_repeated_frames_are_padding(path: Path) -> None:
    audio = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(0.4), pad="repeat")
    frames = [
        int(e["crop_frames"]) for e in gm.ArrowIterDataset([path], audio=audio, with_crop=True)
    ]
    assert frames == [9_600, 12_800, 1_600, 12_800]


def test_bad_rows_have_none(tmp_path: Path) -> None:
    data = encode(synthetic(1, RATE), RATE, "wav16")
    path = shards.write_audio(tmp_path / "bad.arrow", [b"noise", data])
    audio = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(0.5, seed=1))
    (batch,) = gm.ArrowIterDataset(
        [path], audio=audio, batch_size=2, on_error="mask", with_crop=True
    )
    assert batch["valid"].tolist() == [False, True]
    assert batch["crop_start"][0] == batch["crop_frames"][0] == 0
    assert batch["crop_frames"][1] == 16_000


def test_names_that_are_taken(tmp_path: Path) -> None:
    data = encode(synthetic(0.1, RATE), RATE, "wav16")
    fields = {"audio": shards.AUDIO, "crop_start": pa.int32()}
    rows = [{"audio": {"bytes": data, "path": ""}, "crop_start": 1}]
    path = shards.write(tmp_path / "x.arrow", rows, of=shards.schema(fields))
    with pytest.raises(gm.SchemaError, match="with_crop=True adds a column of this name"):
        next(iter(gm.ArrowIterDataset([path], with_crop=True)))
    assert next(iter(gm.ArrowIterDataset([path], with_crop=True, columns=["audio"])))
    with pytest.raises(ValueError, match="with_crop=True is about audio that is decoded"):
        next(iter(gm.ArrowIterDataset([path], with_crop=True, audio=None, columns=["audio"])))


# Events in crops.


def batch_of(crops: list[tuple[float, int]], **columns: Any) -> dict[str, Any]:
    start, frames = zip(*crops, strict=True)
    return {"crop_start": np.array(start), "crop_frames": np.array(frames, np.int32), **columns}


def objects(lists: list[Any], dtype: Any = np.float64) -> np.ndarray:
    out = np.empty(len(lists), object)
    out[:] = [np.array(item, dtype) for item in lists]
    return out


def test_events_at_the_edges() -> None:
    starts = [0.0, 0.5, 1.0, 1.4, 1.9, 2.0, 3.0, 0.0, 1.0, 2.0]
    ends = [1.0, 1.1, 2.0, 1.5, 2.5, 3.0, 4.0, 9.0, 1.0, 2.0]
    batch = batch_of([(1.0, 10)], start_time=objects([starts]), end_time=objects([ends]))
    found = gm.events_in(batch, sample_rate=10)
    expected = [False, True, True, True, True, False, False, True, True, False]
    assert found[0].tolist() == expected
    found = gm.events_in(batch, sample_rate=10, min_overlap=0.3)
    expected[1] = expected[4] = False  # 0.1 s of each; that of 0.1 s lies in the crop as a whole
    assert found[0].tolist() == expected
    # Padding holds no event.
    short = {**batch, "crop_frames": np.array([2], np.int32)}
    assert not gm.events_in(short, sample_rate=10)[0][4]
    masked = {**batch, "crop_frames": np.array([0], np.int32)}
    assert not gm.events_in(masked, sample_rate=10)[0].any()


@pytest.mark.parametrize("batch_size", [2, None])
@pytest.mark.parametrize("of", [{"pairs": "pairs"}, {}], ids=["pairs", "starts and ends"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": None, "start_time": [0.1, 0.2], "end_time": [0.3]},
        {"pairs": [[0.1], [0.3]], "start_time": None, "end_time": None},
        {"pairs": [None], "start_time": [None], "end_time": [0.3]},
    ],
)
def test_rows_that_are_masked_for_their_events(
    tmp_path: Path, wrong: dict[str, Any], of: dict[str, str], batch_size: int | None
) -> None:
    whole = encode(synthetic(1.0, 8000, seed=0), 8000, "wav16")
    right = {"pairs": [[0.1, 0.3]], "start_time": [0.1], "end_time": [0.3]}
    times = pa.list_(pa.float64())
    fields = {"audio": shards.AUDIO, "pairs": pa.list_(times), "label": pa.list_(pa.int64())}
    fields |= {"start_time": times, "end_time": times}
    rows = [{"audio": {"bytes": whole, "path": ""}, "label": [1], **one} for one in (right, wrong)]
    path = shards.write(tmp_path / "x.arrow", rows, of=pa.schema(list(fields.items())))
    dataset = gm.ArrowIterDataset(
        path,
        audio=gm.Audio("audio", 8000, crop=gm.EventCrop(**of, seconds=0.5)),
        batch_size=batch_size,
        on_error="mask",
        with_crop=True,
        fill_value=float("nan"),
    )
    labels = {"labels": "label", "num_classes": 2}
    found, targets = [], []
    for element in dataset:
        is_found = gm.events_in(element, sample_rate=8000, **of)
        target = gm.events_in(element, sample_rate=8000, **of, **labels)
        found += list(is_found) if batch_size else [is_found]
        targets += list(target) if batch_size else [target]
    assert found[0].tolist() == [True]
    assert not found[1].any()
    assert np.array_equal(targets, [[0, 1], [0, 0]])


def test_null_pairs_are_no_events_and_others_are_refused() -> None:
    def batch(*pairs: Any) -> dict[str, Any]:
        column = np.empty(len(pairs), object)
        column[:] = pairs
        crops = np.zeros(len(pairs)), np.full(len(pairs), 10, np.int32)
        return {"crop_start": crops[0], "crop_frames": crops[1], "pairs": column}

    options = {"sample_rate": 10, "pairs": "pairs"}
    found = gm.events_in(batch(None, [None, [0.1, 0.2]], []), **options)
    assert [one.tolist() for one in found] == [[], [False, True], []]
    for wrong in ([[0.1], [0.3]], [0.1, 0.3]):
        with pytest.raises(ValueError, match="'pairs' has an event of 1 numbers"):
            gm.events_in(batch(wrong), **options)


def test_labels_of_events_in_crops() -> None:
    columns = {
        "start_time": objects([[0.0, 1.2, 1.5], [], [5.0]]),
        "end_time": objects([[0.5, 1.4, 3.0], [], [6.0]]),
        "label": objects([[0, 1, 3], [], [2]], np.int64),
    }
    batch = batch_of([(1.0, 10), (0.0, 10), (0.0, 10)], **columns)
    targets = gm.events_in(batch, sample_rate=10, labels="label", num_classes=4)
    assert targets.dtype == np.float32
    assert targets.tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    pairs = np.empty(3, object)
    pairs[:] = [[[0.0, 0.5], [1.2, 1.4], [1.5, 3.0]], [], [[5.0, 6.0]]]
    same = gm.events_in(
        {**batch, "p": pairs}, sample_rate=10, pairs="p", labels="label", num_classes=4
    )
    assert same.tolist() == targets.tolist()
    one = {name: values[0] for name, values in batch.items()}
    single = gm.events_in(one, sample_rate=10, labels="label", num_classes=4)
    assert single.tolist() == targets[0].tolist()


def test_one_event_a_row() -> None:
    columns = {"s": np.array([1.0, 5.0]), "e": np.array([2.0, 6.0]), "label": np.array([1, 0])}
    batch = batch_of([(0.0, 20), (0.0, 20)], **columns)
    options = {"sample_rate": 10, "start": "s", "end": "e"}
    assert [m.tolist() for m in gm.events_in(batch, **options)] == [[True], [False]]
    targets = gm.events_in(batch, **options, labels="label", num_classes=2)
    assert targets.tolist() == [[0, 1], [0, 0]]


def test_nulls_are_events_in_no_crop(tmp_path: Path) -> None:
    data = encode(synthetic(1, RATE), RATE, "wav16")
    times = pa.list_(pa.float64())
    fields = {"audio": shards.AUDIO, "start": times, "end": times, "pairs": pa.list_(times)}
    fields |= {"label": pa.list_(pa.int64())}
    events: list[Any] = [[[0.1, 0.2], [0.3, 0.4]], None, [None, [0.1, 0.2]]]
    labels = [[0, 2], [], [0, 1]]
    rows = [
        {
            "audio": {"bytes": data, "path": ""},
            "start": of_row and [pair and pair[0] for pair in of_row],
            "end": of_row and [pair and pair[1] for pair in of_row],
            "pairs": of_row,
            "label": label,
        }
        for of_row, label in zip(events, labels, strict=True)
    ]
    path = shards.write(tmp_path / "null.arrow", rows, of=shards.schema(fields))
    audio = gm.Audio("audio", sample_rate=RATE, crop=gm.StartCrop(1))
    nan = {"start": np.nan, "end": np.nan}
    ds = gm.ArrowIterDataset([path], audio=audio, batch_size=3, fill_value=nan, with_crop=True)
    (batch,) = ds
    singles = list(gm.ArrowIterDataset([path], audio=audio, with_crop=True))
    for columns in ({"pairs": "pairs"}, {"start": "start", "end": "end"}):
        options: dict[str, Any] = {"sample_rate": RATE, **columns}
        found = [mask.tolist() for mask in gm.events_in(batch, **options)]
        assert found == [[True, True], [], [False, True]]
        assert [gm.events_in(row, **options).tolist() for row in singles] == found
        targets = gm.events_in(batch, **options, labels="label", num_classes=3)
        assert targets.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    for pair in ([0.1], [0.1, 0.2, 0.3]):
        wrong = {**singles[0], "pairs": [[0.1, 0.2], pair]}
        with pytest.raises(ValueError, match=rf"'pairs' has an event of {len(pair)} numbers"):
            gm.events_in(wrong, sample_rate=RATE, pairs="pairs")


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=6),
    st.integers(0, 40),
    st.integers(0, 20),
)
def test_any_events(events: list[tuple[int, int]], first: int, frames: int) -> None:
    """In tenths of seconds: an event is in the crop if one of its frames is."""
    starts, ends = [a / 10 for a, _ in events], [(a + n) / 10 for a, n in events]
    batch = batch_of([(first / 10, frames)], start_time=objects([starts]), end_time=objects([ends]))
    found = gm.events_in(batch, sample_rate=10)[0].tolist()
    crop = set(range(first, first + frames))
    assert found == [bool(crop & set(range(a, a + max(n, 1)))) for a, n in events]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sample_rate": 0}, "sample_rate is an integer of at least 1"),
        ({"start": "gone"}, "the batch has no column 'gone'"),
        ({"labels": "label"}, "labels and num_classes go together"),
        (
            {"labels": "label", "num_classes": 1},
            "has the label 1, which is no class id from 0 to 0",
        ),
        ({"labels": "few", "num_classes": 2}, "has 1 labels for the 2 events"),
        ({"min_overlap": -1}, "min_overlap is a number from 0"),
    ],
)
def test_wrong_options(options: dict[str, Any], told: str) -> None:
    columns = {"label": objects([[0, 1]], np.int64), "few": objects([[0]], np.int64)}
    times = {"start_time": objects([[0.0, 0.1]]), "end_time": objects([[1.0, 1.0]])}
    with pytest.raises(ValueError, match=told):
        gm.events_in(batch_of([(0.0, 10)], **times, **columns), **{"sample_rate": 10, **options})
    with pytest.raises(ValueError, match="with_crop=True adds it"):
        gm.events_in(times, sample_rate=10)
