"""A `datasets.Dataset` as the source: its rows, in its order, from the files behind it."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

import gristmill as gm
import shards
from signals import RATE, encode, synthetic

# `sort` of datasets passes an argument that pyarrow no longer wants.
pytestmark = pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasets")
    for name, n in (("big", 50), ("small", 12)):
        columns = {
            "id": [f"{name}-{i}" for i in range(n)],
            "n": [None if i % 7 == 3 else i for i in range(n)],
            "species": [i % 3 for i in range(n)],
        }
        features = datasets.Features(
            id=datasets.Value("string"),
            n=datasets.Value("int32"),
            species=datasets.ClassLabel(names=["wren", "crow", "owl"]),
        )
        made = datasets.Dataset.from_dict(columns, features=features)
        made.save_to_disk(folder / name, num_shards=3 if name == "big" else 1)
    return folder


def load(saved: Path, name: str = "big") -> Any:
    return datasets.load_from_disk(str(saved / name))


def rows(ds: Any, **options: Any) -> list[dict[str, Any]]:
    return list(gm.ArrowIterDataset(ds, **options))


def check(ds: Any) -> None:
    assert rows(ds) == list(ds)
    source = gm.ArrowIterDataset(ds)
    assert source.rows_per_epoch() == len(ds)
    by_index = gm.ArrowDataSource(ds)
    assert by_index.__getitems__(range(len(by_index))) == list(ds)


STEPS: dict[str, Callable[[Any, random.Random, Path], Any]] = {
    "list": lambda ds, rng, _: ds.select(
        [rng.randrange(len(ds)) for _ in range(rng.randrange(1, 40))]
    ),
    "range": lambda ds, rng, _: ds.select(range(rng.randrange(len(ds)), len(ds))),
    "filter": lambda ds, rng, _: ds.filter(lambda row: len(row["id"]) + (row["n"] or 0) % 2 > 5),
    "shuffle": lambda ds, rng, _: ds.shuffle(seed=rng.randrange(99)),
    "split": lambda ds, rng, _: (
        ds.train_test_split(0.5, seed=rng.randrange(99))["train"] if len(ds) > 1 else ds
    ),
    "shard": lambda ds, rng, _: ds.shard(2, 0, contiguous=rng.random() < 0.5),
    "sort": lambda ds, rng, _: ds.sort("id", reverse=rng.random() < 0.5),
    "twice": lambda ds, rng, _: datasets.concatenate_datasets([ds, ds]),
    "both": lambda ds, rng, saved: datasets.concatenate_datasets([load(saved, "small"), ds]),
    "halves": lambda ds, rng, _: datasets.concatenate_datasets(
        [ds.select(range(len(ds) // 2, len(ds))), ds.select(range(len(ds) // 2))]
    ),
    "types": lambda ds, rng, _: ds.cast_column("n", datasets.Value("int64")),
    "columns": lambda ds, rng, _: ds.select_columns(["n", "id"]),
}


@pytest.mark.parametrize("name", STEPS)
def test_each_step(saved: Path, name: str) -> None:
    check(STEPS[name](load(saved), random.Random(3), saved))


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_steps(saved: Path, seed: int) -> None:
    rng = random.Random(seed)
    ds = load(saved)
    for _ in range(rng.randrange(2, 6)):
        if "species" not in ds.column_names:
            names = [name for name in STEPS if name != "both"]
        else:
            names = list(STEPS)
        step = STEPS[rng.choice(names)](ds, rng, saved)
        if not 0 < len(step) < 500:
            continue
        ds = step
    check(ds)


def test_all_of_it_is_its_files(saved: Path) -> None:
    ds = load(saved)
    assert rows(ds) == rows(saved / "big") == rows(ds.cache_files) == list(ds)
    assert rows(ds.cache_files[1]) == list(ds)[17:34]
    # And so is its state.
    states = []
    for source in (ds, saved / "big"):
        it = iter(gm.ArrowIterDataset(source, shuffle=gm.Shuffle(1)))
        next(it)
        states.append(it.get_state())
    assert states[0] == states[1]


def test_an_empty_selection_is_refused(saved: Path) -> None:
    for empty in (load(saved).select([]), load(saved).shuffle(seed=1).select([])):
        with pytest.raises(ValueError, match="this datasets object has no rows"):
            gm.ArrowIterDataset(empty)


def test_options_count_its_rows(saved: Path) -> None:
    ds = load(saved).shuffle(seed=1)
    own = list(ds)
    assert rows(ds, rows=[3, 3, 0]) == [own[3], own[3], own[0]]
    mask = np.arange(50) % 4 == 0
    assert rows(ds, rows=mask) == [own[i] for i in np.flatnonzero(mask)]
    filtered = rows(ds, filters=[("n", ">", 20), ("species", "==", "owl")])
    assert filtered == [row for row in own if (row["n"] or 0) > 20 and row["species"] == 2]
    weights = np.zeros(50)
    weights[7] = 1
    assert rows(ds, sampling=gm.Weighted(weights, draws=2)) == [own[7]] * 2


def test_what_is_the_same_for_another_process(saved: Path) -> None:
    ds = gm.ArrowIterDataset(load(saved).shuffle(seed=2), shuffle=gm.Shuffle(3), epochs=2)
    assert list(pickle.loads(pickle.dumps(ds))) == list(ds)
    assert (
        repr(ds) == "ArrowIterDataset(<datasets.Dataset of 3 files>, columns=['id', 'n', "
        "'species'], shuffle=Shuffle(seed=3), epochs=2)"
    )


def test_audio_is_decoded(tmp_path: Path) -> None:
    data = [encode(synthetic(0.1, RATE, 1, i), RATE, "wav16") for i in range(6)]
    shards.write_audio(tmp_path / "a.arrow", data)
    ds = datasets.Dataset.from_file(str(tmp_path / "a.arrow")).select_columns(["audio", "count"])
    ds = ds.cast_column("audio", datasets.Audio(decode=False)).shuffle(seed=4)
    got = rows(ds)
    assert [row["count"] for row in got] == ds["count"][:]
    for ours, row in zip(got, ds, strict=True):
        assert np.array_equal(ours["audio"], gm.decode(row["audio"]["bytes"]))


SAVE = r'ds.save_to_disk\("folder"\)\n.*load_from_disk\("folder"\)\n.*gm.ArrowIterDataset\(ds\)'


def test_what_has_no_files_is_refused(saved: Path) -> None:
    ds = load(saved)
    memory = datasets.Dataset.from_dict({"id": ["a"], "n": [1]})
    with pytest.raises(
        ValueError, match="(?s)in memory only, and gristmill reads files: .*" + SAVE
    ):
        gm.ArrowIterDataset(memory)
    both = datasets.concatenate_datasets([ds.select_columns(["id"]), memory.select_columns(["id"])])
    with pytest.raises(ValueError, match="in memory only"):
        gm.ArrowIterDataset(both)
    with pytest.raises(ValueError, match=r"(?s)changed in memory \(rename_columns\).*" + SAVE):
        gm.ArrowIterDataset(ds.rename_column("id", "name"))
    with pytest.raises(ValueError, match="side by side"):
        gm.ArrowIterDataset(ds.add_column("k", list(range(50))))
    with pytest.raises(ValueError, match=r"reset_format\(\).*\.map\(function\)"):
        gm.ArrowIterDataset(ds.with_transform(lambda batch: batch))


def test_several_splits_are_refused(saved: Path) -> None:
    both = load(saved).train_test_split(0.5)
    with pytest.raises(
        ValueError, match=r"\(train, test\): write gm.ArrowIterDataset\(ds\['train'\]\)"
    ):
        gm.ArrowIterDataset(both)


def test_streams_are_refused(saved: Path) -> None:
    ds = load(saved).to_iterable_dataset()
    with pytest.raises(ValueError, match=r"streams its rows, .* without streaming=True"):
        gm.ArrowIterDataset(ds)


def test_changed_files_are_refused(saved: Path, tmp_path: Path) -> None:
    made = datasets.Dataset.from_dict({"n": list(range(20))})
    made.save_to_disk(tmp_path / "s")
    source = gm.ArrowIterDataset(datasets.load_from_disk(str(tmp_path / "s")).select([3, 19]))
    made.select(range(10)).save_to_disk(tmp_path / "t")
    name = "data-00000-of-00001.arrow"
    (tmp_path / "s" / name).write_bytes((tmp_path / "t" / name).read_bytes())
    with pytest.raises(ValueError, match="they have changed since it was loaded; load it again"):
        next(iter(source))


def test_a_format_of_some_columns(saved: Path) -> None:
    ds = load(saved).with_format("numpy", columns=["species", "id"])
    assert [set(row) for row in rows(ds)] == [set(row) for row in ds] == [{"id", "species"}] * 50
