"""The demo's shards are what Hugging Face `datasets` would have written."""

import hashlib
import io

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("soundfile")
import soundfile as sf

from gristmill.tools.demo.data import FEATURES, SCHEMA, demo_shards, write_shards
from gristmill.tools.demo.encode import encode, with_serial
from gristmill.tools.demo.sound import CLASSES, Recipe, draw

SHORT = Recipe(seed=3, codecs=("vorbis", "mp3", "flac", "wav"), duration_s=(0.5, 1.5))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(
        tmp_path_factory.mktemp("shards"), n_rows=130, rows_per_shard=120, recipe=SHORT
    )


def test_streams_of_hundred_row_batches(shards):
    assert [path.name for path in shards] == [
        "train-00000-of-00002.arrow",
        "train-00001-of-00002.arrow",
    ]
    sizes = [[batch.num_rows for batch in pa.ipc.open_stream(path)] for path in shards]
    assert sizes == [[100, 20], [10]]


def test_datasets_reads_them(shards):
    datasets = pytest.importorskip("datasets")
    ds = datasets.Dataset.from_file(str(shards[0]))
    assert isinstance(ds.features["audio"], datasets.Audio)
    assert isinstance(ds.features["label"], datasets.ClassLabel)
    assert ds.features["label"].names == list(CLASSES)
    ds = ds.cast_column("audio", datasets.Audio(decode=False))
    row = ds[5]
    assert row["label"] == 5 % len(CLASSES)
    assert isinstance(row["audio"]["bytes"], bytes)
    assert row["recording_id"] == "GM003000005"


def test_equal_to_what_datasets_writes(shards, tmp_path):
    datasets = pytest.importorskip("datasets")
    from datasets.arrow_writer import ArrowWriter

    features = datasets.Features.from_dict(FEATURES)
    assert features.arrow_schema.metadata == SCHEMA.metadata
    theirs = tmp_path / "theirs.arrow"
    with ArrowWriter(path=str(theirs), features=features, writer_batch_size=100) as writer:
        for row in pa.ipc.open_stream(shards[0]).read_all().to_pylist():
            writer.write(row)
        writer.finalize()
    ours, theirs = pa.ipc.open_stream(shards[0]), pa.ipc.open_stream(theirs)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    for a, b in zip(ours, theirs, strict=True):
        assert a.equals(b)


def test_same_seed_same_bytes(shards, tmp_path):
    again = write_shards(tmp_path, n_rows=130, rows_per_shard=120, recipe=SHORT, num_threads=1)
    for a, b in zip(shards, again, strict=True):
        assert hashlib.sha256(a.read_bytes()).digest() == hashlib.sha256(b.read_bytes()).digest()
    assert draw(SHORT, 1).pcm.tobytes() != draw(Recipe(seed=4), 1).pcm.tobytes()


def test_audio_decodes_to_what_was_drawn(shards):
    seen = set()
    for i, row in enumerate(pa.ipc.open_stream(shards[1]).read_all().to_pylist(), start=120):
        drawn = draw(SHORT, i)
        pcm, rate_hz = sf.read(io.BytesIO(row["audio"]["bytes"]), dtype="float32", always_2d=True)
        seen.add(drawn.codec)
        assert rate_hz == drawn.rate_hz
        assert pcm.shape[1] == drawn.pcm.shape[1]
        if drawn.codec in ("wav", "flac"):
            np.testing.assert_allclose(pcm, drawn.pcm, atol=2**-15)
        else:
            assert abs(len(pcm) - len(drawn.pcm)) <= 2304  # MP3 pads to whole codec frames
    assert len(seen) >= 3


def test_every_five_seconds_hold_a_call():
    for row in range(8):
        recording = draw(Recipe(duration_s=(20, 30)), row)
        crop = 5 * recording.rate_hz
        loud = np.abs(recording.pcm).max(axis=1) > 0.12
        assert all(loud[i : i + crop].any() for i in range(0, len(loud) - crop, crop // 4))


def test_new_serial_keeps_an_ogg_stream_valid():
    pcm = draw(SHORT, 0).pcm
    data = encode(pcm, 32_000, "vorbis")
    other = with_serial(data, 77)
    assert other != data
    assert with_serial(other, 1) == data
    # libogg drops pages whose checksum is wrong: the same frames show that it is right.
    np.testing.assert_array_equal(
        sf.read(io.BytesIO(other))[0],
        sf.read(io.BytesIO(data))[0],
    )


def test_demo_shards_are_reused_when_they_match(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gristmill.tools.demo.data.Recipe",
        lambda seed: Recipe(seed, SHORT.codecs, duration_s=(0.5, 1)),
    )
    made = []
    options = {"n_rows": 6, "rows_per_shard": 4, "n_held_out": 2, "on_row": lambda: made.append(1)}
    train, held_out, found = demo_shards(tmp_path, seed=1, **options)
    assert (len(train), found, len(made)) == (2, False, 8)
    assert demo_shards(tmp_path, seed=1, **options) == (train, held_out, True)
    assert len(made) == 8
    assert demo_shards(tmp_path, seed=2, **options)[2] is False
    assert len(made) == 16
    held_out.write_bytes(held_out.read_bytes()[:-100])
    assert demo_shards(tmp_path, seed=2, **options)[2] is False
    assert not list(tmp_path.glob("*.part"))
