"""Where an iterator stands, and the dictionary that says so. Format version 1."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class Position:
    """`next_index` rows of `epoch` were delivered.

    Attributes:
        epoch: The pass over the data, from 0.
        next_index: Rows of this epoch (of this slice of it) that were delivered.
        stride: How many positions of the whole order one row here stands for.
        fingerprint: Hash of what the order depends on, in hex; empty while nothing was opened.
    """

    epoch: int = 0
    next_index: int = 0
    stride: int = 1
    fingerprint: str = ""

    def to_state(self) -> dict[str, Any]:
        """The state, a new dictionary."""
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "next_index": self.next_index,
            "stride": self.stride,
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, stride: int) -> Position:
        """The position that `state` says.

        The very start fits every data set and slice: Grain hands the initial state of a whole
        pipeline to each of its workers.

        Raises:
            ValueError: The state is not one, of another version, or of another slice.
        """
        if state.get("version") != VERSION:
            raise ValueError(
                f"this is no state of version {VERSION} of gristmill: {str(state)[:200]}; start "
                "afresh, or restore it with the version that saved it"
            )
        fields = {name: _count(name, state.get(name)) for name in ("epoch", "next_index", "stride")}
        fingerprint = state.get("fingerprint")
        if not isinstance(fingerprint, str):
            raise ValueError(f"the state's fingerprint is {fingerprint!r}, not a string")
        if not fields["epoch"] and not fields["next_index"]:
            return cls(stride=stride)
        if fields["stride"] != stride:
            raise ValueError(
                f"the state was saved by one of {fields['stride']} workers or shards, but this is "
                f"one of {stride}; restore with the same number"
            )
        return cls(**fields, fingerprint=fingerprint)

    def after(self, n_rows: int, rows_per_epoch: int) -> Position:
        """The position `n_rows` further on."""
        epochs, next_index = divmod(self.next_index + n_rows, rows_per_epoch)
        return replace(self, epoch=self.epoch + epochs, next_index=next_index)

    def normalized(self, rows_per_epoch: int, fingerprint: str) -> Position:
        """The same position, knowing the data set."""
        return replace(self, fingerprint=fingerprint).after(0, rows_per_epoch or 1)


def _count(name: str, value: Any) -> int:
    # Checkpoint libraries bring integers back as NumPy's.
    try:
        count = operator.index(value)
    except TypeError:
        count = -1
    if not 0 <= count < 2**64:
        raise ValueError(f"the state's {name} is {value!r}, not a count; start afresh")
    return count
