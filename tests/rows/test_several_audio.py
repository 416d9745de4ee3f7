"""Several audio columns of a row, decoded in step, beside a naive loader."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pyarrow as pa
import pytest
import soundfile

import gristmill as gm
import shards
from audio_index_runs import n_read
from signals import encode, synthetic

import oracle

NEAR_HZ, FAR_HZ, SECONDS = 16_000, 22_050, 0.25
N = 12
CROP = gm.RandomCrop(SECONDS)
AUDIO: dict[str, Any] = {
    "near": gm.Audio(sample_rate=NEAR_HZ, crop=CROP, dtype="int16"),
    "far": gm.Audio(sample_rate=FAR_HZ, crop=CROP, channels=2),
}
# Of each pair one may be shorter: than the crop, or than the other. The crop may begin behind it.
NEAR_S = [0.6, 0.3, 0.9, 0.1, 0.5, 0.7, 0.4, 0.8, 0.25, 0.6, 0.9, 0.5]
FAR_S = [0.6, 0.5, 0.2, 0.7, 0.1, 0.7, 0.5, 0.31, 0.9, 0.6, 0.4, 0.55]
NEAR = [encode(synthetic(s, NEAR_HZ, 1, i), NEAR_HZ, "wav16") for i, s in enumerate(NEAR_S)]
FAR = [encode(synthetic(s, FAR_HZ, 2, 50 + i), FAR_HZ, "flac16") for i, s in enumerate(FAR_S)]
BAD = b"RIFF, and then no sound"


def table(near: Sequence[bytes | None], far: Sequence[bytes | None]) -> pa.Table:
    """The first of the columns that are decoded is not the first in the schema."""
    columns = {
        "n": pa.array(range(len(near)), pa.int64()),
        "far": pa.array([{"bytes": x, "path": f"far{i}"} for i, x in enumerate(far)], shards.AUDIO),
        "near": pa.array(
            [{"bytes": x, "path": f"near{i}"} for i, x in enumerate(near)], shards.AUDIO
        ),
    }
    return pa.table(columns)


def write(path: Path, near: list[Any] | None = None, far: list[Any] | None = None) -> Path:
    shards.write_table(path, table(near or list(NEAR), far or list(FAR)), 5)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("several") / "a.arrow")


def dataset(path: Any, audio: Any = None, **options: Any) -> gm.ArrowIterDataset:
    options = {"with_crop": True, **options}
    return gm.ArrowIterDataset(path, audio=audio or AUDIO, **options)


def cut(whole: np.ndarray, start: int, length: int) -> tuple[np.ndarray, int]:
    """A part of (..., frames), padded with zeros, and its own frames."""
    part = whole[..., start : start + length]
    padding = [(0, 0)] * (whole.ndim - 1) + [(0, length - part.shape[-1])]
    return np.pad(part, padding), part.shape[-1]


def nearest(x: float) -> int:
    return math.floor(x + 0.5)


def naive(row: int, seed: int, epoch: int, name: str = "a.arrow") -> dict[str, Any]:
    """What comes of a row: its place is drawn in `near`, and is the same second of `far`."""
    near = soundfile.read(io.BytesIO(NEAR[row]), dtype="int16")[0]
    far = soundfile.read(io.BytesIO(FAR[row]), dtype="float32")[0].T
    n_crop = nearest(SECONDS * NEAR_HZ)
    start = oracle.crop_start(seed, epoch, name, row, max(len(near) - n_crop + 1, 1))
    of_near, near_frames = cut(near, start, n_crop)
    far_start = min(nearest(start / NEAR_HZ * FAR_HZ), far.shape[-1])
    of_far, far_frames = cut(far, far_start, nearest(SECONDS * FAR_HZ))
    return {
        "n": row,
        "near": of_near,
        "far": of_far,
        "crop_start": start / NEAR_HZ,
        "crop_frames": near_frames,
        "far_crop_start": far_start / FAR_HZ,
        "far_crop_frames": far_frames,
    }


def assert_same(found: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    """A batch, or a single row, is these rows."""
    single = len(expected) == 1 and np.ndim(found["n"]) == 0
    assert list(found) == ["n", "far", "near", *list(expected[0])[3:]]
    for key in expected[0]:
        wanted = np.stack([np.asarray(row[key]) for row in expected])
        np.testing.assert_array_equal(found[key], wanted[0] if single else wanted, err_msg=key)


@pytest.mark.parametrize("name", ["a.arrow", "a.parquet"])
@pytest.mark.parametrize("batch_size", [None, 5])
@pytest.mark.parametrize("seed", [None, 7])
def test_crops_are_of_one_place(
    tmp_path: Path, name: str, batch_size: int | None, seed: int | None
) -> None:
    path = write(tmp_path / name)
    shuffle = None if seed is None else gm.Shuffle(seed)
    ds = dataset(path, shuffle=shuffle, epochs=2, batch_size=batch_size)
    order: list[tuple[int, int]] = []
    for epoch in range(2):
        rows = range(N) if seed is None else oracle.permutation(N, seed, epoch)
        order += [(epoch, row) for row in rows]
    expected = [naive(row, seed or 0, epoch, name) for epoch, row in order]
    assert any(row["far_crop_frames"] == 0 for row in expected)
    size, elements = batch_size or 1, list(ds)
    assert len(elements) == math.ceil(len(expected) / size)
    for k, element in enumerate(elements):
        assert_same(element, expected[k * size : k * size + size])
        assert (element["near"].dtype, element["far"].dtype) == (np.int16, np.float32)


def plain(element: dict[str, Any]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(value).tobytes() for name, value in element.items()}


def test_threads_hosts_and_random_access_do_not_matter(shard: Path) -> None:
    def of(n_threads: int, **options: Any) -> list[dict[str, bytes]]:
        read = gm.ReadOptions(num_threads=n_threads)
        ds = dataset(shard, shuffle=gm.Shuffle(3), epochs=2, read=read, **options)
        return [plain(element) for element in ds]

    one = of(1)
    assert of(4) == one
    hosts = [of(2, shard_options=grain.sharding.ShardOptions(i, 2)) for i in range(2)]
    assert [row for rows in zip(*hosts, strict=True) for row in rows] == one
    audio = {name: gm.Audio(**{**vars(of), "crop": gm.RandomCrop(SECONDS, seed=3)})
             for name, of in AUDIO.items()}  # fmt: skip
    source = gm.ArrowDataSource(shard, audio=audio, with_crop=True)
    for epoch in range(2):
        rows = source.at_epoch(epoch).__getitems__(oracle.permutation(N, 3, epoch))
        assert list(map(plain, rows)) == one[epoch * N : epoch * N + N]
    assert repr(source).count("Audio(column=") == 2


@pytest.mark.parametrize("batch_size", [None, 5])
def test_a_state_goes_on_where_it_was(shard: Path, batch_size: int | None) -> None:
    ds = dataset(shard, shuffle=gm.Shuffle(4), epochs=3, batch_size=batch_size)
    whole = [plain(element) for element in ds]
    it = iter(ds)
    for k in range(3):
        assert plain(next(it)) == whole[k]
    again = iter(ds)
    again.set_state(it.get_state())
    assert [plain(element) for element in again] == whole[3:]


def test_one_entry_is_the_same_as_its_column(shard: Path) -> None:
    audio = AUDIO["near"]
    named = gm.Audio(**{**vars(audio), "column": "near"})
    options = {"shuffle": gm.Shuffle(1), "batch_size": 4, "columns": ["n"]}
    one, other = dataset(shard, {"near": audio}, **options), dataset(shard, named, **options)
    assert repr(one) == repr(other)
    assert list(map(plain, one)) == list(map(plain, other))
    ours, theirs = iter(one), iter(other)
    assert list(next(ours)) == ["n", "near", "crop_start", "crop_frames"]
    next(theirs)
    assert ours.get_state() == theirs.get_state()
    # The first of several decides the place, and the state is of the order alone.
    both = iter(dataset(shard, **options))
    batch = next(both)
    assert both.get_state() == ours.get_state()
    np.testing.assert_array_equal(batch["near"], next(iter(one))["near"])


def test_the_spec_is_that_of_the_elements(shard: Path) -> None:
    for batch_size in (None, 4):
        ds = dataset(shard, batch_size=batch_size)
        spec: Any = ds._element_spec
        element = next(iter(ds))
        assert list(spec) == list(element)
        for name, of in spec.items():
            assert of.dtype == np.asarray(element[name]).dtype, name
            assert of.shape[-1:] == np.shape(element[name])[-1:] or of.shape == (None,)


def test_whole_recordings_of_any_length(shard: Path) -> None:
    audio: Any = {"far": gm.Audio(channels="keep"), "near": gm.Audio()}
    for row, element in enumerate(dataset(shard, audio)):
        for name, data in (("near", NEAR[row]), ("far", FAR[row])):
            expected = soundfile.read(io.BytesIO(data), dtype="float32")[0].T
            np.testing.assert_array_equal(element[name], expected)
        assert element["crop_frames"] == element["far"].shape[-1]
        assert element["near_crop_frames"] == len(element["near"])


def test_codecs_rates_and_channels_of_their_own(tmp_path: Path) -> None:
    near = [encode(synthetic(1.5, 44_100, 1, i), 44_100, "vorbis") for i in range(3)]
    far = [encode(synthetic(1.5, 48_000, 2, i), 48_000, "mp3") for i in range(3)]
    crop = gm.CenterCrop(0.5)
    # Rows of one column have one shape, and those of the other one each: so none has a slot.
    audio: Any = {
        "near": gm.Audio(sample_rate=32_000, crop=crop),
        "far": gm.Audio(sample_rate=24_000, crop=crop, channels="keep", dtype="float16"),
    }
    (batch,) = dataset(write(tmp_path / "a.arrow", near, far), audio, batch_size=3)
    for row in range(3):
        start = batch["crop_start"][row]
        of_near = gm.decode(near[row], sample_rate=32_000)[nearest(start * 32_000) :][:16_000]
        np.testing.assert_array_equal(batch["near"][row], of_near)
        of_far = gm.decode(far[row], sample_rate=24_000, channels="keep", dtype="float16")
        of_far = of_far[:, nearest(start * 24_000) :][:, :12_000]
        np.testing.assert_array_equal(batch["far"][row], of_far)


def test_each_has_the_rate_of_its_features(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rates = {"near": 8_000, "far": 11_025}
    features = {name: {"sampling_rate": rate, "_type": "Audio"} for name, rate in rates.items()}
    made = shards.with_features(table(NEAR[:2], FAR[:2]), features)
    shards.write_table(tmp_path / "a.arrow", made)
    audio: Any = {"near": gm.Audio(sample_rate=None), "far": gm.Audio()}
    for row, element in enumerate(dataset(tmp_path / "a.arrow", audio)):
        np.testing.assert_array_equal(element["near"], gm.decode(NEAR[row]))
        np.testing.assert_array_equal(element["far"], gm.decode(FAR[row], sample_rate=11_025))
    said = [record.getMessage() for record in caplog.records]
    assert sum('column "far" are resampled to 11025 Hz' in text for text in said) == 1


def test_windows_are_counted_in_the_first(shard: Path) -> None:
    crop = gm.Windows(0.2)
    audio: Any = {
        "near": gm.Audio(sample_rate=NEAR_HZ, crop=crop),
        "far": gm.Audio(sample_rate=FAR_HZ, crop=crop, channels=2),
    }
    found = [(int(x["n"]), int(x["window"]), x) for x in dataset(shard, audio)]
    counts = [max(math.ceil(len(soundfile.read(io.BytesIO(x))[0]) / 3200), 1) for x in NEAR]
    assert [(n, k) for n, k, _ in found] == [(n, k) for n in range(N) for k in range(counts[n])]
    for n, k, element in found:
        near = soundfile.read(io.BytesIO(NEAR[n]), dtype="float32")[0]
        far = soundfile.read(io.BytesIO(FAR[n]), dtype="float32")[0].T
        np.testing.assert_array_equal(element["near"], cut(near, k * 3200, 3200)[0])
        of_far, frames = cut(far, min(nearest(0.2 * k * FAR_HZ), far.shape[-1]), 4410)
        np.testing.assert_array_equal(element["far"], of_far)
        assert element["far_crop_frames"] == frames


@pytest.mark.parametrize("seconds", [0.2, None])
def test_event_crops_are_of_one_place(tmp_path: Path, seconds: float | None) -> None:
    made = table(NEAR[:3], FAR[:3])
    times = {"start_time": [0.1, 0.05, 0.5], "end_time": [0.15, 0.1, 0.6]}
    for name, values in times.items():
        made = made.append_column(name, pa.array(values))
    path = tmp_path / "a.arrow"
    shards.write_table(path, made)
    crop = gm.EventCrop(seconds=seconds, place="start")
    audio: Any = {name: gm.Audio(**{**vars(of), "crop": crop}) for name, of in AUDIO.items()}
    for n, row in enumerate(dataset(path, audio)):
        start, far = row["crop_start"], soundfile.read(io.BytesIO(FAR[n]), dtype="float32")[0].T
        length = seconds or len(row["near"]) / NEAR_HZ
        first = min(nearest(start * FAR_HZ), far.shape[-1])
        np.testing.assert_array_equal(row["far"], cut(far, first, nearest(length * FAR_HZ))[0])
        assert gm.events_in(row, sample_rate=NEAR_HZ)


@pytest.mark.parametrize("column", ["near", "far"])
@pytest.mark.parametrize("data", [BAD, None, b""])
def test_a_row_with_a_bad_recording_is_bad(tmp_path: Path, column: str, data: bytes | None) -> None:
    bad: dict[str, list[Any]] = {"near": list(NEAR), "far": list(FAR)}
    for row in (2, 3, 9):
        bad[column][row] = data
    path = write(tmp_path / "a.arrow", bad["near"], bad["far"])
    good = [row for row in range(N) if row not in (2, 3, 9)]
    said = rf"row 2, column '{column}'"
    with pytest.raises(gm.DecodeError, match=said) as raised:
        list(dataset(path))
    assert raised.value.row == 2
    for batch_size in (None, 4):
        for policy in ("skip", "mask", "substitute"):
            ds = dataset(path, on_error=policy, batch_size=batch_size, with_row_id=True)
            it = iter(ds)
            elements = list(it)
            found = [(row.row, row.path) for row in it.bad_rows()]
            assert sorted(found) == [(row, f"{column}{row}") for row in (2, 3, 9)]
            assert all(f"column '{column}'" in row.message for row in it.bad_rows())
            sizes = {row.bytes for row in it.bad_rows()}
            assert sizes == {None if data is None else len(data)}
            names = ("n", "near", "far", "far_crop_frames")
            rows = [
                dict(zip(names, values, strict=True))
                for element in elements
                for values in (
                    zip(*(element[name] for name in names), strict=True)
                    if batch_size
                    else [[element[name] for name in names]]
                )
            ]
            numbers = [int(row["n"]) for row in rows]
            assert numbers == good if policy == "skip" else len(numbers) == N
            for place, row in enumerate(rows):
                n = int(row["n"])
                if n in good:
                    expected = naive(n, 0, 0)
                    for name in names:
                        np.testing.assert_array_equal(row[name], expected[name])
                else:
                    assert policy == "mask"
                    assert n == place
                    assert not row["near"].any()
                    assert not row["far"].any()
                    assert row["near"].shape == (4000,)
                    assert row["far"].shape == (2, 5513)
                    assert row["far_crop_frames"] == 0


def test_a_masked_row_without_slots_has_the_shape_of_the_others(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", [BAD, *NEAR[1:]])
    audio: Any = {"near": AUDIO["near"], "far": gm.Audio(channels="keep", crop=CROP, pad=None)}
    row = next(iter(dataset(path, audio, on_error="mask")))
    assert (row["near"].shape, row["far"].shape, row["valid"]) == ((4000,), (1, 0), False)
    assert not row["near"].any()


def test_pad_rows_have_zeros_in_each(shard: Path) -> None:
    *_, last = dataset(shard, batch_size=5, remainder="pad")
    assert last["valid"].tolist() == [True, True, False, False, False]
    assert last["far"].shape == (5, 2, 5513)
    assert last["far"][:2].any()
    assert not last["far"][2:].any()
    assert not last["near"][2:].any()


def test_damage_is_reported_by_column(tmp_path: Path) -> None:
    cut_off = encode(synthetic(0.5, FAR_HZ, 2, 1), FAR_HZ, "flac16")[:-2000]
    short = encode(synthetic(0.5, NEAR_HZ, 1, 1), NEAR_HZ, "flac16")[:-1500]
    path = write(tmp_path / "a.arrow", [short, NEAR[1]], [cut_off, cut_off])
    audio: Any = {name: gm.Audio(strict=False) for name in ("near", "far")}
    it = iter(dataset(path, audio))
    list(it)
    found = [(row.row, row.column) for row in it.damaged_rows()]
    assert found == [(0, "near"), (0, "far"), (1, "far")]
    audio["far"] = gm.Audio(strict=False, max_missing=0.0)
    with pytest.raises(gm.DecodeError, match="column 'far'") as raised:
        list(dataset(path, audio))
    assert raised.value.reason == "missing"


def test_an_audio_index_spares_bytes_of_each(tmp_path: Path) -> None:
    near = [encode(synthetic(8, NEAR_HZ, 1, i), NEAR_HZ, "flac16") for i in range(2)]
    far = [encode(synthetic(8, FAR_HZ, 2, i), FAR_HZ, "vorbis") for i in range(2)]
    path = write(tmp_path / "a.arrow", near, far)
    runs: list[list[dict[str, bytes]]] = []
    n_bytes: list[int] = []
    for index_dir in (None, tmp_path / "index", tmp_path / "index"):
        read = gm.ReadOptions(index_dir=index_dir, audio_index=index_dir is not None)
        it = iter(dataset(path, epochs=2, shuffle=gm.Shuffle(1), read=read))
        runs.append([plain(next(it)) for _ in range(4)])
        n_bytes.append(n_read(it))
        it.close()
    assert runs[0] == runs[1] == runs[2]
    assert n_bytes[2] < 0.3 * n_bytes[0]


def test_recordings_in_files(tmp_path: Path) -> None:
    for i in range(N):
        (tmp_path / f"near{i}").write_bytes(NEAR[i])
        (tmp_path / f"far{i}").write_bytes(FAR[i])
    path = write(tmp_path / "a.arrow", [None] * N, [FAR[0], *[None] * (N - 1)])
    audio = {name: gm.Audio(**{**vars(of), "root": tmp_path}) for name, of in AUDIO.items()}
    for row, element in enumerate(dataset(path, audio)):
        assert_same(element, [naive(row, 0, 0)])
    only_near: Any = {**audio, "far": AUDIO["far"]}
    with pytest.raises(gm.DecodeError, match=r"row 1, column 'far'.*far1.*root="):
        list(dataset(path, only_near))


def test_the_budget_counts_all_columns(shard: Path) -> None:
    each = {"near": 2 * 4000, "far": 4 * 2 * 5513}
    said = rf"a batch of 5 rows takes ({5 * sum(each.values())}|\d+) bytes"
    with pytest.raises(gm.LimitError, match=said) as raised:
        list(dataset(shard, batch_size=5, read=gm.ReadOptions(memory_budget=100_000)))
    assert int(str(raised.value).split("takes ")[1].split()[0]) >= 5 * sum(each.values())


def test_a_mixture_decodes_the_same_columns_in_all(shard: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "b.arrow")
    sets = [gm.ArrowIterDataset(path, audio=AUDIO) for path in (shard, other)]
    mixture = gm.Mixture(sets, batch_size=4, stop="all", with_crop=True)
    batches = list(mixture)
    assert sum(len(batch["n"]) for batch in batches) == 2 * N
    assert all(batch["far"].shape[1:] == (2, 5513) for batch in batches)
    assert "far_crop_frames" in batches[0]
    one = gm.ArrowIterDataset(other, audio=gm.Audio(**{**vars(AUDIO["near"]), "column": "near"}))
    with pytest.raises(gm.SchemaError, match=r'columns \["near", "far"\].*column "near"'):
        next(iter(gm.Mixture([sets[0], one], batch_size=4)))
    slow: Any = {"near": AUDIO["near"], "far": gm.Audio(sample_rate=8000, crop=CROP, channels=2)}
    with pytest.raises(gm.SchemaError, match=r"'far'.*same sample_rate="):
        next(iter(gm.Mixture([sets[0], gm.ArrowIterDataset(other, audio=slow)], batch_size=4)))


WRONG: list[tuple[Any, str]] = [
    ({}, r"names no column.*audio=None"),
    ({"near": gm.Audio(crop=gm.RandomCrop(1)), "far": gm.Audio(crop=gm.RandomCrop(2))},
     r"'near' and 'far'.*RandomCrop\(seconds=1.0.*RandomCrop\(seconds=2.0.*same crop="),
    ({"near": gm.Audio(crop=gm.RandomCrop(1)), "far": gm.Audio()}, r"and None, and .*same crop="),
    ({"near": gm.Audio(crop=gm.RandomCrop(1)), "far": gm.Audio(crop=gm.StartCrop(1))},
     r"StartCrop.*same crop="),
    ({"near": gm.Audio("far")}, r"audio\['near'\] names another column, gm.Audio\('far'\)"),
    ({"near": "auto", "far": gm.Audio()}, r"audio\['near'\] is gm.Audio\(...\), not 'auto'"),
    ({1: gm.Audio()}, r"names of columns, not 1"),
    ([gm.Audio("near")], r"one for each column in a dict"),
]  # fmt: skip


@pytest.mark.parametrize(("audio", "said"), WRONG)
@pytest.mark.parametrize("kind", [gm.ArrowIterDataset, gm.ArrowDataSource])
def test_what_is_no_choice_of_columns_is_told(kind: Any, audio: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind("a.arrow", audio=audio)


def test_what_the_data_lack_is_told(shard: Path, tmp_path: Path) -> None:
    with pytest.raises(gm.SchemaError, match="middle"):
        next(iter(gm.ArrowIterDataset(shard, audio={"near": gm.Audio(), "middle": gm.Audio()})))
    with pytest.raises(gm.SchemaError, match=r"'n'.*encoded audio must be binary"):
        next(iter(gm.ArrowIterDataset(shard, audio={"near": gm.Audio(), "n": gm.Audio()})))
    paths = pa.array(["x.wav"])
    shards.write_table(tmp_path / "b.arrow", pa.table({"one": paths, "two": paths}))
    audio = {name: gm.Audio(root=tmp_path) for name in ("one", "two")}
    with pytest.raises(gm.SchemaError, match=r"'two'.*column \"one\".*gm\.pack"):
        next(iter(gm.ArrowIterDataset(tmp_path / "b.arrow", audio=audio)))
    taken = table(NEAR, FAR).append_column("far_crop_start", pa.array(range(N)))
    shards.write_table(tmp_path / "c.arrow", taken)
    with pytest.raises(gm.SchemaError, match=r"far_crop_start.*with_crop=True"):
        next(iter(dataset(tmp_path / "c.arrow")))
