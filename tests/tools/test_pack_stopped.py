"""Packing that is killed, stopped, refused or out of disk leaves whole shards, and continues."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gristmill as gm
import pack_material as material
from gristmill.tools.pack.state import PackFolder
from rounds import rounds
from test_pack import files_in

GRISTMILL = Path(sys.executable).with_name("gristmill")


def printed(script: str, *arguments: Path) -> str:
    """What a program of these lines prints, in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    # Less than the hundred seconds that one of them would sleep.
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_two_at_a_time(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    (tmp_path / "out" / ".pack").mkdir(parents=True)
    lock = (tmp_path / "out" / ".pack" / "lock").open("w")
    with contextlib.closing(lock):
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another gristmill pack writes to"):
            gm.pack(source, tmp_path / "out")
    assert gm.pack(source, tmp_path / "out").rows == 3


def many(tmp_path: Path) -> Path:
    """Sixty recordings, a few of them broken, for about twenty shards."""
    source = material.class_folders(tmp_path / "source", n_each=20)
    for k in (3, 9):
        next((source / "wren").glob(f"wren-{k}.*")).write_bytes(b"RIFF")
    return source


# Kills itself before the n-th of the calls that matter: a recording that is done, a sync, a name.
KILLED = """
import os, pathlib, signal, sys
import gristmill as gm

source, out, n_left = sys.argv[1], sys.argv[2], int(sys.argv[3])


def count(*_):
    global n_left
    n_left -= 1
    if n_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def counted(function):
    def call(*args, **options):
        count()
        return function(*args, **options)

    return call


os.fsync = counted(os.fsync)
pathlib.Path.replace = counted(pathlib.Path.replace)
report = gm.pack(source, out, shard_size="40kB", on_files=count)
print(report.rows, report.reused, [bad.file for bad in report.bad])
"""


@pytest.mark.timeout(400)
def test_killed_at_any_instant(tmp_path: Path) -> None:
    source = many(tmp_path)
    expected = gm.pack(source, tmp_path / "whole", shard_size="40kB")
    assert len(expected.shards) > 10
    out = tmp_path / "out"
    n_partial = 0
    for n_calls in (*(1, 4, 9, 2, 30, 5, 14, 7)[:: rounds(1, 2)], 10**9):
        command = [sys.executable, "-c", KILLED, str(source), str(out), str(n_calls)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        n_partial += (out / ".pack" / "shard.partial").exists()
        # What has its name is whole.
        for path in out.glob("*.arrow"):
            assert path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes()
        assert done.returncode == (0 if n_calls == 10**9 else -signal.SIGKILL), done.stderr
    assert n_partial > 1
    bad = [bad.file for bad in expected.bad]
    assert done.stdout.startswith("58 ")
    assert done.stdout.endswith(f"{bad}\n")
    assert files_in(out) == files_in(tmp_path / "whole")


def test_killed_from_outside(tmp_path: Path) -> None:
    source = many(tmp_path)
    gm.pack(source, tmp_path / "whole", shard_size="40kB")
    out = tmp_path / "out"
    command = [str(GRISTMILL), "pack", str(source), "-o", str(out), "--shard-size", "40kB"]
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        n_before = len(list(out.glob("*.arrow")))
        while process.poll() is None and len(list(out.glob("*.arrow"))) == n_before:
            time.sleep(0.002)
        process.kill()  # it may have ended by now, and that is fine too
        process.communicate()
    done = subprocess.run([*command, "--json", "--quiet"], capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["reused"] > 0
    assert files_in(out) == files_in(tmp_path / "whole")


def test_continued_only_with_the_same_source(tmp_path: Path) -> None:
    source = many(tmp_path)
    seen: list[int] = []

    def stop(done: int, total: int, bad: int) -> None:
        seen.append(done)
        if done == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gm.pack(source, tmp_path / "out", shard_size="40kB", on_files=stop)
    assert not (tmp_path / "out" / ".pack" / "shard.partial").exists()
    n_whole = len(list((tmp_path / "out").glob("*.arrow")))
    assert 0 < n_whole < 20
    with pytest.raises(ValueError, match="contains part of another pack"):
        gm.pack(source, tmp_path / "out", shard_size="50kB")
    # A recording of the first shard has other samples now, and as many.
    first = min((source / "barn owl").iterdir())
    data = bytearray(first.read_bytes())
    data[-50:-40] = bytes(10)
    first.write_bytes(data)
    os.utime(first, (1, 1))
    report = gm.pack(source, tmp_path / "out", shard_size="40kB")
    assert report.reused == n_whole - 1
    gm.pack(source, tmp_path / "whole", shard_size="40kB")
    assert files_in(tmp_path / "out") == files_in(tmp_path / "whole")


def test_a_full_disk(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=20)
    out = tmp_path / "out"
    script = (
        "import resource, signal, sys, gristmill as gm\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: gm.pack(sys.argv[1], sys.argv[2])\n"
        "except OSError as error: print(error.errno, error.filename)\n"
    )
    assert printed(script, source, out) == f"27 {out / '.pack' / 'shard.partial'}\n"
    assert set(files_in(out)) == {".pack/lock", ".pack/plan.json"}
    assert gm.pack(source, out).rows == 60


def test_a_disk_that_is_full_when_a_shard_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    out = tmp_path / "out"

    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patched:
        # The shard is whole, and its record no longer fits.
        patched.setattr(PackFolder, "_record", lambda *_: full(out))
        patched.setattr(PackFolder, "kept", lambda *_: None)
        with pytest.raises(OSError, match="No space left"):
            gm.pack(source, out)
    assert set(files_in(out)) == {".pack/lock", ".pack/plan.json"}
    assert gm.pack(source, out).rows == 3


def test_a_finished_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    out = tmp_path / "out"
    first = gm.pack(source, out)
    before = files_in(out)
    # Whoever runs the tests may be root, whom permissions do not stop.
    script = (
        "import sys, pathlib, gristmill as gm\n"
        "def mkdir(path, *_, **__): raise OSError(30, 'Read-only file system', str(path))\n"
        "pathlib.Path.mkdir = mkdir\n"
        "print(gm.pack(*sys.argv[1:]).reused)\n"
        "try: gm.pack(*sys.argv[1:], overwrite=True)\n"
        "except OSError as error: print(error.strerror)\n"
    )
    assert printed(script, source, out) == f"{len(first.shards)}\nRead-only file system\n"
    assert files_in(out) == before


def test_a_stop_waits_for_no_recording(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=2)
    script = (
        "import os, signal, sys, time, gristmill as gm\n"
        "from gristmill.tools.pack.reader import Reader\n"
        "def slow(*_):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(100)\n"
        "Reader._check = slow\n"
        "try: gm.pack(*sys.argv[1:], num_threads=1)\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    assert printed(script, source, tmp_path / "out") == "stopped\n"
    assert set(files_in(tmp_path / "out")) == {".pack/lock", ".pack/plan.json"}
    assert gm.pack(source, tmp_path / "out").rows == 6
