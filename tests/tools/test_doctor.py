"""`gm.diagnose` and `gm.bench`: what follows from figures, and figures of storage that is known."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
import shards
from gristmill.tools.doctor.conclude import Limit, Measured, Scope, conclude
from gristmill.tools.doctor.lab import Lab
from gristmill.tools.doctor.loops import DecodeTrial, Material, ReadTrial
from gristmill.tools.doctor.machine import Machine, look
from signals import RATE, encode, synthetic
from slow_storage import SlowStorage, why_not

MB, GIB = 1_000_000, 1 << 30
MACHINE = Machine(
    cpus=16,
    affinity_cpus=16,
    cpu_quota=None,
    usable_cpus=16,
    memory_bytes=64 * GIB,
    available_bytes=32 * GIB,
    memory_limit_bytes=None,
)
FLAT = {1: 100.0, 2: 100.0, 4: 100.0, 8: 100.0}
RISING = {n: 25.0 * n for n in FLAT}


def read_run(processes: int, threads: int, mb_per_s: float, cold: float | None = 1.0) -> ReadTrial:
    n_reads = round(mb_per_s * 10)
    times = (0.01, 0.02, 0.03)
    n_bytes = round(mb_per_s * MB)
    return ReadTrial(processes, threads, n_reads, n_bytes, 1.0, *times, cold_share=cold)


def measured(
    threads: dict[int, float] = FLAT,
    processes: dict[int, float] | None = None,
    *,
    a_thread: float = 100.0,
    cpus: int = 16,
    row_bytes: float = 250_000,
    workers: dict[int, float] | None = None,
    cold: float | None = 1.0,
) -> Measured:
    reads = [read_run(1, n, rate, cold) for n, rate in threads.items()]
    others = {n: rate for n, rate in (processes or threads).items() if n > 1}
    reads += [read_run(n, 1, rate, cold) for n, rate in others.items()]
    rates = workers or {n: 50.0 * n for n in FLAT}
    return Measured(
        machine=replace(MACHINE, usable_cpus=cpus),
        row_bytes=row_bytes,
        crop_bytes=640_000,
        dataset_bytes=130 * 10**9,
        reads=tuple(reads),
        decodes=tuple(DecodeTrial(1, n, round(n * a_thread), 1.0, False) for n in {1, cpus}),
        workers=tuple(DecodeTrial(n, 1, round(rate), 1.0, True) for n, rate in rates.items()),
        pipeline_rows_per_second=400.0,
    )


def text(conclusion: gm.Conclusion) -> str:
    return " ".join(conclusion.sentences)


@pytest.mark.parametrize(
    ("threads", "processes", "scope"),
    [
        (FLAT, FLAT, Scope.SHARED),
        (FLAT, RISING, Scope.PROCESS),
        (RISING, RISING, Scope.STREAM),
        (FLAT, {n: 100 / n for n in FLAT}, Scope.SHARED),
    ],
)
def test_whose_limit_it_is(
    threads: dict[int, float], processes: dict[int, float], scope: Scope
) -> None:
    found = conclude(measured(threads, processes), 64, 1.0)
    assert found.scope is scope
    words = {Scope.SHARED: "as a whole", Scope.PROCESS: "each process", Scope.STREAM: "each reader"}
    assert words[scope] in found.sentences[0]


def test_what_limits_a_run() -> None:
    # 100 MB/s are 400 rows/s; 16 threads decode 1,600.
    easy = conclude(measured(), 64, 0.5)
    assert (easy.limit, easy.rows_per_second) == (Limit.STEP, 128)
    assert "it takes 128 rows/s" in text(easy)
    assert not easy.local_copy_helps
    stored = conclude(measured(), 64, 0.1)
    assert (stored.limit, stored.rows_per_second) == (Limit.STORAGE, 400)
    assert "A step will take 0.16 s instead of 0.10 s" in text(stored)
    assert stored.local_copy_helps
    assert "A local copy (130.0 GB) would pay" in text(stored)
    decoded = conclude(measured(a_thread=10), 64, 0.2)
    assert (decoded.limit, decoded.rows_per_second) == (Limit.DECODING, 160)
    assert "About 39 CPUs like these would keep up" in text(decoded)
    assert not decoded.local_copy_helps
    open_end = conclude(measured(), 64, None)
    assert open_end.limit is Limit.STORAGE
    assert "steps shorter than 0.16 s" in text(open_end)


def test_settings_follow() -> None:
    found = conclude(measured(RISING), 64, 0.1)
    # 640 rows/s and a fifth more are 192 MB/s at 25 for each reader.
    assert found.read.num_threads is None
    assert found.read.num_requests is None  # 8 are enough, and 32 the default
    pasted = eval(f"dict({found.settings})", {"gm": gm})["read"]
    assert pasted == found.read
    slow = conclude(measured({n: 5.0 * n for n in FLAT}), 64, 0.1)
    assert slow.read.num_requests == 39
    assert "more would get more" in text(slow)
    # 6 batches of 64 rows of 0.89 MB, and what is being read.
    assert 320 * MB < found.read.memory_budget_bytes < 700 * MB
    poor = measured()
    poor = replace(poor, machine=replace(poor.machine, memory_limit_bytes=GIB))
    assert conclude(poor, 1024, 0.1).read.memory_budget_bytes <= GIB // 2


def test_a_busy_machine_is_no_reason_for_fewer_threads() -> None:
    """Two threads that others leave the time of one decode no more than one does."""
    busy = measured(RISING, cpus=2)
    busy = replace(busy, decodes=tuple(replace(run, crops=110) for run in busy.decodes))
    for step_seconds in (None, 0.1, 1.0, 10.0):
        assert "num_threads" not in conclude(busy, 64, step_seconds).settings


def test_why_8_workers_are_slower_than_4() -> None:
    falling = {1: 100.0, 2: 200.0, 4: 360.0, 8: 240.0}
    few = text(conclude(measured(RISING, workers=falling, cpus=4), 64, 1.0))
    assert "8 workers are slower than 4: they share 4 CPUs" in few
    shared = text(conclude(measured(FLAT, workers=falling), 64, 1.0))
    assert "8 workers are slower than 4: they share the storage" in shared
    assert "1.1 times the best of these (4 workers). Use no workers." in shared
    plenty = dict.fromkeys(FLAT, 10000.0)
    other = text(conclude(measured(plenty, workers=falling), 64, 1.0))
    assert "8 workers are slower than 4: they share memory and caches" in other
    busy = measured(plenty, workers=falling)
    runs = tuple(replace(run, crops=110) for run in busy.decodes)
    elsewhere = text(conclude(replace(busy, decodes=runs), 64, 1.0))
    assert "8 workers are slower than 4: the CPUs are busy with something else" in elsewhere
    assert "16 threads decode 1.0 times what one does" in elsewhere
    fine = text(conclude(measured(RISING), 64, 1.0))
    assert "slower" not in fine


def test_what_audio_indexes_would_spare_is_said_where_storage_is_the_limit() -> None:
    of_crops = replace(measured(), spare_share=0.85)
    told = text(conclude(of_crops, 64, 0.1))
    assert "Crops need about 15% of their rows' bytes" in told
    rows = of_crops.storage_rows_per_second
    assert (
        f"gristmill index --audio ahead of it: then storage gives up to {rows / 0.15:,.0f} " in told
    )
    assert "--audio" not in text(conclude(replace(of_crops, spare_share=0.2), 64, 0.1))
    assert "--audio" not in text(conclude(of_crops, 64, 1.0)), "the step is the limit"


def test_what_was_not_measured_is_said() -> None:
    warm = conclude(measured(cold=0.1), 64, 0.1)
    assert "came from this machine's page cache" in text(warm)
    assert not warm.local_copy_helps
    assert "does not tell" in text(conclude(measured(cold=None), 64, 0.1))
    assert "does not tell" not in text(conclude(measured(), 64, 0.1))
    limited = text(conclude(measured(cpus=4), 64, 0.1))
    assert "may use 4 CPUs of the machine's 16" in limited


def test_the_machine_is_seen() -> None:
    machine = look()
    assert 1 <= machine.usable_cpus <= machine.affinity_cpus <= machine.cpus
    assert 0 < machine.usable_bytes <= machine.available_bytes <= machine.memory_bytes


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard of 40 rows of 64 kB."""
    folder = tmp_path_factory.mktemp("noise")
    rows = [encode(synthetic(1.0, RATE, seed=i), RATE, "wav16") for i in range(40)]
    shards.write_audio(folder / "noise.arrow", rows)
    return folder


@pytest.mark.parametrize(
    ("storage", "scope", "one", "many"),
    [
        # 64 kB each 40 ms are 1.6 MB/s a reader, and no limit on how many there are.
        ({"latency": 0.04}, Scope.STREAM, 1.6, 12.8),
        ({"bandwidth": 4 * MB}, Scope.SHARED, 4.0, 4.0),
        # One open file has 4 MB/s; each process opens its own.
        ({"stream_bandwidth": 4 * MB}, Scope.PROCESS, 4.0, 4.0),
    ],
)
def test_storage_is_measured_as_it_is(
    noise: Path, storage: dict[str, float], scope: Scope, one: float, many: float
) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with SlowStorage(noise, **storage) as mount:
        path = mount / "noise.arrow"
        size = path.stat().st_size
        data = encode(synthetic(1.0, RATE, seed=0), RATE, "wav16")
        material = Material([(str(path), size)], [len(data)] * 4, [(data, 1.0)], RATE, 0.5)
        with Lab(material) as lab:
            runs = [(1, 1), (1, 8), (8, 1)]
            reads = tuple(lab.read(processes, threads, 0.8) for processes, threads in runs)
            decode = lab.decode(1, 1, 0.1, reads=False)
    assert decode.crops > 0
    found = conclude(replace(measured(), reads=reads, row_bytes=len(data)), 64, 1.0)
    assert found.scope is scope
    # More than this cannot come; less may, where the machine has other work.
    assert 0.3 * one < reads[0].bytes_per_second / MB < 1.4 * one
    assert 0.3 * many < reads[1].bytes_per_second / MB < 1.4 * many
    if "latency" in storage:
        assert reads[0].p50_seconds >= storage["latency"]


def test_diagnosis_as_a_whole(same_rate: list[Path]) -> None:
    steps: list[Any] = []
    found = gm.diagnose(
        same_rate,
        batch_size=8,
        step_seconds=0.5,
        crop_seconds=0.5,
        seconds=1.0,
        on_step=lambda *step: steps.append(step),
    )
    assert found.rows == 25
    assert [run.threads for run in found.measured.reads if run.processes == 1] == [1, 2, 4, 8]
    assert [run.processes for run in found.measured.reads if run.threads == 1] == [1, 2, 4, 8]
    assert [run.processes for run in found.measured.workers] == [1, 2, 4, 8]
    assert all(run.crops > 0 for run in (*found.measured.decodes, *found.measured.workers))
    assert found.measured.pipeline_rows_per_second > 0
    assert [number for _, number, _ in steps] == list(range(len(steps)))
    assert {total for *_, total in steps} == {len(steps)}
    sizes = [shard.stat().st_size for shard in same_rate]
    assert found.measured.dataset_bytes == sum(sizes)
    assert json.loads(json.dumps(found.to_dict()))["conclusion"]["settings"].startswith("read=")


def test_bench_counts_what_came(same_rate: list[Path]) -> None:
    seen: list[tuple[float, int]] = []
    report = gm.bench(
        same_rate,
        batch_size=5,
        crop_seconds=0.5,
        seconds=1.0,
        on_batch=lambda *at: seen.append(at),
    )
    assert report.batches == len(seen) > 0
    assert seen[-1][1] == 5 * report.batches
    assert report.rows_per_second == pytest.approx(5 * report.batches / report.seconds)
    assert 0 < report.wait_p50_seconds <= report.wait_p90_seconds <= report.wait_p99_seconds
    assert report.bare_rows_per_second > 0
    assert report.stats.rows >= 5 * (report.batches + 1)
    assert json.loads(json.dumps(report.to_dict()))["verdict"]["case"] == report.verdict.case


def test_broken_shards_are_named(same_rate: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.arrow"
    broken.write_bytes(same_rate[0].read_bytes()[:-9000])
    paths = [broken, *same_rate]
    for found in (gm.bench(paths, batch_size=2, seconds=0.2), gm.diagnose(paths, seconds=1.0)):
        assert [shard.shard for shard in found.unreadable] == [str(broken)]
        assert "  broken.arrow (" in str(found)
        assert json.loads(json.dumps(found.to_dict()))["unreadable"][0]["shard"] == str(broken)


def test_nothing_to_decode_is_an_error(tmp_path: Path) -> None:
    path = shards.write_audio(tmp_path / "bad.arrow", [b"garbage", None])
    for measure in (gm.diagnose, gm.bench):
        with pytest.raises(gm.SchemaError, match="can be decoded"):
            measure(path)


def test_options_out_of_range(same_rate: list[Path]) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        gm.diagnose(same_rate, batch_size=0)
    with pytest.raises(ValueError, match="step_seconds"):
        gm.diagnose(same_rate, step_seconds=0)
    with pytest.raises(ValueError, match="seconds"):
        gm.bench(same_rate, seconds=0)


def test_a_stop_while_the_processes_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    material: Any = None
    lab = Lab(material)
    with monkeypatch.context() as patched:
        patched.setattr(lab, "_send", stop)
        with pytest.raises(KeyboardInterrupt), lab:
            pass
    assert lab._program.poll() == -signal.SIGKILL
    program = [sys.executable, "-W", "ignore", "-m", "gristmill.tools.doctor.lab"]
    cut = pickle.dumps(list(range(1000)))[:-10]
    done = subprocess.run(program, input=cut, capture_output=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
