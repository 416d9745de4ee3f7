"""Mixtures: columns and classes are joined by name, and what does not fit is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from gristmill.metrics import decide
from gristmill.metrics.datasets import name_dataset
from gristmill.metrics.stats import ShardStats, Stats
from gristmill.metrics.verdict import Case, Verdict
from rounds import rounds
from signals import RATE, encode, synthetic


def label(names: list[str]) -> dict[str, Any]:
    return {"names": names, "_type": "ClassLabel"}


def write(path: Path, columns: dict[str, pa.Array], features: dict[str, Any] | None = None) -> Path:
    table = pa.table(columns)
    if features is not None:
        table = shards.with_features(table, features)
    return shards.write_table(path, table, 3)


NESTED = pa.struct([("kind", pa.int64()), ("kinds", pa.list_(pa.int64()))])


def classes(path: Path, names: list[str], ids: list[int | None]) -> Path:
    """A shard of class ids: plain, in lists of each kind, and in a struct."""
    lists = [None if id_ is None else [id_, 0] for id_ in ids]
    column = {
        "label": pa.array(ids, pa.int64()),
        "list": pa.array(lists, pa.list_(pa.int64())),
        "large": pa.array(lists, pa.large_list(pa.int64())),
        "pair": pa.array(lists, pa.list_(pa.int64(), 2)),
        "nested": pa.array([{"kind": i, "kinds": [i]} for i in ids], NESTED),
    }
    feature = {"feature": label(names), "_type": "List"}
    features = {
        "label": label(names),
        "list": feature,
        "large": {**feature, "_type": "LargeList"},
        "pair": {**feature, "length": 2},
        "nested": {"kind": label(names), "kinds": [label(names)]},
    }
    return write(path, column, features)


@settings(max_examples=rounds(25), deadline=None)
@given(
    lists=st.lists(
        st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True),
        min_size=1,
        max_size=4,
    )
)
@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_class_ids_mean_the_same_names(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[str]], suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("classes")
    parts = [
        gm.ArrowIterDataset(classes(folder / f"{k}.{suffix}", names, list(range(len(names)))))
        for k, names in enumerate(lists)
    ]
    mixture = gm.Mixture(parts, stop="all", with_row_id=True, multi_hot=["list"], batch_size=3)
    union = list(dict.fromkeys(name for names in lists for name in names))
    assert mixture.class_names("label") == mixture.class_names("nested.kinds") == tuple(union)
    assert mixture._element_spec["list"].shape == (None, len(union))
    for batch in mixture:
        for i, (k, row) in enumerate(zip(batch["dataset"], batch["row"], strict=True)):
            own, first = union.index(lists[k][row]), union.index(lists[k][0])
            assert batch["label"][i] == own
            assert batch["large"][i].tolist() == batch["pair"][i].tolist() == [own, first]
            assert batch["nested"]["kind"][i] == own
            assert batch["nested"]["kinds"][i].tolist() == [own]
            assert set(np.flatnonzero(batch["list"][i])) == {own, first}


def test_ids_without_a_class_and_nulls(tmp_path: Path) -> None:
    first = classes(tmp_path / "a.arrow", ["x"], [0])
    second = classes(tmp_path / "b.arrow", ["y", "x"], [-1, None, 2, 1, 0])
    mixture = gm.Mixture(
        [gm.ArrowIterDataset(first, epochs=None), gm.ArrowIterDataset(second)], with_row_id=True
    )
    got = [row for row in mixture if row["dataset"] == 1]
    assert [row["label"] for row in got] == [-1, None, -1, 0, 1]
    assert got[1]["list"] is None
    assert got[4]["list"].tolist() == [1, 1]


def test_a_column_whose_name_has_dots(tmp_path: Path) -> None:
    parts = [
        gm.ArrowIterDataset(
            write(
                tmp_path / f"{k}.arrow",
                {"a": pa.array(["x"]), "a.b": pa.array([0])},
                {"a": {"dtype": "string", "_type": "Value"}, "a.b": label(names)},
            )
        )
        for k, names in enumerate((["x", "y"], ["y"]))
    ]
    assert [int(row["a.b"]) for row in gm.Mixture(parts, stop="all")] in ([0, 1], [1, 0])


def test_ids_that_cannot_be_mapped(tmp_path: Path) -> None:
    parts = [
        gm.ArrowIterDataset(
            write(
                tmp_path / f"{k}.arrow",
                {"label": pa.array([0], pa.int16())},
                {"label": label(names)},
            )
        )
        for k, names in enumerate((["x", "y"], ["y"]))
    ]
    with pytest.raises(gm.SchemaError, match=r"1\.arrow.*its class ids are no int64"):
        next(iter(gm.Mixture(parts)))


def test_filters_and_balance_speak_of_the_data_sets_own_classes(tmp_path: Path) -> None:
    first = classes(tmp_path / "a.arrow", ["x", "y"], [0, 1])
    second = classes(tmp_path / "b.arrow", ["z", "y"], [0, 1, 0, 1])
    parts = [
        gm.ArrowIterDataset(first, filters=[("label", "==", "y")], epochs=None),
        gm.ArrowIterDataset(second, filters=[("label", "==", 0)], columns=None),
    ]
    got = [int(row["label"]) for row in gm.Mixture(parts)]
    assert set(got) == {1, 2}


def test_one_format_or_several(tmp_path: Path) -> None:
    data = encode(synthetic(0.1, RATE, 1, 1), RATE, "wav16")
    structs = pa.array([{"bytes": data, "path": "p"}] * 4, shards.AUDIO)
    n = pa.array(range(4), pa.int32())
    arrow = write(tmp_path / "a.arrow", {"n": n, "audio": structs})
    plain = pa.array([data] * 4, pa.large_binary())
    parquet = write(tmp_path / "b.parquet", {"audio": plain, "n": n, "more": n})
    crop = gm.Audio("audio", sample_rate=RATE, crop=gm.StartCrop(0.05))
    parts = [
        gm.ArrowIterDataset(path, audio=crop, columns=["audio", "n"]) for path in (arrow, parquet)
    ]
    batch = next(iter(gm.Mixture(parts, batch_size=8)))
    assert list(batch) == ["n", "audio"]
    assert batch["audio"].shape == (8, round(0.05 * RATE))
    np.testing.assert_array_equal(batch["audio"], batch["audio"][:1].repeat(8, 0))
    assert sorted(batch["n"].tolist()) == sorted([*range(4)] * 2)


def numbers(path: Path, **columns: Any) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(write(path, columns), audio=None)


def test_columns_that_do_not_fit(tmp_path: Path) -> None:
    ints, texts = pa.array([1, 2]), pa.array(["a", "b"])
    one = numbers(tmp_path / "one.arrow", n=ints, only=ints)
    two = numbers(tmp_path / "two.arrow", n=ints)
    for pair, has in (([one, two], "one.arrow"), ([two, one], "one.arrow")):
        with pytest.raises(gm.SchemaError, match=r"columns=\[\"n\"\]") as caught:
            next(iter(gm.Mixture(pair)))
        assert caught.value.column == "only"
        assert all(word in str(caught.value) for word in (has, "two.arrow", "data set 0"))
    text = numbers(tmp_path / "text.arrow", n=texts)
    with pytest.raises(gm.SchemaError, match=r"Int64 in data set 0 .*Utf8 in data set 1") as caught:
        next(iter(gm.Mixture([two, text])))
    assert caught.value.column == "n"


def test_classes_that_one_does_not_name(tmp_path: Path) -> None:
    named = write(tmp_path / "a.arrow", {"label": pa.array([0])}, {"label": label(["x"])})
    plain = write(tmp_path / "b.arrow", {"label": pa.array([0])})
    with pytest.raises(gm.SchemaError, match=r"a.arrow\) of the mixture names its classes, data s"):
        next(iter(gm.Mixture([gm.ArrowIterDataset(plain), gm.ArrowIterDataset(named)])))


def test_audio_that_does_not_fit(tmp_path: Path) -> None:
    data = pa.array([encode(synthetic(0.1, RATE, 1, 1), RATE, "wav16")], pa.binary())
    one = write(tmp_path / "one.arrow", {"x": data, "y": data})

    def part(column: str, **options: Any) -> gm.ArrowIterDataset:
        audio = gm.Audio(column, **options)
        return gm.ArrowIterDataset(one, audio=audio, columns=["x", "y"])

    with pytest.raises(gm.SchemaError, match=r'decodes column "x", data set 1 .* column "y"'):
        next(iter(gm.Mixture([part("x"), part("y")])))
    encoded = gm.ArrowIterDataset(one, audio=None, columns=["x", "y"])
    with pytest.raises(gm.SchemaError, match=r'decodes column "x", data set 1 .* no column'):
        next(iter(gm.Mixture([part("x"), encoded])))
    for options, word in [
        ({"sample_rate": 8000}, "sample_rate 16000 and 8000"),
        ({"channels": "keep"}, "channels"),
        ({"dtype": "int16"}, "dtype"),
        ({"crop": gm.RandomCrop(2)}, "crop of seconds 1.0 and 2.0"),
        ({"crop": None}, "crop of seconds 1.0 and None"),
    ]:
        base: dict[str, Any] = {"sample_rate": 16_000, "crop": gm.CenterCrop(1)}
        with pytest.raises(ValueError, match=word):
            gm.Mixture([part("x", **base), part("x", **{**base, **options})])


@pytest.mark.parametrize(
    ("case", "what"), [(Case.DECODE, "decoding"), (Case.STORAGE_LATENCY, "reading")]
)
def test_a_verdict_names_the_data_set_that_takes_most(case: Case, what: str) -> None:
    def shard(k: int, read: float, decode: float) -> ShardStats:
        return ShardStats(
            f"/data/{k}.arrow",
            dataset=k,
            decoded_rows=5,
            busy_seconds=read,
            decode_busy_seconds=decode,
        )

    shards = (shard(0, 9, 1), shard(1, 1, 4), shard(1, 0, 4))
    verdict = name_dataset(Verdict(case, "It is slow."), Stats(shards=shards))
    number = 1 if case is Case.DECODE else 0
    assert verdict.figures["dataset"] == number
    assert verdict.text.startswith(f"It is slow. Data set {number} of the mixture ({number}.arrow")
    assert f"of the {what} for" in verdict.text
    consumer = Verdict(Case.CONSUMER, "Input is not the bottleneck.")
    assert name_dataset(consumer, Stats(shards=shards)) == consumer
    assert name_dataset(Verdict(case, "x"), Stats(shards=shards[:1])).text == "x"
    assert decide(Stats(shards=shards)).case is Case.TOO_EARLY
