"""Batches of fixed shapes: cut lists, classes as 0 and 1, a padded last batch; and class names."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from rounds import rounds
from signals import RATE, encode, synthetic

NAMES = ["wren", "crow", "kite", "dove", "swan"]
CLASS = {"names": NAMES, "_type": "ClassLabel"}
FEATURES = {
    "label": CLASS,
    "labels": {"feature": CLASS, "_type": "List"},
    "old": [CLASS],
    "place": {"kind": CLASS},
    "count": {"dtype": "int32", "_type": "Value"},
}


def write(path: Path, columns: dict[str, pa.Array], *, features: bool = True) -> Path:
    table = pa.table(columns)
    if features:
        table = shards.with_features(table, {n: FEATURES[n] for n in columns if n in FEATURES})
    return shards.write_table(path, table, 3)


# Lists cut or padded to a length.


@settings(max_examples=rounds(60), deadline=None)
@given(
    lists=st.lists(st.lists(st.integers(-5, 5), max_size=9), min_size=1, max_size=8),
    width=st.integers(1, 10),
    fill=st.none() | st.integers(-9, 9),
)
def test_lists_of_one_length(
    tmp_path_factory: pytest.TempPathFactory,
    lists: list[list[int]],
    width: int,
    fill: int | None,
) -> None:
    path = write(
        tmp_path_factory.mktemp("x") / "x.arrow", {"x": pa.array(lists, pa.list_(pa.int32()))}
    )
    ds = gm.ArrowIterDataset([path], batch_size=3, ragged={"x": width}, fill_value=fill)
    got = list(ds)
    x = np.concatenate([b["x"] for b in got])
    assert {b["x"].shape[1:] for b in got} == {(width,)}
    assert x.tolist() == [(row + [fill or 0] * width)[:width] for row in lists]
    lengths = np.concatenate([b["x_lengths"] for b in got])
    assert (lengths.dtype, lengths.tolist()) == (np.int32, [min(len(row), width) for row in lists])


def test_lists_in_lists_keep_their_own_length(tmp_path: Path) -> None:
    lists = [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]]
    path = write(tmp_path / "x.arrow", {"x": pa.array(lists)})
    ds = gm.ArrowIterDataset([path], batch_size=2, ragged=2)
    (batch,) = ds
    assert batch["x"].tolist() == [[[1, 2], [0, 0]], [[3, 4], [5, 6]]]
    assert batch["x_lengths"].tolist() == [1, 2]
    spec = ds._element_spec
    assert spec["x"].shape[-2:] == (2, None)
    assert (
        gm.ArrowIterDataset([path], batch_size=2, ragged={"x": 5})._element_spec["x"].shape[1] == 5
    )


# Classes as 0 and 1.


def hot(lists: list[list[int]], n: int = len(NAMES)) -> list[list[int]]:
    return [[int(k in row) for k in range(n)] for row in lists]


LISTS = [[0], [], [4, 1, 4], [2, 3], [1], [0, 1, 2, 3, 4], [3]]


def text(kind: pa.DataType) -> pa.Array:
    return pa.array([[NAMES[k] for k in row] for row in LISTS], pa.list_(kind))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(LISTS, pa.list_(pa.int64())),
        pa.array(LISTS, pa.large_list(pa.uint8())),
        pa.array(LISTS, pa.list_(pa.int16())),
        text(pa.string()),
        text(pa.large_string()),
        text(pa.string_view()),
        text(pa.dictionary(pa.int8(), pa.string())),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("batch_size", [3, None])
def test_classes_are_0_and_1(tmp_path: Path, column: pa.Array, batch_size: int | None) -> None:
    path = write(tmp_path / "x.arrow", {"labels": column})
    ds = gm.ArrowIterDataset([path], batch_size=batch_size, multi_hot=["labels"])
    found = [e["labels"] for e in ds]
    assert {array.dtype for array in found} == {np.dtype(np.float32)}
    rows = np.concatenate(found) if batch_size else np.stack(found)
    assert rows.tolist() == hot(LISTS)
    spec = ds._element_spec["labels"]
    assert (spec.shape[-1], spec.dtype) == (5, np.float32)


def test_classes_are_given_or_of_the_features(tmp_path: Path) -> None:
    columns = {"label": pa.array([3, 0]), "old": pa.array([[1], [2, 0]])}
    path = write(tmp_path / "x.arrow", columns)
    (batch,) = gm.ArrowIterDataset([path], batch_size=2, multi_hot=["label", "old"])
    assert batch["label"].tolist() == hot([[3], [0]])  # one class a row
    assert batch["old"].tolist() == hot([[1], [2, 0]])
    bare = write(tmp_path / "bare.arrow", columns, features=False)
    given = {"label": 4, "old": ["a", "b", "c"]}
    ds = gm.ArrowIterDataset([bare], batch_size=2, multi_hot=given)
    (batch,) = ds
    assert batch["label"].tolist() == hot([[3], [0]], 4)
    assert batch["old"].tolist() == hot([[1], [2, 0]], 3)
    assert ds.class_names("old") == ("a", "b", "c")


@pytest.mark.parametrize(
    ("column", "multi_hot", "told"),
    [
        (pa.array([[0], [5]]), ["labels"], "row 1.*5 is no class id: multi_hot= has 5 classes"),
        (pa.array([[0], [-1]]), ["labels"], "row 1.*-1 is no class id"),
        (pa.array([[0], None]), ["labels"], "row 1.*a null is no class"),
        (pa.array([[0], [1, None]]), ["labels"], "row 1.*a null is no class"),
        (pa.array([["owl"]]), ["labels"], "'labels'.*\"owl\" is none of the 5 classes"),
        (pa.array([["wren"]]), {"labels": 5}, "needs the classes' names"),
        (pa.array([[0.5]]), ["labels"], "takes lists of class ids or of names"),
        (pa.array([[0]]), {"labels": ["a", "a"]}, 'the class "a" twice'),
        (pa.array([[0]]), ["gone"], "multi_hot names this column"),
        (pa.array([[0]]), ["other"], "do not tell the classes of this column"),
    ],
)
@pytest.mark.parametrize("batch_size", [2, None])
def test_what_is_no_class(
    tmp_path: Path, column: pa.Array, multi_hot: Any, told: str, batch_size: int | None
) -> None:
    path = write(tmp_path / "x.arrow", {"labels": column, "other": pa.array([1] * len(column))})
    with pytest.raises(gm.SchemaError, match=told):
        list(gm.ArrowIterDataset([path], batch_size=batch_size, multi_hot=multi_hot))


# A last batch of full shape.


def ids(batch: dict[str, Any]) -> list[tuple[int, int]]:
    rows = list(zip(batch["shard"].tolist(), batch["row"].tolist(), strict=True))
    return [row for row, valid in zip(rows, batch["valid"], strict=True) if valid]


@pytest.mark.parametrize("batch_size", [1, 7, 16, 40, 64])
@pytest.mark.parametrize("shuffle", [None, gm.Shuffle(3)], ids=str)
@pytest.mark.parametrize("columns", [["count", "name"], ["audio", "count"]], ids=str)
def test_the_last_batch_is_full(
    numbered: list[Path], batch_size: int, shuffle: gm.Shuffle | None, columns: list[str]
) -> None:
    audio = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(0.01)) if "audio" in columns else None
    options = {"columns": columns, "audio": audio, "shuffle": shuffle, "with_row_id": True}
    ds = gm.ArrowIterDataset(numbered, batch_size=batch_size, remainder="pad", **options)
    whole = [(int(e["shard"]), int(e["row"])) for e in gm.ArrowIterDataset(numbered, **options)]
    it = iter(ds)
    batches = list(it)
    assert [row for batch in batches for row in ids(batch)] == whole
    assert len(batches) == -(-40 // batch_size)
    for batch in batches:
        assert {len(values) for values in batch.values()} == {batch_size}
        if audio is not None:
            assert batch["audio"].shape == (batch_size, 320)
            assert not batch["audio"][~batch["valid"]].any()
    assert ds._element_spec["valid"].shape == (batch_size,)
    # The state of the end is that of any other run.
    assert it.get_state()["epoch"] == 1
    other = iter(ds)
    other.set_state(it.get_state())
    assert list(other) == []


def test_what_pads_keeps_the_columns(numbered: list[Path]) -> None:
    """Encoded audio is null, and other columns repeat a row of the data."""
    ds = gm.ArrowIterDataset(numbered[:1], audio=None, batch_size=8, remainder="pad")
    last = list(ds)[-1]
    assert last["valid"].tolist() == [True] * 3 + [False] * 5
    assert all(data is None for data in last["audio"]["bytes"][3:])
    assert set(last["count"][3:].tolist()) == {7}


def test_whole_recordings_and_crop_columns(tmp_path: Path) -> None:
    data = encode(synthetic(0.01, RATE), RATE, "wav16")
    path = shards.write_audio(tmp_path / "x.arrow", [data] * 3)
    ds = gm.ArrowIterDataset(
        [path], columns=["audio"], batch_size=2, remainder="pad", with_crop=True
    )
    first, last = ds
    assert first["crop_frames"].tolist() == [320, 320]
    assert last["audio"].shape == (2, 320)
    assert not last["audio"][1].any()
    assert last["crop_frames"].tolist() == [320, 0]


@pytest.mark.parametrize("n_hosts", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("batch_size", [2, 3, 10])
def test_hosts_deliver_equally_many(numbered: list[Path], n_hosts: int, batch_size: int) -> None:
    def hosts(n: int) -> list[Any]:
        return [
            iter(
                gm.ArrowIterDataset(
                    numbered[2:3],  # nine rows
                    audio=None,
                    columns=["count"],
                    batch_size=batch_size,
                    remainder="pad",
                    shuffle=gm.Shuffle(1),
                    with_row_id=True,
                    shard_options=grain.sharding.ShardOptions(k, n),
                )
            )
            for k in range(n)
        ]

    them = hosts(n_hosts)
    parts = [list(it) for it in them]
    most = math.ceil(9 / n_hosts)
    assert {len(part) for part in parts} == {math.ceil(most / batch_size)}
    rows = [row for part in parts for batch in part for row in ids(batch)]
    assert sorted(rows) == [(0, row) for row in range(9)]
    assert len({json.dumps({**it.get_state(), "hosts": 0}) for it in them}) == 1
    # From the middle, on another number of hosts.
    them = hosts(n_hosts)
    first = [row for it in them for row in ids(next(it))]
    others = hosts(2)
    for it in others:
        it.set_state(them[0].get_state())
    rest = [list(it) for it in others]
    assert len({len(part) for part in rest}) == 1
    assert sorted(first + [row for p in rest for b in p for row in ids(b)]) == sorted(rows)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"remainder": "fill"}, "remainder is one of 'keep', 'drop', 'pad', not 'fill'"),
        ({"remainder": "pad"}, "write batch_size=64 too"),
        ({"remainder": "pad", "drop_remainder": True, "batch_size": 2}, "one of the two"),
        ({"remainder": "pad", "on_error": "skip", "batch_size": 2}, "write on_error='mask'"),
        ({"ragged": 0}, "ragged is an integer from 1"),
        ({"ragged": {"x": "cut"}}, "ragged is one of"),
        ({"multi_hot": "labels"}, r"multi_hot is a list of names: write multi_hot=\['labels'\]"),
        ({"multi_hot": {"labels": 0}}, "multi_hot is an integer from 1"),
        ({"multi_hot": {"labels": 2.5}}, "multi_hot is a list of names, not 2.5"),
    ],
)
def test_wrong_options(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        gm.ArrowIterDataset("x.arrow", **options)


def test_remainder_is_also_called_drop(numbered: list[Path]) -> None:
    options: dict[str, Any] = {"audio": None, "columns": ["count"], "batch_size": 7}
    drop = gm.ArrowIterDataset(numbered, remainder="drop", **options)
    assert [len(b["count"]) for b in drop] == [7] * 5
    assert "remainder='drop'" in repr(drop)
    assert "remainder='pad'" in repr(gm.ArrowIterDataset("x", batch_size=2, remainder="pad"))


# What the shards tell about their columns.


def test_features_and_class_names(tmp_path: Path) -> None:
    place = pa.array([{"kind": 0}])
    columns = {"label": pa.array([0]), "labels": pa.array([[0]]), "place": place}
    path = write(tmp_path / "x.arrow", {**columns, "count": pa.array([0])})
    ds = gm.ArrowIterDataset([path])
    assert ds.features == {n: FEATURES[n] for n in (*columns, "count")}
    assert gm.ArrowIterDataset([path], columns=["count"]).features == {"count": FEATURES["count"]}
    for column in ("label", "labels", "place.kind"):
        assert ds.class_names(column) == tuple(NAMES)
    for column in ("count", "gone", "place", "label.x"):
        with pytest.raises(gm.SchemaError, match="they have those of 'label', 'labels'") as caught:
            ds.class_names(column)
        assert caught.value.column == column
    bare = gm.ArrowIterDataset(write(tmp_path / "bare.arrow", columns, features=False))
    assert bare.features == {}
    with pytest.raises(gm.SchemaError, match="none at all"):
        bare.class_names("label")


def test_features_are_those_of_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    path = write(tmp_path / "x.arrow", {"label": pa.array([0]), "labels": pa.array([[0]])})
    features = datasets.Features.from_dict(gm.ArrowIterDataset([path]).features)
    assert features["label"].names == NAMES
