"""Fields of structs and of lists of structs as columns, by their dotted paths."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
import shards
from signals import encode, synthetic

RATE = 16_000
EVENTS = [
    [(0.1, 0.2, 1), (0.3, 0.35, 0)],
    [(0.05, 0.15, 2)],
    [(0.2, 0.25, 1), (0.25, 0.3, 2), (0.31, 0.32, 0)],
]
RECORDINGS = [encode(synthetic(0.5, RATE, 1, i), RATE, "wav16") for i in range(len(EVENTS))]
FIELDS = {"start": pa.float64(), "end": pa.float64(), "label": pa.int64()}
RECORD = pa.struct(list(FIELDS.items()))
LISTS = pa.struct([(name, pa.list_(of)) for name, of in FIELDS.items()])
LABEL = {"names": ["wren", "crow", "owl"], "_type": "ClassLabel"}


def table(kind: str, events: list[list[tuple[float, float, int]]] = EVENTS) -> pa.Table:
    """Events as `List({...})` or as the older `Sequence({...})` of `datasets` writes them."""
    records = [[dict(zip(FIELDS, event, strict=True)) for event in row] for row in events]
    if kind == "lists of structs":
        column = pa.array(records, pa.list_(RECORD))
        feature: Any = [{"start": {"_type": "Value"}, "label": LABEL}]
    else:
        rows = [{name: [event[name] for event in row] for name in FIELDS} for row in records]
        column = pa.array(rows, LISTS)
        feature = {"label": {"feature": LABEL, "_type": "List"}}
    audio = [{"bytes": data, "path": None} for data in RECORDINGS[: len(events)]]
    features = {"audio": {"_type": "Audio"}, "ev": feature}
    made = pa.table({"audio": pa.array(audio, shards.AUDIO), "ev": column})
    return made.replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )


@pytest.fixture(params=["lists of structs", "structs of lists"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["arrow", "zstd", "parquet"])
def shard(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Path:
    path = tmp_path / f"nested.{request.param}"
    if request.param == "parquet":
        pq.write_table(table(kind), path)
        return path
    compression = "zstd" if request.param == "zstd" else None
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(path, table(kind).schema, options=options) as out:
        out.write_table(table(kind), max_chunksize=2)
    return path


def test_fields_are_columns_of_their_own(shard: Path) -> None:
    rows = list(gm.ArrowIterDataset(shard, columns=["ev.label", "ev.start"]))
    assert [list(row) for row in rows] == [["ev.label", "ev.start"]] * 3
    for row, events in zip(rows, EVENTS, strict=True):
        assert row["ev.label"].dtype == np.int64
        assert row["ev.label"].tolist() == [label for _, _, label in events]
        assert row["ev.start"].tolist() == [start for start, _, _ in events]
    (batch,) = gm.ArrowIterDataset(shard, columns=["ev.end"], ragged={"ev.end": 2}, batch_size=3)
    assert batch["ev.end"].tolist() == [[0.2, 0.35], [0.15, 0.0], [0.25, 0.3]]
    assert batch["ev.end_lengths"].tolist() == [2, 1, 2]
    whole = next(iter(gm.ArrowIterDataset(shard, columns=["ev", "ev.end"])))
    assert list(whole) == ["ev", "ev.end"]
    source = gm.ArrowDataSource(shard, columns=["ev.label"])
    assert source[2]["ev.label"].tolist() == [1, 2, 0]


def test_classes_of_fields(shard: Path) -> None:
    dataset = gm.ArrowIterDataset(shard, multi_hot=["ev.label"], batch_size=3)
    expected = np.zeros((3, 3), np.float32)
    for row, events in enumerate(EVENTS):
        expected[row, [label for _, _, label in events]] = 1
    (batch,) = dataset
    np.testing.assert_array_equal(batch["ev.label"], expected)
    assert "ev" in batch
    assert dataset.class_names("ev.label") == ("wren", "crow", "owl")
    (batch,) = gm.ArrowIterDataset(
        shard, columns=["ev.label"], multi_hot={"ev.label": 4}, batch_size=3
    )
    assert batch["ev.label"].shape == (3, 4)


@pytest.mark.parametrize("columns", [None, ["audio", "ev.start", "ev.end", "ev.label"]])
def test_events_of_fields(shard: Path, columns: list[str] | None) -> None:
    crop = gm.EventCrop(start="ev.start", end="ev.end", seconds=0.1, place="center", pick="all")
    dataset = gm.ArrowIterDataset(
        shard,
        columns=columns,
        audio=gm.Audio("audio", sample_rate=RATE, crop=crop),
        with_crop=True,
        batch_size=6,
    )
    (batch,) = dataset
    flat = [(row, event) for row, events in enumerate(EVENTS) for event in events]
    middles = [(event[0] + event[1]) / 2 for _, event in flat]
    np.testing.assert_allclose(batch["crop_start"], np.array(middles) - 0.05, atol=1 / RATE)
    given: dict[str, Any] = {"sample_rate": RATE, "start": "ev.start", "end": "ev.end"}
    masks = gm.events_in(batch, **given)
    targets = gm.events_in(batch, **given, labels="ev.label", num_classes=3)
    for (row, _), start, mask, target in zip(
        flat, batch["crop_start"], masks, targets, strict=True
    ):
        within = [b > start and a < start + 0.1 for a, b, _ in EVENTS[row]]
        assert mask.tolist() == within
        labels = {event[2] for event, is_in in zip(EVENTS[row], within, strict=True) if is_in}
        assert set(np.flatnonzero(target).tolist()) == labels


def test_nulls_around_a_field_are_its_nulls(tmp_path: Path) -> None:
    inner = pa.struct([("b", pa.int32()), ("c", pa.string())])
    rows = [{"a": {"b": 1, "c": "x"}}, {"a": None}, None, {"a": {"b": None, "c": "y"}}]
    column = pa.array(rows, pa.struct([("a", inner)]))
    path = tmp_path / "nulls.arrow"
    shards.write_table(path, pa.table({"s": column}))
    given = list(gm.ArrowIterDataset(path, columns=["s.a.b", "s.a.c"]))
    assert [(row["s.a.b"], row["s.a.c"]) for row in given] == [
        (1, "x"),
        (None, None),
        (None, None),
        (None, "y"),
    ]


def test_a_columns_own_name_may_have_dots(tmp_path: Path) -> None:
    made = pa.table({"a": [{"b": 1}], "a.b": [2], "c.d": [{"e": 3}]})
    path = tmp_path / "dots.arrow"
    shards.write_table(path, made)
    (row,) = gm.ArrowIterDataset(path, columns=["a.b", "c.d.e"])
    assert (row["a.b"], row["c.d.e"]) == (2, 3)
    with pytest.raises(gm.SchemaError, match="no such column"):
        next(iter(gm.ArrowIterDataset(path, columns=["a.x"])))


def test_fields_beside_encoded_audio(shard: Path) -> None:
    assert next(iter(gm.ArrowIterDataset(shard, columns=["audio.path"]))) == {"audio.path": None}
    with pytest.raises(gm.SchemaError, match="come with their column"):
        next(iter(gm.ArrowIterDataset(shard, columns=["audio.bytes"])))


def test_class_ids_of_fields_are_those_of_all_shards(kind: str, tmp_path: Path) -> None:
    other = table(kind, [[(0.1, 0.2, 0)]])
    features = other.schema.metadata[b"huggingface"].replace(b'"wren", "crow", "owl"', b'"owl"')
    other = other.replace_schema_metadata({"huggingface": features})
    for name, one in (("a", table(kind)), ("b", other)):
        shards.write_table(tmp_path / f"{name}.arrow", one)
    rows = list(gm.ArrowIterDataset(tmp_path, columns=["ev.label", "ev", "ev.start"]))
    assert rows[3]["ev.label"].tolist() == [2]
    assert label(rows[3]) == 2
    paths = (tmp_path / "a.arrow", tmp_path / "b.arrow")
    data_sets = [gm.ArrowIterDataset(path, columns=["ev.label", "ev"]) for path in paths]
    mixed = gm.Mixture(data_sets, weights=[0.5, 0.5])
    found = {(row["ev.label"][0], label(row)) for row in itertools.islice(mixed, 8)}
    assert found == {(1, 1), (2, 2)}


def label(row: dict[str, Any]) -> int:
    """The first label in the whole column."""
    events = row["ev"]
    return events["label"][0] if isinstance(events, dict) else events[0]["label"]
