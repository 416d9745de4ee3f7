"""`it.stats()`: the figures agree with what is known otherwise, and with each other."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gristmill as gm
import scan_material
from signals import RATE

AUDIO = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(0.5))


def dataset(paths: list[Path], read: dict[str, Any] | None = None, **options: Any) -> Any:
    options = {"audio": AUDIO, "columns": ["audio", "label"], "batch_size": 5, **options}
    return gm.ArrowIterDataset(paths, read=gm.ReadOptions(num_threads=2, **(read or {})), **options)


@pytest.fixture
def ended(mixed_rates: list[Path]) -> Iterator[gm.Stats]:
    # Without an audio index, which would read less in later epochs.
    it = iter(dataset(mixed_rates, read={"audio_index": False}, epochs=3))
    list(it)
    yield it.stats()
    it.close()


def test_counts_are_those_of_the_data(mixed_rates: list[Path], ended: gm.Stats) -> None:
    n_batches = sum(pa.ipc.open_stream(path).read_all().num_rows > 0 for path in mixed_rates)
    assert n_batches == 2
    assert (ended.rows, ended.elements) == (36, 8)
    stages = ended.stages
    assert (stages.plan.count, stages.decode.count) == (36, 36)
    assert (stages.assemble.count, stages.deliver.count, stages.consumer.count) == (8, 8, 8)
    assert stages.resample.count == 36  # no recording is at the target rate
    assert ended.caches.file_opens == 2
    assert ended.storage.bytes == sum(shard.bytes for shard in ended.shards)
    assert ended.storage.requests == sum(shard.requests for shard in ended.shards)
    assert [shard.path for shard in ended.shards] == [str(path) for path in mixed_rates]
    tables = pa.concat_tables(pa.ipc.open_stream(path).read_all() for path in mixed_rates)
    encoded = sum(len(audio["bytes"]) for audio in tables["audio"].to_pylist())
    assert 3 * encoded <= ended.storage.bytes < 3 * encoded + 100_000
    rows = [(shard.decoded_rows, shard.bad_rows, shard.damaged_rows) for shard in ended.shards]
    assert sum(decoded for decoded, _, _ in rows) == 36
    assert all(others == [0, 0] for _, *others in rows)
    # Each row's table was loaded, or was there.
    assert ended.caches.table_hits + ended.caches.table_loads == 36
    assert ended.queues.unfinished_rows == ended.queues.read_rows == 0


@pytest.mark.parametrize("on_error", ["substitute", "mask", "skip"])
def test_bad_and_damaged_rows_are_counted_by_shard(tmp_path: Path, on_error: str) -> None:
    paths = scan_material.write(tmp_path)
    bad = scan_material.bad_rows(paths)
    # Substitutes are rows of the same shard, and some of them are bad too.
    it = iter(dataset(paths, audio=AUDIO, batch_size=None, on_error=on_error))
    list(it)
    counted = it.stats()
    for path, shard in zip(paths, counted.shards, strict=True):
        n_rows = pa.ipc.open_stream(path).read_all().num_rows
        n_bad = sum(name == path.name for name, _ in bad)
        if on_error == "substitute":
            assert shard.bad_rows - (shard.decoded_rows - n_rows) <= n_bad
        else:
            assert shard.decoded_rows == n_rows
            # A crop may be sound where the whole is not.
            assert shard.bad_rows <= n_bad
        assert (shard.bad_rows > 0) == (shard.bad_busy_seconds > 0)
        assert shard.damaged_rows <= shard.decoded_rows - shard.bad_rows
    if on_error != "substitute":
        assert sum(shard.bad_rows for shard in counted.shards) == counted.bad_rows > 0
    lenient = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(0.5), strict=False)
    it = iter(dataset(paths, audio=lenient, batch_size=None, on_error=on_error))
    list(it)
    found = {(row.shard, row.row) for row in it.damaged_rows()}
    assert sum(shard.damaged_rows for shard in it.stats().shards) >= len(found) > 0


def test_thread_time_is_accounted_for(ended: gm.Stats) -> None:
    stages = ended.stages
    reading = stages.plan.busy_seconds + stages.plan.waiting_seconds
    reading += stages.read.busy_seconds + stages.read.waiting_seconds
    assert reading == pytest.approx(ended.readers.alive_seconds, rel=0.01, abs=1e-3)
    decoding = stages.decode.busy_seconds + stages.decode.waiting_seconds
    decoding += stages.resample.busy_seconds + stages.assemble.busy_seconds
    assert decoding == pytest.approx(ended.decoders.alive_seconds, rel=0.01, abs=1e-3)
    assert ended.reader_waits.look_ahead_seconds <= stages.read.waiting_seconds
    for part in (ended.decoders, ended.readers):
        assert part.cpu_seconds is not None
        assert 0 < part.cpu_seconds <= part.alive_seconds
    for stage in (stages.decode, stages.resample, stages.read):
        assert 0 < stage.p50_seconds <= stage.p90_seconds <= stage.p99_seconds
    assert stages.resample.p50_seconds * 36 < 3 * stages.resample.busy_seconds + 1e-3


def test_the_consumers_time_is_its_own(numbered: list[Path]) -> None:
    audio = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(0.01))
    it = iter(dataset(numbered, audio=audio, epochs=None))
    began = time.monotonic()
    next(it)
    for _ in range(10):
        time.sleep(0.02)
        next(it)
    stats = it.stats()
    at_most = time.monotonic() - began
    it.close()
    assert stats.stages.consumer.busy_seconds >= 0.2
    assert 0.2 <= stats.loop_seconds <= at_most
    assert 50 / at_most <= stats.rows_per_second <= 50 / 0.2
    assert 0 <= stats.waiting_share < 1
    assert stats.first_element_seconds is not None
    assert 0 < (stats.opening_seconds or 0) <= stats.first_element_seconds + 0.1


def test_settings_and_memory(same_rate: list[Path]) -> None:
    read = {"memory_budget": "64MB", "prefetch_batches": 2, "num_requests": 5}
    it = iter(dataset(same_rate, read, columns=None, with_row_id=True))
    next(it)
    stats = it.stats()
    it.close()
    settings = stats.settings
    assert (settings.num_threads, settings.num_requests, settings.prefetch_batches) == (2, 5, 2)
    assert settings.memory_budget_bytes == stats.memory.budget_bytes == 64_000_000
    assert (settings.batch_size, settings.resampler) == (5, "hq")
    assert settings.object_columns == ("name", "tags", "place")[:2]
    assert "row" not in settings.columns
    assert settings.usable_cpus == len(os.sched_getaffinity(0)) or settings.usable_cpus >= 1
    assert settings.machine_cpus == os.cpu_count()
    assert not settings.is_worker
    assert 0 < stats.memory.used_bytes <= stats.memory.peak_bytes <= 64_000_000


def answers_at_once(path: Path) -> bool:
    """Whether the file system tells what is in the page cache."""
    with path.open("rb", buffering=0) as f:
        try:
            return os.preadv(f.fileno(), [bytearray(8)], 0, os.RWF_NOWAIT) == 8
        except OSError:
            return False


@pytest.mark.parametrize(("num_requests", "expected"), [(None, 1), (5, 5)])
def test_out_of_the_page_cache_few_threads_read(
    numbered: list[Path], num_requests: int | None, expected: int
) -> None:
    numbered[0].read_bytes()
    if not answers_at_once(numbered[0]):
        pytest.skip("this file system does not tell what is in the page cache")
    read = {"num_threads": 1, "num_requests": num_requests}
    ds = gm.ArrowIterDataset(
        numbered, audio=None, shuffle=gm.Shuffle(0), epochs=None, read=gm.ReadOptions(**read)
    )
    it = iter(ds)
    assert next(it)
    assert it.stats().readers.count in (num_requests or 8, expected)
    begin = time.monotonic()
    while it.stats().readers.count != expected or time.monotonic() - begin < 0.05:
        next(it)
    stats = it.stats()
    assert 0 < stats.readers.alive_seconds < stats.elapsed_seconds * (num_requests or 8)
    it.close()


def test_before_after_and_in_between(numbered: list[Path]) -> None:
    audio = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(0.01))
    it = iter(dataset(numbered, audio=audio))
    assert it.stats().rows == 0
    assert it.verdict().case == "too-early"
    next(it)
    assert it.stats().rows == 5
    state = it.get_state()
    it.close()
    assert it.stats().rows == 5
    it = iter(dataset(numbered, audio=audio))
    it.set_state(state)
    assert sum(1 for _ in it) == 7
    assert it.stats().rows == 35  # since the restore
    assert "Too early to say: 7 elements" in str(it.verdict())


def test_a_forked_child_has_its_own(numbered: list[Path]) -> None:
    it = iter(dataset(numbered, audio=None, columns=["label"]))
    next(it)
    child = os.fork()
    if child == 0:
        before = it.stats().rows
        next(it)
        os._exit(10 * before + it.stats().elements)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert it.stats().rows == 5
    it.close()


@pytest.mark.parametrize("run", [40, 400])
def test_a_loop_that_takes_runs_has_pauses(numbered: list[Path], run: int) -> None:
    it = iter(dataset(numbered, audio=None, columns=["label"], batch_size=None, epochs=None))
    for _ in range(4):
        for _ in range(run):
            next(it)
        time.sleep(0.2)
    # It is not yet back from the fourth. Where others want the CPU, there may be a few more.
    before = it.stats().pauses
    assert 3 <= before.count < 10
    assert before.seconds >= 3 * 0.2 * 15 / 16
    for _ in range(20):
        next(it)
    after = it.stats().pauses
    # Not by its count: a longer mean may take a shorter one from it.
    assert after.seconds >= 4 * 0.2 * 15 / 16
    it.close()


def test_plain_values_and_text(ended: gm.Stats) -> None:
    plain = ended.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["stages"]["decode"]["count"] == 36
    text = str(ended)
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("36 rows in 8 elements")
    assert "resample" in text


def test_a_line_is_logged_on_request(
    numbered: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    def lines(level: int, **read: Any) -> list[str]:
        caplog.clear()
        with caplog.at_level(level, logger="gristmill"):
            it = iter(dataset(numbered, read, audio=None, columns=["label"], epochs=None))
            for _ in range(5):
                next(it)
                time.sleep(0.03)
            it.close()
        return [r.getMessage() for r in caplog.records if r.name == "gristmill"]

    logged = lines(logging.INFO, log_every_seconds=0.02)
    assert len(logged) >= 2
    assert "rows/s" in logged[0]
    assert "Too early to say" in logged[0]
    assert lines(logging.WARNING, log_every_seconds=0.02) == []
    assert lines(logging.DEBUG) == []  # once a minute


def test_reads_reach_grains_metrics(same_rate: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from grain._src.core import monitoring

    seen: list[tuple[str, int, int, int]] = []

    def record(source: str, *, num_bytes: int, latency_ns: int, num_reads: int) -> None:
        seen.append((source, num_bytes, latency_ns, num_reads))

    monkeypatch.setattr(monitoring, "record_bytes_read_and_latency", record)
    monkeypatch.setattr("gristmill.metrics.telemetry._LOOK_SECONDS", 0.01)
    it = iter(dataset(same_rate, epochs=2))
    for _ in range(8):
        next(it)
        time.sleep(0.02)
    n_bytes = it.stats().storage.bytes
    it.close()
    assert seen
    assert {source for source, *_ in seen} == {"gristmill"}
    assert 0 < sum(n for _, n, _, _ in seen) <= n_bytes
    assert all(latency > 0 for _, _, latency, _ in seen)


def test_seconds_of_audio_and_tokens_a_second(numbered: list[Path], tmp_path: Path) -> None:
    it = iter(dataset(numbered, epochs=3))
    list(it)
    stats = it.stats()
    assert stats.settings.row_seconds == 0.5
    assert stats.audio_seconds_per_second == 0.5 * stats.rows_per_second > 0
    assert stats.tokens_per_second is None
    assert " s of audio/s, waiting " in str(stats)
    assert "tokens" not in str(stats)
    # Of rows without a length of their own, nothing is said.
    for options in ({"audio": None}, {"audio": gm.Audio(), "batch_size": None}):
        it = iter(dataset(numbered, **options))
        list(it)
        assert it.stats().audio_seconds_per_second is None
        assert it.stats().tokens_per_second is None

    tokens = pa.array([list(range(k, k + 7)) for k in range(20)], pa.list_(pa.int32()))
    path = tmp_path / "tokens.arrow"
    table = pa.table({"tokens": tokens, "number": pa.array(range(20))})
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)
    given: dict[str, Any] = {"audio": None, "columns": ["tokens", "number"]}
    for ragged, n in (("error", 7), ("pad", None), (9, None), ("object", None)):
        it = iter(dataset([path], ragged=ragged, **given))
        list(it)
        assert it.stats().settings.row_tokens == n
    it = iter(dataset([path], ragged="error", **given))
    list(it)
    stats = it.stats()
    assert stats.tokens_per_second == 7 * stats.rows_per_second > 0
    assert " tokens/s, waiting " in str(stats)
