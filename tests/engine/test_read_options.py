"""Whatever `ReadOptions` are given, elements and states are those of the plainest reading.

Data sets and options are drawn: formats, columns, damaged rows, orders, batches. What is compared
with other programs is in the tests of each of these; here it is what they do together.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import parquet_files
import shards
from rounds import rounds
from signals import encode, synthetic

PLAIN = gm.ReadOptions(
    num_threads=1, prefetch_batches=1, num_requests=1, index_dir=None, audio_index=False
)
ENOUGH = 2 << 30
N_ELEMENTS = 40


@functools.cache
def recordings() -> list[bytes | None]:
    """Of several codecs, rates and lengths; some are damaged, one is null."""
    made = [
        encode(synthetic(seconds, rate, 1 + k % 2, k), rate, kind)
        for k, kind in enumerate(("wav16", "flac16", "vorbis", "mp3"))
        for seconds, rate in ((0.02, 8_000), (0.3, 16_000), (0.9, 22_050))
    ]
    return [*made * 3, *(data[: len(data) // 2] for data in made[2::3]), b"junk", None]


def column(rng: np.random.Generator, name: str, n: int) -> pa.Array:
    match name:
        case "audio":
            drawn = rng.integers(0, len(recordings()), n)
            rows = [{"bytes": recordings()[k], "path": f"{k}.ogg"} for k in drawn]
            return pa.array(rows, shards.AUDIO)
        case "count":
            return pa.array(np.arange(n))
        case "name":
            return pa.array([f"name {k}" * k for k in rng.integers(0, 4, n)])
        case "embedding":
            return pa.array(list(rng.standard_normal((n, 5_000), np.float32)))
        case "tokens":
            return pa.array([rng.integers(0, 9_000, k) for k in rng.integers(0, 900, n)])
        case "box":
            return pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(n * 4)), 4)
        case "blob":
            return pa.array([rng.bytes(k) for k in rng.choice([0, 9, 20_000], n)], pa.binary())
        case _:
            return pa.array(rng.choice(["a", "b", "c"], n)).dictionary_encode()


NAMES = ["audio", "count", "name", "embedding", "tokens", "box", "blob", "class"]
ARROW = ["stream", "file", "lz4", "zstd"]


def write(path: Path, table: pa.Table, form: str, batch_rows: int) -> Path:
    if form not in ARROW:
        return parquet_files.write(path, table, **parquet_files.OPTIONS[form])
    codec = form if form in ("lz4", "zstd") else None
    return shards.write_table(path, table, batch_rows, form=form, codec=codec)


FORMS = [*ARROW, "datasets-3", "datasets-4.1", "datasets-4.6", "plain-index", "v2", "brotli"]
SHARDS = st.lists(
    st.tuples(st.sampled_from(FORMS), st.integers(1, 60), st.sampled_from([1, 7, 60])),
    min_size=1,
    max_size=4,
)


@st.composite
def rows_and_order(draw: st.DrawFn) -> dict[str, Any]:
    """Options that say what is delivered, and in which order."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    crops = [gm.RandomCrop(0.05), gm.RandomCrop(0.5), gm.StartCrop(0.2), gm.Windows(0.2)]
    crop = draw(st.sampled_from([None, *crops]))
    batch_size = draw(st.sampled_from([None, 1, 5, 32]))
    decodes = "audio" in names and draw(st.booleans()) and (batch_size is None or crop is not None)
    shuffle = draw(st.sampled_from([None, gm.Shuffle(3), gm.Shuffle(4, window=20, streams=3)]))
    batches = {"ragged": "pad", "fill_value": 0} if batch_size is not None else {}
    audio = gm.Audio(sample_rate=16_000, crop=crop) if decodes else None
    return {
        "columns": names,
        "audio": audio,
        "on_error": draw(st.sampled_from(["mask", "substitute"])) if decodes else "raise",
        "shuffle": shuffle,
        "batch_size": batch_size,
        "epochs": draw(st.integers(1, 2)),
        "with_row_id": True,
        **batches,
    }


READS = st.fixed_dictionaries(
    {
        "num_threads": st.sampled_from([1, 2, 5]),
        "memory_budget": st.sampled_from([3 << 20, 16 << 20, ENOUGH]),
        "prefetch_batches": st.sampled_from([1, 2, 4, 30]),
        "num_requests": st.sampled_from([None, 1, 3, 40]),
        "audio_index": st.booleans(),
        "page_cache": st.booleans(),
    }
)


def exact(value: Any) -> Any:
    """What is equal only where all bits are."""
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(inner) for inner in value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.shape, exact(value.ravel().tolist())
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.str, value.shape, value.tobytes()
    return value


def taken(ds: gm.ArrowIterDataset, n: int, state: str | None = None) -> list[tuple[Any, str]]:
    """The first `n` elements from a state on, or an error, each with the state after it."""
    it, found = iter(ds), []
    if state is not None:
        it.set_state(json.loads(state))
    try:
        while len(found) < n and (element := next(it, None)) is not None:
            found.append((exact(element), json.dumps(it.get_state())))
    except gm.DecodeError as error:  # where a damaged row has no other to be taken in its place
        found.append((str(error), json.dumps(it.get_state())))
    finally:
        it.close()
    return found


@pytest.mark.timeout(600)
@settings(max_examples=rounds(60), deadline=None)
@given(
    made=SHARDS,
    seed=st.integers(0, 2**32 - 1),
    options=rows_and_order(),
    reads=st.lists(READS, min_size=2, max_size=2),
    share=st.floats(0, 1),
)
def test_elements_and_states_are_those_of_the_plainest_reading(
    made: list[tuple[str, int, int]],
    seed: int,
    options: dict[str, Any],
    reads: list[dict[str, Any]],
    share: float,
) -> None:
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder, paths = Path(name), []
        for k, (form, n, batch_rows) in enumerate(made):
            table = pa.table({each: column(rng, each, n) for each in options["columns"]})
            paths.append(write(folder / f"{k}.shard", table, form, batch_rows))
            # Nothing is kept of files that may still change.
            os.utime(paths[-1], (time.time() - 60, time.time() - 60))
        expected = taken(gm.ArrowIterDataset(paths, read=PLAIN, **options), N_ELEMENTS)
        n_elements = sum(isinstance(element, dict) for element, _ in expected)
        at = round(share * (n_elements - 1))
        for k, given_read in enumerate(reads):
            # The second time, sidecars, the audio index and the cache have what the first left.
            kept = {"index_dir": folder / "index", "cache_dir": folder / "cache" if k else None}
            ds = gm.ArrowIterDataset(paths, read=gm.ReadOptions(**kept, **given_read), **options)
            try:
                assert taken(ds, N_ELEMENTS) == expected
                if n_elements > 0:
                    rest = taken(ds, N_ELEMENTS - at - 1, state=expected[at][1])
                    assert rest == expected[at + 1 :]
            except gm.LimitError:
                # A batch, or a compressed table, takes more than a small budget.
                assert given_read["memory_budget"] < ENOUGH
