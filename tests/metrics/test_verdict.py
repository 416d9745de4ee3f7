"""The verdict is a pure function of the figures: its cases, at their thresholds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
from gristmill.metrics import decide
from gristmill.metrics.measures import MOST_READERS
from gristmill.metrics.stats import StorageStats
from gristmill.metrics.text import rate_text
from gristmill.troubleshooting import entries
from verdict_figures import LATENCY, SOUND, rows, shard, stats, to

# Ten pauses that are 40 % of the loop, whose own time is 49 %, and eleven runs of 455 rows.
RUNS: dict[str, Any] = {
    "elements": 5000,
    "pauses": (10, 0.4),
    "look_ahead": 0.9,
    "batch_size": None,
}
NORMAL = tuple(shard(f"{k}.arrow", 1) for k in range(5))
REFUSING = tuple(replace(shard(f"s3://far/{k}.arrow", 1, 10), throttled=k) for k in range(3))
FAILING = tuple(replace(shard(f"{k}.arrow", 1), retries=k) for k in range(5))
BANDWIDTH = StorageStats(1000, 10**8, 36.0, 2e-3, 1e-7)
ALIKE_SMALL = StorageStats(1000, 10**7, 36.0)
ALIKE_LARGE = StorageStats(1000, 10**9, 36.0)


@pytest.mark.parametrize(
    ("figures", "case"),
    [
        ({"elements": 4}, "too-early"),
        ({"elements": 5, "decoding": 0.9}, "decode"),
        ({"loop": 0.99}, "too-early"),
        ({"waiting": 0.049}, "consumer"),
        ({"waiting": 0.049, "decoding": 0.99}, "consumer"),
        ({"waiting": 0.051, "decoding": 0.99}, "decode"),
        ({"deliver": 0.25, "waiting": 0.0}, "python"),
        ({"deliver": 0.24, "waiting": 0.0}, "consumer"),
        ({"decoding": 0.81}, "decode"),
        ({"decoding": 0.79, "look_ahead": 0.9}, "look-ahead"),
        ({"decoding": 0.4, "resampling": 0.45}, "resample"),
        ({"decoding": 0.41, "elsewhere": 0.4}, "decode"),
        ({"decoding": 0.4, "elsewhere": 0.39, "look_ahead": 0.9}, "look-ahead"),
        ({"decoding": 0.2, "resampling": 0.25, "elsewhere": 0.5}, "resample"),
        ({"decoding": 0.0, "elsewhere": 0.99}, "decode"),
        ({"decoding": 0.45, "resampling": 0.4}, "decode"),
        ({"decoding": 0.4, "assembling": 0.45}, "assemble"),
        ({"decoding": 0.9, "queued": 0.24}, "decode"),
        ({"decoding": 0.9, "queued": 0.26}, "oversubscribed"),
        ({"decoding": 0.51, "queued": 0.26, "look_ahead": 0.9}, "oversubscribed"),
        ({"decoding": 0.49, "queued": 0.26, "look_ahead": 0.9}, "look-ahead"),
        ({"decoding": 0.51, "queued": 0.24, "look_ahead": 0.9}, "look-ahead"),
        ({"decoding": 0.9, "queued": 0.26, "usable_cpus": 2}, "cpu-quota"),
        ({"decoding": 0.9, "usable_cpus": 2}, "cpu-quota"),
        ({"decoding": 0.9, "usable_cpus": 4}, "decode"),
        ({"decoding": 0.9, "usable_cpus": 2, "machine_cpus": 2}, "decode"),
        ({"decoding": 0.9, "queued": 0.5, "usable_cpus": 2, "is_worker": True}, "oversubscribed"),
        ({**RUNS}, "shuffle-window"),
        ({**RUNS, "elements": 2818}, "shuffle-window"),  # 256 a run
        ({**RUNS, "elements": 2800}, "look-ahead"),  # 255
        ({**RUNS, "pauses": (1, 0.4)}, "look-ahead"),
        ({**RUNS, "pauses": (10, 0.24)}, "look-ahead"),
        ({**RUNS, "batch_size": 8}, "look-ahead"),
        ({**RUNS, "prefetch_batches": 56}, "shuffle-window"),  # 449 rows ahead
        ({**RUNS, "prefetch_batches": 57}, "look-ahead"),  # 457
        ({**RUNS, "decoding": 0.81}, "decode"),
        ({**RUNS, "look_ahead": 0.4, "reading": 0.6, "storage": LATENCY}, "storage-latency"),
        ({"budget": 0.5, "look_ahead": 0.2, "reading": 0.3}, "memory-budget"),
        ({"budget": 0.2, "look_ahead": 0.5, "reading": 0.3}, "look-ahead"),
        ({"reading": 0.9, "storage": LATENCY}, "storage-latency"),
        ({"reading": 0.9, "storage": BANDWIDTH}, "storage-bandwidth"),
        ({"reading": 0.9, "storage": ALIKE_SMALL}, "storage-latency"),
        ({"reading": 0.9, "storage": ALIKE_LARGE}, "storage-bandwidth"),
        ({"planning": 0.6, "reading": 0.3}, "assemble"),
        # 3 of 30 requests; of another store more are refused, but too few were made.
        ({"planning": 0.6, "shards": (*NORMAL, *REFUSING)}, "throttled"),
        ({"decoding": 0.9, "shards": (*NORMAL, *REFUSING)}, "decode"),
        ({"planning": 0.6, "shards": (*NORMAL, shard("s3://far/a", 1), *REFUSING)}, "assemble"),
        ({"planning": 0.6, "shards": (*NORMAL, *REFUSING[1:2], REFUSING[0])}, "throttled"),
        ({"planning": 0.6, "shards": (*NORMAL, REFUSING[2])}, "assemble"),
        # Readers wait to repeat requests for half as long as the loop waits; for less.
        ({"retrying": 0.26, "planning": 0.6}, "failing-storage"),
        ({"retrying": 0.24, "planning": 0.6}, "assemble"),
        # One of the readers does, and the others have nothing to do.
        ({"retrying": 0.07, "look_ahead": 0.8}, "failing-storage"),
        ({"retrying": 0.06, "look_ahead": 0.8}, "look-ahead"),
        ({"retrying": 0.07, "reading": 0.9, "storage": LATENCY}, "storage-latency"),
        ({"retrying": 0.9, "decoding": 0.9}, "decode"),
        ({"retrying": 0.9, "shards": REFUSING}, "throttled"),
        ({"reading": 0.9, "storage": LATENCY, "shards": (*NORMAL, shard("s", 4.1))}, "slow-shard"),
        (
            {"reading": 0.9, "storage": LATENCY, "shards": (*NORMAL, shard("s", 3.9))},
            "storage-latency",
        ),
        # Slow, but for its long rows; slow, but hardly read.
        (
            {"reading": 0.9, "storage": LATENCY, "shards": (*NORMAL, shard("s", 5, 100, 10**6))},
            "storage-latency",
        ),
        (
            {"reading": 0.9, "storage": LATENCY, "shards": (*NORMAL, shard("s", 20, 5))},
            "storage-latency",
        ),
        (
            {"reading": 0.9, "storage": LATENCY, "shards": (NORMAL[0], shard("s", 50))},
            "storage-latency",
        ),
        # Bad rows take a fifth of the 20 s of decode threads; they do not; the loop does not wait.
        ({"decoding": 0.9, "shards": (*SOUND, rows("s", 1000, 500, 4.1))}, "bad-shard"),
        ({"decoding": 0.9, "shards": (*SOUND, rows("s", 1000, 500, 3.9))}, "decode"),
        ({"waiting": 0.0, "shards": (*SOUND, rows("s", 1000, 500, 9.0))}, "consumer"),
    ],
    ids=str,
)
def test_cases_at_their_thresholds(figures: dict[str, Any], case: str) -> None:
    found = decide(stats(**figures))
    assert found.case == case, found.text
    assert found.case is gm.Case(case)
    assert str(found).partition("\n")[0] == found.text
    if found.help:
        title = entries()[case].partition("\n")[0]
        assert title.strip('# "') in found.text
    assert decide(stats(**figures)) == found
    assert json.loads(json.dumps(found.to_dict()))["case"] == case


def test_every_case_can_come() -> None:
    marks = [m for m in test_cases_at_their_thresholds.pytestmark if m.name == "parametrize"]
    assert {case for _, case in marks[0].args[1]} == {case.value for case in gm.Case}


@pytest.mark.parametrize("storage", [LATENCY, BANDWIDTH], ids=["latency", "bandwidth"])
def test_bytes_around_crops_are_told_where_storage_is_the_limit(storage: StorageStats) -> None:
    plain = decide(stats(reading=0.9, storage=storage))
    few = decide(stats(reading=0.9, storage=replace(storage, spare_bytes=29 * 10**6)))
    assert few == plain
    many = replace(storage, spare_bytes=81 * 10**6)
    found = decide(stats(reading=0.9, storage=many))
    assert found.case is plain.case
    assert found.text == (
        f"{plain.text} 81% of the bytes read are outside the crops, since no audio index has these "
        "recordings yet: build it first, with gristmill index --audio SHARDS."
    )
    assert found.figures == {**plain.figures, "spare_share": 0.81}
    assert found.advice[1:] == plain.advice
    off = decide(stats(reading=0.9, storage=many, audio_index=False))
    assert "these recordings: try ReadOptions(audio_index=True)" in off.text
    # Elsewhere it would not help.
    assert "crops" not in decide(stats(decoding=0.9, storage=many)).text


def test_the_store_that_throttles_is_named() -> None:
    found = decide(stats(planning=0.6, shards=(*NORMAL, *REFUSING)))
    assert found.text.startswith(
        "The store throttles: 10% of the requests to s3://far were answered with 429 or 503"
    )
    assert to(found, "num_requests") == 2


def test_the_shard_to_which_most_requests_fail_is_named() -> None:
    storage = StorageStats(1000, 10**8, retries=10)
    found = decide(stats(retrying=0.5, storage=storage, shards=FAILING))
    assert found.text == (
        "The storage fails: readers retried 10 requests, and waited 20.0 s in all between tries, "
        "while the decode threads idle 70%. Check the storage: a request that fails more often "
        "than retries= raises an error."
    )
    assert "shard" not in found.figures
    # Where something else is the limit.
    busy = decide(stats(retrying=0.06, decoding=0.9, storage=storage, shards=FAILING))
    assert busy.case == "decode"
    assert busy.text.endswith(
        " Besides, requests fail: readers retried 10 requests, and waited 2.4 s in all between "
        "tries."
    )
    assert "Besides" not in decide(stats(retrying=0.04, decoding=0.9, storage=storage)).text
    one = decide(stats(retrying=0.5, storage=replace(storage, retries=6), shards=FAILING))
    assert "retried 6 requests, 4 of them to 4.arrow, and waited" in one.text
    assert one.figures["shard"] == one.advice[0].now == "4.arrow"


def test_the_advice_is_enough_and_no_more() -> None:
    # The loop waits half of its time: twice the threads.
    found = decide(stats(decoding=0.98, look_ahead=0.91))
    assert to(found, "num_threads") == 4
    assert found.text == (
        "Bottleneck: decoding. 2 decode threads are 98% busy, and reading waits 91% of the "
        "time. 4 threads would raise 79 rows/s to about 160; this process may use 16 CPUs."
    )
    assert to(decide(stats(decoding=0.98, usable_cpus=3, machine_cpus=3)), "num_threads") == 3
    assert to(decide(stats(decoding=0.98, waiting=0.98)), "num_threads") == 16
    full = decide(stats(decoding=0.98, usable_cpus=2, machine_cpus=2))
    assert "num_threads" not in {advice.option for advice in full.advice}
    assert "All 2 CPUs are in use" in full.text

    best = decide(stats(decoding=0.3, resampling=0.6, resampler="best"))
    assert to(best, "resampler") == "hq"
    hq = decide(stats(decoding=0.3, resampling=0.6, resampler="hq"))
    assert "resampler" not in {advice.option for advice in hq.advice}

    assert to(decide(stats(reading=0.9, storage=LATENCY)), "num_requests") == 8
    assert to(decide(stats(reading=0.9, storage=LATENCY, waiting=0.95)), "num_requests") == 40
    many = decide(stats(reading=0.9, storage=LATENCY, num_requests=100))
    assert to(many, "num_requests") == MOST_READERS
    spared = replace(BANDWIDTH, spare_bytes=80_000_000)
    off = decide(stats(reading=0.9, storage=spared, audio_index=False))
    assert to(off, "audio_index") is True
    assert to(decide(stats(budget=0.9)), "memory_budget") == 2**32
    assert to(decide(stats(look_ahead=0.9, prefetch_batches=1)), "prefetch_batches") == 4
    assert to(decide(stats(decoding=0.9, usable_cpus=1)), "cpus") == 2
    assert to(decide(stats(deliver=0.4)), "columns") == ("audio", "label")
    single = decide(stats(deliver=0.4, batch_size=None))
    assert to(single, "batch_size") == 64
    assert decide(stats(waiting=0.01)).advice == ()


@pytest.mark.parametrize("is_worker", [False, True])
@pytest.mark.parametrize("cpus", [1, 2, 8, 16])
@pytest.mark.parametrize("threads", [1, 2, 8, 32])
def test_no_advice_is_taken_back(threads: int, cpus: int, is_worker: bool) -> None:
    """However busy the machine: no fewer threads are advised, and no more than the CPUs."""
    for queued in (0.0, 0.2, 0.26, 0.5, 0.95):
        for parts in ({"decoding": 0.9}, {"decoding": 0.4, "resampling": 0.5}, {"decoding": 0.55}):
            found = decide(
                stats(
                    **parts,
                    queued=queued,
                    num_threads=threads,
                    usable_cpus=cpus,
                    is_worker=is_worker,
                )
            )
            assert f"num_threads={min(threads, cpus)} " not in found.text
            for advice in found.advice:
                if advice.option == "num_threads":
                    assert threads < advice.to <= cpus


def test_what_others_take_is_told_without_advice() -> None:
    found = decide(stats(decoding=0.9, queued=0.5))
    assert found.case is gm.Case.OVERSUBSCRIBED
    assert found.advice == ()
    assert "Other processes, or the training step itself, take the rest" in found.text


def test_advice_reads_as_a_sentence() -> None:
    for figures in ({"reading": 0.9, "storage": BANDWIDTH}, {"decoding": 0.9, "elsewhere": 0.5}):
        shown = [str(advice) for advice in decide(stats(**figures)).advice]
        assert shown
        assert not any("None" in line for line in shown)
    more = decide(stats(decoding=0.98)).advice[0]
    assert str(more) == "num_threads: 2 -> 4 (more rows are decoded at the same time)"


def test_too_early_says_what_is_missing() -> None:
    early = decide(stats(elements=45, loop=0.97)).text
    assert early.endswith("45 elements in 970.0 ms of the loop; ask again after 1 s.")
    assert decide(stats(elements=2, loop=30)).text.endswith("ask again after 5 elements.")
    assert decide(stats(elements=2, loop=0.5)).text.endswith("ask again after 5 elements and 1 s.")


def test_threads_that_have_nothing_to_decode_do_not_idle() -> None:
    # What readers do with columns counts as assembling.
    tokens: dict[str, Any] = {"decoding": 0.0, "decoded": 0, "assembling": 0.9}
    for figures in ({"look_ahead": 0.9}, {"budget": 0.9}):
        assert "decode" not in decide(stats(**figures, **tokens)).text
        assert "decode threads idle 70%" in decide(stats(**figures)).text
    for figures in ({"waiting": 0.0}, {"reading": 0.9}, {"planning": 0.9}):
        assert "decode" not in decide(stats(**figures, **tokens)).text
    assert to(decide(stats(look_ahead=0.9, **tokens)), "prefetch_batches") == 8
    # Each batch is made by one thread: more of them than CPUs are no help.
    full = decide(stats(look_ahead=0.9, usable_cpus=4, machine_cpus=4, **tokens))
    assert full.advice == ()


@pytest.mark.parametrize("batch_size", [None, 5])
def test_of_tokens_nothing_is_decoded(numbered: list[Path], batch_size: int | None) -> None:
    dataset = gm.ArrowIterDataset(
        numbered, columns=["count", "tags"], audio=None, batch_size=batch_size, epochs=None
    )
    it = iter(dataset)
    while it.stats().loop_seconds < 1.1:
        for _ in range(500):
            next(it)
    verdict = it.verdict()
    it.close()
    assert verdict.case is not gm.Case.TOO_EARLY
    assert "decode" not in verdict.text


def test_what_takes_rows_in_runs_is_told() -> None:
    found = decide(stats(**RUNS))
    assert found.text == (
        "Bottleneck: a shuffle window. It takes about 455 rows at once and then none for 400.0 ms, "
        "but prefetch_batches=4 allows few rows ahead; the decode threads idle 70% of the time. "
        "Leave the window out and shuffle here: shuffle=gm.Shuffle(seed). Or try "
        "prefetch_batches=57, with enough memory_budget."
    )
    assert found.advice[0].option == "shuffle"
    assert to(found, "prefetch_batches") == 57
    assert found.figures["run_rows"] == 455
    assert found.figures["pause_seconds"] == pytest.approx(0.4)
    batches = decide(stats(**{**RUNS, "elements": 704}))
    assert to(batches, "prefetch_batches") == 8
    assert to(batches, "batch_size") == 64
    assert batches.text == (
        "Bottleneck: the readahead. What batches or shuffles behind this iterator takes about 64 "
        "rows at once and then none for 400.0 ms, but prefetch_batches=4 allows few rows ahead; "
        "the decode threads idle 70% of the time. Try prefetch_batches=8, or batch_size here."
    )


def test_what_other_iterators_have_is_told() -> None:
    found = decide(stats(decoding=0.5, elsewhere=0.48, usable_cpus=2, machine_cpus=2))
    assert "2 decode threads are 98% busy (48% for other iterators of this process)" in found.text
    assert found.advice[0].option == "iterators"
    assert found.figures["elsewhere_share"] == pytest.approx(0.48)
    assert found.figures["decoders_busy_share"] == pytest.approx(0.5)
    alone = decide(stats(decoding=0.95, elsewhere=0.04))
    assert "other iterators" not in alone.text
    assert "iterators" not in {advice.option for advice in alone.advice}


def test_figures_are_those_of_the_stats() -> None:
    given = stats(reading=0.9, storage=BANDWIDTH)
    figures = decide(given).figures
    assert figures["waiting_share"] == given.waiting_share == pytest.approx(0.5)
    assert figures["request_seconds"] == pytest.approx(36e-3)
    assert figures["decoders_busy_share"] == pytest.approx(0.3)


def test_systems_that_do_not_account_cpu_time() -> None:
    blind = stats(decoding=0.9, queued=0.9)
    blind = replace(
        blind, decoders=replace(blind.decoders, cpu_seconds=None, cpu_queue_seconds=None)
    )
    assert decide(blind).case == "decode"


def test_nothing_measured() -> None:
    assert decide(gm.Stats()).case == "too-early"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "rows/s and waits"),
        ({"row_seconds": 5.0}, " rows/s ({audio} s of audio/s) and waits"),
        ({"row_tokens": 1024}, " rows/s ({tokens} tokens/s) and waits"),
    ],
)
def test_the_content_of_rows_is_told_where_it_is_known(settings: Any, told: str) -> None:
    figures = stats(waiting=0.01)
    figures = replace(figures, settings=replace(figures.settings, **settings))
    found = decide(figures)
    rate = figures.rows_per_second
    assert found.case is gm.Case.CONSUMER
    assert told.format(audio=rate_text(5 * rate), tokens=rate_text(1024 * rate)) in found.text
    assert found.figures.get("audio_seconds_per_second") == (5 * rate if "audio" in told else None)
    assert found.figures.get("tokens_per_second") == (1024 * rate if "tokens" in told else None)
