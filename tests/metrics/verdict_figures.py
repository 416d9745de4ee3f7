"""Figures of an iterator, made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gristmill as gm
from gristmill.metrics.stats import (
    PauseStats,
    ReaderWaitStats,
    Settings,
    ShardStats,
    Stages,
    StageStats,
    StorageStats,
    ThreadStats,
)


def stats(
    *,
    elements: int = 100,
    loop: float = 10.0,
    waiting: float = 0.5,
    deliver: float = 0.01,
    decoding: float = 0.3,
    decoded: int = 800,
    resampling: float = 0.0,
    assembling: float = 0.0,
    queued: float = 0.0,
    elsewhere: float = 0.0,
    look_ahead: float = 0.0,
    budget: float = 0.0,
    reading: float = 0.0,
    planning: float = 0.0,
    retrying: float = 0.0,
    storage: StorageStats | None = None,
    pauses: tuple[int, float] = (0, 0.0),
    shards: tuple[ShardStats, ...] = (),
    **settings: Any,
) -> gm.Stats:
    """Figures of 10 s on 2 decode threads and 4 readers; parts are shares of whole time, 0 to 1."""
    defaults: dict[str, Any] = {
        "num_threads": 2,
        "num_requests": 4,
        "prefetch_batches": 4,
        "memory_budget_bytes": 2**31,
        "batch_size": 8,
        "resampler": "hq",
        "columns": ("audio", "label", "name"),
        "object_columns": ("name",),
        "machine_cpus": 16,
        "usable_cpus": 16,
    }
    decoders, readers = 2 * loop, 4 * loop
    requests = 1000
    return gm.Stats(
        elapsed_seconds=loop + 1,
        opening_seconds=0.1,
        first_element_seconds=1.0,
        elements=elements,
        rows=8 * elements,
        stages=Stages(
            plan=StageStats(count=800, busy_seconds=planning * readers),
            read=StageStats(
                requests, reading * readers, (look_ahead + budget + retrying) * readers
            ),
            decode=StageStats(decoded, decoding * decoders),
            resample=StageStats(800, resampling * decoders),
            assemble=StageStats(100, assembling * decoders),
            deliver=StageStats(elements, deliver * loop),
            consumer=StageStats(elements, (1 - waiting - deliver) * loop, waiting * loop),
        ),
        storage=storage or StorageStats(requests, 10**8, reading * readers, 1e-3, 1e-9),
        reader_waits=ReaderWaitStats(
            look_ahead * readers, budget * readers, retries_seconds=retrying * readers
        ),
        pauses=PauseStats(pauses[0], pauses[1] * loop),
        readers=ThreadStats(4, readers),
        decoders=ThreadStats(
            2,
            decoders,
            decoders * decoding * (1 - queued),
            decoders * decoding * queued,
            decoders * elsewhere,
        ),
        shards=shards,
        settings=Settings(**{**defaults, **settings}),
    )


def shard(
    name: str, request_ms: float, requests: int = 100, request_bytes: int = 10**5
) -> ShardStats:
    return ShardStats(name, requests, requests * request_bytes, requests * request_ms / 1e3)


def rows(name: str, decoded: int, bad: int, busy_s: float = 0.0) -> ShardStats:
    """A shard of which so many rows were decoded, and so many of them could not be used."""
    return replace(shard(name, 1), decoded_rows=decoded, bad_rows=bad, bad_busy_seconds=busy_s)


def to(found: gm.Verdict, option: str) -> Any:
    return next(advice.to for advice in found.advice if advice.option == option)


SOUND = tuple(rows(f"{k}.arrow", 1000, 2) for k in range(5))
"""Shards with a few bad rows, as any have."""
LATENCY = StorageStats(1000, 10**8, 36.0, 30e-3, 1e-9)
"""Storage of which a request takes 30 ms, whatever its size."""
