"""Parts of a scan and of indexes: they travel, they resume, and together they are the whole."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import gristmill as gm
import scan_material
from gristmill.tools.scan import run as scanning

WORKER = """
import os, pickle, signal, sys

part = pickle.load(open(sys.argv[1], "rb"))

def killed(done, total, bad):
    # All rows are done, and nobody has been told.
    if done == total:
        os.kill(os.getpid(), signal.SIGKILL)

part(killed)
"""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return scan_material.write(tmp_path_factory.mktemp("scan"))


@pytest.fixture(scope="module")
def whole(paths: list[Path]) -> gm.ScanReport:
    return gm.scan(paths)


def travelled(part: gm.ScanPart) -> gm.ScanPart:
    return pickle.loads(pickle.dumps(part))


def same(total: gm.ScanSummary, whole: gm.ScanReport) -> bool:
    assert total.audio_seconds == pytest.approx(whole.audio_seconds)
    assert total.rows == whole.rows_to_scan
    ours = (total.shards, total.rows, total.bytes, total.marked, total.damaged, total.undecodable)
    theirs = (whole.shards, whole.rows, whole.bytes, whole.marked, whole.damaged, whole.undecodable)
    return ours == theirs and total.reasons == whole.reasons


@pytest.mark.parametrize("count", [1, 3, 7])
def test_parts_are_the_whole_in_any_order(
    paths: list[Path], whole: gm.ScanReport, count: int, tmp_path: Path
) -> None:
    out = tmp_path / "bad.jsonl"
    parts = gm.scan_parts(paths, count, quarantine=out)
    results = [travelled(part)() for part in reversed(parts)]
    total = gm.merge_parts(iter(results))
    assert same(total, whole)
    assert len(total.quarantine) == count
    rows = Counter(
        (row.shard, row.row) for file in total.quarantine for row in gm.read_quarantine(file)
    )
    assert rows == {(Path(f.row.shard).name, f.row.row): 1 for f in whole.findings}
    if count > 1:
        assert gm.merge_scans(out).findings == whole.findings


def test_a_killed_worker_costs_its_part_alone(
    paths: list[Path], whole: gm.ScanReport, tmp_path: Path
) -> None:
    parts = gm.scan_parts(paths, 3, quarantine=tmp_path / "bad.jsonl")
    (tmp_path / "part").write_bytes(pickle.dumps(parts[1]))
    done = subprocess.run([sys.executable, "-c", WORKER, str(tmp_path / "part")], check=False)
    assert done.returncode == -signal.SIGKILL
    results = [parts[0](), parts[2]()]
    with pytest.raises(ValueError, match="part 2 of 3 is missing"):
        gm.merge_parts(results)
    results.append(parts[1]())
    assert same(gm.merge_parts(results), whole)
    # Nothing is written twice.
    merged = gm.merge_scans(tmp_path / "bad.jsonl")
    assert len(gm.read_quarantine(tmp_path / "bad.jsonl")) == len(merged.findings)


def test_a_part_resumes(paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_TELL_SECONDS", 0.0)
    _, part = gm.scan_parts(paths, 2, quarantine=tmp_path / "bad.jsonl")
    stopped_at = 0

    def stop(done: int, _total: int, _bad: int) -> None:
        nonlocal stopped_at
        if done >= 5:
            stopped_at = done
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        part(stop)
    told: list[int] = []
    part(lambda done, _total, _bad: told.append(done))
    assert told[0] == stopped_at >= 5
    # A finished one reads no row again.
    told.clear()
    part(lambda done, _total, _bad: told.append(done))
    assert told == []


def test_workers_need_not_stand_where_parts_were_made(
    paths: list[Path], whole: gm.ScanReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(paths[0].parent)
    parts = gm.scan_parts("*.arrow", 2, quarantine="bad.jsonl")
    monkeypatch.chdir(tmp_path)
    try:
        assert same(gm.merge_parts(part() for part in parts), whole)
        assert list(tmp_path.iterdir()) == []
    finally:
        for file in paths[0].parent.glob("bad.*"):
            file.unlink()


def test_what_is_merged_is_small(paths: list[Path], tmp_path: Path, whole: gm.ScanReport) -> None:
    (part,) = gm.scan_parts(paths, 1, quarantine=tmp_path / "bad.jsonl")
    result = part()
    one = replace(result, part=(1, 10_000), unreadable=())
    assert len(pickle.dumps(one)) < 2_000 < len(pickle.dumps(whole))

    def many() -> Iterator[gm.ScanSummary]:
        for k in range(1, 10_001):
            yield replace(one, part=(k, 10_000))

    total = gm.merge_parts(many())
    assert total.rows == 10_000 * one.rows
    assert len(pickle.dumps(total)) < 2_000


def test_index_parts(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=str(tmp_path / "index"))
    for path in paths:  # old enough for an index
        os.utime(path, (1e9, 1e9))
    good = [path for path in paths if gm.inspect(path).unreadable == ()]
    whole = gm.build_indexes(good, read=gm.ReadOptions(index_dir=str(tmp_path / "w")), audio=True)
    parts = gm.index_parts(good, 3, read=read, audio=True)
    total = gm.merge_parts([pickle.loads(pickle.dumps(part))() for part in parts])
    assert total.audio == whole.audio
    assert (total.shards, total.rows, total.written) == (len(good), whole.rows, len(good))
    assert (total.part, total.index_dir) == ((1, 1), str(tmp_path / "index"))
    again = gm.merge_parts(part() for part in gm.index_parts(good, 2, read=read, audio=True))
    assert (again.written, again.audio) == (0, whole.audio)
    assert json.dumps(total.to_dict())


def test_what_is_no_part(paths: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "bad.jsonl"
    for n in (0, -1, 1.5, "3"):
        with pytest.raises(ValueError, match="n is an integer of at least 1"):
            gm.scan_parts(paths, n, quarantine=out)  # pyright: ignore[reportArgumentType]
    one = gm.ScanSummary(part=(1, 2))
    with pytest.raises(ValueError, match="comes twice"):
        gm.merge_parts([one, one])
    with pytest.raises(ValueError, match="of 3 and another of 2"):
        gm.merge_parts([one, gm.ScanSummary(part=(1, 3))])
    with pytest.raises(ValueError, match="no results"):
        gm.merge_parts([])
    assert "secret" not in repr(
        gm.scan_parts(
            ["s3://b/x.arrow"],
            1,
            quarantine=out,
            storage_options={"aws_secret_access_key": "secret"},
        )
    )
