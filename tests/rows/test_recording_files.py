"""Rows that hold a path and no bytes: their files are read from `gm.Audio(root=...)`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
import probes
import shards
from signals import encode, synthetic

KINDS = ["wav16", "flac16", "vorbis"]
RECORDINGS = [
    encode(synthetic(0.3 + i / 20, 16_000, 1, i), 16_000, KINDS[i % 3]) for i in range(12)
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of twelve recordings, in folders, one of them behind a link."""
    folder = tmp_path_factory.mktemp("recordings")
    for i, data in enumerate(RECORDINGS):
        path = folder / f"class {i % 3}" / f"r\N{BIRD}{i}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (folder / "again").symlink_to("class 0", target_is_directory=True)
    (folder / "one").symlink_to(folder / "class 1" / "r\N{BIRD}1.bin")
    return folder


def name(i: int) -> str:
    return f"class {i % 3}/r\N{BIRD}{i}.bin"


def shard(
    path: Path, paths: list[str | None], recordings: list[bytes | None] | None = None
) -> Path:
    data = recordings or [None] * len(paths)
    rows = [shards.row(i, data[i]) for i in range(len(paths))]
    for row, named in zip(rows, paths, strict=True):
        row["audio"]["path"] = named
    return shards.write(path, rows, batch_rows=4)


@pytest.fixture(scope="module")
def paths(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve rows with paths: relative, absolute, and with parts that lead nowhere else."""
    forms = [
        "{n}",
        "./{n}",
        "{root}/{n}",
        "class 1/../{n}",
        "{root}/class 2/.././{n}",
        "again/../{n}",
    ]
    named: list[str | None] = [forms[i % 6].format(n=name(i), root=root) for i in range(12)]
    named[3], named[1] = "again/r\N{BIRD}3.bin", "one"
    return shard(tmp_path_factory.mktemp("paths") / "paths.arrow", named)


def whole(audio: gm.Audio) -> list[np.ndarray[Any, Any]]:
    return [
        gm.decode(data, sample_rate=audio.sample_rate, resampler=audio.resampler)
        for data in RECORDINGS
    ]


@pytest.mark.parametrize("rate", [None, 8_000])
def test_files_are_read_as_bytes_are(root: Path, paths: Path, rate: int | None) -> None:
    audio = gm.Audio(sample_rate=rate, root=root)
    expected = whole(audio)
    stream = list(gm.ArrowIterDataset(paths, audio=audio))
    source = gm.ArrowDataSource(paths, audio=audio)
    assert len(stream) == len(source) == 12
    for i, data in enumerate(expected):
        assert np.array_equal(stream[i]["audio"], data)
        assert np.array_equal(source[i]["audio"], data)
        assert stream[i]["name"] == shards.row(i, None)["name"]


@pytest.mark.parametrize("shuffle", [gm.Shuffle(3), gm.Shuffle(3, window=4, streams=2), None])
def test_shuffled_batches_of_crops(
    root: Path, paths: Path, tmp_path: Path, shuffle: gm.Shuffle | None
) -> None:
    """The same crops in the same order as of a shard of that name with the bytes in it."""
    inside = shard(tmp_path / paths.name, [None] * 12, list(RECORDINGS))
    crop = gm.RandomCrop(seconds=0.2, seed=9)
    options: dict[str, Any] = {"shuffle": shuffle, "batch_size": 5, "epochs": 3}
    columns: dict[str, Any] = {"columns": ["audio", "count"], **options}
    outside = gm.ArrowIterDataset(paths, audio=gm.Audio(crop=crop, root=root), **columns)
    expected = gm.ArrowIterDataset(inside, audio=gm.Audio(crop=crop), **columns)
    for ours, theirs in zip(outside, expected, strict=True):
        np.testing.assert_equal(ours, theirs)


def test_rows_with_bytes_among_them(root: Path, tmp_path: Path) -> None:
    data = [RECORDINGS[i] if i % 2 else None for i in range(12)]
    mixed = shard(tmp_path / "mixed.arrow", [name(i) for i in range(12)], data)
    source = gm.ArrowDataSource(mixed, audio=gm.Audio(root=root))
    for i, expected in enumerate(whole(gm.Audio())):
        assert np.array_equal(source[i]["audio"], expected)


def test_the_folder_in_all_ways(
    root: Path, paths: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    link = tmp_path / os.fsdecode(b"caf\xe9")
    link.symlink_to(root, target_is_directory=True)
    monkeypatch.chdir(root.parent)
    monkeypatch.setenv("HOME", str(root.parent))
    first = gm.decode(RECORDINGS[0])
    for folder in (str(root), root, root.name, f"~/{root.name}", f"{root}/", link):
        audio = gm.Audio(root=folder)
        rows = gm.ArrowDataSource(paths, audio=audio)
        assert np.array_equal(rows[0]["audio"], first)
        # An absolute path of the data need not be written as the folder is given.
        assert np.array_equal(rows[2]["audio"], gm.decode(RECORDINGS[2]))
    assert gm.Audio(root=root.name) == gm.Audio(root=root)
    for folder, error in [("none", FileNotFoundError), (str(paths), NotADirectoryError)]:
        with pytest.raises(error) as raised:
            gm.ArrowDataSource(paths, audio=gm.Audio(root=folder))[0]
        assert raised.value.filename == str(Path(folder).absolute())
    for wrong in ("", 3, "a\0b"):
        with pytest.raises(ValueError, match="root is the path"):
            gm.Audio(root=wrong)  # pyright: ignore[reportArgumentType]


def test_without_the_folder_the_message_says_what_to_give(paths: Path) -> None:
    for audio in ("auto", gm.Audio()):
        with pytest.raises(
            gm.DecodeError, match=r'has the path "\./class 1.*gm\.Audio\(root="'
        ) as e:
            gm.ArrowDataSource(paths, audio=audio)[7]  # pyright: ignore[reportArgumentType]
        assert (e.value.shard, e.value.row, e.value.reason) == (str(paths), 7, "null")
    encoded = gm.ArrowDataSource(paths, audio=None)[0]["audio"]
    assert encoded == {"bytes": None, "path": name(0)}


@pytest.fixture
def hostile(root: Path, tmp_path: Path) -> dict[str, str]:
    """Paths of rows that must not be followed, or lead nowhere, and the reasons."""
    outside = tmp_path / "outside.bin"
    outside.write_bytes(RECORDINGS[0])
    within = root / "hostile"
    within.mkdir(exist_ok=True)
    for made, target in [("out", outside), ("out-folder", tmp_path), ("loop", within / "loop")]:
        if not (within / made).is_symlink():
            (within / made).symlink_to(target)
        elif made != "loop":
            (within / made).unlink()
            (within / made).symlink_to(target)
    if not (within / "fifo").exists():
        os.mkfifo(within / "fifo")
    (within / "empty").write_bytes(b"")
    (within / "noise").write_bytes(b"no recording at all")
    return {
        str(outside): "outside_root",
        os.path.relpath(outside, root): "outside_root",
        f"{root}/../{root.name}/../{tmp_path.name}/outside.bin": "outside_root",
        "hostile/out": "outside_root",
        "hostile/out-folder/outside.bin": "outside_root",
        # Whether something is there is not told.
        str(tmp_path / "none" / "none.wav"): "outside_root",
        str(outside / "none.wav"): "outside_root",
        "hostile/out-folder/none/none.wav": "outside_root",
        "class 0/../../../../../../../../../../etc/passwd": "outside_root",
        "..": "outside_root",
        ".": "outside_root",
        "/": "outside_root",
        "/dev/zero": "outside_root",
        "/proc/self/mem": "outside_root",
        "none.wav": "missing_file",
        "none/none.wav": "missing_file",
        "file:///etc/passwd": "missing_file",
        "~/x.wav": "missing_file",
        name(0) + "/x": "unreadable_file",
        "hostile/loop": "unreadable_file",
        "hostile/fifo": "unreadable_file",
        "hostile": "unreadable_file",
        "x" * 300: "unreadable_file",
        "x/" * 5_000: "missing_file",
        "x" * 100_000: "invalid_path",
        name(0) + "\0.wav": "invalid_path",
        "hostile/empty": "empty",
        "hostile/noise": "unknown_format",
    }


def test_paths_that_lead_out_or_nowhere(
    root: Path, hostile: dict[str, str], tmp_path: Path
) -> None:
    given = [*hostile, "", None]
    made = shard(tmp_path / "hostile.arrow", [name(0), *given])
    audio = gm.Audio(crop=gm.StartCrop(seconds=0.2), root=root)
    source = gm.ArrowDataSource(made, audio=audio)
    good = source[0]["audio"]
    reasons = []
    for i, path in enumerate(given, 1):
        with pytest.raises(gm.DecodeError) as raised:
            source[i]
        reasons.append(raised.value.reason)
        assert raised.value.row == i
        assert len(str(raised.value)) < 1_000, path
    assert dict(zip(map(str, given), reasons, strict=True)) == {
        **hostile,
        "": "null",
        "None": "null",
    }
    # As any other bad row, in a stream.
    options: dict[str, Any] = {"audio": audio, "columns": ["audio"], "batch_size": 4}
    masked = iter(gm.ArrowIterDataset(made, on_error="mask", **options))
    batches = list(masked)
    assert np.concatenate([batch["valid"] for batch in batches]).tolist() == [
        True,
        *[False] * len(given),
    ]
    assert not any(batch["audio"][~batch["valid"]].any() for batch in batches)
    assert [row.reason for row in masked.bad_rows()] == reasons
    skipped = list(gm.ArrowIterDataset(made, on_error="skip", **options))
    assert [batch["audio"].shape for batch in skipped] == [(1, 3200)]
    substitute = gm.ArrowDataSource(made, audio=audio, on_error="substitute")
    assert all(np.array_equal(substitute[i]["audio"], good) for i in range(1, 4))


def test_a_file_beyond_the_limit_is_not_read(root: Path, tmp_path: Path) -> None:
    huge = root / "huge.wav"
    with huge.open("wb") as file:
        file.write(RECORDINGS[0])
        file.truncate(1 << 42)
    try:
        made = shard(tmp_path / "huge.arrow", ["huge.wav", name(0)])
        source = gm.ArrowDataSource(made, audio=gm.Audio(root=root))
        with pytest.raises(gm.LimitError) as raised:
            source[0]
        assert (raised.value.limit, raised.value.row) == ("max_bytes", 0)
        assert np.array_equal(source[1]["audio"], gm.decode(RECORDINGS[0]))
        small = gm.Limits(max_bytes=len(RECORDINGS[0]) - 1)
        with pytest.raises(gm.LimitError):
            gm.ArrowDataSource(made, audio=gm.Audio(root=root, limits=small))[1]
        # It waits for memory as any row: with a budget smaller than a file one goes on at a time.
        read = gm.ReadOptions(memory_budget=4_000)
        few = gm.ArrowDataSource(made, audio=gm.Audio(root=root), read=read)
        assert len(few.__getitems__([1] * 8)) == 8
    finally:
        huge.unlink()


def test_files_are_closed_again(root: Path, paths: Path) -> None:
    audio = gm.Audio(crop=gm.StartCrop(seconds=0.1), root=root)
    files = probes.n_descriptors()
    it = iter(gm.ArrowIterDataset(paths, audio=audio, shuffle=gm.Shuffle(1), epochs=30))
    for _ in range(300):
        next(it)
    assert probes.n_descriptors() < files + 60
    it.close()
    assert probes.settles(probes.n_descriptors, files)


def test_a_folder_that_is_gone_is_no_bad_row(tmp_path: Path) -> None:
    folder = tmp_path / "mount"
    folder.mkdir()
    (folder / "a").write_bytes(RECORDINGS[0])
    made = shard(tmp_path / "a.arrow", ["a", "b"])
    read = gm.ReadOptions(retries=0)
    source = gm.ArrowDataSource(made, audio=gm.Audio(root=folder), on_error="mask", read=read)
    assert source[0]["valid"]
    assert not source[1]["valid"]
    folder.rename(tmp_path / "moved")
    for i in range(2):
        with pytest.raises(OSError, match=r"gone|No such file"):
            source[i]


def test_the_tools_know_them(
    root: Path, paths: Path, hostile: dict[str, str], tmp_path: Path
) -> None:
    report = gm.scan(paths, root=root)
    assert report.is_clean
    assert report.bytes == sum(map(len, RECORDINGS))
    nowhere = gm.scan(paths)
    assert [finding.row.reason for finding in nowhere.findings] == ["null"] * 12
    assert "--root" in nowhere.findings[0].row.message
    made = shard(tmp_path / "hostile.arrow", [name(0), *hostile])
    found = gm.scan(made, root=root).findings
    assert [f.row.reason for f in found] == list(hostile.values())
    sample = gm.inspect(paths, root=root).sample
    assert sample is not None
    assert (sample.rows, sample.refused, sample.bytes) == (12, 0, sum(map(len, RECORDINGS)))
    command = """
from gristmill.cli import main
main(sys.argv[1:])
"""
    printed = probes.run(command, "scan", paths, "--root", root, "--quiet")
    assert "sound        12" in printed
    assert "codecs" in probes.run(command, "inspect", paths, "--root", root, "--quiet")
    options = ["--root", root, "--quiet", "--crop-seconds", 0.2, "--seconds", 1]
    assert "rows/s" in probes.run(command, "bench", paths, *options)
    assert "Storage" in probes.run(command, "doctor", paths, *options)


def test_what_datasets_makes_of_local_files(root: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = [str(root / name(i)) for i in range(12)]
    made = datasets.Dataset.from_dict({"audio": names}).cast_column("audio", datasets.Audio())
    made.save_to_disk(str(tmp_path / "saved"))
    source = gm.ArrowDataSource(tmp_path / "saved", audio=gm.Audio(root=root))
    for i, expected in enumerate(whole(gm.Audio())):
        assert np.array_equal(source[i]["audio"], expected)
