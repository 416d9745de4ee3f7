"""Options reach the core by the names of their attributes, and it reads each of them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import pytest

import gristmill as gm
from gristmill import _core
from gristmill.dataset import options_of
from gristmill.mixture import mixture_options_of

# What the core is not told, or in other words: with `Start`, or never.
PYTHONS = {
    "BatchOptions": {"allow_changed"},
    "BadRowPolicy": {"max_bad_rows", "quarantine"},
    "ReadOptions": {"log_every_seconds"},
}


class Seen:
    """Stands for a group of options, and notes which of them are read."""

    def __init__(self, group: Any, read: dict[type, set[str]], lacks: str = "") -> None:
        self._seen: tuple[Any, dict[type, set[str]], str] = (group, read, lacks)

    @property
    def __class__(self) -> Any:  # so that it is an instance of the group's class
        return type(self._seen[0])

    def __getattr__(self, name: str) -> Any:
        group, read, lacks = self._seen
        kind: Any = type(group)
        if name == lacks:
            raise AttributeError(name)
        on_class = getattr(kind, name, None)
        if isinstance(on_class, property) and on_class.fget is not None:
            return self._wrapped(on_class.fget(self))
        if isinstance(on_class, FunctionType):
            return on_class.__get__(self)
        read.setdefault(kind, set()).add(name)
        return self._wrapped(getattr(group, name))

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, tuple):
            values = cast("tuple[Any, ...]", value)
            return tuple(map(self._wrapped, values)) if all(map(is_dataclass, values)) else values
        is_group = is_dataclass(value) and type(value) is not Seen
        return Seen(value, *self._seen[1:]) if is_group else value


@pytest.fixture
def streams(tmp_path: Path) -> list[Any]:
    """Options with each kind of group, of a shard that does not open."""
    path = tmp_path / "a.arrow"
    path.write_bytes(b"")
    crops = [
        gm.StartCrop(1),
        gm.CenterCrop(1),
        gm.RandomCrop(1),
        gm.Windows(1),
        gm.EventCrop(seconds=1),
    ]
    shuffle = gm.Shuffle(seed=1, window=8)
    made = [gm.ArrowIterDataset(path, audio=gm.Audio(crop=c), shuffle=shuffle) for c in crops]
    split = gm.Split("a", {"a": 0.5, "b": 0.5})
    drawn = [gm.Weighted("weight"), gm.Balanced("species")]
    made += [gm.ArrowIterDataset(path, sampling=sampling, split=split) for sampling in drawn]
    mixture = gm.Mixture(made[:2], batch_size=4)
    return [*map(options_of, made), mixture_options_of(mixture)]


def test_each_option_is_read(streams: list[Any]) -> None:
    read: dict[type, set[str]] = {}
    for options in streams:
        # The shard is opened after the options were read.
        with pytest.raises(gm.CorruptShardError):
            _core.Order(cast("Any", Seen(options, read)))
    unread = {kind.__name__: {one.name for one in fields(kind)} - read[kind] for kind in read}
    assert {name: names for name, names in unread.items() if names} == PYTHONS
    assert {"StreamOptions", "RowOptions", "Mixing", "Audio", "Limits", "Shuffle"} <= unread.keys()
    assert {"Partition", "StorageOptions", "EventCrop", "Windows", "Weighted"} <= unread.keys()


@pytest.mark.parametrize("name", ["with_row_id", "memory_budget_bytes", "labels", "_kind", "hop"])
def test_an_option_that_is_missing_is_told(streams: list[Any], name: str) -> None:
    with pytest.raises(AttributeError, match=f"^{name}$"):
        _core.Order(cast("Any", Seen(streams[3], {}, lacks=name)))
