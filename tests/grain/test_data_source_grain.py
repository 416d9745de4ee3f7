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


def key(element: dict[str, Any]) -> list[int]:
    """What tells rows from each other, of one or of a batch."""
    return np.ravel(1_000 * element["shard"] + element["row"]).tolist()


def by_key(source: gm.ArrowDataSource) -> dict[int, Any]:
    rows = source.__getitems__(range(len(source)))
    return {key(row)[0]: row["audio"] for row in rows}


@pytest.fixture
def source(same_rate: list[Path]) -> gm.ArrowDataSource:
    return gm.ArrowDataSource(same_rate, columns=["audio"], audio=CROP, with_row_id=True)


def test_it_has_grains_protocols(source: gm.ArrowDataSource) -> None:
    assert isinstance(source, base.RandomAccessDataSource)
    assert isinstance(source, base.SupportsBatchedReadRandomAccessDataSource)
    assert key(grain.MapDataset.source(source)[30]) == key(source[5])


def test_in_a_map_dataset(source: gm.ArrowDataSource) -> None:
    expected = by_key(source)
    order = [k for e in grain.MapDataset.source(source).shuffle(seed=1) for k in key(e)]
    assert sorted(order) == sorted(expected) != order
    for threads in (0, 1, 16):
        dataset = grain.MapDataset.source(source).shuffle(seed=1).batch(4)
        read = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=8)
        batches = list(dataset.to_iter_dataset(read))
        assert [k for batch in batches for k in key(batch)] == order
        audio = np.concatenate([batch["audio"] for batch in batches])
        for k, row in zip(order, audio, strict=True):
            assert np.array_equal(row, expected[k])


def test_a_state_of_the_pipeline_goes_on(source: gm.ArrowDataSource) -> None:
    dataset = grain.MapDataset.source(source).shuffle(seed=3).repeat(2).batch(4).to_iter_dataset()
    it = iter(dataset)
    for _ in range(5):
        next(it)
    state = it.get_state()
    rest = [key(batch) for batch in it]
    other = iter(dataset)
    other.set_state(state)
    assert [key(batch) for batch in other] == rest


def test_each_epoch_has_its_own_crops(source: gm.ArrowDataSource) -> None:
    epochs = [grain.MapDataset.source(source.at_epoch(e)).shuffle(seed=e) for e in range(2)]
    dataset = grain.MapDataset.concatenate(epochs)
    assert len(dataset) == 50
    orders: list[list[int]] = []
    for epoch in range(2):
        rows = [dataset[k] for k in range(25 * epoch, 25 * epoch + 25)]
        expected = by_key(source.at_epoch(epoch))
        assert all(np.array_equal(row["audio"], expected[key(row)[0]]) for row in rows)
        orders.append([k for row in rows for k in key(row)])
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    first, second = by_key(source), by_key(source.at_epoch(1))
    assert sum(not np.array_equal(first[k], second[k]) for k in first) > 20
    repeated = grain.MapDataset.source(source).repeat(2)
    assert all(np.array_equal(repeated[k]["audio"], repeated[k + 25]["audio"]) for k in range(25))


def test_in_worker_processes(source: gm.ArrowDataSource) -> None:
    flags.FLAGS.mark_as_parsed()
    dataset = grain.MapDataset.source(source).shuffle(seed=1).batch(5).to_iter_dataset()
    expected = by_key(source)
    there = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    batches = list(there)
    assert sorted(k for batch in batches for k in key(batch)) == sorted(expected)
    for batch in batches:
        for k, audio in zip(key(batch), batch["audio"], strict=True):
            assert np.array_equal(audio, expected[k])


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

    expected = by_key(source)
    it = iter(loader(source))
    batches = [next(it) for _ in range(3)]
    state = it.get_state()
    rest = list(it)
    assert sorted(k for batch in batches + rest for k in key(batch)) == sorted(2 * [*expected])
    for batch in batches + rest:
        for k, audio in zip(key(batch), batch["audio"], strict=True):
            assert np.array_equal(audio, expected[k])
    again = iter(loader(source))
    again.set_state(state)
    assert [key(batch) for batch in again] == [key(batch) for batch in rest]
    other = iter(loader(source.at_epoch(1)))
    with pytest.raises(ValueError, match="epoch=1"):
        other.set_state(state)


def state_of(data: gm.ArrowDataSource) -> Any:
    it = iter(loader_of(data))
    next(it)
    return it.get_state()


def loader_of(data: gm.ArrowDataSource) -> grain.DataLoader:
    sampler = grain.samplers.IndexSampler(
        len(data), grain.sharding.NoSharding(), shuffle=True, seed=7, num_epochs=1
    )
    return grain.DataLoader(data_source=data, sampler=sampler, worker_count=0)


EVEN = np.arange(40) % 2 == 0
OTHER_ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mask": ({"rows": EVEN}, {"rows": ~EVEN}),
    "rows": ({"rows": range(30)}, {"rows": [*range(29), 30]}),
    "order of rows": ({"rows": [1, 2, 3]}, {"rows": [1, 3, 2]}),
    "exclusions": ({"exclude": [(0, 1)]}, {"exclude": [(0, 2)]}),
    "paths": ({}, {"reverse": True}),
    "selection": ({"select": range(10)}, {"select": range(10, 20)}),
}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_a_loader_refuses_a_state_of_other_rows(
    numbered: list[Path], tmp_path: Path, name: str
) -> None:
    """It compares the text of the source, which shows only how many rows were chosen."""

    def make(options: dict[str, Any]) -> gm.ArrowDataSource:
        paths: Any = [tmp_path / f"{k}-{'long' * 20}.arrow" for k in range(4)]
        for path, shard in zip(paths, numbered, strict=True):
            path.write_bytes(shard.read_bytes())
        given = dict(options)
        if given.pop("reverse", False):
            paths = [paths[0], *paths[:0:-1]]
        if "select" in given:
            datasets = pytest.importorskip("datasets")
            whole = datasets.Dataset.from_file(str(numbered[3]))
            paths = whole.select(given.pop("select"))
        return gm.ArrowDataSource(paths, columns=["count"], audio=None, **given)

    first, second = map(make, OTHER_ROWS[name])
    again = iter(loader_of(make(OTHER_ROWS[name][0])))
    again.set_state(state_of(first))
    with pytest.raises(ValueError, match="DataSource in checkpoint does not match"):
        iter(loader_of(second)).set_state(state_of(first))


def test_a_loader_takes_a_state_with_other_threads(numbered: list[Path], tmp_path: Path) -> None:
    """What changes no row may change between save and restore."""

    def make(job: int) -> gm.ArrowDataSource:
        return gm.ArrowDataSource(
            numbered,
            columns=["count"],
            audio=None,
            on_error="mask",
            quarantine=tmp_path / f"bad-{job}.jsonl",
            storage_options={"aws_session_token": f"{job}"} if job else None,
            read=gm.ReadOptions(num_threads=1 + job, cache_dir=tmp_path / f"{job}"),
        )

    it, restored = iter(loader_of(make(0))), iter(loader_of(make(1)))
    next(it)
    restored.set_state(it.get_state())
    assert [int(row["count"]) for row in restored] == [int(row["count"]) for row in it]


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

    def in_range(*bounds: int) -> Any:
        numbers = range(*bounds)
        return module.SourceMapDataset(numbers) if len(numbers) <= 5_000 else theirs_in(*bounds)

    theirs_in = grain.MapDataset.range
    monkeypatch.setattr(module.SourceMapDataset, "__init__", init)
    monkeypatch.setattr(grain.MapDataset, "range", in_range)

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


# Each with its reason.
EXCEPTIONS = {
    "element_spec": "Grain's class for sources has no spec of elements, whatever the source",
    "zero_length": "matches the name of Grain's class for ranges in a message",
}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("name", "wanted", "at_least"),
    [
        ("source", "", 17),
        ("shuffle", "MapDataset", 18),
        ("slice", "", 3_000),
        ("repeat", "MapDataset", 20),
        ("map", "MapDataset", 29),
        ("batch", "MapDataset", 15),
        ("filter", "MapDataset", 5),
        ("mix", "MapDataset", 18),
        ("zip", "MapDataset", 20),
        ("flatmap", "", 10),
    ],
)
def test_grains_own_tests_of_sources(
    grain_reads_ours: Callable[[str], Any], name: str, wanted: str, at_least: int
) -> None:
    flags.FLAGS.mark_as_parsed()
    tests = grain_reads_ours(name)

    def flat(suite: Any) -> list[Any]:
        is_suite = isinstance(suite, unittest.TestSuite)
        return [test for part in suite for test in flat(part)] if is_suite else [suite]

    found = flat(unittest.defaultTestLoader.loadTestsFromModule(tests))
    chosen = [test for test in found if wanted in test.id()]
    chosen = [test for test in chosen if not any(left in test.id() for left in EXCEPTIONS)]
    result = unittest.TestResult()
    unittest.TestSuite(chosen).run(result)
    assert not result.errors + result.failures, (result.errors + result.failures)[0][1]
    assert result.testsRun - len(result.skipped) >= at_least
    assert Elements.n_made >= at_least // 2
