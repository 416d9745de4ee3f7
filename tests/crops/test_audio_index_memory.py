"""Audio indexes that do not all fit into their share of the memory budget."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import gristmill as gm
from audio_index_runs import noise, run, settled, write

N_SHARDS, ROWS = 24, 20
# A sixteenth of it is room for about eight of the shards' indexes.
READ = {"memory_budget": "256KiB", "num_threads": 1}
CROP = gm.Audio(crop=gm.RandomCrop(0.1))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("many")
    first = write(folder / "00.arrow", [noise(5 + k / 100) for k in range(ROWS)], batch_rows=5)
    copies = [folder / f"{k:02}.arrow" for k in range(1, N_SHARDS)]
    for path in copies:
        shutil.copyfile(first, path)
        settled(path)
    return [first, *copies]


@pytest.fixture(scope="module")
def known(paths: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of indexes that know everything."""
    folder = tmp_path_factory.mktemp("known")
    report = gm.build_indexes(paths, read=gm.ReadOptions(index_dir=folder), audio=True)
    assert report.audio is not None
    assert report.audio.in_parts == N_SHARDS * ROWS
    return folder


def test_more_is_learned_than_fits_at_a_time(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path, **READ)

    def known() -> int:
        report = gm.build_indexes(paths, read=read, audio=True)
        assert report.audio is not None
        return report.audio.known

    # There is room for some 200 of the recordings. What is found while an index makes room for it
    # is left out, which depends on the threads, and comes with the next pass.
    assert any(known() == N_SHARDS * ROWS for _ in range(20))


def test_in_file_order_all_crops_are_read_alone(paths: list[Path], known: Path) -> None:
    found = run(paths, CROP, known, read=READ)
    found.assert_same(run(paths, CROP, None, read=READ))
    assert found.n_bytes < 0.2 * sum(path.stat().st_size for path in paths)


def test_a_shuffle_is_the_same_bits(paths: list[Path], known: Path) -> None:
    for shuffle in (gm.Shuffle(1), gm.Shuffle(1, window=64)):
        found = run(paths, CROP, known, read=READ, shuffle=shuffle)
        found.assert_same(run(paths, CROP, None, read=READ, shuffle=shuffle))
        assert found.n_bytes < 0.9 * sum(path.stat().st_size for path in paths)
