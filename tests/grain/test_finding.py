"""`gm.verdict` and `gm.stats` find the sources inside any Grain pipeline; the log line works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain
import pytest

import gristmill as gm
import probes

ROOT = Path(__file__).parents[2]


def source(paths: list[Path], **options: Any) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(paths, columns=["count"], audio=None, epochs=None, **options)


def device_put(dataset: grain.IterDataset[Any]) -> grain.IterDataset[Any]:
    jax = pytest.importorskip("jax")
    return grain.experimental.device_put(dataset, jax.devices()[0])


def interleaved(paths: list[Path]) -> grain.IterDataset[Any]:
    each = grain.MapDataset.source(paths).map(lambda path: source([path]))
    return grain.experimental.InterleaveIterDataset(each, cycle_length=2)


PIPELINES: dict[str, tuple[Callable[[list[Path]], Any], int]] = {
    "itself": (source, 1),
    "batch": (lambda p: source(p).batch(2), 1),
    "map": (lambda p: source(p).map(lambda e: e).filter(lambda e: True), 1),
    "mix": (lambda p: grain.IterDataset.mix([source(p), source(p[3:])], [0.5, 0.5]), 2),
    "mix of batches": (
        lambda p: grain.IterDataset.mix([source(p).batch(2), source(p[3:]).batch(2)], [0.5, 0.5]),
        2,
    ),
    "window": (
        lambda p: grain.experimental.WindowShuffleIterDataset(source(p), window_size=5, seed=1),
        1,
    ),
    "thread": (
        lambda p: grain.experimental.ThreadPrefetchIterDataset(source(p), prefetch_buffer_size=2),
        1,
    ),
    "device": (lambda p: device_put(source(p).batch(2)), 1),
    "interleave": (lambda p: interleaved([p[0], p[2]]).batch(2), 2),
    "many": (
        lambda p: grain.experimental.ThreadPrefetchIterDataset(
            interleaved([p[0], p[2]]).map(lambda e: e).batch(4), prefetch_buffer_size=2
        ),
        2,
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_sources_are_found(numbered: list[Path], name: str) -> None:
    make, n_sources = PIPELINES[name]
    it = iter(make(numbered))
    for _ in range(4):
        next(it)
    told, measured = gm.verdict(it), gm.stats(it)
    assert len(told) == len(measured) == n_sources
    assert all(isinstance(one, gm.Verdict) for one in told)
    assert all(one.rows > 0 for one in measured)
    assert all(one.text in str(told) for one in told)
    assert str(told).count("ArrowIterator(") == (n_sources if n_sources > 1 else 0)
    it.close()


def test_no_source_is_a_typed_error() -> None:
    it = iter(grain.MapDataset.range(3).to_iter_dataset())
    with pytest.raises(gm.SourceNotFoundError, match="no source of gristmill"):
        gm.verdict(it)
    with pytest.raises(gm.SourceNotFoundError, match="no source of gristmill"):
        gm.stats(iter([1, 2]))


def test_sources_in_worker_processes_are_out_of_reach(numbered: list[Path]) -> None:
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    dataset = source(numbered).mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
    it = iter(dataset)
    next(it)
    with pytest.raises(gm.SourceNotFoundError, match="worker processes"):
        gm.verdict(it)
    it.close()


def test_what_is_no_iterator_is_refused(numbered: list[Path]) -> None:
    for wrong in (source(numbered), source(numbered).batch(2), 5, "it", None, [1]):
        for ask in (gm.verdict, gm.stats):
            with pytest.raises(ValueError, match=r"iter\(dataset\)"):
                ask(wrong)


def test_the_documented_line_makes_the_log_appear(numbered: list[Path]) -> None:
    page = (ROOT / "docs" / "diagnosis.md").read_text()
    (block,) = re.findall(r"## Logging\n\n```python\n(.*?)```", page, re.DOTALL)
    lines = block.replace("gm.ArrowIterDataset(paths, ", "ds = gm.ArrowIterDataset(sys.argv[1:], ")
    code = f"""
import logging, time
import gristmill as gm
{lines.replace("log_every_seconds=60", "log_every_seconds=0.01")}
sys.stderr = sys.stdout
logging.getLogger().handlers[0].setStream(sys.stdout)
for _ in ds:
    time.sleep(0.001)
"""
    assert "INFO:gristmill:ArrowIterator" in probes.run(code, *numbered)
