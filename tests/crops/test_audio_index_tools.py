"""`gristmill index --audio`: audio indexes made ahead of time, and what they know."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

import gristmill as gm
import probes
import shards
from audio_index_runs import long, noise, run, settled, write
from gristmill.cli import main

KINDS = ("WAV", "AIFF", "FLAC", "MP3")
CROP = gm.Audio(crop=gm.RandomCrop(2))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three shards of four recordings, the last of which is nothing that can be decoded."""
    folder = tmp_path_factory.mktemp("tools")
    recordings = [*map(long, KINDS[:3]), b"nothing" * 20_000]
    return [write(folder / f"{k}.arrow", recordings, batch_rows=2) for k in range(3)]


def n_known(paths: list[Path], index_dir: Path) -> int:
    """Recordings that the index files know."""
    found = gm.inspect(paths, read=gm.ReadOptions(index_dir=index_dir)).audio_index
    assert found is not None
    return found.known


def test_after_it_the_first_epoch_reads_crops_alone(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)
    told: list[tuple[int, int]] = []
    report = gm.build_indexes(
        paths, read=read, audio=True, on_rows=lambda done, total: told.append((done, total))
    )
    assert report.audio == gm.AudioCoverage(rows=12, known=12, in_parts=9, compressed=0)
    assert told[-1] == (12, 12)
    found = run(paths, CROP, tmp_path, on_error="mask")
    found.assert_same(run(paths, CROP, None, on_error="mask"))
    whole = sum(path.stat().st_size for path in paths)
    assert found.n_bytes - 3 * 140_000 < 0.2 * whole


def test_recordings_of_several_rates_and_channels(tmp_path: Path) -> None:
    recordings = [noise(5), long("FLAC"), long("Ogg Opus"), long("WAV")]
    path = write(tmp_path / "rows.arrow", recordings)
    read = gm.ReadOptions(index_dir=tmp_path / "own")
    report = gm.build_indexes(path, read=read, audio=True)
    assert report.audio == gm.AudioCoverage(rows=4, known=4, in_parts=4, compressed=0)


def test_it_goes_on_where_it_was_stopped(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)

    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gm.build_indexes(paths[:1], read=read, audio=True, on_rows=stop)
    assert n_known(paths[:1], tmp_path) > 0
    report = gm.build_indexes(paths[:1], read=read, audio=True)
    assert report.audio is not None
    assert report.audio.known == 4


def test_what_cannot_be_decoded_is_looked_at_once(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)
    told: list[tuple[int, int]] = []
    for _ in range(2):
        gm.build_indexes(paths, read=read, audio=True, on_rows=lambda *rows: told.append(rows))
        assert told.count((12, 12)) == 1, "nothing is left to do the second time"


def test_parts_do_their_shards(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)
    first = gm.build_indexes(paths, read=read, audio=True, part=(1, 2))
    second = gm.build_indexes(paths, read=read, audio=True, part=(2, 2))
    assert (first.shards, second.shards) == (2, 1)
    assert n_known(paths, tmp_path) == 12
    none = gm.build_indexes(paths, read=read, audio=True, part=(4, 4))
    assert (none.shards, none.audio) == (0, None)
    with pytest.raises(ValueError, match="a part is"):
        gm.build_indexes(paths, read=read, part=(3, 2))


def test_the_command(paths: list[Path], tmp_path: Path) -> None:
    arguments = ["index", *map(str, paths), "--index-dir", str(tmp_path), "--audio"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "12 of 12 recordings are known; crops of 9 are read without the rest" in result.output
    result = CliRunner().invoke(main, [*arguments, "--json", "--quiet", "--part", "2/3"])
    assert json.loads(result.output)["audio"]["known"] == 4


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


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_after_a_scan_the_first_epoch_reads_crops_alone(
    paths: list[Path], tmp_path: Path, threads: int, *, fast: bool
) -> None:
    read = gm.ReadOptions(index_dir=tmp_path, num_threads=threads)
    plain = gm.scan(paths, fast=fast, read=gm.ReadOptions(index_dir=None, num_threads=threads))
    report = gm.scan(paths, fast=fast, read=read)
    assert report.findings == plain.findings
    assert len(report.findings) == 3
    found = gm.inspect(paths, read=read).audio_index
    assert found == gm.AudioCoverage(rows=12, known=12, in_parts=9, compressed=0)
    run_after = run(paths, CROP, tmp_path, on_error="mask")
    run_after.assert_same(run(paths, CROP, None, on_error="mask"))
    whole = sum(path.stat().st_size for path in paths)
    assert run_after.n_bytes - 3 * 140_000 < 0.2 * whole


def test_parts_of_a_scan_each_tell_what_they_read(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path / "own")
    for k in (1, 2, 3, 4):
        gm.scan(paths, quarantine=tmp_path / "bad.jsonl", part=(k, 4), read=read)
    found = gm.inspect(paths, read=read).audio_index
    assert found is not None
    assert found.known == 12


@pytest.mark.parametrize("how", ["turned off", "nowhere to write"])
def test_a_scan_without_an_index_is_as_before(paths: list[Path], tmp_path: Path, how: str) -> None:
    own = tmp_path / "own"
    if how == "turned off":
        read = gm.ReadOptions(index_dir=own, audio_index=False)
    else:
        own.write_bytes(b"")
        read = gm.ReadOptions(index_dir=own)
    assert gm.scan(paths, read=read).rows == 12
    assert n_known(paths, own) == 0


def test_a_scan_of_recordings_beside_the_shards_learns_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(long("WAV"))
    rows = [{"audio": {"bytes": None, "path": "a.wav"}}, {"audio": {"bytes": None, "path": None}}]
    of = shards.schema({"audio": shards.AUDIO})
    path = settled(shards.write(tmp_path / "rows.arrow", rows, of=of))
    report = gm.scan(path, root=tmp_path, read=gm.ReadOptions(index_dir=tmp_path / "own"))
    assert [finding.row.row for finding in report.findings] == [1]
    assert n_known([path], tmp_path / "own") == 0


def test_nothing_is_read_for_indexes_that_cannot_be_written(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    read = gm.ReadOptions(index_dir=own)
    assert gm.build_indexes(paths, read=read).not_written == 0

    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patched:
        patched.setattr("gristmill.tools.index.tempfile.TemporaryFile", refuse)
        told: list[int] = []
        report = gm.build_indexes(
            paths, read=read, audio=True, on_rows=lambda done, _: told.append(done)
        )
        done = CliRunner().invoke(
            main, ["index", *map(str, paths), "--audio", "--index-dir", str(own)]
        )
    assert (told, report.not_written) == ([], 0)
    assert report.audio_not_written == "Read-only file system"
    assert f"audio indexes could not be written in {own}: Read-only" in str(report)
    assert (done.exit_code, "audio indexes could not be written" in done.stderr) == (3, True)
    whole = gm.build_indexes(paths, read=read, audio=True)
    assert whole.audio is not None
    assert (whole.audio.known, whole.audio_not_written) == (whole.rows, "")
