"""Class labels that mean different classes in different shards are refused, never mixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gristmill as gm


def shard(path: Path, features: dict[str, Any] | None, labels: Any = (0, 1)) -> Path:
    column = pa.array(labels, pa.list_(pa.int64()) if isinstance(labels[0], list) else pa.int64())
    schema = pa.schema([("label", column.type), ("n", pa.int32())])
    if features is not None:
        schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    batch = pa.record_batch([column, pa.array(range(len(column)), pa.int32())], schema=schema)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return path


def label(*names: str) -> dict[str, Any]:
    return {"names": list(names), "_type": "ClassLabel"}


OTHER_ORDER = {"label": label("crow", "wren")}
CASES: dict[str, tuple[Any, Any, Any]] = {
    "another order": ({"label": label("wren", "crow")}, OTHER_ORDER, (0, 1)),
    "another name": ({"label": label("wren", "crow")}, {"label": label("wren", "rook")}, (0, 1)),
    "one more": ({"label": label("wren", "crow")}, {"label": label("wren", "crow", "owl")}, (0, 1)),
    "in a list": (
        {"label": {"feature": label("wren", "crow"), "_type": "List"}},
        {"label": {"feature": label("crow", "wren"), "_type": "List"}},
        ([0, 1], [1]),
    ),
    "in a list as older versions write it": (
        {"label": [label("wren", "crow")]},
        {"label": [label("crow", "wren")]},
        ([0, 1], [1]),
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_other_classes_are_refused_with_both_lists(tmp_path: Path, case: str) -> None:
    one, other, labels = CASES[case]
    paths = [
        shard(tmp_path / "a.arrow", one, labels),
        shard(tmp_path / "b.arrow", one, labels),
        shard(tmp_path / "c.arrow", other, labels),
    ]
    with pytest.raises(gm.SchemaError, match="different classes") as caught:
        next(iter(gm.ArrowIterDataset(paths)))
    assert caught.value.column == "label"
    message = str(caught.value)
    assert all(name in message for name in ("a.arrow", "c.arrow", '0: "wren"', "1:"))
    # What is not asked for may differ.
    assert len(list(gm.ArrowIterDataset(paths, columns=["n"]))) == 6


def test_a_long_list_is_shown_from_its_first_difference(tmp_path: Path) -> None:
    names = [f"species-{k}" for k in range(400)]
    swapped = [*names[:300], names[301], names[300], *names[302:]]
    paths = [
        shard(tmp_path / "a.arrow", {"label": label(*names)}),
        shard(tmp_path / "b.arrow", {"label": label(*swapped)}),
    ]
    with pytest.raises(gm.SchemaError) as caught:
        next(iter(gm.ArrowIterDataset(paths)))
    message = str(caught.value)
    assert '300: "species-300"' in message
    assert '300: "species-301"' in message
    assert "species-7" not in message
    assert len(message) < 1_000


def test_the_same_classes_and_shards_without_names_are_read(tmp_path: Path) -> None:
    same = {"label": label("wren", "crow")}
    paths = [
        shard(tmp_path / "a.arrow", None),
        shard(tmp_path / "b.arrow", same),
        shard(tmp_path / "c.arrow", {"label": {"num_classes": 2, "_type": "ClassLabel"}}),
        shard(tmp_path / "d.arrow", {"n": {"dtype": "int32", "_type": "Value"}, **same}),
    ]
    assert len(list(gm.ArrowIterDataset(paths))) == 8
