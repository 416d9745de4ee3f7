"""Filters on `duration`: the lengths of recordings, where the shards have no such column."""

from __future__ import annotations

import contextlib
import operator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gristmill as gm
import probes
import shards
from audio_index_runs import long, noise, settled, write

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
RECORDINGS: list[list[bytes | None]] = [
    [noise(1), noise(3), long("FLAC"), None, b"nothing" * 100, noise(2.5)],
    [long("MP3"), noise(3), b"", long("Ogg Vorbis"), noise(12)],
]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("durations")
    return [
        write(folder / f"{k}.arrow", recordings, batch_rows=2)
        for k, recordings in enumerate(RECORDINGS)
    ]


def duration(data: bytes | None) -> float | None:
    """What the headers say, by a way of its own."""
    with contextlib.suppress(gm.DecodeError):
        return None if data is None else gm.probe(data).duration
    return None


def expected(op: str, value: float | None) -> list[tuple[int, int]]:
    def keeps(length: float | None) -> bool:
        if value is None:
            return (length is None) == (op == "==")
        return length is not None and OPERATORS[op](length, value)

    lengths = [[duration(data) for data in recordings] for recordings in RECORDINGS]
    return [(s, r) for s, of in enumerate(lengths) for r, length in enumerate(of) if keeps(length)]


def kept(paths: Any, filters: Any, read: gm.ReadOptions, **options: Any) -> list[tuple[int, int]]:
    audio = gm.Audio(crop=gm.StartCrop(0.1))
    options = {"columns": [], "audio": audio, "on_error": "mask", **options}
    ds = gm.ArrowIterDataset(paths, filters=filters, with_row_id=True, read=read, **options)
    found = list(ds)
    assert ds.rows_per_epoch() == len(found)
    return [(int(element["shard"]), int(element["row"])) for element in found]


@pytest.mark.parametrize("how", ["walked", "index", "no index", "nowhere"])
def test_rows_are_kept_by_the_lengths_of_their_recordings(
    paths: list[Path], tmp_path: Path, how: str
) -> None:
    own = None if how == "nowhere" else tmp_path
    read = gm.ReadOptions(index_dir=own, audio_index=how != "no index")
    if how == "index":
        gm.build_indexes(paths, read=read, audio=True)
    for op in OPERATORS:
        for value in (3, 3.0, 2.5):
            assert kept(paths, [("duration", op, value)], read) == expected(op, value)
    assert kept(paths, [("duration", "in", [1, 12.0])], read) == [(0, 0), (1, 4)]
    # Rows whose recording cannot be opened have no length.
    assert kept(paths, [("duration", "==", None)], read) == [(0, 3), (0, 4), (1, 2)]
    assert kept(paths, [("duration", "!=", None)], read) == expected("!=", None)


def test_it_goes_with_other_conditions_and_options(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)
    long_ones = set(expected(">=", 3))
    for filters, keeps in (
        ([("label", "==", 1), ("duration", ">=", 3)], lambda s, r: r % 2 == 1),
        ([[("duration", ">=", 3), ("label", "==", 0)]], lambda s, r: r % 2 == 0),
    ):
        assert kept(paths, filters, read) == sorted(at for at in long_ones if keeps(*at))
    either = [[("duration", ">=", 3)], [("duration", "<", 2)]]
    assert kept(paths, either, read) == sorted(long_ones | {(0, 0)})
    halves = {"a": 0.5, "b": 0.5}
    parts = [
        kept(paths, [("duration", ">=", 3)], read, split=gm.Split(name, halves)) for name in halves
    ]
    assert sorted(parts[0] + parts[1]) == sorted(long_ones)
    windows = gm.Audio(crop=gm.Windows(5))
    found = kept(paths, [("duration", ">=", 10)], read, audio=windows)
    assert found == [at for at in expected(">=", 10) for _ in range(7 if at != (1, 4) else 3)]


def test_limits_decide_what_has_a_length(paths: list[Path], tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path)
    filters = [("duration", ">=", 3)]
    assert kept(paths, filters, read) == expected(">=", 3)
    audio = gm.Audio(crop=gm.StartCrop(0.1), limits=gm.Limits(max_seconds=20))
    assert kept(paths, filters, read, audio=audio) == [(0, 1), (1, 1), (1, 4)]


def test_a_column_of_that_name_wins(tmp_path: Path) -> None:
    of = pa.schema([("audio", shards.AUDIO), ("duration", pa.int64())])
    rows = [{"audio": {"bytes": noise(1), "path": None}, "duration": k} for k in range(4)]
    path = settled(shards.write(tmp_path / "rows.arrow", rows, of=of))
    read = gm.ReadOptions(index_dir=tmp_path / "own")
    assert kept(path, [("duration", ">=", 2)], read) == [(0, 2), (0, 3)]
    with pytest.raises(gm.SchemaError, match="duration"):
        kept(path, [("duration", ">=", "long")], read)


def test_without_audio_it_says_what_to_write(paths: list[Path]) -> None:
    ds = gm.ArrowIterDataset(paths, audio=None, filters=[("duration", ">", 3)])
    with pytest.raises(gm.SchemaError, match=r"name its column: audio=gm\.Audio") as caught:
        next(iter(ds))
    assert caught.value.column == "duration"
    # Of other columns that are not there, nothing else is told than before.
    ds = gm.ArrowIterDataset(paths, filters=[("durations", ">", 3)])
    with pytest.raises(gm.SchemaError, match="write one of"):
        next(iter(ds))


def test_recordings_outside_the_shards_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(noise(4))
    rows = [{"audio": {"bytes": None, "path": "a.wav"}}]
    path = shards.write(tmp_path / "a.arrow", rows, of=pa.schema([("audio", shards.AUDIO)]))
    audio = gm.Audio(crop=gm.StartCrop(1), root=tmp_path)
    ds = gm.ArrowIterDataset(path, audio=audio, filters=[("duration", ">", 3)])
    with pytest.raises(ValueError, match="root="):
        next(iter(ds))


COUNT = """
import gristmill as gm
from pathlib import Path

def n_read():
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))

index_dir, *paths = sys.argv[1:]
before = n_read()
ds = gm.ArrowIterDataset(
    paths, audio=gm.Audio(crop=gm.StartCrop(1)), filters=[("duration", ">=", 3)],
    read=gm.ReadOptions(index_dir=index_dir),
)
print(ds.rows_per_epoch(), n_read() - before)
"""


def test_what_is_known_is_not_read(paths: list[Path], tmp_path: Path) -> None:
    gm.build_indexes(paths, read=gm.ReadOptions(index_dir=tmp_path / "known"), audio=True)
    gm.build_indexes(paths, read=gm.ReadOptions(index_dir=tmp_path / "unknown"))
    (known, by_index), (unknown, by_walk) = (
        map(int, probes.run(COUNT, tmp_path / name, *paths).split())
        for name in ("known", "unknown")
    )
    assert known == unknown == len(expected(">=", 3))
    assert by_index < by_walk / 2
    # The answer is kept: the second time nothing is looked at.
    again, by_answer = map(int, probes.run(COUNT, tmp_path / "unknown", *paths).split())
    assert again == known
    assert by_answer < by_walk / 2
