"""Packing what lies, climbs out, blocks, or is cut off."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gristmill as gm
import pack_material as material
from rounds import rounds
from test_pack import files_in, native_rows

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
            material.member("l.json", b'{"n": ' * 80 + b"1" + b"}" * 80),
            material.member("l.wav", whole),
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
        "x.tar/l.json": "metadata",
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
    max_examples=rounds(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
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
    with pytest.raises(FileNotFoundError, match="Nothing matches this pattern"):
        gm.pack(tmp_path / "*.tar", tmp_path / "out")
    with pytest.raises(ValueError, match="is a folder among several sources; pack it by itself"):
        gm.pack([source, source / "a.tar"], tmp_path / "out")
    (source / "a.tar").write_bytes(b"")
    with pytest.raises(ValueError, match=r"contains recordings .* and tars"):
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
        with pytest.raises(ValueError, match=r"pack did not write, such as train\.arrow"):
            gm.pack(source, out, overwrite=overwrite)
    assert files_in(out).keys() == {"train.arrow"}
    # A folder within the source is not looked into.
    gm.pack(source, source / "shards")
    gm.pack(source, source / "shards", overwrite=True)
    assert len(native_rows(source / "shards")) == 3


def test_overwrite_removes_what_this_pack_has_written(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    splits = tmp_path / "splits"
    for split in ("train", "test"):
        material.class_folders(splits / split, n_each=1)
    out = tmp_path / "out"
    gm.pack(source, out)
    # Another pack wrote below, where a split of this one would lie.
    gm.pack(source, out / "train")
    before = files_in(out / "train")
    gm.pack(source, out, overwrite=True, shard_size=1)
    assert files_in(out / "train") == before
    with pytest.raises(ValueError, match=r"out/train exists, and this pack did not write"):
        gm.pack(splits, out, overwrite=True)
    assert files_in(out / "train") == before
    shutil.rmtree(out)

    # Splits are removed where they are its own, and what others put beside them stays.
    gm.pack(splits, out)
    (out / "test" / "mine.txt").write_text("mine")
    gm.pack(source, out, overwrite=True)
    assert not (out / "train").exists()
    assert files_in(out / "test").keys() == {"mine.txt"}
    (out / "test").rename(out / "kept")
    gm.pack(splits, out, overwrite=True)

    # A shard of another's is not taken for one of its own, whatever its name.
    other = out / "test" / "data-00000-of-00002.arrow"
    other.write_bytes(b"precious")
    before = files_in(out)
    with pytest.raises(
        ValueError, match=r"did not write, such as data-00000-of-00002\.arrow; move"
    ):
        gm.pack(splits, out, overwrite=True)
    assert files_in(out) == before
    other.unlink()

    # Nor is a file elsewhere that a file of this name names.
    done = json.loads((out / "pack.json").read_text())
    done["shards"][0]["file"] = "../data-00000-of-00001.arrow"
    (out / "pack.json").write_text(json.dumps(done))
    (tmp_path / "data-00000-of-00001.arrow").write_bytes(b"precious")
    with pytest.raises(ValueError, match="did not write"):
        gm.pack(splits, out, overwrite=True)
    assert (tmp_path / "data-00000-of-00001.arrow").exists()


def test_a_shard_in_the_way_of_a_run_that_goes_on(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=2)

    def stop(done: int, total: int, bad: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        gm.pack(source, out, num_threads=1, shard_size=1, on_files=stop)
    other = out / "data-00005-of-00006.arrow"
    other.write_bytes(b"precious")
    for overwrite in (False, True):
        with pytest.raises(ValueError, match=other.name):
            gm.pack(source, out, shard_size=1, overwrite=overwrite)
    assert other.read_bytes() == b"precious"
    other.unlink()
    assert gm.pack(source, out, shard_size=1, overwrite=True).reused == 0


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


def test_names_are_utf8_in_any_locale(tmp_path: Path) -> None:
    source = material.class_folders(tmp_path / "source", n_each=1)
    (source / "wren").rename(source / "Zaunkönig")
    tars = tmp_path / "tärs"
    tars.mkdir()
    material.write_tar(tars / "ä.tar", [material.member("ö.wav", material.recording(0))])
    script = (
        "import sys, gristmill as gm\n"
        "for source, out in zip(sys.argv[1::2], sys.argv[2::2]):\n"
        "    report = gm.pack(source, out)\n"
        "    assert not report.bad, report.bad\n"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    one_tar = (tars / "ä.tar", tmp_path / "c")
    paths = [source, tmp_path / "a", tars, tmp_path / "b", *one_tar]
    command = [sys.executable, "-c", script, *map(str, paths)]
    subprocess.run(command, env={**os.environ, **ascii_only}, timeout=60, check=True)
    for here, out in ((source, "a"), (tars, "b"), (tars / "ä.tar", "c")):
        gm.pack(here, tmp_path / "utf8" / out)
        assert files_in(tmp_path / out) == files_in(tmp_path / "utf8" / out)


def test_tars_whose_names_are_not_utf8(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.tar"))
    for path in (tmp_path / "a.tar", odd):
        material.write_tar(path, [material.member("s.wav", material.recording(0))])
    for number, source in enumerate((tmp_path, [tmp_path / "a.tar", odd])):
        report = gm.pack(source, tmp_path / f"out{number}")
        assert list(reasons(report).values()) == ["name"]
        assert report.rows == 1
