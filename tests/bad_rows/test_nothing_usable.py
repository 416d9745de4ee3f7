"""`on_error="skip"` where no row can be used: an error that says why, and no endless search."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

import gristmill as gm
import shards
from signals import RATE, encode

GOOD = encode(np.zeros((640, 1), np.float32), RATE, "wav16")


def dataset(path: Path, **options: Any) -> gm.ArrowIterDataset:
    options = {"batch_size": 8, "shuffle": gm.Shuffle(seed=1), **options}
    audio = gm.Audio(crop=gm.StartCrop(0.01))
    return gm.ArrowIterDataset(path, audio=audio, columns=["audio"], on_error="skip", **options)


@pytest.fixture(scope="module")
def only_paths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 rows that hold a path and no bytes."""
    rows = [shards.row(i, None, path=f"/data/{i}.wav") for i in range(40)]
    return shards.write(tmp_path_factory.mktemp("paths") / "paths.arrow", rows)


@pytest.mark.parametrize("epochs", [None, 1, 3])
@pytest.mark.parametrize("batch_size", [None, 8, 64])
def test_rows_that_are_only_paths(
    only_paths: Path, epochs: int | None, batch_size: int | None
) -> None:
    it = iter(dataset(only_paths, epochs=epochs, batch_size=batch_size))
    with pytest.raises(gm.NoUsableRowsError, match=r"not one of [0-9]+ rows") as raised:
        next(it)
    error = raised.value
    assert isinstance(error, gm.DecodeError)
    assert (error.reason, error.shard) == ("null", str(only_paths))
    assert error.row is not None
    for part in ("'null'", f"/data/{error.row}.wav", 'gm.Audio("column")', "bytes of the file"):
        assert part in str(error)
    assert len(it.bad_rows()) == 40
    n_rows = int(re.findall(r"not one of ([0-9]+) rows", str(error))[0])
    assert 40 <= n_rows <= 128
    # And again, not the end and not for ever.
    with pytest.raises(gm.NoUsableRowsError):
        next(it)
    it.close()


def test_a_host_whose_part_is_all_bad(tmp_path: Path) -> None:
    """Every other row of the file order is bad, and one of two hosts has just these."""
    data = [b"no recording" if i % 2 else GOOD for i in range(40)]
    path = shards.write_audio(tmp_path / "half.arrow", data)
    hosts = [
        iter(dataset(path, shuffle=None, epochs=None, batch_size=4, shard_options=options))
        for options in (grain.sharding.ShardOptions(i, 2) for i in range(2))
    ]
    for _ in range(20):
        assert len(next(hosts[0])["audio"]) == 4
    with pytest.raises(gm.NoUsableRowsError, match="not one of 40 rows") as raised:
        next(hosts[1])
    assert raised.value.reason == "unknown_format"
    assert "exclude=" in str(raised.value)
    for it in hosts:
        it.close()


def test_a_part_of_few_rows_may_be_bad_by_chance(tmp_path: Path) -> None:
    """One row of ten is bad, and it is all that one of eight workers has."""
    path = shards.write_audio(
        tmp_path / "few.arrow", [b"no recording" if i == 3 else GOOD for i in range(10)]
    )
    part = dataset(path, shuffle=None, batch_size=None)
    part.set_slice(slice(3, None, 8))
    assert list(part) == []
    # More workers than rows: others come in the epochs after.
    for worker in (3, 7):
        endless = dataset(path, shuffle=None, batch_size=None, epochs=None)
        endless.set_slice(slice(worker, None, 16))
        it = iter(endless)
        for _ in range(20):
            next(it)
        assert {(row.row, row.reason) for row in it.bad_rows()} == {(3, "unknown_format")}
        it.close()


@pytest.mark.parametrize("shuffle", [None, gm.Shuffle(seed=3)])
def test_one_usable_row_is_enough(tmp_path: Path, shuffle: gm.Shuffle | None) -> None:
    data = [GOOD if i == 17 else None for i in range(100)]
    path = shards.write_audio(tmp_path / "one.arrow", data)
    it = iter(dataset(path, shuffle=shuffle, epochs=None))
    assert [len(next(it)["audio"]) for _ in range(5)] == [1] * 5
    it.close()
    assert [len(e["audio"]) for e in dataset(path, shuffle=shuffle, epochs=2)] == [1, 1]


def test_no_rows_at_all_are_an_end(tmp_path: Path) -> None:
    path = shards.write_audio(tmp_path / "none.arrow", [])
    assert list(dataset(path, epochs=1)) == []


@pytest.mark.parametrize("policy", ["mask", "skip"])
def test_the_verdict_begins_with_many_bad_rows(tmp_path: Path, policy: Any) -> None:
    data = [None if i % 4 == 0 else b"no recording" if i % 4 == 1 else GOOD for i in range(40)]
    path = shards.write_audio(tmp_path / "half.arrow", data)
    audio = gm.Audio(crop=gm.StartCrop(0.01))
    it = iter(
        gm.ArrowIterDataset(path, audio=audio, columns=["audio"], on_error=policy, epochs=None)
    )
    while it.stats().loop_seconds < 1.1:
        next(it)
    text = it.verdict().text
    it.close()
    assert "of the rows cannot be used" in text.split(":")[0]
    assert text.startswith(("50%", "49%", "51%"))
