"""States by shard, as Grain's elastic iterator keeps them to change the number of hosts.

Grain cuts a source by `set_slice(slice(host, None, hosts))` and saves a file for each shard of a
host: number `k` of host `h` is shard `h + k * hosts` of all. When it restores, host `h` of another
number of hosts gets shards `h`, `h + hosts` and so on. Here all shards have the state of the whole
stream, which hosts in step have in common: any of them is enough, and each host has to find one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from gristmill import checks
from gristmill.partition import Partition
from gristmill.troubleshooting import explain

FEWEST_SHARDS = 64
"""Shards of all hosts together, or twice the hosts if more: at most so many hosts can restore."""


def to_shard_states(
    state: Mapping[str, Any], partition: Partition, *, exhausted: bool
) -> list[dict[str, Any]]:
    """The states of this host's shards."""
    n_shards = max(FEWEST_SHARDS, 2 * partition.stride)
    mine = range(partition.offset, n_shards, partition.stride)
    return [{"exhausted": int(exhausted), "state": dict(state)} for _ in mine]


def from_shard_states(shard_states: Any, partition: Partition) -> dict[str, Any]:
    """The state that all of these shards have, for this partition.

    Raises:
        ValueError: There are none, they are none, or they differ.
    """
    given = None if isinstance(shard_states, (str, Mapping)) else checks.items(shard_states)
    states = [_state(one) for one in given or ()]
    if not states:
        raise ValueError(
            f"there is no shard state for this host: shard_states is {checks.shown(shard_states)}; "
            f"a checkpoint restores on {FEWEST_SHARDS} hosts, or on twice as many as saved it"
        )
    first = states[0]
    for one in states[1:]:
        if one != first:
            what = (
                "the hosts were not in step when they were saved, after "
                f"{_place(first)} and after {_place(one)}: save after the same number of steps on "
                "every host"
            )
            raise explain(ValueError(what))
    return {**first, "hosts": partition.hosts, "stride": partition.stride}


def _state(shard_state: object) -> dict[str, Any]:
    if isinstance(shard_state, Mapping):
        state = cast("Mapping[str, Any]", shard_state).get("state")
        if isinstance(state, Mapping):
            return dict(cast("Mapping[str, Any]", state))
    raise ValueError(
        "a shard state is a dictionary with a state in it, as get_shard_states() gives it, not "
        f"{checks.shown(shard_state)}"
    )


def _place(state: Mapping[str, Any]) -> str:
    return f"row {state.get('next_index')} of epoch {state.get('epoch')}"
