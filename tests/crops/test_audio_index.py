"""Audio indexes: crops are the same with and without them, and less is read."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pyarrow as pa
import pytest

import audio_index_runs
import gristmill as gm
import parquet_files as pf
import shards
from audio_index_runs import Run, long, run, write
from damaged_files import MAKERS, damages
from rounds import rounds

# Formats of which parts can be read.
IN_PARTS = set(MAKERS) - {
    "FLAC in Ogg",
    "AAC in fragments",
    "FLAC in MP4",
    "FLAC in Matroska",
}
CROP = gm.RandomCrop(2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard for each format, of two recordings."""
    folder = tmp_path_factory.mktemp("formats")
    for name in MAKERS:
        write(folder / f"{name}.arrow", [long(name)] * 2, batch_rows=1)
    return folder


def crops_with_and_without(path: Any, index_dir: Path, audio: gm.Audio, **options: Any) -> Run:
    """Crops without an index, which are those with it; those while it is learned too."""
    plain = run(path, audio, None, **options)
    for _ in range(rounds(3, 2)):
        indexed = run(path, audio, index_dir, **options)
        indexed.assert_same(plain)
    return indexed


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("rate", [None, 32_000, 22_050])
def test_crops_are_the_same_bits(folder: Path, tmp_path: Path, name: str, rate: int | None) -> None:
    audio, epochs = gm.Audio(sample_rate=rate, crop=CROP), rounds(20, 8)
    found = crops_with_and_without(
        folder / f"{name}.arrow",
        tmp_path,
        audio,
        epochs=epochs,
        shuffle=gm.Shuffle(3),
        batch_size=4,
    )
    assert len(found.rows) == 2 * epochs
    share = found.n_bytes / (epochs * (folder / f"{name}.arrow").stat().st_size)
    assert share < 0.2 if name in IN_PARTS else share > 0.9


CROPS: dict[str, dict[str, Any]] = {
    "start": {"crop": gm.StartCrop(1.5)},
    "center": {"crop": gm.CenterCrop(1.5), "channels": "keep"},
    "windows": {"crop": gm.Windows(3, tail="back")},
    "windows of 16 bits": {"crop": gm.Windows(3, hop=7), "dtype": "int16"},
    "longer than the recording": {"crop": gm.RandomCrop(40), "pad": "repeat"},
    "whole": {"crop": None},
    "lenient": {"crop": CROP, "strict": False, "channels": 2},
}


@pytest.mark.parametrize("kind", CROPS)
@pytest.mark.parametrize("batch_size", [None, 3])
def test_any_crop_is_the_same_bits(
    folder: Path, tmp_path: Path, kind: str, batch_size: int | None
) -> None:
    if kind == "whole" and batch_size is not None:
        pytest.skip("recordings of unequal lengths make no batch")
    # Every other format in `make test`: those with batches are not those without.
    every = rounds(1, 2)
    names = list(MAKERS)[bool(batch_size) % every :: every]
    paths = [folder / f"{name}.arrow" for name in names]
    options = {"shuffle": gm.Shuffle(5)} if batch_size else {}
    audio = gm.Audio(sample_rate=24_000, **CROPS[kind])
    crops_with_and_without(paths, tmp_path, audio, batch_size=batch_size, **options)


def test_windows_are_counted_without_the_audio_and_read_in_parts(
    folder: Path, tmp_path: Path
) -> None:
    audio = gm.Audio(crop=gm.Windows(2))
    path = folder / "WAV.arrow"
    found = crops_with_and_without(path, tmp_path, audio, shuffle=gm.Shuffle(1))
    # Each byte about once, and not once a window.
    assert found.n_bytes < 1.3 * path.stat().st_size


def test_windows_in_turn_share_one_read_of_a_long_recording(tmp_path: Path) -> None:
    """Each is decoded from its own part of what was read."""
    path = write(tmp_path / "long.arrow", [long("AAC in ADTS") * 24])
    audio = gm.Audio(crop=gm.Windows(0.5, hop=6))
    run(path, gm.Audio(crop=gm.StartCrop(1)), tmp_path)
    indexed = run(path, audio, tmp_path)
    indexed.assert_same(run(path, audio, None))
    assert len(indexed.rows) > 100
    assert indexed.n_bytes < 1.2 * path.stat().st_size


@pytest.mark.parametrize("options", [{"num_threads": 1, "prefetch_batches": 1}, {"num_threads": 3}])
def test_threads_and_memory_change_nothing(
    folder: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    paths = [folder / f"{name}.arrow" for name in ("WAV", "FLAC", "MP3")]
    audio = gm.Audio(crop=CROP)
    read = {**options, "memory_budget": "8MiB"}
    crops_with_and_without(paths, tmp_path, audio, shuffle=gm.Shuffle(2), epochs=4, read=read)


def test_parquet_rows_that_are_ranges(tmp_path: Path) -> None:
    audio = pa.array([{"bytes": long(n), "path": None} for n in ("WAV", "CAF")], shards.AUDIO)
    table = pa.table({"audio": audio}, shards.schema({"audio": shards.AUDIO}))
    for name, options in (
        ("ranges", {"use_dictionary": False, "compression": "none"}),
        ("compressed", {"compression": "zstd"}),
    ):
        path = audio_index_runs.settled(pf.write(tmp_path / f"{name}.parquet", table, **options))
        found = crops_with_and_without(
            path, tmp_path / "own", gm.Audio(crop=CROP), epochs=10, shuffle=gm.Shuffle(1)
        )
        if name == "ranges":
            assert found.n_bytes < 0.2 * 10 * path.stat().st_size


def test_event_crops(tmp_path: Path) -> None:
    of = pa_schema_with_events()
    rows = [
        {"audio": {"bytes": long("WAV"), "path": None}, "begin": [3.0, 20.0], "end": [4.0, 21.5]},
        {"audio": {"bytes": long("AIFF"), "path": None}, "begin": [29.0], "end": [31.0]},
        {"audio": {"bytes": long("CAF"), "path": None}, "begin": [], "end": []},
        {"audio": {"bytes": long("CAF"), "path": None}, "begin": [99.0], "end": [99.5]},
    ]
    path = audio_index_runs.settled(shards.write(tmp_path / "events.arrow", rows, of=of))
    for pick in ("random", "all"):
        crop = gm.EventCrop(seconds=2, start="begin", end="end", pick=pick)
        crops_with_and_without(
            path, tmp_path / "own", gm.Audio(crop=crop), on_error="mask", epochs=3
        )


def pa_schema_with_events() -> Any:
    times = pa.list_(pa.float64())
    return pa.schema([("audio", shards.AUDIO), ("begin", times), ("end", times)])


def test_random_access(folder: Path, tmp_path: Path) -> None:
    paths = [folder / f"{name}.arrow" for name in MAKERS]
    audio = gm.Audio(crop=CROP)

    def rows(index_dir: Path | None) -> list[bytes]:
        read = gm.ReadOptions(index_dir=index_dir, audio_index=index_dir is not None)
        with contextlib.closing(gm.ArrowDataSource(paths, audio=audio, read=read)) as source:
            return [source[k]["audio"].tobytes() for k in range(len(source))]

    plain = rows(None)
    assert [rows(tmp_path) for _ in range(3)] == [plain] * 3
    known = gm.inspect(paths, read=gm.ReadOptions(index_dir=tmp_path)).audio_index
    assert known is not None
    assert known.known == known.rows > 0


def test_states_go_on_with_and_without(folder: Path, tmp_path: Path) -> None:
    def dataset(index_dir: Path | None) -> gm.ArrowIterDataset:
        read = gm.ReadOptions(index_dir=index_dir, audio_index=index_dir is not None)
        return gm.ArrowIterDataset(
            folder / "WAV.arrow",
            columns=["audio"],
            audio=gm.Audio(crop=CROP),
            shuffle=gm.Shuffle(3),
            epochs=4,
            read=read,
        )

    run(folder / "WAV.arrow", gm.Audio(crop=CROP), tmp_path)
    expected = [element["audio"].tobytes() for element in dataset(None)]
    for first, second in ((None, tmp_path), (tmp_path, None)):
        it = iter(dataset(first))
        got = [next(it)["audio"].tobytes() for _ in range(3)]
        state = it.get_state()
        it.close()
        it = iter(dataset(second))
        it.set_state(state)
        got += [element["audio"].tobytes() for element in it]
        assert got == expected
    grain.experimental.assert_equal_output_after_checkpoint(dataset(tmp_path))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("strict", [True, False])
def test_damage_is_told_as_without_an_index(tmp_path: Path, name: str, strict: bool) -> None:
    """Learned while crops pass over what is damaged, and while they do not."""
    made = long(name)
    bad = [damage(made) for damage in damages(name).values()]
    path = write(tmp_path / "rows.arrow", [made, *bad, made], batch_rows=2)
    audio = gm.Audio(crop=CROP, strict=strict)
    for on_error in ("mask", "substitute"):
        options = {"on_error": on_error, "epochs": rounds(6, 2), "shuffle": gm.Shuffle(7)}
        found = crops_with_and_without(path, tmp_path / "own", audio, **options)
        assert found.error is None
    crops_with_and_without(path, tmp_path / "own", audio, epochs=2)


@pytest.mark.parametrize("strict", [True, False])
def test_damage_outside_of_a_crop_is_told_of_each_crop(tmp_path: Path, *, strict: bool) -> None:
    """What the walk saw behind the crop, at the far end of the recording."""
    sound, torn = long("MP3 without a count"), long("Ogg Vorbis")
    cut, torn = sound[:-100], torn[: -len(torn) // 50]
    path = write(tmp_path / "rows.arrow", [sound, cut, torn], batch_rows=1)
    audio = gm.Audio(crop=gm.StartCrop(1), strict=strict)
    found = crops_with_and_without(path, tmp_path / "own", audio, on_error="mask", batch_size=None)
    assert [row.row for row in found.bad] == ([2] if strict else [])
    told = {row.row: dict(row.report.damage) for row in found.damaged}
    # It ends inside a frame, which is told of a crop that is read without that end.
    assert told.pop(1) == {"partial_frame": 1}
    assert bool(told.get(2)) is not strict
    n_bytes = [len(data) for data in (sound, cut, torn)]
    assert n_bytes[2] < found.n_bytes < n_bytes[2] + 0.2 * sum(n_bytes[:2])


def test_limits_hold_for_what_is_known(folder: Path, tmp_path: Path) -> None:
    path = folder / "WAV.arrow"
    run(path, gm.Audio(crop=CROP), tmp_path)
    for limits in (gm.Limits(max_seconds=20), gm.Limits(max_bytes=100_000)):
        audio = gm.Audio(crop=CROP, limits=limits)
        found = crops_with_and_without(path, tmp_path, audio, on_error="mask")
        assert len(found.bad) == 2
        assert not np.any(found.audio)


def test_statistics_tell_what_was_read_and_what_an_index_would_have_spared(
    folder: Path, tmp_path: Path
) -> None:
    path = folder / "WAV.arrow"

    def epoch(**read: Any) -> gm.Stats:
        options = gm.ReadOptions(index_dir=tmp_path, **read)
        it = iter(gm.ArrowIterDataset(path, columns=[], audio=gm.Audio(crop=CROP), read=options))
        assert len(list(it)) == 2
        it.close()
        return it.stats()

    n_bytes = 2 * len(long("WAV"))
    off, first, second = epoch(audio_index=False), epoch(), epoch()
    for whole in (off, first):
        assert whole.storage.bytes >= n_bytes
        # All but 2 s of each 30.05.
        spared = n_bytes * (1 - 2 / 30.05)
        assert whole.storage.spare_bytes == pytest.approx(spared, rel=0.01)
    assert [s.settings.audio_index for s in (off, first)] == [False, True]
    assert second.storage.spare_bytes == 0
    assert second.storage.bytes < 0.2 * first.storage.bytes
    assert second.storage.bytes == sum(shard.bytes for shard in second.shards)
    nowhere = gm.ArrowIterDataset(path, read=gm.ReadOptions(index_dir=None))
    assert not iter(nowhere).stats().settings.audio_index


def test_it_can_be_turned_off(folder: Path, tmp_path: Path) -> None:
    read = gm.ReadOptions(index_dir=tmp_path, audio_index=False)
    list(gm.ArrowIterDataset(folder / "WAV.arrow", audio=gm.Audio(crop=CROP), read=read))
    known = gm.inspect(folder / "WAV.arrow", read=gm.ReadOptions(index_dir=tmp_path)).audio_index
    assert known is not None
    assert known.known == 0
    with pytest.raises(ValueError, match="audio_index"):
        gm.ReadOptions(audio_index="yes")
