"""What the quality of a shuffle is measured to be, against shuffles that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards

N_SHARDS, ROWS = 20, 500
N = N_SHARDS * ROWS
SHARD, ROW = np.repeat(np.arange(N_SHARDS), ROWS), np.tile(np.arange(ROWS), N_SHARDS)


def of(order: np.ndarray, labels: np.ndarray | None = None) -> gm.ShuffleQuality:
    shown = None if labels is None else labels[order]
    return gm.ShuffleQuality.of(SHARD[order], ROW[order], batch_rows=50, labels=shown)


def test_an_ideal_shuffle_has_one_everywhere() -> None:
    """NumPy's own permutations, on average; one batch more or less is chance."""
    rng = np.random.default_rng(0)
    found = [of(rng.permutation(N), SHARD % 7) for _ in range(20)]
    for name in ("shards", "labels", "neighbours", "distance"):
        values = [getattr(quality, name) for quality in found]
        spread = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - 1) < max(5 * spread, 0.01), name
    # Five standard deviations of 200 batches' chi-squared of 6 degrees of freedom.
    assert min(quality.score for quality in found) > 1 / (1 + 5 * np.sqrt(2 / 6 / 200))


def test_file_order_is_as_bad_as_can_be() -> None:
    quality = of(np.arange(N), SHARD)
    # A batch from one shard of S: chi-squared is b * (S - 1), by S - 1 degrees of freedom.
    assert quality.shards == pytest.approx(50 * (N - 1) / (N - 50))
    assert quality.labels == quality.shards
    assert quality.score == pytest.approx(1 / quality.shards)
    # 49 of 50 neighbours meet, where chance has 49 in N - 1.
    assert quality.neighbours == pytest.approx(49 * N * (N - 1) / (50 * 49 * (N - N_SHARDS)))
    assert quality.distance == pytest.approx(3 / (N + 1))


def test_turns_are_more_even_than_chance() -> None:
    order = np.arange(N).reshape(N_SHARDS, ROWS).T.ravel()
    quality = of(order)
    # A batch has two or three rows of each shard, half a row off 2.5.
    assert quality.shards == pytest.approx(20 * 0.25 / 2.5 / 19 * (N - 1) / (N - 50))
    assert quality.score == 1.0
    assert quality.labels is None
    assert "score 1.00" in str(quality)


def write(folder: Path) -> list[Path]:
    schema = pa.schema({"label": pa.string(), "audio": pa.binary()})
    paths = []
    for s in range(8):
        rows = [{"label": f"class {s // 2}", "audio": b"\0" * 2000} for r in range(60 + s)]
        paths.append(shards.write(folder / f"{s}.arrow", rows, batch_rows=40, of=schema))
    return paths


def test_of_a_data_set(tmp_path: Path) -> None:
    paths = write(tmp_path)
    excluded = [(0, 5), (3, 0)]

    def quality(shuffle: gm.Shuffle | None, epoch: int = 0) -> gm.ShuffleQuality:
        ds = gm.ArrowIterDataset(
            paths, audio=None, shuffle=shuffle, batch_size=16, epochs=2, exclude=excluded
        )
        return gm.shuffle_quality(ds, label="label", epoch=epoch)

    files, windowed, whole = (
        quality(shuffle) for shuffle in (None, gm.Shuffle(1, window=64, streams=4), gm.Shuffle(1))
    )
    assert files.n_rows == 508 - 2
    assert files.batch_rows == 16
    assert files.labels is not None
    assert files.labels > 10
    assert files.score < windowed.score < whole.score
    assert whole.score > 0.8
    assert quality(gm.Shuffle(1), epoch=1) != whole
    labels = np.repeat([f"class {s // 2}" for s in range(8)], [60 + s for s in range(8)])
    kept = np.setdiff1d(np.arange(508), [5, 60 + 61 + 62])
    order = gm.global_order(gm.ArrowIterDataset(paths, shuffle=gm.Shuffle(1), exclude=excluded))
    starts = np.cumsum([0] + [60 + s for s in range(7)])
    assert set(starts[order.shard] + order.row) == set(kept)
    by_hand = gm.ShuffleQuality.of(
        order.shard, order.row, batch_rows=16, labels=labels[starts[order.shard] + order.row]
    )
    assert by_hand == whole


def test_too_little_for_a_batch(tmp_path: Path) -> None:
    paths = write(tmp_path)
    with pytest.raises(ValueError, match="batch_rows is 2 to 60"):
        gm.shuffle_quality(gm.ArrowIterDataset(paths[0], audio=None))
    one = gm.ArrowIterDataset(paths, audio=None)
    with pytest.raises(ValueError, match="the data set has 1 epoch, not 4: write epoch=0"):
        gm.shuffle_quality(one, epoch=3)
    with pytest.raises(gm.SchemaError, match="nothing"):
        gm.shuffle_quality(gm.ArrowIterDataset(paths, audio=None), label="nothing")
