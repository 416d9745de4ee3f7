"""What a mixture of two costs beside one data set of the same shards, in CPU time of all threads.

Random crops of 2 s at 32 kHz out of Ogg Vorbis recordings of 10 s, and rows of numbers alone; both
shuffled, in batches of 64.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import material
import pytest

import gristmill as gm

RATE, BATCH = 32_000, 64
MARK = 1 / 0.97


def audio_shards(data: Path, n_rows: int) -> list[Path]:
    made = [
        material.encode(material.field_like(10, RATE, 1, seed), RATE, "OGG", "VORBIS")
        for seed in range(min(20, n_rows))
    ]
    rows = [made[i % len(made)] for i in range(n_rows)]
    return [
        material.audio_shard(data / f"mixture-{n_rows}-{k}.arrow", rows, 100, k * n_rows)
        for k in range(2)
    ]


def cpu_seconds(paths: list[Path], job: str, columns: str, n_rows: int) -> float:
    """What a row of the stream takes, of endless epochs."""
    crop = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(2))
    of_rows: dict[str, Any] = {
        "audio": crop if columns == "crops" else None,
        "columns": ["audio", "label"] if columns == "crops" else ["label"],
        "shuffle": gm.Shuffle(1),
        "epochs": None,
    }
    if job == "one data set":
        dataset: Any = gm.ArrowIterDataset(paths, batch_size=BATCH, **of_rows)
    else:
        dataset = gm.Mixture(
            [gm.ArrowIterDataset(path, **of_rows) for path in paths], batch_size=BATCH
        )
    it = iter(dataset)
    # Whole passes, after one that fills caches.
    n_per_pass = dataset.rows_per_epoch()
    seen = sum(len(next(it)["label"]) for _ in range(n_per_pass // BATCH + 1))
    assert seen >= n_per_pass
    began, n = time.process_time(), 0
    labels: set[int] = set()
    while n < n_rows:
        batch = next(it)
        labels.update(batch["label"].tolist())
        n += len(batch["label"])
    took = time.process_time() - began
    it.close()
    if n_rows >= 2 * n_per_pass:
        assert len(labels) == n_per_pass
    return took / n


@pytest.mark.parametrize("columns", ["crops", "numbers"])
@pytest.mark.parametrize("job", ["one data set", "mixture of two"])
def test_mixture(turns: Any, fresh: Any, size: Any, data: Path, columns: str, job: str) -> None:
    paths = audio_shards(data, size(500, 200, 20))
    n_rows = size(4_000, 1_500, 80) * (1 if columns == "crops" else 200)

    def prepare(name: str) -> Any:
        return lambda _: fresh(cpu_seconds, paths, name, columns, n_rows)

    turns(prepare, rounds=size(12, 5, 1), than="one data set", at_most=MARK)
