"""What users of other libraries write first is answered with what to write here."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

import gristmill as gm


@pytest.mark.parametrize(
    ("write", "kind", "told"),
    [
        (len, TypeError, r"ds\.rows_per_epoch\(\), or ds\.steps_per_epoch\(\)"),
        (lambda ds: ds[0], TypeError, r"gm\.ArrowDataSource\(paths\)\[0\]"),
        (next, TypeError, r"write it = iter\(ds\), and then next\(it\)"),
        (lambda ds: ds.take(3), AttributeError, r"itertools\.islice\(ds, n\)"),
        (lambda ds: ds.nothing, AttributeError, "has no attribute 'nothing'$"),
    ],
)
@pytest.mark.parametrize("is_mixture", [False, True])
def test_data_sets_are_no_lists(write: Any, kind: Any, told: str, is_mixture: bool) -> None:
    ds: Any = gm.ArrowIterDataset("x.arrow")
    with pytest.raises(kind, match=told):
        write(gm.Mixture([ds]) if is_mixture else ds)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("num_workers", r"write read=gm\.ReadOptions\(num_threads=8\)"),
        ("seed", r"write shuffle=gm\.Shuffle\(seed=42\)"),
        ("nothing", "unexpected keyword argument 'nothing'"),
    ],
)
def test_options_of_other_libraries(option: str, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        gm.ArrowIterDataset("x.arrow", **{option: 3})  # pyright: ignore[reportArgumentType]


def test_a_data_set_stays_one(numbered: list[Path]) -> None:
    ds = gm.ArrowIterDataset(numbered, columns=["count"])
    assert ds
    assert "paths" in inspect.signature(gm.ArrowIterDataset).parameters
    expected = [int(e["count"]) for e in ds]
    for other in (copy.copy(ds), copy.deepcopy(ds), pickle.loads(pickle.dumps(ds))):
        assert [int(e["count"]) for e in other] == expected


def test_an_iterator_closes_with_its_block(numbered: list[Path]) -> None:
    with iter(gm.ArrowIterDataset(numbered, columns=["count"])) as it:
        next(it)
    with pytest.raises(ValueError, match="closed"):
        next(it)


@pytest.mark.parametrize("batch_size", [None, 1, 7, 40, 64])
@pytest.mark.parametrize("remainder", ["keep", "drop", "pad"])
@pytest.mark.parametrize("hosts", [(0, 1), (0, 3), (2, 3)])
def test_steps_of_an_epoch_are_those_that_come(
    numbered: list[Path], batch_size: int | None, remainder: Any, hosts: tuple[int, int]
) -> None:
    if remainder == "pad" and batch_size is None:
        return
    ds = gm.ArrowIterDataset(
        numbered,
        columns=["count"],
        batch_size=batch_size,
        remainder=remainder,
        shard_options=grain.sharding.ShardOptions(*hosts),
    )
    assert ds.steps_per_epoch() == sum(1 for _ in ds)


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("hosts", [1, 3])
def test_steps_of_a_mixture_deliver_every_row(
    numbered: list[Path], batch_size: int | None, hosts: int
) -> None:
    each = [
        gm.ArrowIterDataset(paths, columns=["count"], epochs=None)
        for paths in (numbered[:1], numbered[1:])
    ]
    seen: set[int] = set()
    n_rows = 0
    for host in range(hosts):
        options = grain.sharding.ShardOptions(host, hosts)
        mixture = gm.Mixture(each, batch_size=batch_size, shard_options=options)
        for element in itertools.islice(mixture, mixture.steps_per_epoch()):
            counts = np.atleast_1d(element["count"]).tolist()
            seen.update(counts)
            n_rows += len(counts)
    rows = gm.Mixture(each).rows_per_epoch()
    assert rows <= n_rows < rows + hosts * (batch_size or 1)
    assert seen == {int(row["count"]) for row in gm.ArrowIterDataset(numbered, columns=["count"])}


def test_what_is_no_state_is_refused_at_once(numbered: list[Path]) -> None:
    it = iter(gm.ArrowIterDataset(numbered, columns=["count"]))
    for wrong in ({"x": 1}, {}, [1]):
        with pytest.raises(ValueError, match="a state is a dictionary with a version"):
            it.set_state(wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "make", [gm.Audio, lambda sample_rate: gm.decode(b"", sample_rate=sample_rate)]
)
def test_rates_in_khz_are_asked_about(make: Any) -> None:
    with pytest.raises(ValueError, match=r"Hz\? If kHz are meant, write sample_rate=32_000"):
        make(sample_rate=32)
    assert gm.Audio(sample_rate=1_000).sample_rate == 1_000


def test_recordings_are_no_ragged_lists(same_rate: list[Path]) -> None:
    ds = gm.ArrowIterDataset(same_rate, batch_size=2, ragged={"audio": "pad"})
    with pytest.raises(gm.SchemaError, match="column 'audio': ragged= names this column"):
        next(iter(ds))


def test_notebooks_show_the_page(numbered: list[Path]) -> None:
    it = iter(gm.ArrowIterDataset(numbered, columns=["count"]))
    next(it)
    for report in (it.verdict(), it.stats()):
        shown: str = report._repr_html_()  # pyright: ignore[reportPrivateUsage]
        assert shown.startswith("<pre>")
