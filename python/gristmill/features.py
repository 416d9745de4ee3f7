"""What Hugging Face `datasets` wrote about the columns of shards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from gristmill.errors import SchemaError

Features = dict[str, Any]

_FAMILIES: Final = (
    ("int8", "int16", "int32", "int64"),
    ("uint8", "uint16", "uint32", "uint64"),
    ("float16", "float32", "float64"),
    ("string", "string_view", "large_string"),
    ("binary", "binary_view", "large_binary"),
    ("List", "LargeList"),
)
"""Types that become the last of them that shards have; `docs/columns.md` has the rules."""


def features_of(metadata: str | None) -> Features:
    """The features by column, from the schema's metadata; empty where there are none."""
    try:
        read: object = json.loads(metadata or "null")
    except (ValueError, RecursionError):
        return {}
    return _dictionary(_dictionary(_dictionary(read).get("info")).get("features"))


def joined_features(
    metadata: Sequence[str], columns: Sequence[str], names: Mapping[str, list[str]]
) -> Features:
    """The features of shards that have this metadata, some of them none.

    Of metadata that differs: the features of the columns that all shards have, with these class
    names by dotted path, and with the types that hold the values of all.
    """
    read = [features for text in metadata if (features := features_of(text))]
    if not read or all(features == read[0] for features in read):
        return read[0] if read else {}
    named = {name for features in read for name in features}
    order = [name for name in read[0] if name in columns]
    order += [name for name in columns if name in named and name not in read[0]]
    joined: Features = {}
    for name in order:
        first, *others = (features[name] for features in read if name in features)
        for other in others:
            first = _common(first, other)
        joined[name] = _with_names(first, name, names)
    return joined


def _common(a: object, b: object) -> object:
    """The feature that holds the values of both; `a` where they say nothing about that."""
    left, right = _dictionary(a), _dictionary(b)
    if isinstance(a, list) and isinstance(b, list):
        pairs = zip(cast("list[object]", a), cast("list[object]", b), strict=False)
        return [_common(left, right) for left, right in pairs]
    if not left or not right:
        return cast("object", a if left or isinstance(a, list) else b)
    if left.get("dtype") == "null":
        return b
    joined = {name: _common(of, right.get(name)) for name, of in left.items()}
    joined |= {"names": left["names"]} if "names" in left else {}
    for key in ("dtype", "_type"):
        both = (left.get(key), right.get(key))
        for family in _FAMILIES:
            if both[0] != both[1] and all(name in family for name in both):
                wide = family[-1] if "string" in family or "binary" in family else None
                joined[key] = wide or max(both, key=family.index)
    return joined


def _with_names(feature: object, path: str, names: Mapping[str, list[str]]) -> object:
    """The feature with the class names of all shards."""
    if isinstance(feature, list):
        return [_with_names(item, path, names) for item in cast("list[object]", feature)]
    fields = _dictionary(feature)
    if fields.get("_type") == "ClassLabel":
        return {**fields, "names": names[path]} if path in names else feature
    if "_type" not in fields:
        return {k: _with_names(v, f"{path}.{k}", names) for k, v in fields.items()} or feature
    if "feature" in fields:
        return {**fields, "feature": _with_names(fields["feature"], path, names)}
    return feature


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
