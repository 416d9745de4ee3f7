"""`gm.scan` finds what decoding each row finds: in any threads, in parts, and after any stop."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest

import gristmill as gm
import scan_material
from rounds import rounds

GRISTMILL = Path(sys.executable).with_name("gristmill")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return scan_material.write(tmp_path_factory.mktemp("scan"))


@pytest.fixture(scope="module")
def expected(paths: list[Path]) -> dict[tuple[str, int], str]:
    found = scan_material.bad_rows(paths)
    assert len(found) > 30
    return found


def found(report: gm.ScanReport) -> dict[tuple[str, int], str]:
    rows = [finding.row for finding in report.findings]
    assert len({(row.shard, row.row) for row in rows}) == len(rows)
    return {(Path(row.shard).name, row.row): row.reason for row in rows}


def same(one: gm.ScanReport, other: gm.ScanReport) -> bool:
    """Whether both found the same; sums of lengths depend on the order of summing."""
    assert one.audio_seconds == pytest.approx(other.audio_seconds)
    return replace(one, seconds=0, audio_seconds=0) == replace(other, seconds=0, audio_seconds=0)


def in_file(path: Path) -> dict[tuple[str, int], str]:
    rows = gm.read_quarantine(path)
    assert len({(row.shard, row.row) for row in rows}) == len(rows), "a row comes twice"
    return {(row.shard, row.row): row.reason for row in rows}


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_finds_what_decoding_finds(
    paths: list[Path], expected: dict[tuple[str, int], str], threads: int, tmp_path: Path
) -> None:
    out = tmp_path / "bad.jsonl"
    report = gm.scan(paths, quarantine=out, read=gm.ReadOptions(num_threads=threads))
    assert report.is_finished
    assert not report.is_clean
    assert found(report) == in_file(out) == expected
    # In the order of the rows, whatever the threads did.
    assert list(in_file(out)) == sorted(expected)
    assert report.damaged + report.undecodable == len(expected)
    n_rows = sum(pa.ipc.open_stream(path).read_all().num_rows for path in paths)
    assert (report.rows, report.rows_to_scan, report.shards) == (n_rows, n_rows, len(paths))
    assert sum(report.reasons.values()) == len(expected)
    # MP3 without a count, cut twice: they end inside a frame, which is no error.
    assert report.marked >= 2


def test_what_can_be_had_is_told_apart(paths: list[Path]) -> None:
    by_row = {(Path(f.row.shard).name, f.row.row): f for f in gm.scan(paths).findings}
    audio = [pa.ipc.open_stream(path).read_all()["audio"].to_pylist() for path in paths]
    for (shard, row), finding in by_row.items():
        number = next(k for k, path in enumerate(paths) if path.name == shard)
        data = audio[number][row]["bytes"]
        assert finding.row.bytes == (None if data is None else len(data))
        assert finding.row.path == audio[number][row]["path"]
        assert finding.row.shard_rows == len(audio[number])
        if finding.kind == "undecodable":
            with pytest.raises(gm.DecodeError):
                gm.decode_with_report(data or b"")
        else:
            _, report = gm.decode_with_report(data)
            assert finding.damage == report.damage
            assert finding.frames_missing == report.frames_missing
            assert finding.frames_promised == report.frames_promised


def test_fast_blames_no_sound_row(paths: list[Path], expected: dict[tuple[str, int], str]) -> None:
    report = gm.scan(paths, fast=True)
    assert set(found(report)) <= set(expected)
    assert len(report.findings) > len(expected) // 2
    assert report.fast


def test_what_a_scan_wrote_is_what_exclude_reads(
    paths: list[Path], expected: dict[tuple[str, int], str], tmp_path: Path
) -> None:
    out = tmp_path / "bad.jsonl"
    report = gm.scan(paths, quarantine=out)
    # None of the rows that are left raises.
    rows = list(gm.ArrowIterDataset(paths, columns=["audio"], exclude=out))
    assert len(rows) == report.rows - len(expected)


def test_parts_are_the_whole(
    paths: list[Path], expected: dict[tuple[str, int], str], tmp_path: Path
) -> None:
    whole = gm.scan(paths)
    for count in (1, 3, 100):
        out = tmp_path / f"of-{count}.jsonl"
        parts = [gm.scan(paths, quarantine=out, part=(k, count)) for k in range(1, count + 1)]
        assert sum(part.rows for part in parts) == whole.rows
        assert [f for part in parts for f in part.findings] == list(whole.findings)
        if count > 1:
            for _ in range(2):  # merging again does no harm
                merged = gm.merge_scans(out)
                assert in_file(out) == expected
                assert same(merged, whole)


def test_merging_what_is_not_whole_is_refused(paths: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "bad.jsonl"
    with pytest.raises(FileNotFoundError, match="no parts"):
        gm.merge_scans(out)
    for part in (1, 3):
        gm.scan(paths, quarantine=out, part=(part, 3))
    with pytest.raises(ValueError, match="part 2 of 3 is missing"):
        gm.merge_scans(out)
    gm.scan(paths, quarantine=out, part=(2, 3))
    log = tmp_path / "bad.part-2-of-3.jsonl.scan"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:1]))
    with pytest.raises(ValueError, match="part 2 of 3 is not finished"):
        gm.merge_scans(out)
    log.write_text("".join(lines).replace('"fast": false', '"fast": true', 1))
    with pytest.raises(ValueError, match="to another scan"):
        gm.merge_scans(out)
    log.write_text("".join(lines))
    gm.scan(paths, quarantine=out, part=(1, 2))
    with pytest.raises(ValueError, match="are parts of 2 and 3"):
        gm.merge_scans(out)


def scan_command(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(GRISTMILL), "scan", *map(str, args)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=100, **options
    )


class Lives:
    """Runs `gristmill` again and again in children of a process that has imported it already."""

    def __enter__(self) -> Self:
        command = [sys.executable, str(Path(__file__).with_name("scan_lives.py"))]
        pipe = subprocess.PIPE
        self.server = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.communicate(timeout=60)

    def ask(self, question: object) -> Any:
        self.server.stdin.write(json.dumps(question) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())


def test_kills_and_every_bad_row_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    copies = 30
    paths = scan_material.write(folder, copies)
    expected = scan_material.bad_rows(paths)
    out = tmp_path / "bad.jsonl"
    command = ["scan", *map(str, paths), "-o", str(out), "--num-threads", "2"]
    with Lives() as lives:
        for kill in range(rounds(10, 4)):
            before = out.stat().st_size if out.exists() else 0
            pid = lives.ask(command)
            # Killed soon after it has written more, at another point each time.
            while out.stat().st_size <= before if out.exists() else True:
                time.sleep(0.002)
            time.sleep(0.01 * kill)
            os.kill(pid, signal.SIGKILL)
            assert lives.ask("wait") == -signal.SIGKILL
            assert in_file(out).items() <= expected.items()
    done = scan_command(*paths, "-o", out, "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["rows"] == report["rows_to_scan"] == copies * len(scan_material.recordings())
    assert in_file(out) == expected
    listed = [(Path(f["row"]["shard"]).name, f["row"]["row"]) for f in report["findings"]]
    assert listed == sorted(expected)


def test_a_finished_scan_answers_at_once(paths: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "bad.jsonl"
    first = gm.scan(paths, quarantine=out)
    again = gm.scan(paths, quarantine=out)
    assert again == first
    anew = gm.scan(paths, quarantine=out, restart=True)
    assert replace(anew, seconds=0.0) == replace(first, seconds=0.0)
    assert len(in_file(out)) == len(first.findings)


@pytest.mark.parametrize(
    "content",
    [b"garbage", b"garbage\n", b"[]\n", b'{"gristmill_scan": 99}\n', b"\0" * 100],
)
def test_a_file_that_is_no_log_is_refused_and_kept(
    paths: list[Path], tmp_path: Path, content: bytes
) -> None:
    out = tmp_path / "bad.jsonl"
    log = tmp_path / "bad.jsonl.scan"
    log.write_bytes(content)
    for restart in (False, True):
        with pytest.raises(ValueError, match=r"bad\.jsonl\.scan is not what a scan writes"):
            gm.scan(paths, quarantine=out, restart=restart)
        assert log.read_bytes() == content


def test_half_written_lines_are_done_again(
    paths: list[Path], expected: dict[tuple[str, int], str], tmp_path: Path
) -> None:
    out = tmp_path / "bad.jsonl"
    gm.scan(paths, quarantine=out)
    log = tmp_path / "bad.jsonl.scan"
    content = log.read_bytes()
    for length in [*range(0, len(content), 997), 5, 20]:
        log.write_bytes(content[:length])
        assert found(gm.scan(paths, quarantine=out)) == in_file(out) == expected
    log.write_bytes(content.replace(b'{"finding"', b'{"finding!', 1))
    with pytest.raises(ValueError, match=r"line \d+ is none of its lines"):
        gm.scan(paths, quarantine=out)


def test_the_log_of_another_scan_is_refused(paths: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "bad.jsonl"
    gm.scan(paths, quarantine=out)
    for others, options in ((paths[:2], {}), (paths, {"fast": True})):
        with pytest.raises(ValueError, match=r"belongs to another scan: its .*--restart"):
            gm.scan(others, quarantine=out, **options)
    assert gm.scan(paths[:2], quarantine=out, restart=True).shards == 2


@pytest.fixture
def broken(paths: list[Path], tmp_path: Path) -> list[Path]:
    """The same shards, the first broken in its last record batch, the second from its start."""
    folder = tmp_path / "broken"
    folder.mkdir()
    copies = []
    for number, path in enumerate(paths):
        data = bytearray(path.read_bytes())
        if number == 0:
            # The offsets of the last record batch's paths point behind their end.
            last = list(pa.ipc.open_stream(path))[-1]
            offsets = last.column("audio").field("path").buffers()[1].to_pybytes()
            at = data.rindex(offsets[: 4 * (last.num_rows + 1)])
            data[at : at + 8] = b"\xff" * 8
        if number == 1:
            data[:64] = bytes(64)
        copies.append(folder / path.name)
        copies[-1].write_bytes(data)
    return copies


def test_broken_shards_are_findings(
    broken: list[Path], expected: dict[tuple[str, int], str], tmp_path: Path
) -> None:
    out = tmp_path / "bad.jsonl"
    report = gm.scan(broken, quarantine=out)
    assert [Path(shard.shard).name for shard in report.unreadable] == [
        "train-0.arrow",
        "train-1.arrow",
    ]
    assert not report.is_clean
    late, early = report.unreadable
    assert early.from_row == 0
    assert late.from_row == pa.ipc.open_stream(broken[2]).read_all().num_rows // 7 * 7
    rest = {
        (shard, row): reason
        for (shard, row), reason in expected.items()
        if shard != broken[1].name and not (shard == broken[0].name and row >= late.from_row)
    }
    assert found(report) == in_file(out) == rest
    for part in (1, 2, 3):
        gm.scan(broken, quarantine=tmp_path / "parts.jsonl", part=(part, 3))
    merged = gm.merge_scans(tmp_path / "parts.jsonl")
    assert same(merged, report)


def test_a_disk_that_fills_up_loses_nothing(
    paths: list[Path], expected: dict[tuple[str, int], str], tmp_path: Path
) -> None:
    full = tmp_path / "full.jsonl"
    full.symlink_to("/dev/full")
    stopped = scan_command(*paths, "-o", full)
    assert stopped.returncode == 3
    assert "No space left on device" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    out = tmp_path / "bad.jsonl"

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, 3_000))

    stopped = scan_command(*paths, "-o", out, preexec_fn=no_room)
    assert stopped.returncode == 3
    assert "Traceback" not in stopped.stderr
    assert "Start it again in the same way to resume" in stopped.stderr
    assert 0 < len(in_file(out)) < len(expected)
    assert in_file(out).items() <= expected.items()
    assert scan_command(*paths, "-o", out).returncode == 1
    assert in_file(out) == expected


def test_ctrl_c_keeps_what_was_found(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    paths = scan_material.write(folder, copies=15)
    out = tmp_path / "bad.jsonl"
    command = [str(GRISTMILL), "scan", *map(str, paths), "-o", str(out), "--num-threads", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not out.exists() or out.stat().st_size < 1_000:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, stderr = process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert "rows were scanned" in stderr
    assert len(in_file(out)) > 0
    progress = [json.loads(line) for line in Path(f"{out}.scan").read_text().splitlines()][-1]
    assert progress["progress"]["done"] > 0
    # And the scan goes on from there.
    done = scan_command(*paths, "-o", out, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["rows"] == 15 * len(scan_material.recordings())
    assert in_file(out) == scan_material.bad_rows(paths)


def test_no_audio_column_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "plain.arrow"
    table = pa.table({"label": [1, 2, 3], "sound": [b"", None, b"x"]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(gm.SchemaError, match="no column is marked as audio"):
        gm.scan(path)
    with pytest.raises(gm.SchemaError, match="has no column 'audio'"):
        gm.scan(path, column="audio")
    with pytest.raises(gm.SchemaError, match="not audio bytes"):
        gm.scan(path, column="label")
    report = gm.scan(path, column="sound")
    assert [finding.row.reason for finding in report.findings] == [
        "empty",
        "null",
        "unknown_format",
    ]


def test_limits_are_findings(paths: list[Path]) -> None:
    report = gm.scan(paths, limits=gm.Limits(max_seconds=1))
    assert report.reasons["max_seconds"] > 20


def test_bad_parts_are_refused(paths: list[Path]) -> None:
    for part in ((0, 3), (4, 3), (1, 0)):
        with pytest.raises(ValueError, match="a part is \\(i, n\\)"):
            gm.scan(paths, part=part)


def test_an_unreadable_shard_is_an_os_error(paths: list[Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gm.scan([*paths, tmp_path / "absent.arrow"])
    if os.geteuid() != 0:
        closed = tmp_path / "closed.arrow"
        closed.write_bytes(paths[0].read_bytes())
        closed.chmod(0)
        with pytest.raises(PermissionError):
            gm.scan(closed)
