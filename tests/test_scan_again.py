"""A scan that is started again answers for what it is asked now, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gristmill as gm
import pack_material as material
import shards

NEW = ("root",)
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
