"""Every kind of column, in single rows and in batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
import shards
from signals import RATE, encode, synthetic

import oracle


def test_all_columns_come_by_default(numbered: list[Path]) -> None:
    element = next(iter(gm.ArrowIterDataset(numbered)))
    assert list(element) == list(shards.FIELDS)
    element = next(iter(gm.ArrowIterDataset(numbered, with_row_id=True)))
    assert set(element) == {*shards.FIELDS, "shard", "row"}


def test_columns_are_chosen(numbered: list[Path]) -> None:
    element = next(iter(gm.ArrowIterDataset(numbered, columns=["label", "audio"])))
    assert set(element) == {"label", "audio"}
    assert element["audio"].shape == (640,)


def test_types_of_single_rows(numbered: list[Path]) -> None:
    for ours, theirs in zip(
        gm.ArrowIterDataset(numbered), oracle.load(oracle.Job(numbered)), strict=True
    ):
        np.testing.assert_array_equal(ours["audio"], theirs["audio"])
        for name, dtype in (("label", "i8"), ("count", "i4"), ("level", "f4"), ("good", "?")):
            assert isinstance(ours[name], np.generic)
            assert ours[name].dtype == np.dtype(dtype)
            assert ours[name] == theirs[name]
        assert ours["when"] == np.datetime64(theirs["when"], "us")
        assert ours["when"].dtype == np.dtype("M8[us]")
        assert ours["name"] == theirs["name"]
        assert isinstance(ours["name"], str | None)
        assert ours["tags"].dtype == np.int32
        assert ours["tags"].tolist() == theirs["tags"]
        assert ours["box"].dtype == np.float32
        assert ours["box"].tolist() == theirs["box"]
        assert dict(ours["place"]) == theirs["place"]


def test_types_of_batches(numbered: list[Path]) -> None:
    expected = list(oracle.load(oracle.Job(numbered)))
    (batch,) = gm.ArrowIterDataset(numbered, batch_size=40)
    assert batch["audio"].shape == (40, 640)
    assert batch["audio"].dtype == np.float32
    for name, dtype in (("label", "i8"), ("count", "i4"), ("level", "f4"), ("good", "?")):
        assert batch[name].dtype == np.dtype(dtype)
        assert batch[name].tolist() == [row[name] for row in expected]
    assert batch["when"].dtype == np.dtype("M8[us]")
    assert batch["when"].tolist() == [row["when"] for row in expected]
    assert batch["name"].dtype == object
    assert batch["name"].tolist() == [row["name"] for row in expected]
    assert batch["tags"].dtype == object
    assert [tags.tolist() for tags in batch["tags"]] == [row["tags"] for row in expected]
    assert all(tags.dtype == np.int32 for tags in batch["tags"])
    assert (batch["box"].dtype, batch["box"].shape) == (np.float32, (40, 4))
    assert batch["box"].tolist() == [row["box"] for row in expected]
    assert set(batch["place"]) == {"lat", "lon"}
    assert batch["place"]["lat"].tolist() == [row["place"]["lat"] for row in expected]


def test_batches_keep_channels(tmp_path: Path) -> None:
    stereo = [encode(synthetic(0.1, RATE, 2, i), RATE, "wav16") for i in range(3)]
    path = shards.write_audio(tmp_path / "stereo.arrow", stereo)
    (batch,) = gm.ArrowIterDataset(path, audio=gm.Audio(channels="keep"), batch_size=3)
    assert batch["audio"].shape == (3, 2, 3_200)
    np.testing.assert_array_equal(batch["audio"][1], oracle.decode(stereo[1], None, "keep"))


def test_batches_of_audio_are_aligned(numbered: list[Path]) -> None:
    for batch in gm.ArrowIterDataset(numbered, batch_size=7):
        assert batch["audio"].ctypes.data % 64 == 0
        assert batch["audio"].flags.c_contiguous
        assert batch["audio"].flags.writeable


@pytest.mark.parametrize("batch_size", [None, 3])
def test_audio_stays_encoded_on_demand(numbered: list[Path], batch_size: int | None) -> None:
    expected = [row["bytes"] for row in oracle.read_table(numbered[0])["audio"].to_pylist()]
    got = []
    for element in gm.ArrowIterDataset(numbered[0], audio=None, batch_size=batch_size):
        assert set(element["audio"]) == {"bytes", "path"}
        got += [element["audio"]["bytes"]] if batch_size is None else [*element["audio"]["bytes"]]
    assert got == expected


def test_the_audio_column_is_found_by_its_features(tmp_path: Path) -> None:
    data = encode(synthetic(0.1, RATE), RATE, "wav16")
    found = shards.write_audio(tmp_path / "found.arrow", [data])
    assert isinstance(next(iter(gm.ArrowIterDataset(found)))["audio"], np.ndarray)
    unknown = shards.write_audio(
        tmp_path / "unknown.arrow", [data], of=shards.schema(features=False)
    )
    assert next(iter(gm.ArrowIterDataset(unknown, audio=None)))["audio"]["bytes"] == data
    named = gm.ArrowIterDataset(unknown, audio=gm.Audio("audio"))
    np.testing.assert_array_equal(next(iter(named))["audio"], oracle.decode(data, None))


@pytest.mark.parametrize("form", ["stream", "file"])
def test_the_form_is_told_by_the_bytes(tmp_path: Path, form: str) -> None:
    data = encode(synthetic(0.1, RATE), RATE, "flac16")
    path = shards.write_audio(tmp_path / "no-suffix", [data] * 5, form=form, batch_rows=2)
    assert [int(e["count"]) for e in gm.ArrowIterDataset(path)] == [-3, -2, -1, 0, 1]
