"""What is remembered of bad rows: in memory, in the log, in a file, and for the next run."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bad_shards
import gristmill as gm
import gristmill.bad_rows.tracker
import shards
from bad_shards import AUDIO, COUNTS, Bad

EVERY = ("substitute", "mask", "skip")


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Bad:
    return bad_shards.make(tmp_path_factory.mktemp("bad"), 0.2)


def iterate(bad: Bad, **options: Any) -> gm.ArrowIterator:
    options = {"audio": AUDIO, "on_error": "mask", "columns": ["audio"], **options}
    return iter(gm.ArrowIterDataset(bad.paths, **options))


def drain(it: gm.ArrowIterator) -> gm.ArrowIterator:
    for _ in it:
        pass
    return it


def as_tuple(row: gm.BadRow) -> tuple[Any, ...]:
    return (Path(row.shard).name, row.row, row.path, row.reason, row.bytes, row.shard_rows)


@pytest.mark.parametrize("policy", EVERY)
def test_quarantined_rows_are_never_read_again(bad: Bad, tmp_path: Path, policy: str) -> None:
    file = tmp_path / "bad.jsonl"
    it = drain(iterate(bad, on_error=policy, quarantine=file))
    assert sorted(map(as_tuple, gm.read_quarantine(file))) == sorted(map(bad.bad_row, bad.reasons))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0] == {"gristmill_quarantine": 1}
    assert lines[1].keys() == {
        *("shard", "rows", "row", "path", "codec", "reason", "message", "bytes")
    }
    ds = gm.ArrowIterDataset(
        bad.paths, audio=AUDIO, exclude=file, with_row_id=True, epochs=3, shuffle=gm.Shuffle(1)
    )
    again = iter(ds)  # by its policy the first bad row would raise
    rows = {(int(element["shard"]), int(element["row"])) for element in again}
    everything = {(s, r) for s, n in enumerate(COUNTS) for r in range(n)}
    assert rows == everything - set(bad.reasons)
    assert ds.rows_per_epoch() == 120 - len(bad.reasons)
    # The sound rows are of one size: no byte of another row was read.
    size = len(bad_shards.recording(0))
    n_rows, n_bytes = 120 - len(bad.reasons), again.stats().storage.bytes
    plain = iter(gm.ArrowIterDataset(bad.paths, audio=AUDIO, exclude=list(bad.reasons), epochs=3))
    drain(plain)
    assert n_bytes >= 3 * n_rows * size
    assert again.stats().decoders.count
    assert n_bytes - plain.stats().storage.bytes < size
    assert it.stats().bad_rows == len(bad.reasons)


def test_files_and_pairs_together(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    drain(iterate(bad, quarantine=file))
    sound = next((0, r) for r in range(40) if (0, r) not in bad.reasons)
    for exclude in ([file, sound], [str(file), ("part-0.arrow", sound[1])]):
        ds = gm.ArrowIterDataset(bad.paths, audio=AUDIO, exclude=exclude)
        assert ds.rows_per_epoch() == 119 - len(bad.reasons)
    some = gm.ArrowIterDataset(bad.paths[3:], audio=AUDIO, exclude=file)
    n_bad = sum(s == 3 for s, _ in bad.reasons)
    assert len(list(some)) == 47 - n_bad


def refuses(paths: Any, exclude: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        next(iter(gm.ArrowIterDataset(paths, audio=AUDIO, exclude=exclude)))


def test_files_of_other_data_are_noticed(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    drain(iterate(bad, quarantine=file))
    other = shards.write_audio(tmp_path / "other.arrow", [bad_shards.recording(0)] * 3)
    refuses(other, file, "another data set.*part-")
    same_name = shards.write_audio(tmp_path / "part-0.arrow", [bad_shards.recording(0)] * 39)
    refuses(same_name, file, r"had 40 rows, and now it has 39")
    refuses([same_name, bad.paths[0]], file, "2 of the shards have that name")
    text = file.read_text()
    file.write_text(text + text.splitlines()[1].replace('"rows": ', '"rows": 1') + "\n")
    refuses(bad.paths, file, "says both")
    file.write_text(text + "garbage\n")
    refuses(bad.paths, file, rf"bad\.jsonl, line {len(bad.reasons) + 2}")
    refuses(bad.paths, [7], "exclude takes")
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl"):
        next(iter(gm.ArrowIterDataset(bad.paths, exclude=tmp_path / "none.jsonl")))


def test_a_file_without_rows_excludes_nothing(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"gristmill_quarantine": 1}\n{"shard": "part-0.ar')
    assert gm.ArrowIterDataset(bad.paths, exclude=file).rows_per_epoch() == 120


def test_rows_are_written_as_they_are_delivered_and_once(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    it = iterate(bad, quarantine=file, epochs=3)
    assert not file.exists()
    n_bad = 0
    for element in it:
        n_bad = min(n_bad + (not element["valid"]), len(bad.reasons))
        assert len(gm.read_quarantine(file)) == n_bad == len(it.bad_rows())
    assert n_bad == len(bad.reasons)
    drain(iterate(bad, quarantine=file))  # another run adds its own
    assert len(gm.read_quarantine(file)) == 2 * n_bad


def test_a_file_that_cannot_be_written_raises_at_once(bad: Bad, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        next(iterate(bad, quarantine=tmp_path / "nowhere" / "bad.jsonl"))
    with pytest.raises(OSError, match="No space left"):
        next(iterate(bad, quarantine="/dev/full"))
    notes = tmp_path / "notes.txt"
    notes.write_text("mine\n")
    with pytest.raises(ValueError, match=r"notes\.txt is no quarantine file"):
        next(iterate(bad, quarantine=notes))
    assert notes.read_text() == "mine\n"


READ_ONLY = """
import os, sys
import gristmill as gm
os.setuid(65534)
try:
    next(iter(gm.ArrowIterDataset(sys.argv[1], on_error="mask", quarantine=sys.argv[2])))
except PermissionError as error:
    print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="takes root to become another user")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    # The folders above belong to this user alone.
    command = [sys.executable, "-c", READ_ONLY, "unread.arrow", "/etc/bad.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Permission denied: '/etc/bad.jsonl'" in done.stdout


def test_a_file_that_fails_later_warns_once_and_loses_nothing(
    bad: Bad, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "folder" / "bad.jsonl"
    file.parent.mkdir()
    it = iterate(bad, quarantine=file)
    next(it)
    file.parent.rename(tmp_path / "away")
    for _ in range(60):
        next(it)
    n_bad = len(it.bad_rows())
    assert n_bad >= 5
    warnings = [r.message for r in caplog.records if "could not be written" in r.message]
    assert len(warnings) == 1
    assert str(file) in warnings[0]
    (tmp_path / "away").rename(file.parent)
    drain(it)  # the next bad row brings those that waited
    assert sorted(map(as_tuple, gm.read_quarantine(file))) == sorted(map(bad.bad_row, bad.reasons))


def test_the_log_tells_of_the_first(bad: Bad, caplog: pytest.LogCaptureFixture) -> None:
    it = drain(iterate(bad, epochs=2))
    lines = [r for r in caplog.records if r.name == "gristmill"]
    assert [r.levelno for r in lines] == [logging.WARNING] * 6
    for line, row in zip(lines[:5], it.bad_rows(), strict=False):
        assert line.message == f"bad row ({row.reason}): {row.message}"
        assert f"{row.shard}, row {row.row}" in line.message
    assert lines[5].message.startswith("more bad rows are not logged")


def test_memory_is_bounded(bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gristmill.bad_rows.tracker, "MAX_KEPT_ROWS", 3)
    it = drain(iterate(bad))
    last = sorted(bad.reasons)[-3:]
    assert [as_tuple(row) for row in it.bad_rows()] == [bad.bad_row(row) for row in last]


def test_it_is_not_written_where_it_is_read(bad: Bad, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    with pytest.raises(ValueError, match="both quarantine= and exclude="):
        gm.ArrowIterDataset(bad.paths, on_error="mask", quarantine=file, exclude=[str(file)])


@pytest.mark.parametrize(
    "options",
    [
        {"on_error": "ignore"},
        {"on_error": "mask", "max_bad_rows": -1},
        {"on_error": "mask", "max_bad_rows": 1.5},
        {"on_error": "mask", "max_bad_rows": float("nan")},
        {"on_error": "mask", "max_bad_rows": True},
        {"max_bad_rows": 3},
        {"quarantine": "bad.jsonl"},
    ],
    ids=str,
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        gm.ArrowIterDataset("x.arrow", **options)


def test_paths_come_from_compressed_shards_too(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table(
        {
            "audio": pa.array(
                [{"bytes": b"junk", "path": f"{i}.ogg"} for i in range(9)], shards.AUDIO
            )
        }
    )
    path = tmp_path / "small.arrow"
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as w,
    ):
        w.write_table(table, max_chunksize=2)
    it = iter(gm.ArrowIterDataset(path, audio=gm.Audio("audio"), on_error="mask"))
    drain(it)
    assert [row.path for row in it.bad_rows()] == [f"{i}.ogg" for i in range(9)]


@pytest.mark.parametrize("kind", ["plain bytes", "null path", "numbers"])
def test_rows_without_a_path(tmp_path: Path, kind: str) -> None:
    import pyarrow as pa

    junk = b"no recording"
    of = {
        "plain bytes": (pa.binary(), junk),
        "null path": (shards.AUDIO, {"bytes": junk, "path": None}),
        "numbers": (
            pa.struct([("bytes", pa.binary()), ("path", pa.int32())]),
            {"bytes": junk, "path": 3},
        ),
    }
    of_kind, value = of[kind]
    schema = pa.schema([("sound", of_kind)])
    path = shards.write(tmp_path / "odd.arrow", [{"sound": value}] * 3, of=schema)
    it = drain(iter(gm.ArrowIterDataset(path, audio=gm.Audio("sound"), on_error="mask")))
    assert [(row.path, row.bytes) for row in it.bad_rows()] == [(None, len(junk))] * 3
