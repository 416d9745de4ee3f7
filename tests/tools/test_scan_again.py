"""A scan that is started again answers for what it is asked now, or is refused."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

import gristmill as gm
import pack_material as material
import shards

NEW = ("root", "written")
"""What headers of earlier versions lack."""


def with_paths(folder: Path) -> tuple[Path, Path]:
    """A shard whose three rows hold paths, and the folder of their recordings."""
    root = folder / "recordings"
    root.mkdir()
    for k in range(3):
        (root / f"{k}.wav").write_bytes(material.recording(k))
    rows = [shards.row(k, None, f"{k}.wav") for k in range(3)]
    return shards.write(folder / "paths.arrow", rows), root


def test_another_root_is_another_scan(tmp_path: Path) -> None:
    shard, root = with_paths(tmp_path)
    out = tmp_path / "bad.jsonl"
    assert gm.scan(shard, quarantine=out).reasons == {"null": 3}
    # Its lines stay in the file, also where it is begun anew.
    for restart in (False, True):
        with pytest.raises(ValueError, match=r"its root is None, and here .* delete .*bad\.jsonl:"):
            gm.scan(shard, quarantine=out, root=root, restart=restart)
    for path in (out, Path(f"{out}.scan")):
        path.unlink()
    (tmp_path / "link").symlink_to(root)
    assert gm.scan(shard, quarantine=out, root=root).is_clean
    # The same folder by another name is the same scan, and what found nothing leaves no lines.
    assert gm.scan(shard, quarantine=out, root=tmp_path / "link").is_clean
    with pytest.raises(ValueError, match="its root is "):
        gm.scan(shard, quarantine=out)
    assert gm.scan(shard, quarantine=out, restart=True).reasons == {"null": 3}


def test_parts_with_a_root_and_without_are_not_of_one_scan(tmp_path: Path) -> None:
    shard, root = with_paths(tmp_path)
    copy = tmp_path / "copy"
    out = tmp_path / "bad.jsonl"
    gm.scan(shard, quarantine=out, part=(1, 2), root=root)
    root.rename(copy)  # another job's copy of the recordings
    gm.scan(shard, quarantine=out, part=(2, 2), root=copy)
    assert gm.merge_scans(out).is_clean
    second = tmp_path / "bad.part-2-of-2.jsonl"
    for path in (second, Path(f"{second}.scan")):
        path.unlink()
    gm.scan(shard, quarantine=out, part=(2, 2))
    with pytest.raises(ValueError, match="its root is none, and not given"):
        gm.merge_scans(out)


def test_logs_of_earlier_versions_are_read(tmp_path: Path) -> None:
    shard, root = with_paths(tmp_path)
    out = tmp_path / "bad.jsonl"
    first = gm.scan(shard, quarantine=out)
    log = Path(f"{out}.scan")
    header, rest = log.read_text().split("\n", 1)
    old = {key: value for key, value in json.loads(header).items() if key not in NEW}
    log.write_text(json.dumps(old) + "\n" + rest)
    assert gm.scan(shard, quarantine=out) == first
    with pytest.raises(ValueError, match="its root is None"):
        gm.scan(shard, quarantine=out, root=root)


def with_bytes(path: Path, *rows: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return shards.write_audio(path, rows)


def test_a_shard_that_is_written_again_is_not_vouched_for(tmp_path: Path) -> None:
    sound = material.recording(1)
    garbage = b"X" * len(sound)
    shard, out = tmp_path / "a.arrow", tmp_path / "bad.jsonl"
    for second, rows in enumerate([(sound, garbage), (sound, sound), (garbage, sound)]):
        with_bytes(shard, *rows)
        os.utime(shard, (second, second))
        if second:
            with pytest.raises(ValueError, match=r"again since; .* delete .*\.jsonl, .*--restart"):
                gm.scan(shard, quarantine=out)
        report = gm.scan(shard, quarantine=out, restart=True)
        assert report.undecodable == rows.count(garbage)
        assert gm.scan(shard, quarantine=out) == report
    assert shard.stat().st_size == with_bytes(tmp_path / "b.arrow", sound, sound).stat().st_size
    with_bytes(shard, sound, sound * 2)
    with pytest.raises(ValueError, match=r"its data is .*, delete .*\.jsonl, .*--restart"):
        gm.scan(shard, quarantine=out)


def test_two_at_a_time(tmp_path: Path) -> None:
    shard = with_bytes(tmp_path / "a.arrow", b"garbage", *[material.recording(1)] * 20)
    out = tmp_path / "bad.jsonl"

    def another(done: int, total: int, n_bad: int) -> None:
        del done, total, n_bad
        for restart in (False, True):
            with pytest.raises(ValueError, match=r"another scan writes to .*/bad\.jsonl; wait"):
                gm.scan(shard, quarantine=out, restart=restart)

    first = gm.scan(shard, quarantine=out, on_rows=another)
    # What has ended may be read by any number.
    with Path(f"{out}.scan").open() as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        assert gm.scan(shard, quarantine=out) == first
    assert first.undecodable == len(gm.read_quarantine(out)) == 1


@pytest.mark.parametrize("n_rows", [2, 9])
@pytest.mark.parametrize("part", [(1, 1), (2, 2)])
def test_shards_that_get_other_rows_meanwhile(
    tmp_path: Path, n_rows: int, part: tuple[int, int]
) -> None:
    sound = material.recording(1)
    paths = [with_bytes(tmp_path / f"{k}.arrow", *[sound] * 5, b"garbage") for k in range(2)]

    def write_again(*_: int) -> None:
        with_bytes(paths[0], *[sound] * n_rows)

    with pytest.raises(ValueError, match="arrow, or a shard before it, was written again"):
        gm.scan(paths, on_rows=write_again, part=part)


def test_parts_of_copies_are_merged(tmp_path: Path) -> None:
    shard = with_bytes(tmp_path / "a.arrow", material.recording(1), b"garbage")
    copy = tmp_path / "copy" / shard.name
    copy.parent.mkdir()
    shutil.copyfile(shard, copy)
    os.utime(copy, (1, 1))
    out = tmp_path / "bad.jsonl"
    for part, path in ((1, shard), (2, copy)):
        gm.scan(path, quarantine=out, part=(part, 2))
    assert gm.merge_scans(out).undecodable == 1


def test_shards_of_one_name_have_no_quarantine_file_in_common(tmp_path: Path) -> None:
    paths = [tmp_path / split / "data.arrow" for split in ("train", "test")]
    for k, path in enumerate(paths):
        with_bytes(path, material.recording(1), b"garbage", *[b"more"] * k)
    out = tmp_path / "bad.jsonl"
    with pytest.raises(
        ValueError, match=r"train/data\.arrow and .*test/data\.arrow have the same name"
    ):
        gm.scan(paths, quarantine=out)
    assert not list(tmp_path.glob("bad*"))
    assert gm.scan(paths).undecodable == 3
    for k, path in enumerate(paths):
        own = tmp_path / f"bad-{k}.jsonl"
        assert gm.scan(path, quarantine=own).undecodable == 1 + k
        dataset = gm.ArrowIterDataset(path, columns=["label"], exclude=own)
        assert len(list(dataset)) == 1
    # One that is given twice is still one.
    gm.scan([paths[0], paths[0]], quarantine=out)
    assert len(gm.read_quarantine(out)) == 1
    # Nor can what is left of a broken one be told from its namesake.
    paths[1].write_bytes(b"broken")
    with pytest.raises(ValueError, match="have the same name"):
        gm.scan(paths, quarantine=tmp_path / "other.jsonl")
