"""`gm.inspect` and `gm.build_indexes`: what pyarrow and soundfile say of the same shards."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
import soundfile

import gristmill as gm
import shards
from signals import RATE, encode, synthetic

from oracle import read_table


def test_headers_are_those_that_pyarrow_sees(same_rate: list[Path]) -> None:
    found = gm.inspect(same_rate)
    tables = [read_table(path) for path in same_rate]
    assert [shard.path for shard in found.shards] == list(map(str, same_rate))
    assert [shard.rows for shard in found.shards] == [table.num_rows for table in tables]
    assert found.rows == sum(table.num_rows for table in tables)
    assert [shard.bytes for shard in found.shards] == [p.stat().st_size for p in same_rate]
    assert [s.format for s in found.shards] == ["stream", "stream", "file", "file", "stream"]
    assert found.record_batches == sum(
        len(list(pa.ipc.open_stream(path))) if form == "stream" else n_batches(path)
        for path, form in zip(same_rate, [s.format for s in found.shards], strict=True)
    )
    names = [name for name, _ in found.shards[0].columns]
    assert names == tables[0].column_names
    assert dict(found.shards[0].columns)["audio"].startswith("Struct(")
    assert found.audio_column == "audio"
    assert found.unreadable == ()


def n_batches(path: Path) -> int:
    return pa.ipc.open_file(path).num_record_batches


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_compression_is_told(tmp_path: Path, codec: str | None) -> None:
    path = tmp_path / "shard.arrow"
    table = pa.table({"label": list(range(1000))})
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, options=options) as writer,
    ):
        writer.write_table(table)
    found = gm.inspect(path)
    assert found.shards[0].compression == codec
    assert (found.audio_column, found.sample) == (None, None)


def test_classes_are_counted(same_rate: list[Path]) -> None:
    found = gm.inspect(same_rate)
    labels = Counter(v for path in same_rate for v in read_table(path)["label"].to_pylist())
    assert found.class_names == {"label": ["wren", "crow"]}
    assert found.class_counts == {"label": [labels[0], labels[1]]}


def test_the_sample_is_what_soundfile_sees(same_rate: list[Path]) -> None:
    sample = gm.inspect(same_rate).sample
    assert sample is not None
    audio = [row["bytes"] for path in same_rate for row in read_table(path)["audio"].to_pylist()]
    infos = [soundfile.info(io.BytesIO(data)) for data in audio]
    assert sample.rows == len(audio) == 25
    assert (sample.refused, sample.bytes) == (0, sum(map(len, audio)))
    assert sample.sample_rates == {RATE: 25}
    assert sample.channels == dict(Counter(info.channels for info in infos))
    assert sum(sample.codecs.values()) == 25
    expected = sorted(info.duration for info in infos)
    # libsndfile guesses the length of some MP3.
    assert sample.durations == pytest.approx(expected, abs=0.06)
    assert sum(n for *_, n in sample.histogram()) == 25
    for low, high, n in sample.histogram():
        assert n == sum(low <= d and (high is None or d < high) for d in sample.durations)
    assert sample.decode_seconds is not None
    assert sample.decode_seconds > 0


def test_a_small_sample_is_the_same_each_time(same_rate: list[Path]) -> None:
    one, other = (gm.inspect(same_rate, sample=7).sample for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.rows == 7
    assert one.durations == other.durations


def test_refused_rows_and_broken_shards_are_told(tmp_path: Path) -> None:
    good = shards.write_audio(
        tmp_path / "a.arrow", [encode(synthetic(1, RATE), RATE, "wav16"), b"junk", None]
    )
    broken = tmp_path / "b.arrow"
    broken.write_bytes(b"no shard at all")
    found = gm.inspect([good, broken])
    assert found.sample is not None
    assert (found.sample.rows, found.sample.refused) == (3, 2)
    assert [shard.shard for shard in found.unreadable] == [str(broken)]
    assert json.loads(json.dumps(found.to_dict()))["rows"] == 3
    only = gm.inspect(broken)
    assert (only.rows, only.sample) == (0, None)


def test_indexes_are_written_once(same_rate: list[Path], tmp_path: Path) -> None:
    copies = [tmp_path / path.name for path in same_rate]
    for path, copy in zip(same_rate, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    # What has just been written may change again, and is waited for.
    fresh = gm.build_indexes(copies, read=gm.ReadOptions(index_dir=tmp_path / "fresh"))
    assert (fresh.written, fresh.not_written) == (5, 0)
    assert len(list((tmp_path / "fresh").iterdir())) == 5
    for copy in copies:
        os.utime(copy, (1e9, 1e9))
    read = gm.ReadOptions(index_dir=tmp_path / "index")
    told: list[int] = []
    first = gm.build_indexes(
        copies, read=read, on_shards=told.append, on_shard=lambda: told.append(1)
    )
    assert told == [5, 1, 1, 1, 1, 1]
    assert (first.shards, first.rows, first.written) == (5, 25, 5)
    assert len(list((tmp_path / "index").iterdir())) == 5
    again = gm.build_indexes(copies, read=read)
    assert (again.shards, again.written, again.requests) == (5, 0, 0)
    with pytest.raises(ValueError, match="no folder for indexes"):
        gm.build_indexes(copies, read=gm.ReadOptions(index_dir=None))


def test_a_field_that_is_called_names_is_no_list_of_classes(tmp_path: Path) -> None:
    text = {"dtype": "string", "_type": "Value"}
    features = {"by": {"names": [text]}, "label": {"names": ["a", "b"], "_type": "ClassLabel"}}
    names = pa.struct([("names", pa.list_(pa.string()))])
    of = pa.schema([("by", names), ("label", pa.int64())]).with_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    rows = [{"by": {"names": ["x", "y"]}, "label": 1}]
    found = gm.inspect(shards.write(tmp_path / "x.arrow", rows, of=of))
    assert dict(found.class_names) == {"label": ["a", "b"]}
    assert dict(found.class_counts) == {"label": [0, 1]}
