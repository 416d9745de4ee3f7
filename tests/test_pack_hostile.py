"""Packing what lies, climbs out, blocks, is cut off, or does not fit on the disk."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gristmill as gm
import pack_material as material
from test_pack import files_in, native_rows

GRISTMILL = Path(sys.executable).with_name("gristmill")
SECRET = b"a secret outside of the source"


def reasons(report: gm.PackReport) -> dict[str, str]:
    return {one.file: one.reason for one in report.bad}


def paths_in(folder: Path) -> list[str]:
    dataset = gm.ArrowIterDataset(folder, audio=None, shuffle=None, epochs=1)
    return [row["audio"]["path"] for row in dataset]


def test_links(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.wav").write_bytes(material.recording(77))
    wren = source / "wren"
    (wren / "inside.wav").symlink_to(source / "crow" / "crow-0.flac")
    (wren / "out.wav").symlink_to(outside / "secret.wav")
    (wren / "nowhere.wav").symlink_to(tmp_path / "absent.wav")
    (wren / "self.wav").symlink_to("self.wav")
    (source / "linked").symlink_to(outside)
    (source / "loop").symlink_to(source)
    report = gm.pack(source, tmp_path / "out")
    assert reasons(report) == {
        "linked": "link",
        "loop": "link",
        "wren/nowhere.wav": "missing",
        "wren/out.wav": "outside",
        "wren/self.wav": "missing",
    }
    assert "wren/inside.wav" in paths_in(tmp_path / "out")
    followed = gm.pack(source, tmp_path / "followed", follow_links=True)
    assert reasons(followed) == {
        "loop": "link",
        "wren/nowhere.wav": "missing",
        "wren/self.wav": "missing",
    }
    assert {"linked/secret.wav", "wren/out.wav"} <= set(paths_in(tmp_path / "followed"))


def test_pipes_and_sockets_do_not_block(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    os.mkfifo(source / "wren" / "pipe.wav")
    os.mkfifo(source / "notes.txt")
    report = gm.pack(source, tmp_path / "out")
    assert reasons(report) == {"wren/pipe.wav": "not_a_file"}
    assert report.ignored[".txt"] == 2
    fifo_metadata = tmp_path / "meta"
    fifo_metadata.mkdir()
    (fifo_metadata / "a.wav").write_bytes(material.recording(0))
    os.mkfifo(fifo_metadata / "metadata.csv")
    assert reasons(gm.pack(fifo_metadata, tmp_path / "m")) == {"metadata.csv": "not_a_file"}


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    (Path(os.fsdecode(os.fsencode(source / "wren") + b"/\xff\xfe.wav"))).write_bytes(b"x")
    report = gm.pack(source, tmp_path / "out")
    assert list(reasons(report).values()) == ["name"]
    json.dumps(report.to_dict())


def test_metadata_that_lie(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "clips").mkdir(parents=True)
    (tmp_path / "secret.wav").write_bytes(SECRET)
    (source / "clips" / "a.wav").write_bytes(material.recording(0))
    (source / "clips" / "notes.pdf").write_bytes(b"no recording")
    names = [
        "clips/a.wav",
        "../secret.wav",
        "clips/../../secret.wav",
        str(tmp_path / "secret.wav"),
        "file://secret.wav",
        "clips/absent.wav",
        "",
        "clips/notes.pdf",
        "./clips//a.wav",
    ]
    rows = [{"file_name": name or None, "n": k} for k, name in enumerate(names)]
    (source / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = gm.pack(source, tmp_path / "out", keep_bad=True)
    assert reasons(report) == {
        "../secret.wav": "outside",
        "clips/../../secret.wav": "outside",
        str(tmp_path / "secret.wav"): "outside",
        "file:/secret.wav": "missing",
        "clips/absent.wav": "missing",
        "metadata.jsonl row 7": "missing",
        "clips/notes.pdf": "missing",
    }
    assert [row["n"] for row in native_rows(tmp_path / "out")] == [0, 8]
    assert not any(SECRET in path.read_bytes() for path in (tmp_path / "out").glob("*"))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("metadata.csv", b"name,n\na.wav,1\n", "no column 'file_name'"),
        ("metadata.csv", b"", "cannot be read as csv"),
        ("metadata.csv", b"file_name,n\na.wav,1,2\n", "cannot be read as csv"),
        ("metadata.csv", b"file_name,n,n\na.wav,1,2\n", "a column 'n' too many"),
        ("metadata.csv", b"file_name,audio\na.wav,1\n", "a column 'audio' too many"),
        ("metadata.csv", b"file_name,n\n\xff\xfe.wav,1\n", "cannot be read as csv|invalid UTF8"),
        ("metadata.jsonl", b'{"file_name": 3}\n', "no column 'file_name' of strings"),
        ("metadata.jsonl", b'{"file_name": "a.wav"\n', "cannot be read as jsonl"),
        ("metadata.jsonl", b"[1, 2]\n", "cannot be read as jsonl"),
        ("metadata.jsonl", b'{"a":' * 100_000, "cannot be read as jsonl"),
        ("metadata.parquet", b"PAR1 no parquet PAR1", "cannot be read as parquet"),
    ],
)
def test_metadata_that_cannot_be_read(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.wav").write_bytes(material.recording(0))
    (source / name).write_bytes(data)
    with pytest.raises(gm.SchemaError, match=message):
        gm.pack(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_metadata_of_several_types(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name, value in (("a", "1"), ("b", "loud")):
        (source / name).mkdir(parents=True)
        (source / name / "x.wav").write_bytes(material.recording(0))
        (source / name / "metadata.csv").write_text(f"file_name,level\nx.wav,{value}\n")
    with pytest.raises(gm.SchemaError, match=r"a/metadata\.csv, b/metadata\.csv are of different"):
        gm.pack(source, tmp_path / "out")


def test_members_of_tars_that_cannot_be_packed(tmp_path: Path) -> None:
    whole = material.recording(1)
    link = material.member("c.wav", linkname="/etc/passwd", type=tarfile.SYMTYPE)
    hard = material.member("d.wav", linkname="a.wav", type=tarfile.LNKTYPE)
    pipe = material.member("e.wav", type=tarfile.FIFOTYPE)
    device = material.member("f.wav", type=tarfile.CHRTYPE)
    tar = material.write_tar(
        tmp_path / "source" / "x.tar",
        [
            material.member("a.wav", whole),
            material.member("../../climbs.wav", whole),
            material.member("/etc/absolute.wav", whole),
            material.member("a/../../b.wav", whole),
            link,
            hard,
            pipe,
            device,
            material.member("g.json", b'{"n": 1}'),
            material.member("h.json", b'{"n": '),
            material.member("h.wav", whole),
            material.member("i.cls", b"9" * 40),
            material.member("i.wav", whole),
            material.member("j.wav", whole),
            material.member("j.flac", whole),
            material.member("k.json", b"[" * 100_000),
            material.member("k.wav", whole),
        ],
    )
    report = gm.pack(tar, tmp_path / "out", keep_bad=True)
    assert reasons(report) == {
        "x.tar/../../climbs.wav": "outside",
        "x.tar//etc/absolute.wav": "outside",
        "x.tar/a/../../b.wav": "outside",
        "x.tar/c.wav": "link",
        "x.tar/d.wav": "link",
        "x.tar/e.wav": "not_a_file",
        "x.tar/f.wav": "not_a_file",
        "x.tar/g": "no_audio",
        "x.tar/h.json": "metadata",
        "x.tar/i.cls": "metadata",
        "x.tar/j.flac": "duplicate",
        "x.tar/k.json": "metadata",
    }
    assert paths_in(tmp_path / "out") == ["a.wav", "j.wav"]


def broken_tar(change: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for info, content in material.samples(0, n=2):
            tar.addfile(info, io.BytesIO(content))
    tar_bytes = bytearray(data.getvalue())
    last = tar_bytes.rindex(b"clip/00-1.txt")

    def resized(size: bytes) -> None:
        tar_bytes[last + 124 : last + 136] = size.ljust(12, b"\0")
        total = sum(tar_bytes[last : last + 148]) + 256 + sum(tar_bytes[last + 156 : last + 512])
        tar_bytes[last + 148 : last + 156] = b"%06o\0 " % total

    if change == "cut":
        del tar_bytes[last + 100 :]
    elif change == "enormous":
        resized(b"77777777777")
    elif change == "base 256":
        resized(b"\x80\0\0\0\x7f" + b"\xff" * 7)
    elif change == "negative":
        resized(b"\xff" * 10 + b"\xf6\0")
    elif change == "pax of a terabyte":
        tar_bytes[last + 156 : last + 157] = b"x"
        resized(b"\x80\0\0\0\0\0\0\x01\0\0\0\0")
    elif change == "long name of a terabyte":
        tar_bytes[last + 156 : last + 157] = b"L"
        resized(b"\x80\0\0\0\0\0\0\x01\0\0\0\0")
    elif change == "checksum":
        tar_bytes[last + 100] ^= 1
    return bytes(tar_bytes)


@pytest.mark.parametrize(
    "change",
    [
        "cut",
        "enormous",
        "base 256",
        "negative",
        "pax of a terabyte",
        "long name of a terabyte",
        "checksum",
    ],
)
def test_corrupt_tars_give_what_comes_before(tmp_path: Path, change: str) -> None:
    tar = tmp_path / "x.tar"
    tar.write_bytes(broken_tar(change))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = gm.pack(tar, tmp_path / "out")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    assert report.rows == 2
    assert set(reasons(report).values()) <= {"corrupt_tar", "truncated"}
    assert report.bad


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=40)), max_size=4
    ),
    cut=st.integers(0, 20_000),
)
def test_any_tar_ends_in_rows_or_a_list(
    tmp_path: Path, changes: list[tuple[int, bytes]], cut: int
) -> None:
    data = bytearray(broken_tar(""))
    for place, new in changes:
        at = place // 512 * 512 + place % 160  # headers, mostly
        data[at : at + len(new)] = new
    if cut % 3 == 0:
        del data[cut:]
    tar = tmp_path / "x.tar"
    tar.write_bytes(data)
    try:
        report = gm.pack(tar, tmp_path / "out", overwrite=True)
    except (FileNotFoundError, gm.SchemaError):
        return
    assert report.rows <= 2
    assert len(native_rows(tmp_path / "out")) == report.rows


def test_a_tar_without_one_whole_recording(tmp_path: Path) -> None:
    tar = tmp_path / "x.tar"
    tar.write_bytes(broken_tar("")[:5000])
    message = r"No recordings here that can be packed: x.tar/clip/00-0.flac: the tar ends before"
    with pytest.raises(FileNotFoundError, match=message):
        gm.pack(tar, tmp_path / "out")


def test_a_folder_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="No recordings here"):
        gm.pack(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        gm.pack(tmp_path / "absent", tmp_path / "out")
    source = material.class_folders(tmp_path / "source", n_each=1)
    with pytest.raises(ValueError, match="neither a folder nor a tar"):
        gm.pack(source / "README.txt", tmp_path / "out")
    with pytest.raises(ValueError, match="is the source itself"):
        gm.pack(source, source)
    (source / "a.tar").write_bytes(b"")
    with pytest.raises(ValueError, match=r"holds recordings .* and tars"):
        gm.pack(source, tmp_path / "out")
    (tmp_path / "zipped").mkdir()
    (tmp_path / "zipped" / "a.tar.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"a\.tar\.gz is compressed; decompress"):
        gm.pack(tmp_path / "zipped", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_shards_of_others_stay(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    out = tmp_path / "out"
    out.mkdir()
    (out / "train.arrow").write_bytes(b"precious")
    for overwrite in (False, True):
        with pytest.raises(ValueError, match=r"pack has not written, such as train\.arrow"):
            gm.pack(source, out, overwrite=overwrite)
    assert files_in(out).keys() == {"train.arrow"}
    # A folder within the source is not looked into.
    gm.pack(source, source / "shards")
    gm.pack(source, source / "shards", overwrite=True)
    assert len(native_rows(source / "shards")) == 3


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
    for n_calls in (1, 4, 9, 2, 30, 5, 14, 7, 10**9):
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


@pytest.mark.timeout(200)
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
    with pytest.raises(ValueError, match="holds a part of something else"):
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
    command = [sys.executable, "-c", script, str(source), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"27 {out / '.pack' / 'shard.partial'}\n"
    assert set(files_in(out)) == {".pack/lock", ".pack/plan.json"}
    assert gm.pack(source, out).rows == 60


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=2)
    last = max((source / "wren").iterdir())

    def grow(done: int, total: int, bad: int) -> None:
        if done == 1:
            last.write_bytes(last.read_bytes() + b"more")

    with pytest.raises(ValueError, match=r"was changed while it was packed; start again"):
        gm.pack(source, tmp_path / "out", num_threads=1, shard_size=1, on_files=grow)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard_size": 0}, "shard_size is a number of bytes"),
        ({"shard_size": "big"}, "write shard_size='500MB'"),
        ({"class_columns": "species"}, r"class_columns is a list of names: write .*\['species'\]"),
        ({"num_threads": 0}, "num_threads is an integer from 1"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gm.pack(tmp_path, tmp_path / "out", **options)


def test_class_columns_that_are_not_there(tmp_path: Path) -> None:
    source = material.with_metadata(tmp_path / "source", "csv")
    with pytest.raises(gm.SchemaError, match="no column 'genus' to make classes of; there are spe"):
        gm.pack(source, tmp_path / "out", class_columns=["genus"])
    with pytest.raises(gm.SchemaError, match="'count' is of type int64, and classes are made of"):
        gm.pack(source, tmp_path / "out", class_columns=["count"])
