"""`gm.ArrowDataSource` by itself: every row by its index, beside a naive loader and the stream."""

from __future__ import annotations

import copy
import os
import pickle
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

import bad_shards
import gristmill as gm
import probes
import shards
from signals import encode, synthetic

import oracle

CROP = gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=0.3, seed=5))


def same(a: Any, b: Any) -> None:
    """Whether two elements are equal, bit for bit."""
    np.testing.assert_equal(a, b)
    assert {k: getattr(v, "dtype", None) for k, v in a.items()} == {
        k: getattr(v, "dtype", None) for k, v in b.items()
    }


def test_every_row_beside_a_naive_loader(same_rate: list[Path]) -> None:
    source = gm.ArrowDataSource(same_rate, audio=CROP, with_row_id=True)
    job = oracle.Job(same_rate, sample_rate=32_000, seconds=0.3, crop_seed=5)
    for epoch in (0, 3):
        expected = list(oracle.load(job, epoch))
        assert len(source) == len(expected) == 25
        at_epoch = source.at_epoch(epoch)
        for i in np.random.default_rng(epoch).permutation(25):
            row = at_epoch[i]
            assert (row["shard"], row["row"]) == (expected[i]["shard"], expected[i]["row"])
            assert row["name"] == expected[i]["name"]
            assert row["count"] == expected[i]["count"]
            np.testing.assert_allclose(row["audio"], expected[i]["audio"], atol=2e-4)


@pytest.mark.parametrize("audio", [CROP, "auto", None, gm.Audio(dtype="int16", channels="keep")])
@pytest.mark.parametrize("binary", ["bytes", "numpy"])
def test_it_is_what_the_stream_delivers(mixed_rates: list[Path], audio: Any, binary: Any) -> None:
    options: dict[str, Any] = {"audio": audio, "binary": binary, "with_row_id": True}
    stream = list(gm.ArrowIterDataset(mixed_rates, epochs=2, **options))
    source = gm.ArrowDataSource(mixed_rates, **options)
    n = len(source)
    assert 2 * n == len(stream)
    for epoch in range(2):
        for i, row in enumerate(source.at_epoch(epoch).__getitems__(range(n))):
            same(row, stream[epoch * n + i])


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_rows_without_audio_and_compressed_ones(tmp_path: Path, compression: str | None) -> None:
    table = pa.table({"n": range(100), "text": [f"row {i}" for i in range(100)]})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    path = tmp_path / "table.arrow"
    with pa.ipc.new_file(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=7)
    source = gm.ArrowDataSource(path)
    for _ in range(2):  # from the file, and from memory
        for i in np.random.default_rng(1).permutation(100):
            assert source[i] == {"n": i, "text": f"row {i}"}


def test_indices(numbered: list[Path]) -> None:
    source = gm.ArrowDataSource(numbered, columns=["count"], audio=None)
    whole = [int(row["count"]) for row in source.__getitems__(range(40))]
    assert whole == list(range(-3, 37))
    assert source[-1] == source[39] == source[np.int64(39)] == {"count": 36}
    assert source[-40] == source[0]
    assert source[True] == source[1]
    assert [int(row["count"]) for row in source._getitems([5, 5, -1, 0])] == [2, 2, 36, -3]
    assert source.__getitems__([]) == []
    for index in (40, -41, 2**70):
        with pytest.raises(IndexError, match=f"there is no row {index}: the source has 40"):
            source[index]
    with pytest.raises(IndexError):
        source.__getitems__([0, 40])
    for index in (1.0, "1", None, slice(3), [1, 2]):
        with pytest.raises(TypeError, match="a row's index is an integer"):
            source[index]  # pyright: ignore[reportArgumentType]
    # Python's own loop over what has indices ends at IndexError.
    assert sum(1 for _ in source) == 40  # pyright: ignore[reportGeneralTypeIssues]


def test_rows_that_are_excluded_have_no_index(numbered: list[Path]) -> None:
    left = gm.ArrowDataSource(numbered, columns=["count"], audio=None, exclude=[(0, 0), (3, 19)])
    assert len(left) == 38
    assert [int(left[0]["count"]), int(left[-1]["count"])] == [-2, 35]


@pytest.mark.parametrize(
    "choice",
    [
        {"filters": [("count", ">", 3), ("count", "!=", 7)]},
        {"rows": [30, 2, 2, 17]},
        {"rows": np.arange(40) % 3 == 0},
        {"split": gm.Split("valid", {"train": 0.6, "valid": 0.4})},
        {"rows": range(5, 35), "filters": [("count", "<", 20)], "exclude": [(0, 6)]},
    ],
    ids=str,
)
def test_rows_that_are_chosen(numbered: list[Path], choice: dict[str, Any]) -> None:
    options: dict[str, Any] = {"columns": ["count"], "audio": None, "with_row_id": True, **choice}
    stream = list(gm.ArrowIterDataset(numbered, **options))
    source = gm.ArrowDataSource(numbered, **options)
    assert len(source) == len(stream)
    for i in np.random.default_rng(len(stream)).permutation(len(stream)):
        same(source[i], stream[i])
    same_choice = pickle.loads(pickle.dumps(source))
    assert repr(same_choice) == repr(source)
    assert len(same_choice) == len(stream)


def test_no_row_is_chosen(numbered: list[Path]) -> None:
    source = gm.ArrowDataSource(numbered, audio=None, filters=[("count", ">", 99)])
    with pytest.raises(ValueError, match="filters= leaves none of the 40 rows"):
        len(source)


def test_recordings_by_their_length(same_rate: list[Path]) -> None:
    audio = gm.Audio(sample_rate=32_000)
    filters = [("duration", ">", 0.5)]
    source = gm.ArrowDataSource(same_rate, audio=audio, filters=filters)
    lengths = [len(row["audio"]) for row in gm.ArrowDataSource(same_rate, audio=audio)]  # pyright: ignore[reportGeneralTypeIssues]
    kept = [n for n in lengths if n > 16_000]
    assert 0 < len(kept) < len(lengths)
    assert [len(source[i]["audio"]) for i in range(len(source))] == kept


def test_many_threads_and_copies(same_rate: list[Path]) -> None:
    source = gm.ArrowDataSource(same_rate, columns=["audio"], audio=CROP)
    whole = gm.ArrowDataSource(same_rate, columns=["audio"], audio=CROP).__getitems__(range(25))
    copies = [source, copy.deepcopy(source), pickle.loads(pickle.dumps(source))]
    copies += [cloudpickle.loads(cloudpickle.dumps(source)), copy.copy(source)]

    def work(k: int) -> None:
        rng, mine = np.random.default_rng(k), copies[k % len(copies)]
        for _ in range(20):
            indices = rng.integers(-25, 25, rng.integers(1, 5)).tolist()
            rows = mine.__getitems__(indices) if k % 2 else [mine[i] for i in indices]
            for i, row in zip(indices, rows, strict=True):
                same(row, whole[i])

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(32)))


@pytest.mark.parametrize("budget", [1, 20_000, "1MB"])
def test_rows_that_are_held_on_to_do_not_stop_others(same_rate: list[Path], budget: Any) -> None:
    read = gm.ReadOptions(memory_budget=budget, num_threads=2)
    source = gm.ArrowDataSource(same_rate, columns=["audio"], read=read)
    held = source.__getitems__([*range(25)] * 4)
    with ThreadPoolExecutor(8) as pool:
        held += pool.map(source.__getitem__, range(25))
    for i, row in enumerate(held):
        same(row, held[i % 25])


def test_a_forked_child_opens_its_own(same_rate: list[Path]) -> None:
    source = gm.ArrowDataSource(same_rate, columns=["audio"], audio=CROP)
    first = source[3]["audio"]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if np.array_equal(source[3]["audio"], first) and len(source) == 25 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(source[3]["audio"], first)


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    source = gm.ArrowDataSource(tmp_path / "missing.arrow")
    assert "missing.arrow" in repr(source)
    for ask in (lambda: len(source), lambda: source[0]):
        with pytest.raises(FileNotFoundError):
            ask()
    shards.write_audio(
        tmp_path / "missing.arrow", [encode(synthetic(0.1, 8000, 1, 1), 8000, "wav16")]
    )
    assert len(source) == 1


def test_threads_and_files_go_with_it(same_rate: list[Path]) -> None:
    printed = probes.run(
        """
import gristmill as gm, numpy as np, probes
source = gm.ArrowDataSource(sys.argv[1:], columns=["audio"])
threads, files = probes.n_threads(), probes.n_descriptors()
first = source[0]["audio"]
assert probes.n_threads() > threads
other = source.at_epoch(1)
source.close()
source.close()
assert probes.settles(probes.n_threads, threads)
assert probes.settles(probes.n_descriptors, files)
assert np.array_equal(other[0]["audio"], first)
del source
assert np.array_equal(other[0]["audio"], first)
del other
assert probes.settles(probes.n_threads, threads)
print("ended")
""",
        *same_rate,
    )
    assert printed == "ended\n"


def test_closing_while_others_wait(same_rate: list[Path]) -> None:
    source = gm.ArrowDataSource(same_rate, columns=["audio"])
    n_rows, stop = 0, threading.Event()

    def work() -> int:
        n = 0
        while not stop.is_set():
            try:
                source.__getitems__(range(25))
                n += 1
            except ValueError as error:
                assert "closed" in str(error)  # noqa: PT017
        return n

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(work) for _ in range(4)]
        for _ in range(20):
            source[n_rows % 25]
            source.close()
            n_rows += 1
        stop.set()
        assert all(job.result() >= 0 for job in running)


def test_ctrl_c_is_answered(tmp_path: Path) -> None:
    recording = encode(synthetic(6, 8_000, 1, 1), 8_000, "wav16")
    path = shards.write_audio(tmp_path / "long.arrow", [recording] * 4)
    audio = gm.Audio(sample_rate=192_000, resampler="best")
    source = gm.ArrowDataSource(path, columns=["audio"], audio=audio)
    source[0]

    def for_ever() -> None:
        while True:
            source.__getitems__(range(4))

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            for_ever()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(source.__getitems__(range(2))) == 2


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> bad_shards.Bad:
    return bad_shards.make(tmp_path_factory.mktemp("bad-source"), 0.2)


@pytest.mark.parametrize("policy", ["substitute", "mask"])
def test_bad_rows_are_dealt_with_as_in_the_stream(bad: bad_shards.Bad, policy: Any) -> None:
    options: dict[str, Any] = {"audio": bad_shards.AUDIO, "on_error": policy}
    stream = iter(gm.ArrowIterDataset(bad.paths, epochs=2, **options))
    source = gm.ArrowDataSource(bad.paths, **options)
    for epoch in range(2):
        at_epoch = source.at_epoch(epoch)
        for i in range(len(source)):
            same(at_epoch[i], next(stream))
    key = ("shard", "row", "reason", "message", "bytes", "path")
    found = {tuple(getattr(row, name) for name in key) for row in source.bad_rows()}
    assert found == {tuple(getattr(row, name) for name in key) for row in stream.bad_rows()}
    assert found


def test_a_bad_row_raises_and_the_others_do_not(bad: bad_shards.Bad) -> None:
    source = gm.ArrowDataSource(bad.paths, audio=bad_shards.AUDIO, with_row_id=True)
    found: dict[int, Any] = {}
    for i in range(len(source)):
        try:
            row = source[i]
            assert (int(row["shard"]), int(row["row"])) not in bad.reasons
        except (gm.DecodeError, gm.LimitError) as error:
            place = [str(path) for path in bad.paths].index(str(error.shard)), error.row
            reason = getattr(error, "limit", "") or getattr(error, "reason", "")
            found[i] = place, reason
    assert found == {bad.number(row): (row, reason) for row, reason in bad.reasons.items()}
    first = min(bad.number(row) for row in bad.reasons)
    with pytest.raises(gm.GristmillError) as one:
        source[first]
    with pytest.raises(gm.GristmillError) as several:
        source.__getitems__(range(len(source)))
    assert str(several.value) == str(one.value)


def test_bad_rows_are_written_down_and_left_out(bad: bad_shards.Bad, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    options: dict[str, Any] = {"audio": bad_shards.AUDIO}
    source = gm.ArrowDataSource(bad.paths, on_error="mask", quarantine=file, **options)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(source.__getitem__, [*range(len(source))] * 2))
    assert len(gm.read_quarantine(file)) == len(bad.reasons)
    left = gm.ArrowDataSource(bad.paths, exclude=file, **options)
    assert len(left) == len(source) - len(bad.reasons)
    assert len(left.__getitems__(range(len(left)))) == len(left)


def test_wrong_options(numbered: list[Path]) -> None:
    make: Any = gm.ArrowDataSource
    for options, what in [
        ({"on_error": "skip"}, "an index has to give a row"),
        ({"epoch": -1}, "epoch is an integer"),
        ({"epoch": 1.5}, "epoch is an integer"),
        ({"audio": 3}, "audio is gm.Audio"),
        ({"columns": "audio"}, "columns is a list"),
        ({"binary": "list"}, "binary is one of"),
    ]:
        with pytest.raises(ValueError, match=what):
            make(numbered, **options)
    with pytest.raises(gm.SchemaError, match="no such column"):
        make(numbered, columns=["none"])[0]


def test_its_repr_is_a_call_without_defaults(numbered: list[Path]) -> None:
    source = gm.ArrowDataSource(numbered[0], audio=None, columns=["count"], exclude=[(0, 1)])
    head = f"ArrowDataSource({str(numbered[0])!r}, columns=['count'], audio=None, "
    assert re.fullmatch(
        re.escape(head) + r"exclude=\[1 given\], choice=[0-9a-f]{16}\)", repr(source)
    )
    assert "epoch=2, exclude=[1 given], choice=" in repr(source.at_epoch(2))
    assert repr(gm.ArrowDataSource("a.arrow")) == "ArrowDataSource('a.arrow')"
    assert repr(pickle.loads(pickle.dumps(source))) == repr(source)
