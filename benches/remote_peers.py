"""The crop job out of shards behind URLs, by Gristmill and by what streams data sets today.

A random crop of 5 s at 32 kHz mono of every row, in a shuffled order, in batches of 64. Peers that
give rows seek in a recording by `soundfile`, as in `peers.py`, in as many threads as there are
processors. Mosaic Streaming and LitData read shards of their own formats, which they download
whole; they are measured where they are installed.
"""

from __future__ import annotations

import collections
import functools
import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import peers

import gristmill as gm

import oracle

BATCH = 64
CHUNK = "64MB"
"""Of the shards that LitData and Mosaic write: what their documentation recommends."""

Batches = Any
"""An iterator of batches with `close`."""


def gristmill(
    urls: list[str], folder: Path, *, audio_index: bool = True, cache: str | None = None,
    decoded: bool = True, batch_size: int = BATCH,
) -> Batches:  # fmt: skip
    """This project: endless, so that no epoch ends while it is measured."""
    read = gm.ReadOptions(
        index_dir=folder / "index", audio_index=audio_index, cache_dir=cache and folder / cache
    )
    audio = gm.Audio(sample_rate=peers.RATE, crop=gm.RandomCrop(peers.SECONDS))
    return iter(
        gm.ArrowIterDataset(
            urls, audio=audio if decoded else None, columns=["audio", "label"],
            shuffle=gm.Shuffle(peers.SEED), epochs=None, batch_size=batch_size, read=read,
        )
    )  # fmt: skip


def cropped(rows: Iterable[dict[str, Any]]) -> Batches:
    """Batches of crops of these rows, decoded in threads in their order."""
    rng = np.random.default_rng(peers.SEED)
    n_threads = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(n_threads) as pool:
        running: collections.deque[Future[Any]] = collections.deque()
        rows = iter(rows)
        while True:
            ahead = itertools.islice(rows, 2 * BATCH - len(running))
            running.extend(pool.submit(peers.seek_decode, row, rng) for row in ahead)
            if len(running) < BATCH:
                return
            done = [running.popleft().result() for _ in range(BATCH)]
            yield {name: np.stack([row[name] for row in done]) for name in done[0]}


def epochs(open_epoch: Callable[[int], Iterable[dict[str, Any]]]) -> Batches:
    return cropped(itertools.chain.from_iterable(open_epoch(k) for k in itertools.count()))


def datasets_streaming(urls: list[str], _: Path) -> Batches:
    """What its documentation shows: a shuffle buffer over the shards, one after the other."""
    import datasets

    datasets.disable_progress_bars()
    ds = datasets.load_dataset("arrow", data_files=urls, split="train", streaming=True)
    ds = ds.cast_column("audio", datasets.Audio(decode=False))
    ds = ds.shuffle(seed=peers.SEED, buffer_size=100)

    def rows(epoch: int) -> Iterator[dict[str, Any]]:
        ds.set_epoch(epoch)
        for row in ds:
            yield {"data": row["audio"]["bytes"], "label": row["label"]}

    return epochs(rows)


def _store(urls: list[str]) -> tuple[str, str]:
    """The address of the server, and the bucket there."""
    server, _, bucket = urls[0].rpartition("/")[0].rpartition("/")
    return server, f"s3://{bucket}"


def litdata(urls: list[str], folder: Path) -> Batches:
    from litdata import StreamingDataset
    from litdata.streaming import downloader

    server, bucket = _store(urls)
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # noqa: SLF001 # there is no option
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    ds = StreamingDataset(
        f"{bucket}/litdata", cache_dir=str(folder / "litdata"), shuffle=True, seed=peers.SEED,
        storage_options={"endpoint_url": server, "region_name": "us-east-1", **keys},
    )  # fmt: skip
    return epochs(lambda _: ds)


def write_litdata(shards: list[Path], folder: Path) -> None:
    from litdata.streaming.writer import BinaryWriter

    if not (folder / "litdata" / "index.json").exists():
        writer = BinaryWriter(str(folder / "litdata"), chunk_bytes=CHUNK)
        for k, row in enumerate(rows_of(shards)):
            writer.add_item(k, row)
        writer.done()
        writer.merge()


def mosaic(urls: list[str], folder: Path) -> Batches:
    import streaming

    server, bucket = _store(urls)
    os.environ |= {"S3_ENDPOINT_URL": server, "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    ds = streaming.StreamingDataset(
        remote=f"{bucket}/mosaic", local=str(folder / "mosaic"), shuffle=True, batch_size=BATCH,
        shuffle_seed=peers.SEED,
    )  # fmt: skip
    return epochs(lambda _: ds)


def write_mosaic(shards: list[Path], folder: Path) -> None:
    import streaming

    if not (folder / "mosaic" / "index.json").exists():
        columns = {"data": "bytes", "label": "int"}
        out = str(folder / "mosaic")
        with streaming.MDSWriter(out=out, columns=columns, size_limit=CHUNK.lower()) as writer:
            for row in rows_of(shards):
                writer.write(row)


def rows_of(shards: list[Path]) -> Iterator[dict[str, Any]]:
    for path in shards:
        for row in oracle.read_table(path).to_pylist():
            yield {"data": row["audio"]["bytes"], "label": row["label"]}


WRITE = {"LitData": write_litdata, "Mosaic Streaming": write_mosaic}
"""What writes the shards of a peer that has a format of its own."""

MODULES = {"datasets streaming": "datasets", "LitData": "litdata", "Mosaic Streaming": "streaming"}
"""What a peer is imported as, before it is timed."""

JOBS: dict[str, Callable[..., Batches]] = {
    "gristmill, audio index": gristmill,
    "gristmill, whole rows": functools.partial(gristmill, audio_index=False),
    "datasets streaming": datasets_streaming,
    "LitData": litdata,
    "Mosaic Streaming": mosaic,
}


def check(urls: list[str], paths: list[Path], folder: Path) -> None:
    """Crops are those of the local files, with an audio index and without; all rows are learned."""
    its = [
        gristmill(urls, folder),
        gristmill(urls, folder, audio_index=False),
        gristmill(list(map(str, paths)), folder, audio_index=False),
    ]
    n_batches = 2 * sum(oracle.read_table(path).num_rows for path in paths) // BATCH + 1
    for ours, whole, local in itertools.islice(zip(*its, strict=True), n_batches):
        np.testing.assert_equal(ours, local)
        np.testing.assert_equal(whole, local)
    for it in its:
        it.close()


def measure(
    name: str, urls: list[str], folder: Path, n_rows: int, period: float = 0.0, **options: Any
) -> dict[str, Any]:
    """Seconds of a row, from the opening on and after the first batch; and the later steps."""
    importlib.import_module(MODULES.get(name, "gristmill"))  # what is loaded once is not counted
    begin, cpu, steps = time.perf_counter(), time.process_time(), []
    batches = JOBS[name](urls, folder, **options)
    n = len(next(batches)["label"])
    last = first = time.perf_counter()
    for _ in range(max(1, n_rows // n - 1)):
        assert len(next(batches)["label"]) == n
        time.sleep(period)
        now = time.perf_counter()
        steps.append(now - last)
        last = now
    n_rows = n * (len(steps) + 1)
    cpu = time.process_time() - cpu
    batches.close()
    return {
        "seconds": (last - begin) / n_rows,
        "running": (last - first) / (n_rows - n),
        "cpu": cpu / n_rows,
        "first": first - begin,
        "steps": steps,
    }
