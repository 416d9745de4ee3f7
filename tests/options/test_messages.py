"""What people read: messages with figure, cause and way out; results that print a page."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pyarrow as pa
import pytest

import gristmill as gm
import shards
from gristmill.cli import main
from signals import RATE, encode, synthetic

GOOD = encode(synthetic(0.3, RATE), RATE, "wav16")


@pytest.fixture
def two_audio(tmp_path: Path) -> Path:
    features = {"near": {"_type": "Audio"}, "far": {"_type": "Audio"}}
    schema = pa.schema([("near", shards.AUDIO), ("far", shards.AUDIO)]).with_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    row = {"bytes": GOOD, "path": "a"}
    return shards.write(tmp_path / "two.arrow", [{"near": row, "far": row}] * 3, of=schema)


def command(*arguments: object) -> str:
    done = click.testing.CliRunner().invoke(main, [str(one) for one in arguments])
    return done.stdout


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(pa.int64(), "int64"), (pa.uint8(), "uint8"), (pa.bool_(), "bool")],
)
def test_a_fill_value_names_the_dtype_as_numpy_does(
    tmp_path: Path, dtype: pa.DataType, name: str
) -> None:
    of = pa.schema([("x", dtype)])
    path = shards.write(tmp_path / "a.arrow", [{"x": None}] * 2, of=of)
    fill = np.nan
    with pytest.raises(gm.SchemaError, match=rf"is not a value of dtype {name},"):
        next(iter(gm.ArrowIterDataset(path, batch_size=2, fill_value=fill)))


def test_a_budget_that_is_too_small_says_what_is_needed(numbered: list[Path]) -> None:
    audio = gm.Audio(sample_rate=32_000, crop=gm.StartCrop(1.0))
    dataset = gm.ArrowIterDataset(
        numbered, audio=audio, batch_size=16, read=gm.ReadOptions(memory_budget=1_000_000)
    )
    with pytest.raises(gm.LimitError, match=r"takes 20\d{5} bytes, more than .* 1000000 bytes"):
        next(iter(dataset))


@pytest.mark.parametrize("shuffle", [None, gm.Shuffle(1)])
def test_a_shard_that_was_added_is_no_other_slice(
    numbered: list[Path], shuffle: gm.Shuffle | None
) -> None:
    def some(paths: list[Path], **options: Any) -> gm.ArrowIterDataset:
        return gm.ArrowIterDataset(paths, columns=["count"], audio=None, shuffle=shuffle, **options)

    for before, after in ((numbered[:3], numbered), (numbered, numbered[:3])):
        it = iter(some(before))
        next(it)
        other = iter(some(after))
        other.set_state(it.get_state())
        with pytest.raises(ValueError, match=r"shards, not") as caught:
            next(other)
        assert "slice" not in str(caught.value)
    it = iter(some(numbered))
    next(it)
    other = iter(some(numbered, exclude=[(0, 1)]))
    other.set_state(it.get_state())
    with pytest.raises(ValueError, match="other rows were excluded") as caught:
        next(other)
    assert "slice" not in str(caught.value)


def test_all_rows_excluded_is_an_error(numbered: list[Path]) -> None:
    every = [(0, row) for row in range(11)]
    dataset = gm.ArrowIterDataset(numbered[:2], exclude=every, audio=None)
    with pytest.raises(ValueError, match="leaves out all 11 rows"):
        next(iter(dataset))
    with pytest.raises(ValueError, match="leaves out all 11 rows"):
        dataset.rows_per_epoch()


def test_an_empty_part_is_an_end_and_no_error(numbered: list[Path]) -> None:
    """Hosts of which some have no rows go on; so does a data set that has none at all."""
    part = gm.ArrowIterDataset(numbered, audio=None)
    part.set_slice(slice(40, None))
    assert list(part) == []
    assert list(gm.ArrowIterDataset(numbered[1], audio=None)) == []
    left = gm.ArrowIterDataset(numbered[:1], audio=None, exclude=[(0, row) for row in range(10)])
    left.set_slice(slice(1, None, 2))
    assert list(left) == []


def test_two_audio_columns_are_refused_alike(two_audio: Path) -> None:
    said = []
    for call in (
        lambda: next(iter(gm.ArrowIterDataset(two_audio))),
        lambda: next(iter(gm.ArrowIterDataset(two_audio, audio=gm.Audio()))),
        lambda: gm.inspect(two_audio),
        lambda: gm.scan(two_audio),
    ):
        with pytest.raises(gm.SchemaError, match=r"several columns are audio \(near, far\)") as one:
            call()
        said.append(str(one.value))
    assert all("name" in text for text in said)
    assert set(next(iter(gm.ArrowIterDataset(two_audio, audio=gm.Audio("far"))))) == {"near", "far"}
    assert set(next(iter(gm.ArrowIterDataset(two_audio, columns=["near"])))) == {"near"}
    assert set(next(iter(gm.ArrowIterDataset(two_audio, audio=None)))) == {"near", "far"}
    assert gm.inspect(two_audio, column="far").audio_column == "far"


@pytest.mark.parametrize("columns", [["x"], None, ["x", "y"]])
def test_columns_of_one_name_are_refused(tmp_path: Path, columns: list[str] | None) -> None:
    schema = pa.schema([("x", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
    arrays = [pa.array([k]) for k in range(3)]
    path = tmp_path / "twice.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    with pytest.raises(gm.SchemaError, match="have this name") as caught:
        next(iter(gm.ArrowIterDataset(path, columns=columns)))
    assert caught.value.column == "x"
    assert next(iter(gm.ArrowIterDataset(path, columns=["y"]))) == {"y": 2}


def test_shuffle_quality_says_what_its_score_leaves_out(numbered: list[Path]) -> None:
    quality = gm.shuffle_quality(gm.ArrowIterDataset(numbered[3], batch_size=5, audio=None))
    assert quality.score == 1.0
    assert quality.neighbours > 2
    assert "Not in the score: rows that are neighbours" in str(quality)


@pytest.mark.parametrize("label", ["tags", "place", "box", "name", "good"])
def test_labels_that_are_lists_are_refused_in_words(numbered: list[Path], label: str) -> None:
    dataset = gm.ArrowIterDataset(numbered, batch_size=4, audio=None, shuffle=gm.Shuffle(1))
    if label in ("name", "good"):
        assert gm.shuffle_quality(dataset, label=label).labels is not None
    else:
        with pytest.raises(ValueError, match="one value a row"):
            gm.shuffle_quality(dataset, label=label)


def test_a_broken_shard_is_not_for_exclude(tmp_path: Path) -> None:
    shards.write_audio(tmp_path / "a.arrow", [GOOD, b"junk"])
    (tmp_path / "b.arrow").write_bytes(b"junk")
    page = command("scan", tmp_path, "-o", tmp_path / "bad.jsonl", "--quiet")
    assert f"The bad rows are in {tmp_path / 'bad.jsonl'}, for exclude=." in page
    assert "No exclude= helps against a broken shard" in page
    assert "They are in" not in page


@pytest.mark.parametrize("cause", [errno.ENOSPC, errno.EROFS])
def test_a_full_and_a_read_only_disk_are_told_apart(
    numbered: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: int
) -> None:
    from gristmill.tools import index

    # A folder that is a file keeps anybody from writing, root too; what the system says of it is
    # put in its place.
    (tmp_path / "no-folder").write_text("")

    def refused(*_: object, **__: object) -> None:
        raise OSError(cause, os.strerror(cause))

    monkeypatch.setattr(index.tempfile, "TemporaryFile", refused)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    read = gm.ReadOptions(index_dir=tmp_path / "no-folder")
    report = gm.build_indexes(numbered, read=read)
    assert report.not_written == 4
    assert report.why_not_written == os.strerror(cause)
    assert f"4 indexes could not be written in {tmp_path / 'no-folder'}" in str(report)
    assert os.strerror(cause) in str(report)
    done = click.testing.CliRunner().invoke(
        main, ["index", "--index-dir", str(tmp_path / "no-folder"), *map(str, numbered)]
    )
    assert done.exit_code == 3
    assert os.strerror(cause) in done.stderr


def test_repr_says_what_was_asked_for(numbered: list[Path]) -> None:
    dataset = gm.ArrowIterDataset(
        "shards/*.arrow",
        columns=["audio"],
        audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(5)),
        shuffle=gm.Shuffle(42),
        batch_size=64,
        epochs=None,
        read=gm.ReadOptions(num_threads=3),
    )
    assert repr(dataset) == (
        "ArrowIterDataset('shards/*.arrow', columns=['audio'], audio=Audio(sample_rate=32000, "
        "crop=RandomCrop(seconds=5.0)), shuffle=Shuffle(seed=42), batch_size=64, epochs=None, "
        "read=ReadOptions(num_threads=3))"
    )
    assert repr(gm.ArrowIterDataset("a.arrow")) == "ArrowIterDataset('a.arrow')"
    rest: dict[str, Any] = {
        "allow_changed": True,
        "on_error": "mask",
        "max_bad_rows": 0.01,
        "quarantine": "/bad.jsonl",
        "binary": "numpy",
        "ragged": {"tags": "pad"},
        "fill_value": {"count": -1},
        "with_row_id": True,
    }
    told = repr(gm.ArrowIterDataset("a.arrow", **rest))
    assert (
        told == f"ArrowIterDataset('a.arrow', {', '.join(f'{k}={v!r}' for k, v in rest.items())})"
    )
    assert (
        repr(iter(gm.ArrowIterDataset("a.arrow"))) == "ArrowIterator(ArrowIterDataset('a.arrow'))"
    )
    many = gm.ArrowIterDataset([f"shard-{k}.arrow" for k in range(1000)])
    assert repr(many) == "ArrowIterDataset(['shard-0.arrow', ... 1000 paths])"
    many.set_slice(slice(1, None, 3))
    assert "partition=Partition(offset=1, stride=3)" in repr(many)


def test_results_print_the_page_of_the_command(tmp_path: Path) -> None:
    path = shards.write_audio(tmp_path / "a.arrow", [GOOD] * 4 + [b"junk"])
    found = gm.inspect(path)
    page = str(found)
    assert page.startswith("1 shard, 5 rows")
    shown = command("inspect", path, "--quiet").strip()
    # Times differ from run to run.
    differ = ("reading a row", "decoding")
    steady = [line for line in shown.splitlines() if not line.strip().startswith(differ)]
    assert [line for line in page.splitlines() if not line.strip().startswith(differ)] == steady
    assert "Bad rows" in str(gm.scan(path))
    assert "undecodable  1" in str(gm.scan(path))
    assert "bare decode loop" in str(gm.bench(path, seconds=0.2, batch_size=2))
    assert "1 shard of 5 rows: 1 index is new, 0 were there" in str(gm.build_indexes(path))
    assert "Settings" in str(gm.diagnose(path, seconds=1, batch_size=2))
