"""`gristmill index --audio`: audio indexes made ahead of time, and what they know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import gristmill as gm
import probes
from audio_index_runs import long, run, write
from gristmill.cli import main

KINDS = ("WAV", "AIFF", "FLAC", "MP3")
CROP = gm.Audio(crop=gm.RandomCrop(2))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three shards of four recordings, the last of which is nothing that can be decoded."""
    folder = tmp_path_factory.mktemp("tools")
    recordings = [*map(long, KINDS[:3]), b"nothing" * 20_000]
    return [write(folder / f"{k}.arrow", recordings, batch_rows=2) for k in range(3)]


def test_after_it_the_first_epoch_reads_crops_alone(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)
    told: list[tuple[int, int]] = []
    report = gm.build_indexes(
        paths, read=read, audio=True, on_rows=lambda done, total: told.append((done, total))
    )
    assert report.audio == gm.AudioCoverage(rows=12, known=9, in_parts=9, compressed=0)
    assert told[-1] == (12, 12)
    found = run(paths, CROP, tmp_path, on_error="mask")
    found.assert_same(run(paths, CROP, None, on_error="mask"))
    whole = sum(path.stat().st_size for path in paths)
    assert found.n_bytes - 3 * 140_000 < 0.2 * whole


def test_it_goes_on_where_it_was_stopped(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gm.build_indexes(paths[:1], read=read, audio=True, on_rows=stop)
    (kept,) = tmp_path.glob("*.gmaudio")
    assert kept.stat().st_size > 100
    report = gm.build_indexes(paths[:1], read=read, audio=True)
    assert report.audio is not None
    assert report.audio.known == 3


def test_parts_do_their_shards(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)
    first = gm.build_indexes(paths, read=read, audio=True, part=(1, 2))
    second = gm.build_indexes(paths, read=read, audio=True, part=(2, 2))
    assert (first.shards, second.shards) == (2, 1)
    assert len(list(tmp_path.glob("*.gmaudio"))) == 3
    none = gm.build_indexes(paths, read=read, audio=True, part=(4, 4))
    assert (none.shards, none.audio) == (0, None)
    with pytest.raises(ValueError, match="a part is"):
        gm.build_indexes(paths, read=read, part=(3, 2))


def test_the_command(paths: list[Path], tmp_path: Path) -> None:
    arguments = ["index", *map(str, paths), "--index-dir", str(tmp_path), "--audio"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "9 of 12 recordings are known; crops of 9 are read without the rest" in result.output
    result = CliRunner().invoke(main, [*arguments, "--json", "--quiet", "--part", "2/3"])
    assert json.loads(result.output)["audio"]["known"] == 3


COUNT = """
import gristmill as gm
from pathlib import Path

def n_read():
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))

index_dir, *paths = sys.argv[1:]
ds = gm.ArrowIterDataset(
    paths, audio=gm.Audio(crop=gm.Windows(5)), read=gm.ReadOptions(index_dir=index_dir)
)
before = n_read()
n_windows = ds.rows_per_epoch()
print(n_windows, n_read() - before)
"""


def test_windows_are_counted_by_the_index(paths: list[Path], tmp_path: Path) -> None:
    gm.build_indexes(paths, read=gm.ReadOptions(index_dir=tmp_path / "known"), audio=True)
    gm.build_indexes(paths, read=gm.ReadOptions(index_dir=tmp_path / "unknown"))
    counted = [
        [int(n) for n in probes.run(COUNT, tmp_path / name, *paths).split()]
        for name in ("known", "unknown")
    ]
    # A row that cannot be opened has one window, and is looked at.
    assert counted[0][0] == counted[1][0] == 3 * (3 * 7 + 1)
    assert counted[0][1] < counted[1][1] / 2
