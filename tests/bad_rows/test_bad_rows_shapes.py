"""What elements look like where rows are bad: masks, whole recordings, specs, Grain pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

import bad_shards
import gristmill as gm
import shards
from damaged_files import N_FRAMES, cut, made
from signals import RATE, encode, synthetic

GOOD = encode(synthetic(0.1, RATE, 2), RATE, "wav16")


@pytest.fixture(scope="module")
def some_bad(tmp_path_factory: pytest.TempPathFactory) -> bad_shards.Bad:
    return bad_shards.make(tmp_path_factory.mktemp("bad"), 0.2)


def shard_of(folder: Path, *data: bytes | None) -> Path:
    return shards.write_audio(folder / "rows.arrow", data)


@pytest.mark.parametrize(
    ("channels", "good", "masked"),
    [("mono", (3_200,), (0,)), ("keep", (2, 3_200), (1, 0)), (2, (2, 3_200), (2, 0))],
)
def test_a_whole_recording_that_is_masked_is_empty(
    tmp_path: Path, channels: Any, good: tuple[int, ...], masked: tuple[int, ...]
) -> None:
    path = shard_of(tmp_path, GOOD, b"junk", GOOD)
    ds = gm.ArrowIterDataset(path, audio=gm.Audio(channels=channels), on_error="mask")
    shapes = [(element["audio"].shape, bool(element["valid"])) for element in ds]
    assert shapes == [(good, True), (masked, False), (good, True)]
    assert all(isinstance(element["valid"], np.bool_) for element in ds)


def test_in_a_batch_it_has_the_shape_of_the_others(tmp_path: Path) -> None:
    path = shard_of(tmp_path, b"junk", GOOD, b"junk", b"junk", b"", None)
    ds = gm.ArrowIterDataset(path, on_error="mask", batch_size=3)
    first, second = ds
    assert first["audio"].shape == (3, 3_200)
    assert first["valid"].tolist() == [False, True, False]
    assert first["audio"][1].tobytes() == gm.decode(GOOD).tobytes()
    assert not first["audio"][[0, 2]].any()
    assert (second["audio"].shape, second["valid"].tolist()) == ((3, 0), [False] * 3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
@pytest.mark.parametrize("batch_size", [2, 4])
@pytest.mark.parametrize("policy", ["mask", "skip"])
def test_no_old_sample_comes_through(
    tmp_path: Path, dtype: str, batch_size: int, policy: str
) -> None:
    """Buffers are used again: what a bad row leaves in its slot must not be seen."""
    data = [made("WAV"), made("WAV"), cut(0.5)(made("WAV")), b"junk", cut(0.9)(made("FLAC"))] * 3
    path = shard_of(tmp_path, *data)
    audio = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(4), dtype=dtype)
    read = gm.ReadOptions(prefetch_batches=1, num_threads=2)
    ds = gm.ArrowIterDataset(
        path, audio=audio, on_error=policy, batch_size=batch_size, epochs=4, read=read
    )
    good = gm.decode(made("WAV"), seconds=4, dtype=dtype)
    n_good = 0
    for batch in ds:
        valid = batch.get("valid", np.ones(len(batch["audio"]), bool))
        for samples, is_valid in zip(batch["audio"], valid, strict=True):
            assert samples.tobytes() == (good if is_valid else np.zeros_like(good)).tobytes()
            n_good += is_valid
        assert batch["audio"].ctypes.data % 64 == 0
    assert n_good == 4 * 6


@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("policy", ["raise", "substitute", "mask", "skip"])
def test_the_spec_knows(some_bad: bad_shards.Bad, policy: str, batch_size: int | None) -> None:
    ds = gm.ArrowIterDataset(
        some_bad.paths,
        audio=bad_shards.AUDIO,
        on_error=policy,
        batch_size=batch_size,
        drop_remainder=True,
    )
    spec = ds._element_spec
    assert ("valid" in spec) == (policy == "mask")
    batch = () if batch_size is None else (None,) if policy == "skip" else (8,)
    assert spec["audio"].shape == (*batch, bad_shards.N_CROP)
    if policy == "mask":
        assert (spec["valid"].shape, spec["valid"].dtype) == (batch, np.dtype(bool))
        element = next(iter(ds))
        assert set(element) == set(spec)
        assert (element["valid"].shape, element["valid"].dtype) == (batch, np.dtype(bool))


def test_without_audio_every_row_is_valid(numbered: list[Path]) -> None:
    ds = gm.ArrowIterDataset(
        numbered, audio=None, columns=["count"], on_error="mask", batch_size=20
    )
    assert [batch["valid"].all() for batch in ds] == [True, True]


def test_a_column_of_that_name(tmp_path: Path) -> None:
    import pyarrow as pa

    rows = [{"audio": {"bytes": GOOD, "path": None}, "valid": 3}]
    of = pa.schema([("audio", shards.AUDIO), ("valid", pa.int32())])
    path = shards.write(tmp_path / "rows.arrow", rows, of=of)
    audio = gm.Audio("audio")
    with pytest.raises(gm.SchemaError, match="on_error=") as caught:
        next(iter(gm.ArrowIterDataset(path, audio=audio, on_error="mask")))
    assert caught.value.column == "valid"
    assert next(iter(gm.ArrowIterDataset(path, audio=audio, columns=["audio"], on_error="mask")))
    assert next(iter(gm.ArrowIterDataset(path, audio=audio, on_error="substitute")))["valid"] == 3


@pytest.mark.parametrize("policy", ["raise", "substitute", "mask", "skip"])
def test_half_decoded_rows_are_bad_rows_on_request(tmp_path: Path, policy: str) -> None:
    data = [made("WAV"), cut(0.5)(made("WAV")), cut(0.95)(made("WAV"))]
    path = shard_of(tmp_path, *data)
    audio = gm.Audio(strict=False, max_missing=0.2)
    it = iter(gm.ArrowIterDataset(path, audio=audio, on_error=policy, with_row_id=True))
    first = next(it)
    assert first["audio"].shape == (N_FRAMES,)
    if policy == "raise":
        with pytest.raises(gm.DecodeError, match="max_missing") as caught:
            next(it)
        assert (caught.value.reason, caught.value.row, caught.value.codec) == ("missing", 1, "wav")
        return
    second = next(it)
    (bad,) = it.bad_rows()
    assert (bad.row, bad.reason, bad.bytes) == (1, "missing", len(data[1]))
    if policy == "mask":
        assert (int(second["row"]), bool(second["valid"])) == (1, False)
    else:
        assert int(second["row"]) in {0, 2}
    rest = list(it)
    assert len(rest) == (0 if policy == "skip" else 1)
    # What is missing a little comes through, and is told as before.
    assert [row.row for row in it.damaged_rows()] == [2]


def test_of_a_crop_the_frames_of_the_crop_count(tmp_path: Path) -> None:
    path = shard_of(tmp_path, cut(0.5)(made("WAV")))
    for start, n_bad in ((gm.StartCrop(1), 0), (gm.CenterCrop(4), 1)):
        audio = gm.Audio(sample_rate=RATE, strict=False, max_missing=0.3, crop=start)
        it = iter(gm.ArrowIterDataset(path, audio=audio, on_error="mask"))
        assert len(list(it)) == 1
        assert len(it.bad_rows()) == n_bad


@pytest.mark.parametrize("options", [{"max_missing": -0.1}, {"max_missing": 1.1}])
def test_shares_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        gm.Audio(strict=False, **options)
    with pytest.raises(ValueError, match="strict=False"):
        gm.Audio(max_missing=0.5)


@pytest.mark.parametrize("policy", ["substitute", "mask", "skip"])
def test_corrupt_shards_raise_by_any_policy(tmp_path: Path, policy: str) -> None:
    path = shards.write_audio(tmp_path / "rows.arrow", [GOOD] * 30)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(gm.CorruptShardError):
        list(gm.ArrowIterDataset(path, on_error=policy))


@pytest.mark.parametrize("policy", ["substitute", "mask", "skip"])
def test_in_a_grain_pipeline(some_bad: bad_shards.Bad, policy: str) -> None:
    def source(path: str) -> gm.ArrowIterDataset:
        return gm.ArrowIterDataset(
            path, audio=bad_shards.AUDIO, columns=["audio", "count"], on_error=policy
        )

    paths = [str(path) for path in some_bad.paths]
    ds = grain.MapDataset.source(paths).map(source)
    ds = grain.experimental.InterleaveIterDataset(ds, cycle_length=3)
    ds = ds.batch(8)
    grain.experimental.assert_equal_output_after_checkpoint(ds)
    n_bad = len(some_bad.reasons)
    n_rows = sum(len(batch["count"]) for batch in ds)
    assert n_rows == (120 - n_bad if policy == "skip" else 120)


def test_in_worker_processes(some_bad: bad_shards.Bad, tmp_path: Path) -> None:
    from absl import flags

    flags.FLAGS.mark_as_parsed()
    file = tmp_path / "bad.jsonl"
    ds = gm.ArrowIterDataset(
        some_bad.paths,
        audio=bad_shards.AUDIO,
        columns=["audio"],
        on_error="mask",
        quarantine=file,
        with_row_id=True,
        shuffle=gm.Shuffle(2),
        batch_size=10,
    )
    it = iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
    masked = {
        (int(shard), int(row))
        for batch in it
        for shard, row, valid in zip(batch["shard"], batch["row"], batch["valid"], strict=True)
        if not valid
    }
    it.close()
    assert masked == set(some_bad.reasons)
    assert len(gm.read_quarantine(file)) == len(some_bad.reasons)


@pytest.mark.parametrize("crop", [None, gm.StartCrop(0.5)], ids=["whole", "crop"])
@pytest.mark.parametrize("policy", ["substitute", "mask", "skip"])
def test_a_budget_of_one_row_does_not_lock(tmp_path: Path, policy: str, crop: Any) -> None:
    """Rows that are read in the place of others never wait for bytes that these hold."""
    long = [encode(synthetic(0.5 + i / 20, RATE, seed=i), RATE, "wav16") for i in range(8)]
    data = [long[i % 8] if i % 2 else b"junk" * (20_000 + 9_000 * (i % 5)) for i in range(48)]
    path = shard_of(tmp_path, *data)
    results = []
    for budget, n_threads in (("150kB", 1), ("150kB", 3), ("2GiB", 2)):
        read = gm.ReadOptions(num_threads=n_threads, num_requests=8, memory_budget=budget)
        ds = gm.ArrowIterDataset(
            path,
            audio=gm.Audio(sample_rate=RATE, crop=crop),
            on_error=policy,
            shuffle=gm.Shuffle(5),
            with_row_id=True,
            read=read,
        )
        results.append([(int(e["row"]), e["audio"].tobytes()) for e in ds])
    assert len(results[0]) == (24 if policy == "skip" else 48)
    assert results[0] == results[1] == results[2]


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    """But for the rows that decoders read themselves, one each, and these are counted."""
    junk = b"junk" * 25_000
    data = [encode(synthetic(1, RATE, seed=i), RATE, "wav16") if i % 2 else junk for i in range(64)]
    path = shard_of(tmp_path, *data)
    read = gm.ReadOptions(num_threads=2, memory_budget="2MB", num_requests=8)
    audio = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(0.5))
    ds = gm.ArrowIterDataset(path, audio=audio, on_error="substitute", batch_size=4, read=read)
    it = iter(ds)
    assert sum(batch["audio"].shape == (4, 16_000) for batch in it) == 16
    memory = it.stats().memory
    assert memory.used_bytes <= memory.budget_bytes
    assert memory.peak_bytes <= memory.budget_bytes + 2 * len(junk)
