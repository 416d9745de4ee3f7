"""The types in which audio columns come: views, dictionaries, text; and what is no audio column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm
import shards
from signals import encode, synthetic

RATE = 16_000
LENGTHS = [800, 1_600, 2_400, 960, 3_200, 1_280]
RECORDINGS = [encode(synthetic(n / RATE, RATE, 1, i), RATE, "wav16") for i, n in enumerate(LENGTHS)]
ROWS: list[bytes | None] = [*RECORDINGS[:3], None, RECORDINGS[1], b"", b"short", *RECORDINGS[3:]]
VIEWS = pa.struct([("bytes", pa.binary_view()), ("path", pa.string_view())])


def structs(of: pa.DataType) -> pa.Array:
    return pa.array([{"bytes": data, "path": f"{i}.wav"} for i, data in enumerate(ROWS)], of)


COLUMNS: dict[str, pa.Array] = {
    "binary": pa.array(ROWS, pa.binary()),
    "views": pa.array(ROWS, pa.binary_view()),
    "struct of views": structs(VIEWS),
    "dictionary": pa.array(ROWS, pa.binary()).dictionary_encode(),
    "dictionary of large": pa.array(ROWS, pa.large_binary()).dictionary_encode(),
}
SHARDS = ["stream", "zstd", "file", "parquet", "parquet-plain"]


def write(path: Path, column: pa.Array, how: str = "stream") -> Path:
    made = pa.table({"audio": column, "n": pa.array(range(len(column)), pa.int32())})
    if how.startswith("parquet"):
        plain: dict[str, Any] = {"compression": "NONE", "use_dictionary": False}
        pq.write_table(made, path, **(plain if how == "parquet-plain" else {}))
        return path
    new = pa.ipc.new_file if how == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(
        compression="zstd" if how == "zstd" else None, unify_dictionaries=how == "file"
    )
    with new(path, made.schema, options=options) as out:
        out.write_table(made, max_chunksize=len(column) if how == "file" else 4)
    return path


@pytest.mark.parametrize("how", SHARDS)
@pytest.mark.parametrize("name", COLUMNS)
def test_every_layout_of_binary_is_audio(name: str, how: str, tmp_path: Path) -> None:
    shard = write(tmp_path / "a.shard", COLUMNS[name], how)
    bad = [3, 5, 6]
    for shuffle in (None, gm.Shuffle(seed=1)):
        dataset = gm.ArrowIterDataset(
            shard,
            audio=gm.Audio("audio", pad=None),
            on_error="skip",
            shuffle=shuffle,
            epochs=1,
        )
        rows = {int(row["n"]): row["audio"] for row in dataset}
        assert sorted(rows) == [i for i in range(len(ROWS)) if i not in bad]
        for i, samples in rows.items():
            np.testing.assert_array_equal(samples, gm.decode(ROWS[i] or b""))
    source = gm.ArrowDataSource(shard, audio=gm.Audio("audio", pad=None))
    np.testing.assert_array_equal(source[4]["audio"], gm.decode(RECORDINGS[1]))


@pytest.mark.parametrize("how", SHARDS)
def test_audio_of_views_is_found_and_left_encoded(how: str, tmp_path: Path) -> None:
    shard = write(tmp_path / "a.shard", COLUMNS["struct of views"], how)
    dataset = gm.ArrowIterDataset(shard, audio=gm.Audio(), on_error="skip")
    assert len(list(dataset)) == len(ROWS) - 3
    given = list(gm.ArrowIterDataset(shard, audio=None))
    assert [row["audio"]["bytes"] for row in given] == ROWS
    assert [row["audio"]["path"] for row in given] == [f"{i}.wav" for i in range(len(ROWS))]


def test_views_into_several_buffers(tmp_path: Path) -> None:
    """Views may lead anywhere: here twice to each value, and back."""
    one = pa.array(RECORDINGS, pa.binary_view())
    mixed = pa.concat_arrays([one.slice(3), one, one.slice(1, 2)])
    shard = write(tmp_path / "a.arrow", mixed)
    rows = gm.ArrowIterDataset(shard, audio=gm.Audio("audio", pad=None))
    expected = [*RECORDINGS[3:], *RECORDINGS, *RECORDINGS[1:3]]
    for row, data in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(row["audio"], gm.decode(data))


def test_shards_of_other_layouts(tmp_path: Path) -> None:
    for name in ("binary", "views", "dictionary"):
        write(tmp_path / f"{name}.arrow", COLUMNS[name])
    rows = list(gm.ArrowIterDataset(tmp_path, audio=gm.Audio("audio"), on_error="skip"))
    assert len(rows) == 3 * (len(ROWS) - 3)


def test_a_view_beyond_its_buffer_is_damage(tmp_path: Path) -> None:
    shard = write(tmp_path / "a.arrow", pa.array(RECORDINGS, pa.binary_view()))
    data = bytearray(shard.read_bytes())
    at = data.index(len(RECORDINGS[1]).to_bytes(4, "little") + RECORDINGS[1][:4])
    for place, value in ((at + 8, 77), (at + 12, 2**31 - 5), (at, 2**31 - 1), (at + 3, 0xFF)):
        wrong = bytearray(data)
        wrong[place : place + 4] = value.to_bytes(4, "little")
        shard.write_bytes(wrong)
        with pytest.raises(gm.CorruptShardError):
            list(gm.ArrowIterDataset(shard, audio=gm.Audio("audio")))


TEXT = {
    "string": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.mark.parametrize("how", ["stream", "zstd", "parquet"])
@pytest.mark.parametrize("name", TEXT)
def test_a_column_of_paths(name: str, how: str, tmp_path: Path) -> None:
    root = tmp_path / "recordings"
    root.mkdir()
    for i, data in enumerate(RECORDINGS):
        (root / f"{i}.wav").write_bytes(data)
    paths = [f"{i}.wav" for i in range(6)] + [None, "gone.wav"]
    shard = write(tmp_path / "a.shard", pa.array(paths).cast(TEXT[name]), how)
    dataset = gm.ArrowIterDataset(
        shard, audio=gm.Audio("audio", root=root, pad=None), on_error="skip"
    )
    it = iter(dataset)
    rows = list(it)
    for row, data in zip(rows, RECORDINGS, strict=True):
        np.testing.assert_array_equal(row["audio"], gm.decode(data))
    bad = it.bad_rows()
    assert [(row.row, row.reason, row.path) for row in bad] == [
        (6, "null", None),
        (7, "missing_file", "gone.wav"),
    ]
    with pytest.raises(gm.SchemaError, match=r"audio.*is text.*root="):
        next(iter(gm.ArrowIterDataset(shard, audio=gm.Audio("audio"))))


@pytest.mark.parametrize(
    ("metadata", "is_found"),
    [
        ('{"info": {"features": null}}', True),
        ('{"info": {"features": {}}}', True),
        ('{"info": null}', True),
        ("{}", True),
        ("{not", True),
        ('{"info": {"features": {"audio": {"_type": "Value"}}}}', False),
    ],
)
def test_features_that_say_nothing_hide_nothing(
    metadata: str, is_found: bool, tmp_path: Path
) -> None:
    audio = pa.array([{"bytes": RECORDINGS[0], "path": "x"}], shards.AUDIO)
    made = pa.table({"audio": audio}).replace_schema_metadata({"huggingface": metadata})
    path = tmp_path / "a.arrow"
    shards.write_table(path, made)
    dataset = gm.ArrowIterDataset(path, audio=gm.Audio())
    if is_found:
        assert next(iter(dataset))["audio"].shape == (800,)
    else:
        with pytest.raises(gm.SchemaError, match="no column is marked as audio"):
            next(iter(dataset))


AUDIO = [{"bytes": RECORDINGS[0], "path": "x"}]
FEATURES = '{"info": {"features": {"near": {"_type": "Audio"}, "far": {"_type": "Audio"}}}}'


@pytest.mark.parametrize("kind", ["features", "types"])
def test_two_audio_columns_are_both_named(kind: str, tmp_path: Path) -> None:
    both = [{"bytes": data, "path": "x"} for data in RECORDINGS]
    made = pa.table({name: pa.array(both, shards.AUDIO) for name in ("near", "far")})
    if kind == "features":
        made = made.replace_schema_metadata({"huggingface": FEATURES})
    path = tmp_path / "a.arrow"
    shards.write_table(path, made)
    said = r'near, far.*name the one to decode.*"near".*or several: audio={"near": gm\.Audio\('
    with pytest.raises(gm.SchemaError, match=said):
        next(iter(gm.ArrowIterDataset(path, audio=gm.Audio())))
    # As the message says.
    dataset = gm.ArrowIterDataset(path, audio={"near": gm.Audio(), "far": gm.Audio()})
    for row, data in zip(dataset, RECORDINGS, strict=True):
        for name in ("near", "far"):
            np.testing.assert_array_equal(row[name], gm.decode(data))


@pytest.mark.parametrize(
    ("columns", "name", "said"),
    [
        ({"near": pa.array(AUDIO, shards.AUDIO), "far": pa.array(AUDIO, shards.AUDIO)}, None,
         r"near, far; name the one to decode: gm.Audio\(\"near\""),
        ({"mics": pa.array([AUDIO], pa.list_(shards.AUDIO))}, None, "a list of recordings"),
        ({"mics": pa.array([AUDIO], pa.list_(shards.AUDIO))}, "mics",
         r"a row for each recording \(explode"),
        ({"audio": pa.array([{"path": "x", "array": [0.5], "sampling_rate": 16_000}])}, "audio",
         "decoded samples"),
        ({"audio": pa.array([{"path": "x", "array": [0.5], "sampling_rate": 16_000}])}, None,
         "decoded samples"),
        ({"n": pa.array([1])}, "n", "encoded audio must be binary"),
    ],
)  # fmt: skip
def test_what_is_no_audio_column_says_what_to_do(
    columns: dict[str, pa.Array], name: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.arrow"
    shards.write_table(path, pa.table(columns))
    with pytest.raises(gm.SchemaError, match=said):
        next(iter(gm.ArrowIterDataset(path, audio=gm.Audio(name))))
    assert list(next(iter(gm.ArrowIterDataset(path, audio=None)))) == list(columns)
