"""States through pickle, Grain's checkpoint handler and Orbax, and what they refuse."""

from __future__ import annotations

import gc
import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

import gristmill as gm
import shards
from probes import n_threads


def source(paths: Any, **options: Any) -> gm.ArrowIterDataset:
    given = {"shuffle": gm.Shuffle(3), "batch_size": 7, "epochs": 3, **options}
    return gm.ArrowIterDataset(paths, audio=None, columns=["count"], with_row_id=True, **given)


def counts(it: Any) -> list[list[int]]:
    return [element["count"].tolist() for element in it]


@pytest.fixture(autouse=True, scope="module")
def without_orbaxs_threads() -> Iterator[None]:
    """Orbax ends its threads when it is collected: here, not while another test counts threads."""
    yield
    gc.collect()
    still, before = 0, -1
    for _ in range(100):
        time.sleep(0.02)
        still = still + 1 if n_threads() == before else 0
        before = n_threads()
        if still == 10:
            break


@pytest.fixture
def stopped(numbered: list[Path]) -> tuple[Any, list[list[int]]]:
    """An iterator after four batches, and what is still to come."""
    it = iter(source(numbered))
    for _ in range(4):
        next(it)
    return it, counts(source(numbered))[4:]


def test_pickle(numbered: list[Path], stopped: tuple[Any, list[list[int]]]) -> None:
    it, rest = stopped
    dataset, state = pickle.loads(pickle.dumps((source(numbered), it.get_state())))
    restored = iter(dataset)
    restored.set_state(state)
    assert counts(restored) == rest == counts(it)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("form", ["iterator", "pipeline", "json"])
def test_orbax(
    numbered: list[Path],
    tmp_path: Path,
    stopped: tuple[Any, list[list[int]]],
    form: str,
    is_async: bool,
) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    it, rest = stopped
    ds: Any = source(numbered)
    if form == "pipeline":
        ds = grain.experimental.ThreadPrefetchIterDataset(
            ds.map(lambda e: e), prefetch_buffer_size=2
        )
        it = iter(ds)
        for _ in range(4):
            next(it)
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=is_async)
    with ocp.CheckpointManager(tmp_path / "steps", options=options) as manager:
        model = {"weights": np.arange(5.0)}
        if form == "json":
            data = ocp.args.JsonSave(it.get_state())
        else:
            data = grain.checkpoint.CheckpointSave(it)
        manager.save(4, args=ocp.args.Composite(model=ocp.args.StandardSave(model), data=data))
        later = counts(it)  # a save that still runs is of the place where it began
        manager.wait_until_finished()
    assert later == rest
    restored = iter(ds)
    with ocp.CheckpointManager(tmp_path / "steps", options=options) as manager:
        wanted = (
            ocp.args.JsonRestore()
            if form == "json"
            else grain.checkpoint.CheckpointRestore(restored)
        )
        saved = manager.restore(4, args=ocp.args.Composite(data=wanted))
    if form == "json":
        restored.set_state(saved.data)
    assert counts(restored) == rest


def changed(numbered: list[Path], folder: Path, how: str) -> list[Path]:
    """The shards, with one more, one shorter, or two that have changed places."""
    if how == "shard added":
        rows = [shards.row(50 + k, None) for k in range(4)]
        return [*numbered, shards.write(folder / "part-9.arrow", rows)]
    if how == "shard shortened":
        rows = [shards.row(20 + k, None) for k in range(5)]
        return [*numbered[:3], shards.write(folder / numbered[3].name, rows)]
    if how == "shard renamed":
        (folder / "other.arrow").write_bytes(numbered[3].read_bytes())
        return [*numbered[:3], folder / "other.arrow"]
    return [numbered[2], numbered[1], numbered[0], numbered[3]]


CHANGES = {
    "shard added": "it had 4 shards, not 5; it had 40 rows, not 44",
    "shard shortened": "other row counts; it had 40 rows, not 25",
    "shard renamed": "other base names",
    "shards reordered": "another order",
}


@pytest.mark.parametrize("how", CHANGES)
def test_changed_data(
    numbered: list[Path], tmp_path: Path, stopped: tuple[Any, list[list[int]]], how: str
) -> None:
    state = json.loads(json.dumps(stopped[0].get_state()))
    paths = changed(numbered, tmp_path, how)
    it = iter(source(paths))
    it.set_state(state)
    with pytest.raises(ValueError, match=CHANGES[how]) as raised:
        next(it)
    assert "allow_changed=True" in str(raised.value)
    # For those who mean it: the same place of the same epoch of the new data.
    it = iter(source(paths, allow_changed=True))
    it.set_state(state)
    n = {"shard added": 44, "shard shortened": 25}.get(how, 40)
    order = gm.global_order(source(paths))
    place = min(state["next_index"], n)
    expected = list(zip(order.shard.tolist(), order.row.tolist(), strict=True))[place:]
    elements = list(it)
    got = [r for e in elements for r in zip(e["shard"].tolist(), e["row"].tolist(), strict=True)]
    assert got == expected
    assert it.get_state()["fingerprint"] != state["fingerprint"]
    # The state that it leaves is one of the new data, for anybody.
    fresh = iter(source(paths))
    fresh.set_state(it.get_state())
    assert list(fresh) == []


def test_changed_data_in_its_last_epoch(numbered: list[Path], tmp_path: Path) -> None:
    it = iter(source(numbered))
    list(it)
    other = iter(source(numbered, epochs=2, shuffle=gm.Shuffle(9), allow_changed=True))
    other.set_state(it.get_state())
    assert list(other) == []
    longer = iter(source(numbered, epochs=4))
    longer.set_state(it.get_state())
    assert sum(map(len, counts(longer))) == 40  # more epochs are no change of the data


def test_states_stay_small(tmp_path: Path) -> None:
    """Of any number of shards, rows, hosts and epochs."""
    rows = [shards.row(k, None) for k in range(3)]
    first = shards.write(tmp_path / "0.arrow", rows)
    paths = [first, *(tmp_path / f"{s}.arrow" for s in range(1, 300))]
    for path in paths[1:]:
        path.hardlink_to(first)
    it = iter(
        source(
            paths,
            shuffle=gm.Shuffle(2**64 - 1, window=900, streams=7),
            shard_options=grain.sharding.ShardOptions(999, 1000),
            epochs=None,
        )
    )
    fingerprint = "any"  # as `set_next_index` writes it
    it.set_state({**it.get_state(), "epoch": 10**12, "next_index": 899, "fingerprint": fingerprint})
    next(it)
    state = it.get_state()
    it.close()
    assert state["epoch"] > 10**12
    assert len(json.dumps(state)) < 300
