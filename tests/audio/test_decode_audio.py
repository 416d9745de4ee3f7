"""`gm.DecodeAudio`: a transformation of Grain's for rows from anywhere."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest
from absl import flags

import gristmill as gm
from signals import encode, synthetic

KINDS = ["wav16", "flac16", "vorbis", "mp3"]
RECORDINGS = [
    encode(synthetic(0.5 + i / 20, 16_000, 2, i), 16_000, KINDS[i % 4]) for i in range(12)
]
CROP = gm.Audio(crop=gm.RandomCrop(seconds=0.2))


def source() -> grain.MapDataset[Any]:
    rows = [{"audio": data, "n": i} for i, data in enumerate(RECORDINGS)]
    return grain.MapDataset.source(rows)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sample_rate": 8_000, "resampler": "best"},
        {"channels": "keep", "dtype": "int16"},
        {"channels": 2, "sample_rate": 22_050},
    ],
)
def test_one_row_is_what_decode_gives(options: dict[str, Any]) -> None:
    decoded = source().map(gm.DecodeAudio(gm.Audio(**options)))
    for i, data in enumerate(RECORDINGS):
        expected = gm.decode(data, **options)
        assert decoded[i]["n"] == i
        assert decoded[i]["audio"].dtype == expected.dtype
        assert np.array_equal(decoded[i]["audio"], expected)


def test_crops_at_fixed_places_are_parts_of_the_whole() -> None:
    for crop, place in [(gm.StartCrop(0.2), 0.0), (gm.CenterCrop(0.2), None)]:
        transform: Any = gm.DecodeAudio(gm.Audio(crop=crop))
        assert isinstance(transform, grain.transforms.Map)
        for data in RECORDINGS:
            audio, whole = transform.map({"audio": data})["audio"], gm.decode(data)
            start = 0 if place is not None else (len(whole) - 3200) // 2
            assert np.array_equal(audio, whole[start : start + 3200])
    long = gm.DecodeAudio(gm.Audio(crop=gm.StartCrop(2), pad="zero"))
    audio = long.map({"audio": RECORDINGS[0]})["audio"]  # pyright: ignore[reportAttributeAccessIssue]
    assert audio.shape == (32_000,)
    assert not audio[len(gm.decode(RECORDINGS[0])) :].any()


def test_random_crops_are_drawn_by_grain() -> None:
    transform = gm.DecodeAudio(CROP)
    assert isinstance(transform, grain.transforms.RandomMap)
    first, again = (source().seed(1).repeat(3).random_map(transform) for _ in range(2))
    other = source().seed(2).random_map(transform)
    for i in range(36):
        audio = first[i]["audio"]
        assert audio.shape == (3200,)
        assert np.array_equal(audio, again[i]["audio"])
        whole = gm.decode(RECORDINGS[i % 12])
        windows = np.lib.stride_tricks.sliding_window_view(whole, 3200)
        assert (windows == audio).all(axis=1).any()
    assert sum(np.array_equal(first[i]["audio"], first[i + 12]["audio"]) for i in range(12)) < 3
    assert sum(np.array_equal(first[i]["audio"], other[i]["audio"]) for i in range(12)) < 3


def test_all_forms_of_bytes(tmp_path: Path) -> None:
    data = RECORDINGS[1]
    (tmp_path / "r.flac").write_bytes(data)
    expected = gm.decode(data)
    forms: list[Any] = [
        data,
        bytearray(data),
        memoryview(data),
        np.frombuffer(data, np.uint8),
        {"bytes": data, "path": None},
        {"bytes": None, "path": "r.flac"},
        np.array(data, dtype=object),
    ]
    transform: Any = gm.DecodeAudio(gm.Audio(root=tmp_path), key="sound")
    for form in forms:
        element = {"sound": form, "n": 1}
        result = transform.map(element)
        assert np.array_equal(result["sound"], expected)
        assert result["n"] == 1
        assert element["sound"] is form


def test_what_is_refused() -> None:
    transform: Any = gm.DecodeAudio()
    for element in ({"sound": b""}, b"", None, {"audio": "a.wav"}, {"audio": np.zeros(3)}):
        with pytest.raises((gm.SchemaError, TypeError)):
            transform.map(element)
    for element, reason in [
        ({"audio": None}, "null"),
        ({"audio": {"bytes": None, "path": None}}, "null"),
        ({"audio": {"bytes": None, "path": "a.wav"}}, "null"),
        ({"audio": b""}, "empty"),
        ({"audio": b"no recording"}, "unknown_format"),
        ({"audio": RECORDINGS[0][:-400]}, "truncated"),
    ]:
        with pytest.raises(gm.DecodeError) as raised:
            transform.map(element)
        assert raised.value.reason == reason
    most = gm.Audio(strict=False, max_missing=0.01)
    with pytest.raises(gm.DecodeError) as raised:
        gm.DecodeAudio(most).map({"audio": RECORDINGS[0][:-4000]})
    assert raised.value.reason == "missing"
    make: Any = gm.DecodeAudio
    for arguments, what in [
        ((3,), "audio is Audio"),
        ((gm.Audio("sound"),), "audio is for the column"),
        ((gm.Audio(), 3), "key is a string"),
    ]:
        with pytest.raises(ValueError, match=what):
            make(*arguments)
    assert make(gm.Audio("sound"), key="sound").key == "sound"


def test_it_pickles_and_reads_well() -> None:
    for transform in (gm.DecodeAudio(), gm.DecodeAudio(CROP, key="sound")):
        copy = pickle.loads(pickle.dumps(transform))
        assert type(copy) is type(transform)
        assert isinstance(copy, gm.DecodeAudio)
        assert (copy.audio, copy.key) == (transform.audio, transform.key)
        assert repr(copy) == repr(transform)
    assert repr(gm.DecodeAudio()) == "DecodeAudio(Audio())"
    assert repr(gm.DecodeAudio(CROP, "sound")) == (
        "DecodeAudio(Audio(crop=RandomCrop(seconds=0.2)), key='sound')"
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_in_a_data_loader(workers: int) -> None:
    flags.FLAGS.mark_as_parsed()
    rows = [{"audio": data, "n": i} for i, data in enumerate(RECORDINGS)]

    def batches() -> list[Any]:
        loader = grain.DataLoader(
            data_source=rows,
            sampler=grain.samplers.IndexSampler(12, num_epochs=2, shuffle=True, seed=3),
            operations=[gm.DecodeAudio(CROP), grain.transforms.Batch(4)],
            worker_count=workers,
        )
        return list(loader)

    first, again = batches(), batches()
    assert [batch["audio"].shape for batch in first] == [(4, 3200)] * 6
    for a, b in zip(first, again, strict=True):
        np.testing.assert_equal(a, b)
