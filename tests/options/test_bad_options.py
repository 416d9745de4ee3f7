"""Options that make no sense are refused by name, before any work is done with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from signals import RATE, encode, synthetic

GOOD = encode(synthetic(0.2, RATE), RATE, "wav16")


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": -1},
        {"epochs": -1},
        {"on_error": "ignore"},
        {"shuffle": 3},
        {"audio": "loud"},
        {"exclude": [(7, 0)]},
        {"exclude": [("nobody.arrow", 0)]},
        {"exclude": [(0, 11)]},
    ],
    ids=str,
)
def test_options_that_make_no_sense(numbered: list[Path], options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        next(iter(gm.ArrowIterDataset(numbered, **options)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: gm.Audio(sample_rate=0),
        lambda: gm.Audio(sample_rate=-1),
        lambda: gm.Audio(channels="left"),
        lambda: gm.Audio(channels=0),
        lambda: gm.Audio(pad="mirror"),
        lambda: gm.RandomCrop(0),
        lambda: gm.StartCrop(-1.0),
        lambda: gm.CenterCrop(float("nan")),
        lambda: gm.Shuffle(-1),
        lambda: gm.Shuffle(2**64),
        lambda: gm.ReadOptions(num_threads=0),
        lambda: gm.ReadOptions(memory_budget="much"),
        lambda: gm.ReadOptions(memory_budget=0),
        lambda: gm.ReadOptions(prefetch_batches=0),
        lambda: gm.ReadOptions(log_every_seconds=0.0),
        lambda: gm.decode(GOOD, start=-1),
        lambda: gm.decode(GOOD, seconds=float("inf")),
        lambda: gm.decode(GOOD, sample_rate=0),
    ],
)
def test_values_that_make_no_sense(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


def test_a_length_of_nothing_is_named_as_it_is_given() -> None:
    with pytest.raises(ValueError, match=r"^seconds is a number above 0.*, not 0: write seconds=5"):
        gm.decode(GOOD, seconds=0)
