"""The position of an iterator, and the dictionary that stores it. Format version 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gristmill import _core
from gristmill.checks import as_int
from gristmill.partition import Partition

VERSION = 1
ANY_DATA = "any"
"""The fingerprint of an index that was set before the data was opened."""
_COUNTS = ("epoch", "next_index", "hosts", "stride")


class Position(NamedTuple):
    """All hosts and workers together have delivered the stream up to row `next_index` of `epoch`.

    That is so when they are in step, as hosts are after each global batch.

    Attributes:
        epoch: The pass over the data, from 0.
        next_index: Rows of this epoch that were delivered.
        hosts: Number of hosts that share the stream.
        stride: Number of workers that share a host's part.
        fingerprint: What the order depends on; empty while nothing was opened.
    """

    epoch: int = 0
    next_index: int = 0
    hosts: int = 1
    stride: int = 1
    fingerprint: str = ""

    def to_state(self) -> dict[str, Any]:
        """The state, a new dictionary."""
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "next_index": self.next_index,
            "hosts": self.hosts,
            "stride": self.stride,
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def start_of(cls, partition: Partition) -> Position:
        """The very start."""
        return cls(hosts=partition.hosts, stride=partition.stride)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, partition: Partition) -> Position:
        """The position that `state` stores, for `partition` of the stream.

        The very start fits every data set and slice: Grain hands the initial state of a whole
        pipeline to each of its workers. A state without workers fits any number of hosts, since
        these are in step; workers may be a batch apart, so their number must stay.

        Raises:
            ValueError: The state is not one, of another version, or of other workers.
        """
        if as_int(state.get("version")) != VERSION:
            raise ValueError(
                f"this is no state of version {VERSION} of gristmill: {str(state)[:200]}; start "
                "afresh, or restore it with the version that saved it"
            )
        fields = {name: _count(name, state.get(name)) for name in _COUNTS}
        fingerprint = state.get("fingerprint")
        if not isinstance(fingerprint, str):
            raise ValueError(f"the state's fingerprint is {fingerprint!r}, not a string")
        for name in ("hosts", "stride"):
            if fields[name] < 1:
                raise ValueError(f"the state's {name} is 0, and is 1 at least; start afresh")
        if not fields["epoch"] and not fields["next_index"]:
            return cls.start_of(partition)
        if not fingerprint:
            raise ValueError(
                "the state has a position but no fingerprint, which would tell which data it "
                "belongs to; restore a state as get_state() returned it"
            )
        fingerprint = "" if fingerprint == ANY_DATA else fingerprint
        if fields["stride"] != partition.stride:
            raise ValueError(
                f"the state was saved by one of {fields['stride']} workers or slices, but this is "
                f"one of {partition.stride}; restore with the same number (hosts that are told "
                "apart by shard_options=, and have no workers, may change theirs)"
            )
        if partition.stride > 1 and fields["hosts"] != partition.hosts:
            raise ValueError(
                f"the state was saved on one of {fields['hosts']} hosts, each with "
                f"{partition.stride} workers, but this is one of {partition.hosts}; with workers, "
                "restore on the same number of hosts"
            )
        fields.update(hosts=partition.hosts)
        return cls(**fields, fingerprint=fingerprint)

    def after(self, n_rows: int, opened: _core.Opened, partition: Partition) -> Position:
        """The position after `partition` has delivered `n_rows` more."""
        rows_per_epoch = opened.rows_per_epoch or 1
        index = self.next_index + n_rows * partition.stream_stride
        if opened.stream_rows is not None:
            index = min(index, max(opened.stream_rows - self.epoch * rows_per_epoch, 0))
        epochs, next_index = divmod(index, rows_per_epoch)
        # Once a batch: `_replace` takes three times as long as the constructor.
        return Position(self.epoch + epochs, next_index, self.hosts, self.stride, self.fingerprint)

    def ended(self, opened: _core.Opened) -> Position:
        """The position at the end, also for hosts that have a row less."""
        epochs, next_index = divmod(opened.stream_rows or 0, opened.rows_per_epoch or 1)
        return self._replace(epoch=epochs, next_index=next_index)

    def normalized(self, opened: _core.Opened, partition: Partition) -> Position:
        """The position at which the core took the stream up, with the data's fingerprint."""
        known = self._replace(
            epoch=opened.start_epoch,
            next_index=opened.start_index,
            fingerprint=opened.fingerprint,
        )
        return known.after(0, opened, partition)


def _count(name: str, value: Any) -> int:
    # Checkpoint libraries bring integers back as NumPy's.
    count = as_int(value)
    if count is None or not 0 <= count < 2**63:
        raise ValueError(f"the state's {name} is {value!r}, not a count; start afresh")
    return count
