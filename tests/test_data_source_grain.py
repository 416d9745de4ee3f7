"""`gm.ArrowDataSource` inside Grain: `MapDataset`, `DataLoader`, and Grain's own tests."""

from __future__ import annotations

import hashlib
import importlib
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import grain
import numpy as np
import pyarrow as pa
import pytest
from absl import flags
from grain._src.python.dataset import base

import gristmill as gm

CROP = gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=0.3, seed=5))


def label(element: dict[str, Any]) -> dict[str, Any]:
    return {"audio": element["audio"], "count": element["count"]}


@pytest.fixture
def source(same_rate: list[Path]) -> gm.ArrowDataSource:
    return gm.ArrowDataSource(same_rate, columns=["audio", "count"], audio=CROP)


def test_it_has_grains_protocols(source: gm.ArrowDataSource) -> None:
    assert isinstance(source, base.RandomAccessDataSource)
    assert isinstance(source, base.SupportsBatchedReadRandomAccessDataSource)
    assert grain.MapDataset.source(source).map(label)[30]["count"] == source[5]["count"]


def test_in_a_map_dataset(source: gm.ArrowDataSource) -> None:
    plain = [source[i] for i in range(25)]
    order = [int(e["count"]) for e in grain.MapDataset.source(source).shuffle(seed=1)]
    assert sorted(order) != order
    for threads in (0, 1, 16):
        dataset = grain.MapDataset.source(source).shuffle(seed=1).batch(4)
        read = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=8)
        batches = list(dataset.to_iter_dataset(read))
        counts = np.concatenate([batch["count"] for batch in batches])
        assert counts.tolist() == order
        audio = np.concatenate([batch["audio"] for batch in batches])
        by_count = {int(row["count"]): row["audio"] for row in plain}
        for k, count in enumerate(order):
            assert np.array_equal(audio[k], by_count[count])


def test_a_state_of_the_pipeline_goes_on(source: gm.ArrowDataSource) -> None:
    dataset = grain.MapDataset.source(source).shuffle(seed=3).repeat(2).batch(4).to_iter_dataset()
    it = iter(dataset)
    for _ in range(5):
        next(it)
    state = it.get_state()
    rest = [batch["count"].tolist() for batch in it]
    other = iter(dataset)
    other.set_state(state)
    assert [batch["count"].tolist() for batch in other] == rest


def test_each_epoch_has_its_own_crops(source: gm.ArrowDataSource) -> None:
    epochs = [grain.MapDataset.source(source.at_epoch(e)).shuffle(seed=e) for e in range(2)]
    dataset = grain.MapDataset.concatenate(epochs)
    first, second = (
        {int(dataset[k]["count"]): dataset[k]["audio"] for k in part}
        for part in (range(25), range(25, 50))
    )
    assert first.keys() == second.keys()
    assert sum(not np.array_equal(first[k], second[k]) for k in first) > 20
    repeated = grain.MapDataset.source(source).repeat(2)
    assert all(np.array_equal(repeated[k]["audio"], repeated[k + 25]["audio"]) for k in range(25))


@pytest.mark.timeout(240)
def test_in_worker_processes(source: gm.ArrowDataSource) -> None:
    flags.FLAGS.mark_as_parsed()
    dataset = grain.MapDataset.source(source).shuffle(seed=1).batch(5).to_iter_dataset()
    here = {tuple(batch["count"].tolist()): batch["audio"] for batch in dataset}
    there = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    batches = list(there)
    assert len(batches) == len(here) == 5
    for batch in batches:
        assert np.array_equal(batch["audio"], here[tuple(batch["count"].tolist())])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("workers", [0, 2])
def test_in_a_data_loader(source: gm.ArrowDataSource, workers: int) -> None:
    flags.FLAGS.mark_as_parsed()

    def loader(data: gm.ArrowDataSource) -> grain.DataLoader:
        sampler = grain.samplers.IndexSampler(len(data), num_epochs=2, shuffle=True, seed=7)
        return grain.DataLoader(
            data_source=data,
            sampler=sampler,
            operations=[grain.transforms.Batch(5)],
            worker_count=workers,
        )

    it = iter(loader(source))
    batches = [next(it) for _ in range(3)]
    state = it.get_state()
    rest = list(it)
    counts = np.concatenate([batch["count"] for batch in batches + rest])
    assert sorted(counts.tolist()) == sorted(2 * [int(source[i]["count"]) for i in range(25)])
    by_count = {int(row["count"]): row["audio"] for row in source.__getitems__(range(25))}
    for batch in batches + rest:
        for count, audio in zip(batch["count"], batch["audio"], strict=True):
            assert np.array_equal(audio, by_count[int(count)])
    again = iter(loader(source))
    again.set_state(state)
    assert [b["count"].tolist() for b in again] == [b["count"].tolist() for b in rest]
    other = iter(loader(source.at_epoch(1)))
    with pytest.raises(ValueError, match="epoch=1"):
        other.set_state(state)


class Elements:
    """A source of Grain's tests, with its elements in a shard: one pickled element a row."""

    folder: Path
    n_made = 0

    def __init__(self, data: Any) -> None:
        rows = [cloudpickle.dumps(element) for element in data]
        path = self.folder / f"{hashlib.sha256(b'|'.join(rows)).hexdigest()}.arrow"
        if not path.exists():
            batch = pa.record_batch({"element": pa.array(rows, pa.binary())})
            with pa.ipc.new_stream(str(path), batch.schema) as writer:
                writer.write_batch(batch)
        read = gm.ReadOptions(num_threads=1)
        self.rows = gm.ArrowDataSource(path, columns=["element"], audio=None, read=read)
        Elements.n_made += 1

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return cloudpickle.loads(self.rows[index]["element"])

    def __repr__(self) -> str:
        return repr(self.rows)


class BatchedElements(Elements):
    def _getitems(self, indices: Any) -> Any:
        return [cloudpickle.loads(row["element"]) for row in self.rows.__getitems__(indices)]


@pytest.fixture
def grain_reads_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of Grain's tests, all of whose sources of lists are ours."""
    Elements.folder, Elements.n_made = tmp_path, 0
    package = "grain._src.python.dataset.transformations"
    module = importlib.import_module(f"{package}.source")
    theirs = module.SourceMapDataset.__init__

    def init(self: Any, source: Any) -> None:
        if isinstance(source, (list, tuple, range, np.ndarray)) and len(source) <= 5_000:
            source = BatchedElements(source)
        theirs(self, source)

    monkeypatch.setattr(module.SourceMapDataset, "__init__", init)

    def load(name: str) -> Any:
        try:
            tests = importlib.import_module(f"{package}.{name}_test")
        except ImportError:
            pytest.skip("this wheel of Grain comes without its tests")
        for kind, ours in [
            ("_MyRandomAccessDataSource", Elements),
            ("_MySupportsBatchedReadRandomAccessDataSource", BatchedElements),
        ]:
            if hasattr(tests, kind):
                monkeypatch.setattr(tests, kind, ours)
        return tests

    return load


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("name", "wanted", "at_least", "made"),
    [
        ("source", "", 15, 16),
        ("shuffle", "MapDataset", 10, 5),
        ("slice", "", 5, 1),
        ("repeat", "MapDataset", 5, 1),
        ("map", "MapDataset", 10, 5),
        ("batch", "MapDataset", 10, 5),
        ("filter", "MapDataset", 2, 1),
        ("mix", "MapDataset", 5, 5),
        ("zip", "MapDataset", 5, 5),
    ],
)
def test_grains_own_tests_of_sources(
    grain_reads_ours: Callable[[str], Any], name: str, wanted: str, at_least: int, made: int
) -> None:
    flags.FLAGS.mark_as_parsed()
    tests = grain_reads_ours(name)

    def flat(suite: Any) -> list[Any]:
        return (
            [test for part in suite for test in flat(part)]
            if isinstance(suite, unittest.TestSuite)
            else [suite]
        )

    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    chosen = unittest.TestSuite(test for test in flat(suite) if wanted in test.id())
    result = unittest.TestResult()
    chosen.run(result)
    assert not result.errors + result.failures, (result.errors + result.failures)[0][1]
    assert result.testsRun - len(result.skipped) >= at_least
    assert Elements.n_made >= made
