"""`sampling`: rows drawn by weight, as the reference draws them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from rounds import rounds

import oracle

COUNTS = (11, 0, 9, 20)  # of `numbered`
ALL = [(s, r) for s, n in enumerate(COUNTS) for r in range(n)]


def drawn(paths: Any, **options: Any) -> list[tuple[int, int]]:
    ds = gm.ArrowIterDataset(paths, audio=None, columns=["count"], with_row_id=True, **options)
    return [(int(e["shard"]), int(e["row"])) for e in ds]


@settings(max_examples=rounds(60), deadline=None)
@given(
    weights=st.lists(st.one_of(st.just(0.0), st.floats(0, 1e6)), min_size=40, max_size=40).filter(
        lambda weights: sum(weights) > 1e-100
    ),
    seed=st.integers(0, 2**64 - 1),
    n=st.integers(1, 90),
)
def test_draws_are_the_references(
    numbered: list[Path], weights: list[float], seed: int, n: int
) -> None:
    job = oracle.Job(numbered, seed=seed, weights=tuple(weights), n_draws=n)
    got = drawn(numbered, sampling=gm.Weighted(weights, draws=n, seed=seed), epochs=2)
    assert got == oracle.row_ids(job, 0) + oracle.row_ids(job, 1)
    assert (
        drawn(numbered, sampling=gm.Weighted(weights, draws=n), shuffle=gm.Shuffle(seed)) == got[:n]
    )
    fixed = gm.Shuffle(seed, reshuffle_each_epoch=False)
    again = drawn(numbered, sampling=gm.Weighted(weights, draws=n), shuffle=fixed, epochs=2)
    assert again == got[:n] * 2


def test_weights_follow_rows_and_lists(numbered: list[Path]) -> None:
    weights = np.arange(40.0)
    rows = [30, 2, 30, 11, 39, 4]
    job = oracle.Job(numbered, seed=0, rows=tuple(rows), weights=tuple(weights[rows]), n_draws=80)
    sampling = gm.Weighted(weights, draws=80)
    assert drawn(numbered, rows=rows, sampling=sampling) == oracle.row_ids(job, 0)
    mask = weights % 3 == 0
    job = oracle.Job(
        numbered,
        seed=0,
        rows=tuple(np.flatnonzero(mask)),
        weights=tuple(weights[mask]),
        n_draws=80,
    )
    assert drawn(numbered, rows=mask, sampling=sampling) == oracle.row_ids(job, 0)
    gone = [row for row, keep in zip(ALL, mask, strict=True) if not keep]
    assert drawn(numbered, exclude=gone, sampling=sampling) == oracle.row_ids(job, 0)


def write(path: Path, columns: dict[str, Any], batch_rows: int = 7) -> Path:
    return shards.write_table(path, pa.table(columns), batch_rows)


def values(paths: Any, column: str, **options: Any) -> list[Any]:
    ds = gm.ArrowIterDataset(paths, columns=[column], **options)
    return [element[column] for element in ds]


def test_a_column_of_weights(tmp_path: Path) -> None:
    weights = [0.0, 1.0, 2.5, 0.0, 4.0, 0.5]
    path = write(tmp_path / "w.arrow", {"w": weights, "i": range(6)}, 4)
    got = values(path, "i", sampling=gm.Weighted("w", draws=50, seed=3))
    assert got == oracle.draws(weights, 3, 0, 50)
    whole = write(tmp_path / "i.arrow", {"w": [1, 0, 3], "i": range(3)})
    assert values(whole, "i", sampling=gm.Weighted("w", seed=1)) == oracle.draws([1, 0, 3], 1, 0, 3)


def chi2(counts: Counter[Any], shares: dict[Any, float]) -> float:
    """Deviations of chi-squared from its mean, in standard deviations."""
    n = sum(counts.values())
    assert set(counts) <= set(shares)
    terms = [(counts[key] - n * share) ** 2 / (n * share) for key, share in shares.items()]
    df = len(shares) - 1
    return (sum(terms) - df) / (2 * df) ** 0.5


CLASSES = ["a"] * 500 + ["b"] * 100 + ["c"] * 20 + [None] * 4


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lists = [["a", "b", "a"] if k % 5 == 0 else ["a"] for k in range(500)]
    lists += [["c"], [], None, ["b", "c"]] * 31
    return write(tmp_path_factory.mktemp("classes") / "c.arrow", {"c": CLASSES, "l": lists}, 50)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 0.3])
def test_balanced_classes(classes: Path, power: float) -> None:
    n = Counter(CLASSES)
    sizes = {name: count ** (1 - power) for name, count in n.items()}
    shares = {name: size / sum(sizes.values()) for name, size in sizes.items()}
    sampling = gm.Balanced("c", power=power, draws=20_000, seed=2)
    counts = Counter(values(classes, "c", sampling=sampling))
    assert chi2(counts, shares) < 5
    if power in {0.0, 1.0}:  # powers that doubles have exactly
        weights = [1 / n[name] ** power for name in CLASSES]
        expected = oracle.draws(weights, 2, 0, 20_000)
        assert values(classes, "c", sampling=sampling) == [CLASSES[i] for i in expected]


def test_balanced_lists_by_the_rarest(classes: Path) -> None:
    lists = pa.ipc.open_stream(classes.read_bytes()).read_all()["l"].to_pylist()
    counts = Counter(name for row in lists for name in set(row or [None]))
    weights = [1 / min(counts[name] for name in row or [None]) for row in lists]
    expected = [lists[i] for i in oracle.draws(weights, 0, 0, 3000)]
    got = values(classes, "l", sampling=gm.Balanced("l", draws=3000))
    assert [None if row is None else list(row) for row in got] == expected


def test_balance_is_of_the_rows_that_take_part(classes: Path) -> None:
    sampling = gm.Balanced("c", draws=9000)
    got = values(classes, "c", sampling=sampling, filters=[("c", "in", ["a", "c"])])
    assert chi2(Counter(got), {"a": 0.5, "c": 0.5}) < 5


def test_weights_by_value(classes: Path, numbered: list[Path]) -> None:
    given = {"a": 2, "c": 0}
    weights = [{"a": 2.0, "c": 0.0}.get(name, 1.0) for name in CLASSES]
    expected = [CLASSES[i] for i in oracle.draws(weights, 0, 0, 2000)]
    assert values(classes, "c", sampling=gm.Weighted(given, by="c", draws=2000)) == expected
    # Classes by name or number.
    by_name = drawn(numbered, sampling=gm.Weighted({"crow": 9}, by="label"))
    assert by_name == drawn(numbered, sampling=gm.Weighted({1: 9}, by="label"))
    weights = [
        9.0 if r else 1.0 for path in numbered for r in oracle.read_table(path)["label"].to_pylist()
    ]
    assert by_name == [ALL[i] for i in oracle.draws(weights, 0, 0, 40)]


def test_values_that_no_row_has_are_named(classes: Path, numbered: list[Path]) -> None:
    given = {"a": 2, "b": 1} | {f"typo {k:02}": 3 for k in range(12)}
    listed = ", ".join(f'"typo {k:02}"' for k in range(10))
    with pytest.raises(gm.SchemaError, match=f"weights for {listed} and 2 more, which no row has"):
        values(classes, "c", sampling=gm.Weighted(given, by="c", draws=9))
    # Rows that take no part count, and so do the classes of the features.
    kept = [("c", "==", "a")]
    got = values(classes, "c", filters=kept, sampling=gm.Weighted({"a": 2, "c": 9}, by="c"))
    assert set(got) == {"a"}
    only = [("label", "==", "crow")]
    assert drawn(numbered, filters=only, sampling=gm.Weighted({"wren": 2, "crow": 9}, by="label"))


def test_crops_of_draws_differ(same_rate: list[Path]) -> None:
    weights = (0.0,) * 3 + (1.0,) + (0.0,) * 20 + (0.5,)
    job = oracle.Job(same_rate, seconds=0.2, seed=4, weights=weights, n_draws=8)
    ds = gm.ArrowIterDataset(
        same_rate,
        audio=gm.Audio("audio", crop=gm.RandomCrop(0.2)),
        sampling=gm.Weighted(weights, draws=8),
        shuffle=gm.Shuffle(4),
    )
    got, expected = [e["audio"] for e in ds], [e["audio"] for e in oracle.load(job)]
    assert max(np.abs(a - b).max() for a, b in zip(got, expected, strict=True)) < 1e-3
    assert len({audio.tobytes() for audio in got}) > 4


def test_substitutes_are_further_draws(tmp_path: Path, same_rate: list[Path]) -> None:
    good = oracle.read_table(same_rate[0])["audio"][0].as_py()["bytes"]
    data = [b"broken", good, good, good]
    path = shards.write(tmp_path / "s.arrow", [shards.row(i, d) for i, d in enumerate(data)])
    ds = gm.ArrowIterDataset(
        path,
        sampling=gm.Weighted([5, 0, 1, 1], draws=60),
        on_error="substitute",
        with_row_id=True,
    )
    table = oracle.alias_table([5, 0, 1, 1])
    expected = []
    for i, row in enumerate(oracle.draws([5, 0, 1, 1], 0, 0, 60)):
        key = oracle.hash_words(0, 0, oracle.fnv1a(path.name), row, i, 19)
        further = (oracle.draw(table, key, k) for k in range(32))
        expected.append(next(r for r in [row, *further] if r != 0))
    assert [int(element["row"]) for element in ds] == expected
    assert set(expected) == {2, 3}  # never the one of weight 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gm.Weighted([1, -2]), "the weight of row 1 is -2.0"),
        (lambda: gm.Weighted([1, float("nan")]), "the weight of row 1 is nan"),
        (lambda: gm.Weighted([1, float("inf")]), "the weight of row 1 is inf"),
        (lambda: gm.Weighted([0, 0]), "all 2 weights are 0"),
        (lambda: gm.Weighted({"a": -1}, by="c"), "the weight of 'a' is -1"),
        (lambda: gm.Weighted({"a": 1}), "need the column of the values"),
        (lambda: gm.Weighted({}, by="c"), "a mapping with at least one value"),
        (lambda: gm.Weighted("w", by="c"), "goes with a mapping"),
        (lambda: gm.Weighted([["a"]]), "weights is a column, numbers or a mapping"),
        (lambda: gm.Weighted("w", draws=0), "draws is an integer"),
        (lambda: gm.Balanced(3), "column is a string"),
        (lambda: gm.Balanced("c", power=-1), "power is a number from 0 to 10"),
        (lambda: gm.ArrowIterDataset("x", sampling="c"), r'write sampling=gm.Balanced\("c"\)'),
    ],
)
def test_samplings_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        (gm.Weighted([1, 2]), "sampling= has 2 weights, but there are 624 rows"),
        (gm.Weighted("c"), "takes weights from this column of type Utf8"),
        (gm.Weighted("none"), "sampling= names this column, which the shards do not have"),
        (gm.Weighted({"zebra": 3}, by="c"), "no row has any of them"),
        (gm.Weighted({3: 3}, by="c"), "sampling= has 3 for this column of type Utf8"),
    ],
)
def test_samplings_that_do_not_fit(classes: Path, sampling: Any, message: str) -> None:
    with pytest.raises((ValueError, gm.SchemaError), match=message):
        next(iter(gm.ArrowIterDataset(classes, sampling=sampling)))


def test_null_weights_are_located(tmp_path: Path) -> None:
    path = write(tmp_path / "n.arrow", {"w": [1.0, None, -1.0]})
    with pytest.raises(gm.SchemaError, match=r"null or NaN in .*n.arrow, row 1; .* filters="):
        next(iter(gm.ArrowIterDataset(path, sampling=gm.Weighted("w"))))
    got = values(path, "w", sampling=gm.Weighted("w"), filters=[("w", ">=", 0)])
    assert got == [1.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.0, 0.0], "add up to 0 over 2 rows; give at least one row a weight above 0"),
        ([1e308, 1e308], "over 2 rows add up to more than float64 allows; give smaller ones"),
        ([5e-324, 0.0], "too little to tell them apart; give larger ones"),
    ],
)
def test_sums_of_weights_that_draw_nothing(
    tmp_path: Path, weights: list[float], message: str
) -> None:
    path = write(tmp_path / "w.arrow", {"w": weights})
    with pytest.raises(ValueError, match=message):
        next(iter(gm.ArrowIterDataset(path, sampling=gm.Weighted("w"))))
