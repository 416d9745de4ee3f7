"""The order of the rows: a permutation for each seed and epoch, the same for ever."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
import shards
from signals import RATE, encode, synthetic

import oracle


def order(paths: Any, **options: Any) -> list[tuple[int, int]]:
    ds = gm.ArrowIterDataset(paths, audio=None, columns=["count"], with_row_id=True, **options)
    return [(int(e["shard"]), int(e["row"])) for e in ds]


def batches(paths: Any, **options: Any) -> list[list[tuple[int, int]]]:
    ds = gm.ArrowIterDataset(paths, audio=None, columns=["count"], with_row_id=True, **options)
    return [list(zip(b["shard"].tolist(), b["row"].tolist(), strict=True)) for b in ds]


def flat(parts: Iterable[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    return [row for part in parts for row in part]


def test_file_order(numbered: list[Path]) -> None:
    expected = [(s, r) for s, n in enumerate((11, 0, 9, 20)) for r in range(n)]
    assert order(numbered) == expected
    assert order(numbered, epochs=3) == expected * 3
    assert order(numbered[2:], epochs=1)[0] == (0, 0)  # shards count from the given list


@pytest.mark.parametrize("seed", [0, 1, 42, 2**32, 2**64 - 1])
def test_each_epoch_is_its_own_permutation(numbered: list[Path], seed: int) -> None:
    rows = order(numbered, shuffle=gm.Shuffle(seed), epochs=4)
    epochs = [rows[i : i + 40] for i in range(0, 160, 40)]
    job = oracle.Job(numbered, seed=seed)
    for epoch, got in enumerate(epochs):
        assert sorted(got) == order(numbered)
        assert got == oracle.row_ids(job, epoch)
    assert len({tuple(got) for got in epochs}) == 4


def test_seeds_differ(numbered: list[Path]) -> None:
    assert len({tuple(order(numbered, shuffle=gm.Shuffle(seed))) for seed in range(5)}) == 5


# Version 1 of the order. These numbers never change; a new order is a new version.
GOLDEN = {
    (10, 0, 0): [1, 7, 4, 6, 3, 5, 8, 2, 9, 0],
    (10, 42, 0): [5, 4, 7, 3, 9, 1, 8, 2, 0, 6],
    (10, 0, 1): [6, 2, 1, 5, 7, 4, 9, 8, 0, 3],
    (17, 42, 0): [13, 15, 2, 14, 10, 1, 0, 5, 4, 8, 11, 7, 9, 16, 3, 6, 12],
    (5, 2**64 - 1, 3): [2, 1, 3, 0, 4],
}


@pytest.mark.parametrize(("n", "seed", "epoch"), GOLDEN)
def test_golden_orders(tmp_path: Path, n: int, seed: int, epoch: int) -> None:
    data = encode(synthetic(0.01, RATE), RATE, "wav16")
    path = shards.write_audio(tmp_path / "golden.arrow", [data] * n)
    rows = order([path], shuffle=gm.Shuffle(seed), epochs=epoch + 1)
    assert [row for _, row in rows[n * epoch :]] == GOLDEN[n, seed, epoch]
    assert oracle.permutation(n, seed, epoch) == GOLDEN[n, seed, epoch]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 16, 17, 100, 257])
def test_every_size(tmp_path: Path, n: int) -> None:
    data = encode(synthetic(0.001, RATE), RATE, "wav16")
    path = shards.write_audio(tmp_path / "size.arrow", [data] * n, batch_rows=50)
    got = order([path], shuffle=gm.Shuffle(n), epochs=2)
    assert [row for _, row in got[:n]] == oracle.permutation(n, n, 0)
    assert [row for _, row in got[n:]] == oracle.permutation(n, n, 1)


@pytest.mark.parametrize("by", ["index", "name", "path"])
def test_excluded_rows_never_come(numbered: list[Path], by: str) -> None:
    gone = ((0, 0), (0, 10), (2, 4), (3, 19))
    named = [
        ({"index": s, "name": numbered[s].name, "path": str(numbered[s])}[by], r) for s, r in gone
    ]
    expected = [row for row in order(numbered) if row not in gone]
    assert order(numbered, exclude=named) == expected
    job = oracle.Job(numbered, seed=3, exclude=gone)
    shuffled = order(numbered, shuffle=gm.Shuffle(3), exclude=iter(named), epochs=2)
    assert shuffled == oracle.row_ids(job, 0) + oracle.row_ids(job, 1)


def test_everything_excluded_ends_at_once(numbered: list[Path]) -> None:
    gone = [(1, r) for r in range(9)]
    with pytest.raises(ValueError, match="exclude= leaves out all 9 rows"):
        order([numbered[1], numbered[2]], exclude=gone)
    assert order([numbered[1]], epochs=None) == []  # no rows, for ever, is no rows


def test_batches_run_across_epochs(numbered: list[Path]) -> None:
    rows = order(numbered, shuffle=gm.Shuffle(1), epochs=3)
    got = batches(numbered, shuffle=gm.Shuffle(1), epochs=3, batch_size=7)
    assert flat(got) == rows
    assert [len(b) for b in got] == [7] * 17 + [1]
    got = batches(numbered, shuffle=gm.Shuffle(1), epochs=3, batch_size=7, drop_remainder=True)
    assert flat(got) == rows[:119]
    assert [len(b) for b in got] == [7] * 17


def test_a_batch_larger_than_the_data(numbered: list[Path]) -> None:
    assert [len(b) for b in batches(numbered, batch_size=64)] == [40]
    assert batches(numbered, batch_size=64, drop_remainder=True) == []


def test_without_end(numbered: list[Path]) -> None:
    ds = gm.ArrowIterDataset(
        numbered,
        audio=None,
        columns=["count"],
        shuffle=gm.Shuffle(2),
        epochs=None,
        with_row_id=True,
    )
    it = iter(ds)
    got = [(int(e["shard"]), int(e["row"])) for e, _ in zip(it, range(200), strict=False)]
    it.close()
    job = oracle.Job(numbered, seed=2)
    assert got == [row for epoch in range(5) for row in oracle.row_ids(job, epoch)]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_slices_share_out_the_rows(numbered: list[Path], n: int, batch_size: int | None) -> None:
    options = {"shuffle": gm.Shuffle(6), "epochs": 2, "batch_size": batch_size}
    parts: list[tuple[int, int]] = []
    for k in range(n):
        ds = gm.ArrowIterDataset(
            numbered, audio=None, columns=["count"], with_row_id=True, **options
        )
        ds.set_slice(slice(k, None, n))
        for element in ds:
            if batch_size is None:
                parts.append((int(element["shard"]), int(element["row"])))
            else:
                parts += zip(element["shard"].tolist(), element["row"].tolist(), strict=True)
    whole = order(numbered, shuffle=gm.Shuffle(6), epochs=2)
    assert sorted(parts) == sorted(whole)


def test_paths_of_every_kind(numbered: list[Path]) -> None:
    folder = numbered[0].parent
    expected = order(numbered)
    for given in (folder, str(folder), f"{folder}/part-*.arrow", [str(p) for p in numbered]):
        assert order(given) == expected
    assert order(numbered[0]) == expected[:11]
    turned = list(reversed(numbered))
    assert order(turned) == [(s, r) for s, n in enumerate((20, 9, 0, 11)) for r in range(n)]
