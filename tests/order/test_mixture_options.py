"""Mixtures: options that are wrong are refused in a sentence that says what to write."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

import gristmill as gm
from gristmill._core import MAX_MIXTURE_TOTAL
from gristmill.mixing import checked_weights, listed_weights
from gristmill.mixture import mixture_options_of


def part(paths: Any, **options: Any) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(paths, **{"columns": ["count"], "audio": None, **options})


@pytest.mark.parametrize(
    ("weights", "whole"),
    [
        (None, (1, 1, 1)),
        ([7, 3, 0], (7, 3, 0)),
        ([0.7, 0.2, 0.1], (7, 2, 1)),
        (np.array([0.5, 0.25, 0.25]), (2, 1, 1)),
        ((10**30, 2 * 10**30, 1e30), (1, 2, 1)),
        ([np.float32(0.5), 1, 0], (1, 2, 0)),
    ],
)
def test_weights_are_whole_numbers_in_their_ratio(weights: Any, whole: tuple[int, ...]) -> None:
    assert checked_weights(listed_weights(weights), 3) == whole


@pytest.mark.parametrize("weights", [[1 / 3, 2 / 3, 0], [1e-300, 1, 1], [np.pi, np.e, 1e9]])
def test_weights_that_are_too_fine_are_rounded(weights: list[float]) -> None:
    whole = checked_weights(tuple(weights), 3)
    assert sum(whole) <= MAX_MIXTURE_TOTAL
    for weight, rounded in zip(weights, whole, strict=True):
        assert (rounded == 0) == (weight == 0)
        assert abs(rounded / sum(whole) - weight / sum(weights)) < 4e-6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": [1, -2]}, ["weight 1", "-2", "weights=[0.7, 0.3]"]),
        ({"weights": [float("nan"), 1]}, ["weight 0", "nan"]),
        ({"weights": [float("inf"), 1]}, ["weight 0", "inf"]),
        ({"weights": [True, 1]}, ["weight 0", "True"]),
        ({"weights": ["1", 1]}, ["weight 0", "'1'"]),
        ({"weights": [0, 0]}, ["all 2 weights are 0", "weights=[0.7, 0.3]"]),
        ({"weights": [1]}, ["1 for 2 data sets", "weights=[0.7, 0.3]"]),
        ({"weights": 0.5}, ["weights", "0.5", "weights=[0.7, 0.3]"]),
        ({"weights": "ab"}, ["weights", "'ab'"]),
        ({"stop": "never"}, ["stop", "'first', 'all'", "'never'"]),
        ({"batch_size": 0}, ["batch_size", "batch_size=64"]),
        ({"shard_options": 3}, ["shard_options"]),
        ({"on_error": "hope"}, ["on_error"]),
        ({"drop_remainder": 1}, ["drop_remainder"]),
        ({"read": 3}, ["read"]),
    ],
)
def test_wrong_options(numbered: list[Path], options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        gm.Mixture([part(numbered[0]), part(numbered[2])], **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_data_set(numbered: list[Path]) -> None:
    one = part(numbered[0])
    for given in ([], one, "ab", {"a": one}, 3, None):
        with pytest.raises(ValueError, match=r"datasets is a list of gm.ArrowIterDataset, not"):
            gm.Mixture(given)  # pyright: ignore[reportArgumentType]
    for given in ([one, 3], [one, "x.arrow"], [one, None], [one, one.map(lambda x: x)]):
        with pytest.raises(ValueError, match=r"data set 1 .* is a gm.ArrowIterDataset, not"):
            gm.Mixture(given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="data set 1 of the mixture is a mixture itself: list its"):
        gm.Mixture([one, gm.Mixture([one])])  # pyright: ignore[reportArgumentType]
    assert len(list(gm.Mixture([one]))) == len(list(gm.Mixture(iter([one])))) == 11  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4},
        {"batch_size": 4, "remainder": "pad"},
        {"shard_options": grain.sharding.ShardOptions(0, 2)},
        {"on_error": "mask"},
        {"allow_changed": True},
        {"binary": "numpy"},
        {"ragged": "pad"},
        {"fill_value": 0},
        {"multi_hot": {"count": 4}},
        {"with_row_id": True},
        {"with_crop": True},
        {"read": gm.ReadOptions(num_threads=1)},
    ],
)
def test_options_of_batches_are_the_mixtures(numbered: list[Path], options: Any) -> None:
    with pytest.raises(ValueError, match=r"data set 1 .*: leave that out there") as caught:
        gm.Mixture([part(numbered[0]), part(numbered[2], **options)])
    assert f"{next(iter(options))}=" in str(caught.value)


def test_every_option_of_batches_is_there() -> None:
    of_rows = {
        "paths", "storage_options", "columns", "audio", "filters", "rows", "split", "sampling",
        "shuffle", "epochs", "exclude",
    }  # fmt: skip
    theirs = inspect.signature(gm.ArrowIterDataset).parameters
    ours = inspect.signature(gm.Mixture).parameters
    assert set(ours) - {"datasets", "weights", "stop"} == set(theirs) - of_rows
    assert all(ours[name].default == theirs[name].default for name in set(theirs) - of_rows)


def test_data_sets_without_rows(numbered: list[Path]) -> None:
    empty = part(numbered[1])
    with pytest.raises(ValueError, match=r"data set 1 of the mixture has no rows; leave it out"):
        next(iter(gm.Mixture([part(numbered[0]), empty])))
    assert len(list(gm.Mixture([part(numbered[0]), empty], weights=[1, 0]))) == 11
    none = part(numbered[0], filters=[("count", ">", 1000)])
    with pytest.raises(ValueError, match=r"data set 1 of the mixture: filters="):
        next(iter(gm.Mixture([part(numbered[0]), none])))
    missing = part(numbered[0].parent / "absent.arrow")
    with pytest.raises(FileNotFoundError, match=r"absent.arrow"):
        next(iter(gm.Mixture([part(numbered[0]), missing])))


def test_the_repr_can_be_typed(numbered: list[Path]) -> None:
    mixture = gm.Mixture(
        [part("a.arrow"), part("b.arrow", epochs=None)], weights=[0.7, 0.3], batch_size=8
    )
    again = eval(repr(mixture), {**vars(gm), "gristmill": gm})
    assert mixture_options_of(again) == mixture_options_of(mixture)
    assert str(mixture) == "Mixture(2 data sets)"
    assert "weights=[0.7, 0.3], batch_size=8)" in repr(mixture)


def test_the_order_takes_no_options_of_its_own(numbered: list[Path]) -> None:
    mixture = gm.Mixture([part(numbered[0])])
    with pytest.raises(ValueError, match="the data set's own"):
        gm.global_order(mixture, epochs=3)  # type: ignore[call-overload]
