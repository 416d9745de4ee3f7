"""Index files: damaged, foreign, stale or not to be written, they change nothing."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
import probes
from audio_index_runs import Run, long, noise, run, settled, write
from rounds import rounds

AUDIO = gm.Audio(crop=gm.RandomCrop(2))
NAMES = ("WAV", "FLAC", "MP3", "Ogg Vorbis", "Ogg Opus", "AAC in MP4")


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.arrow", [long(name) for name in NAMES], batch_rows=2)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The folder of indexes."""
    return tmp_path / "own"


def crops(shard: Path, own: Path | None, epochs: int = 2) -> Run:
    read = {"num_threads": 2}  # more of them read further ahead
    return run(shard, AUDIO, own, shuffle=gm.Shuffle(3), epochs=epochs, read=read)


def file_of(own: Path) -> Path:
    (path,) = own.glob("*.gmindex")
    return path


def test_it_is_small_and_learned_in_one_epoch(shard: Path, own: Path) -> None:
    epochs = 20  # more than are read ahead
    plain = crops(shard, None, epochs)
    first, second = crops(shard, own, epochs), crops(shard, own, epochs)
    first.assert_same(plain)
    second.assert_same(plain)
    assert second.n_bytes < first.n_bytes < plain.n_bytes
    assert crops(shard, own, 1).n_bytes < 0.5 * crops(shard, None, 1).n_bytes
    n_bytes = sum(len(long(name)) for name in NAMES)
    assert file_of(own).stat().st_size < n_bytes / 100


def test_each_changed_byte_changes_nothing(shard: Path, own: Path) -> None:
    plain = crops(shard, own)
    path = file_of(own)
    good = path.read_bytes()
    rng = np.random.default_rng(1)
    for at in range(0, len(good), max(1, len(good) // 150)):
        bad = bytearray(good)
        bad[at] ^= int(rng.integers(1, 256))
        path.write_bytes(bad)
        crops(shard, own).assert_same(plain)


def test_a_file_that_is_cut_short_changes_nothing(shard: Path, own: Path) -> None:
    plain = crops(shard, own)
    path = file_of(own)
    good = path.read_bytes()
    for n_bytes in (0, 7, 8, 20, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:n_bytes])
        crops(shard, own).assert_same(plain)
        assert path.read_bytes() == good, "learned again"


def test_that_of_a_newer_version_is_read_past_and_replaced(shard: Path, own: Path) -> None:
    plain = crops(shard, own)
    path = file_of(own)
    good = path.read_bytes()
    path.write_bytes(good[:7] + b"\xff" + good[8:])
    crops(shard, own).assert_same(plain)
    assert path.read_bytes() == good


def test_that_of_another_shard_is_read_past(tmp_path: Path, shard: Path, own: Path) -> None:
    other = write(tmp_path / "other.arrow", [long(name) for name in reversed(NAMES)], batch_rows=2)
    plain, plain_other = crops(shard, own), crops(other, own)
    one, two = sorted(own.glob("*.gmindex"))
    bytes_of = one.read_bytes(), two.read_bytes()
    one.write_bytes(bytes_of[1])
    two.write_bytes(bytes_of[0])
    crops(shard, own).assert_same(plain)
    crops(other, own).assert_same(plain_other)


def test_a_shard_that_was_written_again_is_read_anew(shard: Path, own: Path) -> None:
    crops(shard, own)
    write(shard, [long(name) for name in reversed(NAMES)], batch_rows=2)
    settled(shard, 30)
    crops(shard, own).assert_same(crops(shard, None))


def test_recordings_that_changed_under_the_index_are_never_wrong_samples(
    shard: Path, own: Path
) -> None:
    """The length and the time say it is the same file: what the samples are, their bytes say."""
    crops(shard, own)
    before = shard.stat()
    data = shard.read_bytes()
    first = long("FLAC")
    at = data.index(first)
    changed = bytearray(first)
    changed[len(first) // 4 : len(first) // 2] = bytes(len(first) // 2 - len(first) // 4)
    shard.write_bytes(data[:at] + changed + data[at + len(first) :])
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    options = {"epochs": 8, "on_error": "mask", "shuffle": gm.Shuffle(1)}
    run(shard, AUDIO, own, **options).assert_same(run(shard, AUDIO, None, **options))


@pytest.mark.parametrize("what", ["a file", "read-only", "a folder in its place"])
def test_what_cannot_be_written_is_no_error(shard: Path, own: Path, what: str) -> None:
    plain = crops(shard, None)
    if what == "a file":
        own.write_bytes(b"")
    elif what == "read-only":
        own.mkdir(mode=0o500)
    else:
        crops(shard, own)
        path = file_of(own)
        path.unlink()
        path.mkdir()
    for _ in range(2):
        crops(shard, own).assert_same(plain)


def full_tmpfs(folder: Path) -> Iterator[Callable[[], None]]:
    """Makes the folder a disk of a few pages, all of which are taken; what it gives frees them."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        filler = folder / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, os.statvfs(folder).f_bfree * 4096)
        assert os.statvfs(folder).f_bfree == 0
        yield filler.unlink
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_full(shard: Path, own: Path) -> None:
    plain = crops(shard, None)
    with contextlib.contextmanager(full_tmpfs)(own) as free:
        for _ in range(2):
            crops(shard, own).assert_same(plain)
            assert [path.name for path in own.iterdir()] == ["filler"], "nothing half written"
        report = gm.build_indexes(shard, read=gm.ReadOptions(index_dir=own), audio=True)
        assert report.audio is not None
        assert (report.not_written, report.audio.known) == (1, 0)
        free()
        crops(shard, own).assert_same(plain)
        assert crops(shard, own).n_bytes < 0.5 * plain.n_bytes


LIMITED = """
import resource, sys
import audio_index_runs
import gristmill as gm

shard, own, n_bytes = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(n_bytes), int(n_bytes)))
crop = gm.Audio(crop=gm.RandomCrop(2))
found = audio_index_runs.run(shard, crop, own, shuffle=gm.Shuffle(3), epochs=2)
print(len(found.audio), found.error)
"""


def test_a_file_that_may_not_grow(shard: Path, own: Path) -> None:
    """Of each size of the file: what was written of it is removed."""
    crops(shard, own)
    n_bytes = file_of(own).stat().st_size
    before = {path.name: path.read_bytes() for path in own.iterdir()}
    for limit in (0, 1, n_bytes // 2, n_bytes - 1, n_bytes):
        file_of(own).unlink()
        command = probes.script(LIMITED, shard, own, limit)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout == "12 None\n", done.stderr
        after = {path.name: path.read_bytes() for path in own.iterdir()}
        assert set(after) <= set(before), "nothing half written"
        assert (after == before) == (limit >= n_bytes)
        crops(shard, own)
        assert {path.name: path.read_bytes() for path in own.iterdir()} == before


KILLED = """
import resource, signal, sys
import audio_index_runs
import gristmill as gm

shard, own, n_bytes = sys.argv[1:]
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(n_bytes), int(n_bytes)))
audio_index_runs.run(shard, gm.Audio(crop=gm.RandomCrop(2)), own, shuffle=gm.Shuffle(3), epochs=2)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_file(
    shard: Path, own: Path
) -> None:
    """The kernel kills it at the byte after the limit."""
    gm.build_indexes(shard, read=gm.ReadOptions(index_dir=own))
    path = file_of(own)
    before = path.read_bytes()
    plain = crops(shard, None)
    for n_more in (1, 40, 400):
        command = probes.script(KILLED, shard, own, len(before) + n_more)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGXFSZ, done.stderr
        assert path.read_bytes() == before
        (half,) = (other for other in own.iterdir() if other != path)
        assert 0 < half.stat().st_size <= len(before) + n_more
        half.unlink()
    crops(shard, own).assert_same(plain)
    assert len(path.read_bytes()) > len(before) + 400


COUNTED = """
import sys
import gristmill as gm

read = gm.ReadOptions(index_dir=sys.argv[2])
audio = gm.Audio(crop=gm.Windows(2))
print(gm.ArrowIterDataset(sys.argv[1], columns=[], audio=audio, read=read).rows_per_epoch())
"""


INDEXED = """
import sys
import gristmill as gm

gm.build_indexes(sys.argv[1], read=gm.ReadOptions(index_dir=sys.argv[2]), audio=True)
"""


def test_what_two_processes_learn_is_in_one_file(
    shard: Path, own: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One learns how long the recordings are, the other where they can be read."""
    read = gm.ReadOptions(index_dir=own)
    audio = gm.Audio(crop=gm.Windows(2))
    caplog.set_level(logging.INFO, logger="gristmill")
    for code in (COUNTED, INDEXED):
        subprocess.run([sys.executable, "-c", code, shard, own], check=True)
    before = file_of(own).read_bytes()
    assert [path.name for path in own.iterdir()] == [file_of(own).name]
    known = gm.inspect(shard, read=read).audio_index
    assert known is not None
    assert known.known == len(NAMES)
    n_windows = gm.ArrowIterDataset(shard, columns=[], audio=audio, read=read).rows_per_epoch()
    assert "counted" not in caplog.text
    assert file_of(own).read_bytes() == before
    assert n_windows > len(NAMES) * 14


LEARN = """
import sys
import gristmill as gm

ds = gm.ArrowIterDataset(
    sys.argv[1], columns=["audio"], audio=gm.Audio(crop=gm.RandomCrop(2)),
    shuffle=gm.Shuffle(int(sys.argv[3])), epochs=None, batch_size=2,
    read=gm.ReadOptions(index_dir=sys.argv[2], num_threads=1),
)
it = iter(ds)
print("ready", flush=True)
for n, _ in enumerate(it):
    if n % 7 == 6:
        it.close()
        it = iter(ds)
"""


EPOCH = """
import sys
import gristmill as gm

read = gm.ReadOptions(index_dir=sys.argv[2], num_threads=1)
sys.stdin.readline()
ds = gm.ArrowIterDataset(
    sys.argv[1], columns=["audio"], audio=gm.Audio(crop=gm.RandomCrop(0.5)),
    shuffle=gm.Shuffle(int(sys.argv[3])), read=read,
)
print(len(list(ds)))
"""


def test_processes_learn_one_index_at_once(tmp_path: Path, own: Path) -> None:
    shard = write(tmp_path / "rows.arrow", [noise(4.1 + k / 50) for k in range(60)])
    learners = [
        subprocess.Popen(
            [sys.executable, "-c", EPOCH, shard, own, str(k)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(rounds(8, 4))
    ]
    for learner in learners:
        assert learner.stdin is not None
        learner.stdin.write("go\n")
        learner.stdin.flush()
    assert [learner.communicate()[0] for learner in learners] == ["60\n"] * len(learners)
    together = file_of(own).read_bytes()
    assert len(list(own.iterdir())) == 1, "no temporary file"
    # Each of them knows all rows by now, and the file does not depend on who wrote it last.
    alone = tmp_path / "alone"
    run(shard, gm.Audio(crop=gm.RandomCrop(0.5)), alone)
    assert file_of(alone).read_bytes() == together


def test_processes_that_are_killed_leave_a_file_that_is_whole(tmp_path: Path, own: Path) -> None:
    shard = write(tmp_path / "rows.arrow", [long("WAV")[: 200_000 + 4 * k] for k in range(40)])
    audio = gm.Audio(crop=gm.RandomCrop(0.5), strict=False)
    plain = run(shard, audio, None)
    learners = [
        subprocess.Popen(
            [sys.executable, "-c", LEARN, shard, own, str(k)], stdout=subprocess.PIPE, text=True
        )
        for k in range(rounds(8, 4))
    ]
    for learner in learners:
        assert learner.stdout is not None
        assert learner.stdout.readline() == "ready\n"
    rng = np.random.default_rng(0)
    for learner in learners:
        time.sleep(rng.uniform(0, 0.3))
        run(shard, audio, own).assert_same(plain)
        learner.send_signal(signal.SIGKILL)
    for learner in learners:
        learner.communicate()
    run(shard, audio, own).assert_same(plain)
