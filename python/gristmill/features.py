"""What Hugging Face `datasets` wrote about the columns of shards."""

from __future__ import annotations

import json
from typing import Any, cast

from gristmill.errors import SchemaError

Features = dict[str, Any]


def features_of(metadata: str | None) -> Features:
    """The features by column, from the schema's metadata; empty where there are none."""
    try:
        read: object = json.loads(metadata or "null")
    except ValueError:
        return {}
    return _dictionary(_dictionary(_dictionary(read).get("info")).get("features"))


def class_names(features: Features, column: str, shard: str) -> tuple[str, ...]:
    """The names of a column's classes, in the order of their ids.

    Raises:
        SchemaError: The features have none for this column.
    """
    feature: object = features
    for name in column.split("."):
        feature = _items(_dictionary(feature).get(name))
    label = _dictionary(feature)
    names = label.get("names")
    if label.get("_type") == "ClassLabel" and isinstance(names, list):
        return tuple(map(str, cast("list[object]", names)))
    have = [name for name, of in features.items() if _is_label(of)]
    told = f"they have those of {', '.join(map(repr, have))}" if have else "they have none at all"
    raise SchemaError(
        f"the features of {shard} tell no class names for column {column!r}; {told}", column=column
    )


def _dictionary(value: object) -> Features:
    """The value itself if it is a dictionary; an empty one for anything else."""
    return cast("Features", value) if isinstance(value, dict) else {}


def _items(feature: object) -> object:
    """The feature of a list's items, at any depth."""
    while True:
        inner = _dictionary(feature).get("feature") if "_type" in _dictionary(feature) else None
        if isinstance(feature, list) and len(cast("list[object]", feature)) == 1:
            inner = cast("list[object]", feature)[0]
        if inner is None:
            return cast("object", feature)
        feature = inner


def _is_label(feature: object) -> bool:
    return _dictionary(_items(feature)).get("_type") == "ClassLabel"
