"""Class labels that mean different classes in different shards: joined by name, or refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from gristmill.tools.inspect import inspect
from rounds import rounds


def label(*names: str) -> dict[str, Any]:
    return {"names": list(names), "_type": "ClassLabel"}


def save(path: Path, table: pa.Table, features: dict[str, Any] | None) -> Path:
    if features is not None:
        table = shards.with_features(table, features)
    return shards.write_table(path, table, 3)


def shard(path: Path, features: dict[str, Any] | None, labels: Any = (0, 1)) -> Path:
    kind = pa.list_(pa.int64()) if isinstance(labels[0], list) else pa.int64()
    numbers = pa.array(range(len(labels)), pa.int32())
    return save(path, pa.table({"label": pa.array(labels, kind), "n": numbers}), features)


OTHER_ORDER = {"label": label("crow", "wren")}
CASES: dict[str, tuple[Any, Any, Any]] = {
    "another order": ({"label": label("wren", "crow")}, OTHER_ORDER, (0, 1)),
    "another name": ({"label": label("wren", "crow")}, {"label": label("wren", "rook")}, (0, 1)),
    "one more": ({"label": label("wren", "crow")}, {"label": label("wren", "crow", "owl")}, (0, 1)),
    "in a list": (
        {"label": {"feature": label("wren", "crow"), "_type": "List"}},
        {"label": {"feature": label("crow", "wren"), "_type": "List"}},
        ([0, 1], [1]),
    ),
    "in a list as older versions write it": (
        {"label": [label("wren", "crow")]},
        {"label": [label("crow", "wren")]},
        ([0, 1], [1]),
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_strict_refuses_other_classes_with_both_lists(tmp_path: Path, case: str) -> None:
    one, other, labels = CASES[case]
    paths = [
        shard(tmp_path / "a.arrow", one, labels),
        shard(tmp_path / "b.arrow", one, labels),
        shard(tmp_path / "c.arrow", other, labels),
    ]
    with pytest.raises(gm.SchemaError, match="different classes") as caught:
        next(iter(gm.ArrowIterDataset(paths, labels="strict")))
    assert caught.value.column == "label"
    message = str(caught.value)
    assert all(name in message for name in ("a.arrow", "c.arrow", '0: "wren"', "1:"))
    for refused in (
        lambda: gm.ArrowDataSource(paths, labels="strict")[0],
        lambda: gm.ArrowIterDataset(paths, labels="strict").class_names("label"),
        lambda: gm.ArrowIterDataset(paths, labels="strict")._element_spec,
    ):
        with pytest.raises(gm.SchemaError, match="different classes"):
            refused()
    # What is not asked for may differ.
    assert len(list(gm.ArrowIterDataset(paths, columns=["n"], labels="strict"))) == 6
    assert len(list(gm.ArrowIterDataset(paths[:2], labels="strict"))) == 4


def named(names: Sequence[str], value: Any) -> Any:
    """The class names that an id, or a list of ids, stands for."""
    if isinstance(value, (list, np.ndarray)):
        return [named(names, item) for item in value]
    return None if value is None else value if value < 0 else names[value]


@pytest.mark.parametrize("case", list(CASES))
def test_ids_mean_the_same_names(tmp_path: Path, case: str) -> None:
    one, other, labels = CASES[case]
    paths = [shard(tmp_path / "a.arrow", one, labels), shard(tmp_path / "b.parquet", other, labels)]
    for order, features in ((paths, (one, other)), (paths[::-1], (other, one))):
        dataset = gm.ArrowIterDataset(order)
        found = [named(dataset.class_names("label"), row["label"]) for row in dataset]
        alone = [gm.ArrowIterDataset(path) for path in order]
        expected = [named(of.class_names("label"), r["label"]) for of in alone for r in of]
        assert found == expected
        both = [of.class_names("label") for of in alone]
        assert dataset.class_names("label") == tuple(dict.fromkeys([*both[0], *both[1]]))
        joined = dataset.features["label"]
        assert type(joined) is type(features[0]["label"])


NESTED = pa.struct([("kind", pa.int64()), ("kinds", pa.list_(pa.int64()))])


@settings(max_examples=rounds(30), deadline=None)
@given(
    lists=st.lists(
        st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True),
        min_size=1,
        max_size=5,
    ),
    data=st.data(),
)
@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_any_lists_are_joined_by_name(
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    lists: list[list[str]],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("classes")
    paths, expected = [], []
    for k, names in enumerate(lists):
        ids = data.draw(
            st.lists(st.none() | st.integers(-1, len(names) - 1), min_size=1, max_size=5)
        )
        rows = [{"kind": i, "kinds": None if i is None else [i, 0]} for i in ids]
        table = pa.table(
            {
                "label": pa.array(ids, pa.int64()),
                "large": pa.array([r["kinds"] for r in rows], pa.large_list(pa.int64())),
                "nested": pa.array(rows, NESTED),
            }
        )
        features = {
            "label": label(*names),
            "large": {"feature": label(*names), "_type": "LargeList"},
            "nested": {"kind": label(*names), "kinds": [label(*names)]},
        }
        paths.append(save(folder / f"{k}.{suffix}", table, features))
        expected += [
            (named(names, i), named(names, r["kinds"])) for i, r in zip(ids, rows, strict=True)
        ]
    dataset = gm.ArrowIterDataset(paths)
    every = tuple(dict.fromkeys(name for names in lists for name in names))
    paths_of = ("label", "large", "nested.kind", "nested.kinds")
    assert all(dataset.class_names(path) == every for path in paths_of)
    for row, (one, several) in zip(dataset, expected, strict=True):
        nested = row["nested"]
        assert [named(every, x) for x in (row["label"], nested["kind"])] == [one, one]
        assert [named(every, x) for x in (row["large"], nested["kinds"])] == [several, several]
    features = datasets.Features.from_dict(dataset.features)
    assert features["label"].names == list(every)
    assert features["large"].feature.names == list(every)


def pair(tmp_path: Path, **columns: Any) -> tuple[list[Path], list[str]]:
    """Two shards of labels by other lists, and the names of their rows."""
    rows = [0, 1, 1, 2, 0, 2, 1, 1]
    lists = [["wren", "crow", "owl"], ["owl", "rook", "wren"]]
    paths = [
        shard(tmp_path / f"{k}.arrow", {"label": label(*of)}, rows) for k, of in enumerate(lists)
    ]
    return paths, [names[id_] for names in lists for id_ in rows]


def test_options_see_the_classes_of_all_shards(tmp_path: Path) -> None:
    paths, names = pair(tmp_path)
    every = ("wren", "crow", "owl", "rook")
    dataset = gm.ArrowIterDataset(paths, batch_size=16, multi_hot=["label"])
    assert dataset.class_names("label") == every
    (batch,) = dataset
    assert batch["label"].shape == (16, 4)
    assert [every[k] for k in batch["label"].argmax(1)] == names
    assert dataset._element_spec["label"].shape == (None, 4)
    for name in every:
        for value in (name, every.index(name)):
            rows = list(gm.ArrowIterDataset(paths, filters=[("label", "==", value)]))
            assert len(rows) == names.count(name), name
            assert {int(row["label"]) for row in rows} == {every.index(name)}
    with pytest.raises(gm.SchemaError, match=r"none of its 4"):
        next(iter(gm.ArrowIterDataset(paths, filters=[("label", "==", "heron")])))
    parts = {"one": 0.5, "other": 0.5}
    split = [
        {int(r["label"]) for r in gm.ArrowIterDataset(paths, split=gm.Split(p, parts, by="label"))}
        for p in parts
    ]
    assert not split[0] & split[1]
    assert split[0] | split[1] == {0, 1, 2, 3}
    balanced = gm.ArrowIterDataset(paths, sampling=gm.Balanced("label", seed=1), epochs=50)
    counts = np.bincount([row["label"] for row in balanced], minlength=4)
    assert counts.max() < 1.4 * counts.min()
    source = gm.ArrowDataSource(paths, multi_hot=["label"])
    assert [every[int(source[k]["label"].argmax())] for k in range(len(source))] == names


def test_inspect_counts_the_classes_of_all_shards(tmp_path: Path) -> None:
    paths, names = pair(tmp_path)
    found = inspect(paths)
    assert found.class_names == {"label": ["wren", "crow", "owl", "rook"]}
    assert found.class_counts == {"label": [names.count(n) for n in found.class_names["label"]]}


def test_states_do_not_depend_on_the_lists(tmp_path: Path) -> None:
    def dataset(folder: Path, *lists: list[str]) -> gm.ArrowIterDataset:
        folder.mkdir()
        paths = [shard(folder / f"{k}.arrow", {"label": label(*of)}) for k, of in enumerate(lists)]
        return gm.ArrowIterDataset(paths, shuffle=gm.Shuffle(seed=3))

    same = iter(dataset(tmp_path / "same", ["a", "b"], ["a", "b"]))
    other = iter(dataset(tmp_path / "other", ["a", "b"], ["b", "a"]))
    next(same)
    other.set_state(same.get_state())
    assert [int(row["n"]) for row in other] == [int(row["n"]) for row in same]


def test_ids_beyond_a_list(tmp_path: Path) -> None:
    """In a shard whose list is that of all they stay; else they would mean another class."""
    few, many = {"label": label("a")}, {"label": label("a", "b", "c")}
    ids = (-1, 0, 1, 7)

    def found(*features: Any) -> list[int]:
        of = [shard(tmp_path / f"{k}.arrow", f, ids) for k, f in enumerate(features)]
        return [int(row["label"]) for row in gm.ArrowIterDataset(of)]

    assert found(few) == [-1, 0, 1, 7]
    assert found(few, few, None) == [-1, 0, 1, 7] * 3
    assert found(few, many) == [-1, 0, -1, -1, -1, 0, 1, -1]
    assert found(many, few) == [-1, 0, 1, -1, -1, 0, -1, -1]


def test_a_mixture_never_gives_an_id_of_a_class_that_it_was_not(tmp_path: Path) -> None:
    paths = [
        shard(tmp_path / "a.arrow", {"label": label("a")}, (0, 1)),
        shard(tmp_path / "b.arrow", {"label": label("b")}, (0, 1)),
    ]
    mixture = gm.Mixture([gm.ArrowIterDataset(path) for path in paths], stop="all")
    assert sorted(int(row["label"]) for row in mixture) == [-1, -1, 0, 1]


def test_a_mixture_of_data_sets_whose_shards_differ(tmp_path: Path) -> None:
    lists = [["a", "b"], ["b", "c"], ["d", "a"], ["c", "d"]]
    paths = [shard(tmp_path / f"{k}.arrow", {"label": label(*of)}) for k, of in enumerate(lists)]
    parts = [gm.ArrowIterDataset(paths[:2]), gm.ArrowIterDataset(paths[2:])]
    mixture = gm.Mixture(parts, stop="all", with_row_id=True)
    every = mixture.class_names("label")
    assert every == ("a", "b", "c", "d")
    for row in mixture:
        own = lists[2 * row["dataset"] + row["shard"]]
        assert every[row["label"]] == own[row["row"]]
    strict = gm.Mixture(parts, labels="strict")
    with pytest.raises(gm.SchemaError, match=r"data set 0 .*0: .a.*data set 1 .*0: .d.") as caught:
        next(iter(strict))
    assert caught.value.column == "label"
    with pytest.raises(gm.SchemaError, match="different classes"):
        strict.class_names("label")
    assert 'labels="strict"' in repr(strict).replace("'", '"')
    strict_parts = [gm.ArrowIterDataset(paths[:2], labels="strict"), parts[1]]
    with pytest.raises(gm.SchemaError, match="different classes"):
        next(iter(gm.Mixture(strict_parts)))


def test_a_long_list_is_shown_from_its_first_difference(tmp_path: Path) -> None:
    names = [f"species-{k}" for k in range(400)]
    swapped = [*names[:300], names[301], names[300], *names[302:]]
    paths = [
        shard(tmp_path / "a.arrow", {"label": label(*names)}),
        shard(tmp_path / "b.arrow", {"label": label(*swapped)}),
    ]
    with pytest.raises(gm.SchemaError) as caught:
        next(iter(gm.ArrowIterDataset(paths, labels="strict")))
    message = str(caught.value)
    assert '300: "species-300"' in message
    assert '300: "species-301"' in message
    assert "species-7" not in message
    assert len(message) < 1_000


def test_the_same_classes_and_shards_without_names_are_read(tmp_path: Path) -> None:
    same = {"label": label("wren", "crow")}
    paths = [
        shard(tmp_path / "a.arrow", None),
        shard(tmp_path / "b.arrow", same),
        shard(tmp_path / "c.arrow", {"label": {"num_classes": 2, "_type": "ClassLabel"}}),
        shard(tmp_path / "d.arrow", {"n": {"dtype": "int32", "_type": "Value"}, **same}),
    ]
    assert len(list(gm.ArrowIterDataset(paths))) == 8
    assert gm.ArrowIterDataset(paths).class_names("label") == ("wren", "crow")


REFUSED: dict[str, tuple[list[Any], str]] = {
    "a shard without names": ([label("a", "b"), label("b", "a"), None], r"2\.arrow lists none"),
    "names that are no strings": (
        [label("a", "b"), label("b", "a"), {"names": [1, 2], "_type": "ClassLabel"}],
        r"2\.arrow lists none",
    ),
    "a name twice": ([label("a", "b"), label("a", "a")], r'1\.arrow lists "a" twice'),
    "a name twice in the first": ([label("a", "a"), label("a", "b")], r'0\.arrow lists "a" twice'),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_lists_that_cannot_be_told_by_name_are_refused(tmp_path: Path, case: str) -> None:
    lists, message = REFUSED[case]
    paths = [
        shard(tmp_path / f"{k}.arrow", None if of is None else {"label": of})
        for k, of in enumerate(lists)
    ]
    with pytest.raises(gm.SchemaError, match=message) as caught:
        next(iter(gm.ArrowIterDataset(paths)))
    assert caught.value.column == "label"
    assert "columns=[...]" in str(caught.value)
    assert len(list(gm.ArrowIterDataset(paths, columns=["n"]))) == 2 * len(paths)
    assert len(list(gm.ArrowIterDataset(paths[-1]))) == 2


def test_ids_of_another_type_are_refused(tmp_path: Path) -> None:
    def narrow(k: int, *names: str) -> Path:
        table = pa.table({"label": pa.array([0], pa.int32())})
        return save(tmp_path / f"{k}.arrow", table, {"label": label(*names)})

    paths = [narrow(0, "a", "b"), narrow(1, "b", "a")]
    with pytest.raises(gm.SchemaError, match=r"not Int32.*int64"):
        next(iter(gm.ArrowIterDataset(paths)))
    # Beside int64 they become that, and then those of all.
    wide = [paths[0], shard(tmp_path / "2.arrow", {"label": label("b", "a")})]
    found = gm.ArrowIterDataset(wide, columns=["label"])
    assert [int(row["label"]) for row in found] == [0, 1, 0]


LIES = [
    "",
    "{",
    "null",
    '{"info": {"features": 7}}',
    '{"info": {"features": {"label": 3}}}',
    "[" * 9999,
]


@pytest.mark.parametrize("lie", LIES)
def test_metadata_of_any_other_shape_gives_no_names(tmp_path: Path, lie: str) -> None:
    table = pa.table({"label": pa.array([0, 1]), "n": pa.array([0, 1], pa.int32())})
    paths = [
        save(tmp_path / "a.arrow", table.replace_schema_metadata({"huggingface": lie}), None),
        shard(tmp_path / "b.arrow", {"label": label("a", "b")}),
    ]
    for order in (paths, paths[::-1]):
        dataset = gm.ArrowIterDataset(order)
        assert [int(row["label"]) for row in dataset] == [0, 1, 0, 1]
        assert dataset.class_names("label") == ("a", "b")


def test_features_that_name_other_columns_and_types(tmp_path: Path) -> None:
    """Names for text, for structs, and for columns that are not there."""
    table = pa.table({"text": ["x"], "place": pa.array([{"a": 1}])})
    of = [
        {"text": label(*names), "place": label(*names), "none": label(*names)}
        for names in (["x", "y"], ["y", "x"])
    ]
    paths = [save(tmp_path / f"{k}.arrow", table, features) for k, features in enumerate(of)]
    rows = list(gm.ArrowIterDataset(paths))
    assert [row["text"] for row in rows] == ["x", "x"]
    assert [int(row["place"]["a"]) for row in rows] == [1, 1]
    hot = next(iter(gm.ArrowIterDataset(paths, columns=["text"], batch_size=2, multi_hot=["text"])))
    assert hot["text"].tolist() == [[1, 0], [1, 0]]


def test_a_hundred_thousand_names(tmp_path: Path) -> None:
    names = [f"species {k}" for k in range(100_000)]
    rotated = names[1:] + names[:1]
    ids = (0, 99_999, 5, -1)
    paths = [
        shard(tmp_path / "a.arrow", {"label": label(*names)}, ids),
        shard(tmp_path / "b.arrow", {"label": label(*rotated)}, ids),
    ]
    dataset = gm.ArrowIterDataset(paths)
    assert [int(r["label"]) for r in dataset] == [*ids, 1, 0, 6, -1]
    assert len(dataset.class_names("label")) == 100_000


def test_as_datasets_joins_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `datasets` has one feature for all, so have we; it casts, and keeps the same names."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    datasets.disable_progress_bars()
    features = datasets.Features(
        {"label": datasets.ClassLabel(names=["a", "b"]), "n": datasets.Value("int64")}
    )
    parts = [
        datasets.Dataset.from_dict({"label": [0, 1], "n": [1, 2]}, features=features),
        datasets.Dataset.from_dict({"label": [1, 0], "n": [None, None]}, features=features),
    ]
    for k, part in enumerate(parts):
        part.save_to_disk(tmp_path / str(k))
    files = [path for k in range(2) for path in sorted((tmp_path / str(k)).glob("*.arrow"))]
    theirs = datasets.concatenate_datasets(parts)
    ours = gm.ArrowIterDataset(list(map(os.fspath, files)))
    assert [int(row["label"]) for row in ours] == theirs["label"][:]
    assert datasets.Features.from_dict(ours.features) == theirs.features


@pytest.mark.parametrize("wrong", ["names", None, True, 1])
def test_another_word_for_labels_is_refused(tmp_path: Path, wrong: Any) -> None:
    for make in (gm.ArrowIterDataset, gm.ArrowDataSource):
        with pytest.raises(ValueError, match="labels"):
            make(tmp_path, labels=wrong)
    with pytest.raises(ValueError, match="labels"):
        gm.Mixture([gm.ArrowIterDataset(tmp_path)], labels=wrong)
