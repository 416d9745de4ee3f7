"""What `help` shows: every public name has a docstring, and every attribute is there for users."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import pytest

import gristmill as gm

PUBLIC = sorted(set(gm.__all__) - {"__version__"})
CLASSES = [name for name in PUBLIC if inspect.isclass(getattr(gm, name))]

# Of the classes that users meet first: another attribute is a decision, and comes here too.
OWN = {
    "ArrowDataSource": {"at_epoch", "bad_rows", "close", "epoch", "paths"},
    "DecodeAudio": {"audio", "key"},
    "ArrowIterDataset": {
        "class_names",
        "features",
        "rows_per_epoch",
        "set_slice",
        "steps_per_epoch",
    },
    "ArrowIterator": {
        "bad_rows",
        "close",
        "damaged_rows",
        "get_shard_states",
        "get_state",
        "set_shard_states",
        "set_state",
        "start_prefetch",
        "stats",
        "verdict",
    },
    "RandomCrop": {"seconds", "seed"},
    "Shuffle": {"seed", "window", "streams", "reshuffle_each_epoch"},
    "Scan": {"quarantine", "report", "run"},
    "PerSource": {"sources"},
    "QuarantineFile": {"append", "close"},
}


def own(kind: type) -> dict[str, Any]:
    """The public attributes that gristmill's classes define, Grain's and Python's left out."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("gristmill"):
            continue
        found |= dict.fromkeys(inspect.get_annotations(base))
        found |= vars(base)
    if is_dataclass(kind):
        found |= {field.name: None for field in fields(kind)}
    return {name: value for name, value in found.items() if not name.startswith("_")}


def documented(kind: type) -> set[str]:
    """The names that the class docstrings list, each with a sentence."""
    docs = "\n".join(
        inspect.cleandoc(base.__doc__ or "")
        for base in kind.__mro__
        if base.__module__.startswith("gristmill")
    )
    return set(re.findall(r"^ +(\w+): \S", docs, re.MULTILINE))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_has_a_docstring(name: str) -> None:
    doc = inspect.getdoc(getattr(gm, name)) or ""
    assert doc.endswith((".", ")", "`", "}")) or "\n" in doc, name
    assert len(doc) > 20, name


@pytest.mark.parametrize("name", CLASSES)
def test_every_attribute_has_a_docstring(name: str) -> None:
    kind = getattr(gm, name)
    missing = []
    for attribute, value in own(kind).items():
        is_method = isinstance(value, (property, classmethod, staticmethod, FunctionType))
        if not (is_method and value.__doc__) and attribute not in documented(kind):
            missing.append(attribute)
    assert missing == []


@pytest.mark.parametrize("name", OWN)
def test_the_attributes_are_those_for_users(name: str) -> None:
    attributes = set(own(getattr(gm, name)))
    if name == "Scan":
        attributes.add("quarantine")  # set by __init__, and documented there
    assert attributes == OWN[name]
