"""`Audio(strict=False)`: damaged rows are delivered, and each is told of."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
import gristmill.bad_rows.tracker
import shards
from damaged_files import N_FRAMES, cut, flipped, hole, made

BAD = {
    1: hole(made("FLAC")),
    2: cut(0.5)(made("WAV")),
    4: cut(0.7)(made("Ogg Vorbis")),
    6: hole(made("MP3")),
    7: flipped(3)(made("MP3 without a count"))[:-100],
}
ROWS = [BAD.get(i, made("WAV")) for i in range(9)]


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damaged") / "rows.arrow"
    return shards.write_audio(path, ROWS, batch_rows=2)


def records(it: gm.ArrowIterator) -> dict[int, gm.DecodeReport]:
    return {damaged.row: damaged.report for damaged in it.damaged_rows()}


def test_damaged_rows_come_and_are_told(shard: Path) -> None:
    it = iter(gm.ArrowIterDataset(shard, audio=gm.Audio(strict=False)))
    rows = [element["audio"] for element in it]
    assert len(rows) == len(ROWS)
    for audio, data in zip(rows, ROWS, strict=True):
        assert audio.tobytes() == gm.decode(data, strict=False).tobytes()
    found = it.damaged_rows()
    assert [damaged.row for damaged in found] == sorted(BAD)
    for damaged in found:
        assert Path(damaged.shard).name == "rows.arrow"
        assert damaged.report == gm.decode_with_report(BAD[damaged.row])[1]
        assert damaged.report.is_damaged
    assert pickle.loads(pickle.dumps(found)) == found


def test_without_it_the_first_damaged_row_raises(shard: Path) -> None:
    it = iter(gm.ArrowIterDataset(shard))
    assert next(it)["audio"].shape == (N_FRAMES,)
    with pytest.raises(gm.DecodeError, match="row 1") as caught:
        next(it)
    assert caught.value.reason == "corrupt_packets"
    assert it.damaged_rows() == []


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("num_threads", [1, 3])
def test_the_same_is_told_for_any_threads(
    shard: Path, batch_size: int | None, num_threads: int
) -> None:
    ds = gm.ArrowIterDataset(
        shard,
        audio=gm.Audio(strict=False, crop=gm.StartCrop(4), sample_rate=16_000),
        shuffle=gm.Shuffle(5),
        batch_size=batch_size,
        read=gm.ReadOptions(num_threads=num_threads),
        with_row_id=True,
    )
    it = iter(ds)
    order = np.concatenate([np.atleast_1d(element["row"]) for element in it])
    assert [damaged.row for damaged in it.damaged_rows()] == [i for i in order if i in BAD]
    for row, report in records(it).items():
        assert report == gm.decode_with_report(BAD[row], sample_rate=16_000, seconds=4)[1]


def test_only_delivered_rows_are_told(shard: Path) -> None:
    it = iter(gm.ArrowIterDataset(shard, audio=gm.Audio(strict=False)))
    assert it.damaged_rows() == []
    for n_damaged in (0, 1, 2, 2, 3):
        next(it)
        assert len(it.damaged_rows()) == n_damaged
    it.close()
    assert len(it.damaged_rows()) == 3


def test_a_row_is_told_once_and_memory_is_bounded(
    shard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = gm.ArrowIterDataset(shard, audio=gm.Audio(strict=False), epochs=2)
    it = iter(ds)
    for _ in it:
        pass
    assert [damaged.row for damaged in it.damaged_rows()] == sorted(BAD)
    monkeypatch.setattr(gristmill.bad_rows.tracker, "MAX_KEPT_ROWS", 2)
    it = iter(ds)
    for _ in it:
        pass
    assert [damaged.row for damaged in it.damaged_rows()] == [6, 7]


def test_the_order_and_its_state_do_not_depend_on_it(shard: Path) -> None:
    states = []
    for strict in (True, False):
        audio = gm.Audio(strict=strict, limits=gm.Limits(max_bytes=10**6))
        it = iter(gm.ArrowIterDataset(shard, audio=audio))
        next(it)
        states.append(it.get_state())
    assert states[0] == states[1]


def test_what_cannot_be_had_raises_either_way(tmp_path: Path) -> None:
    path = shards.write_audio(tmp_path / "junk.arrow", [made("WAV"), b"junk"])
    for strict in (True, False):
        it = iter(gm.ArrowIterDataset(path, audio=gm.Audio(strict=strict)))
        next(it)
        with pytest.raises(gm.DecodeError, match="row 1") as caught:
            next(it)
        assert caught.value.reason == "unknown_format"
