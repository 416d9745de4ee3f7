"""The quarantine file: what is appended is read again, whatever happened in between."""

from __future__ import annotations

import json
import multiprocessing
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gristmill as gm
from gristmill.bad_rows.quarantine import QuarantineFile
from rounds import rounds

ROW = gm.BadRow("a.arrow", 3, "x.ogg", "vorbis", "truncated", "cut at row 3", 812, 40)
HEADER = '{"gristmill_quarantine": 1}\n'

texts = st.text(st.characters(), max_size=20)
rows = st.builds(
    gm.BadRow,
    shard=texts.filter(lambda name: "/" not in name),
    row=st.integers(0, 2**40),
    path=st.none() | texts,
    codec=st.none() | st.just("mp3"),
    reason=texts,
    message=texts,
    bytes=st.none() | st.integers(0, 2**40),
    shard_rows=st.integers(2**40 + 1, 2**41),
)


def append(path: Path, *bad: gm.BadRow) -> None:
    with QuarantineFile(path) as file:
        file.append(bad)


@settings(max_examples=rounds(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(st.lists(rows, max_size=4), max_size=4))
def test_what_is_written_is_read(tmp_path: Path, written: list[list[gm.BadRow]]) -> None:
    path = tmp_path / "bad.jsonl"
    path.unlink(missing_ok=True)
    for part in written:
        append(path, *part)
    if written:
        assert gm.read_quarantine(path) == [row for part in written for row in part]
        lines = path.read_text().splitlines(keepends=True)
        assert lines[0] == HEADER
        assert all(isinstance(json.loads(line), dict) for line in lines)


def test_its_form(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    append(path, replace(ROW, shard="/data/birds/a.arrow"))
    assert path.read_text() == HEADER + (
        '{"shard": "a.arrow", "rows": 40, "row": 3, "path": "x.ogg", "codec": "vorbis", '
        '"reason": "truncated", "message": "cut at row 3", "bytes": 812}\n'
    )


def test_every_torn_end_is_left_out_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    append(path, ROW, replace(ROW, row=4))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    second = whole.index(b"\n", first) + 1
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        kept = [ROW, replace(ROW, row=4)][: (end >= second) + (end >= len(whole))]
        assert gm.read_quarantine(path) == kept
        append(path, replace(ROW, row=5))
        assert gm.read_quarantine(path) == [*kept, replace(ROW, row=5)]
        assert path.read_bytes().startswith(HEADER.encode())


def test_a_long_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    append(path, ROW)
    with path.open("ab") as file:
        file.write(b"x" * 200_000)
    append(path, ROW)
    assert gm.read_quarantine(path) == [ROW, ROW]


@pytest.mark.parametrize(
    "content",
    [b"garbage\n", b"garbage", b"\n", b"[1]\n", b'{"shard": "a"}\n', bytes(100), b"\xff\xfe\n"],
    ids=str,
)
def test_other_files_are_refused_and_left_as_they_are(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"notes\.txt"):
        gm.read_quarantine(path)
    with pytest.raises(ValueError, match=r"notes\.txt"):
        QuarantineFile(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "[" * 100_000,
        "{}",
        '{"shard": "a.arrow", "rows": 40, "row": -1}',
        '{"shard": "a.arrow", "rows": 40, "row": 40}',
        '{"shard": "a.arrow", "rows": 40, "row": true}',
        '{"shard": "a.arrow", "rows": 40, "row": 1.5}',
        '{"shard": 7, "rows": 40, "row": 1}',
        '{"shard": "a.arrow", "rows": 40, "row": 1, "path": 3}',
        '{"shard": "a.arrow", "rows": 40, "row": 1, "bytes": "many"}',
        '{"shard": "a.arrow", "rows": 40, "row": ' + "9" * 5_000 + "}",
    ],
    ids=lambda line: line[:50],
)
def test_garbage_inside_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    append(path, ROW)
    path.write_text(f"{path.read_text()}{line}\n{path.read_text().splitlines()[1]}\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 3: "):
        gm.read_quarantine(path)


def test_joined_files_and_unknown_fields_are_read(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    append(path, ROW)
    more = HEADER + '\n{"shard": "/x/b.arrow", "rows": 2, "row": 1, "by": "hand"}\n'
    path.write_text(path.read_text() + more)
    own = gm.BadRow("b.arrow", 1, None, None, "", "", None, 2)
    assert gm.read_quarantine(path) == [ROW, own]


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"gristmill_quarantine": 2}\n')
    with pytest.raises(ValueError, match="version 2"):
        gm.read_quarantine(path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        gm.read_quarantine(tmp_path / "none.jsonl")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        QuarantineFile(tmp_path / "nowhere" / "bad.jsonl")
    with pytest.raises(IsADirectoryError):
        QuarantineFile(tmp_path)


def test_closed_is_closed(tmp_path: Path) -> None:
    file = QuarantineFile(tmp_path / "bad.jsonl")
    file.close()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.append([ROW])


def test_a_full_disk() -> None:
    with pytest.raises(OSError, match="No space left"):
        QuarantineFile("/dev/full")


SHORT_OF_SPACE = """
import resource, sys
import gristmill as gm
from gristmill.bad_rows.quarantine import QuarantineFile
path = sys.argv[1]
row = gm.BadRow("a.arrow", 3, "x.ogg", "vorbis", "truncated", "cut at row 3", 812, 40)
file = QuarantineFile(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
n = 0
try:
    while True:
        file.append([row])
        n += 1
except OSError:
    pass
assert gm.read_quarantine(path) == [row] * n, n
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
file.append([row])
assert gm.read_quarantine(path) == [row] * (n + 1), n
print(n)
"""


def test_space_that_ends_in_mid_line(tmp_path: Path) -> None:
    """The kernel writes what fits: nothing but whole lines may be left of it."""
    assert resource.RLIMIT_FSIZE >= 0
    command = [sys.executable, "-c", SHORT_OF_SPACE, str(tmp_path / "bad.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3


def _append_many(path: str, k: int) -> None:
    for i in range(100):
        append(Path(path), replace(ROW, row=i, path=f"process {k}", shard_rows=100))


def test_several_processes_on_one_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(3) as pool:
        pool.starmap(_append_many, [(str(path), k) for k in range(3)])
    found = gm.read_quarantine(path)
    for k in range(3):
        assert [row.row for row in found if row.path == f"process {k}"] == list(range(100))
    assert len(found) == 300
