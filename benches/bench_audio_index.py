"""What an audio index gains, and what it costs to make one.

Random crops of 5 s at 32 kHz mono, shuffled, in batches of 64. The storage is a FUSE file system
that answers each request after 20 ms and sends 100 MB/s in all; the recordings there take 10 to
76 s, 43 s in the mean, and are Ogg Vorbis. Each measurement is a fresh process, which finds what
was learned in the file beside the sidecar; first epochs alone share one process.

`--plots docs` draws the steps of the first round.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import material
import numpy as np
import pytest
from audio_files import Recording

import gristmill as gm
from slow_storage import SlowStorage, why_not

LATENCY, BANDWIDTH = 0.020, 100e6
RATE, SECONDS, BATCH = 32_000, 5, 64
WHOLE, INDEXED = "whole rows", "with an audio index"
PACED, DEMAND = "with an audio index, 70 % of that", 0.7
CODECS = ["vorbis", "flac", "mp3", "aac", "opus"]
WARM_UP = 10
"""Steps that are not measured: in them the number of requests under way grows to what pays."""
OF_THE_ROWS = "bytes read / bytes of the rows"
MARKS = {
    "Vorbis of 10 to 76 s": (1 / 0.98, 0.2),
    "FLAC of 600 s": (1 / 1.3, 0.02),
    "MP3 of 600 s": (1 / 1.3, 0.02),
}
"""How many times as long as without an index crops from the page cache take at most, and which part
of the rows' bytes is read."""


def recordings(data: Path, name: str, size: Any) -> list[Path]:
    if name == "Vorbis of 10 to 76 s":
        n_recordings, longest = size((400, 76.0), (200, 76.0), (6, 11.0))
        return material.vorbis_shards(data, n_recordings, "32 kHz", longest)
    container, subtype = {"F": ("FLAC", "PCM_16"), "M": ("MP3", "MPEG_LAYER_III")}[name[0]]
    seconds, n_rows = size((600, 32), (600, 16), (20, 4))

    def rows() -> list[bytes]:
        made = [
            material.encode(material.field_like(seconds, RATE, 1, k), RATE, container, subtype)
            for k in range(min(4, n_rows))
        ]
        return [made[k % len(made)] for k in range(n_rows)]

    path = data / f"index-{container}-{seconds}-{n_rows}.arrow"
    return [path if path.exists() else material.audio_shard(path, rows(), 4)]


def dataset(paths: list[Path], is_indexed: bool, index_dir: Path, **options: Any) -> Any:
    read = gm.ReadOptions(
        index_dir=index_dir, audio_index=is_indexed, num_requests=options.pop("num_requests", None)
    )
    audio = gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(SECONDS))
    return gm.ArrowIterDataset(
        paths, columns=["audio", "label"], audio=audio, batch_size=options.pop("batch_size", BATCH),
        shuffle=gm.Shuffle(1), read=read, **options,
    )  # fmt: skip


def check(paths: list[Path], index_dir: Path) -> None:
    """The same crops, bit for bit; and every recording is learned of."""
    for index in (False, True):
        seen = list(dataset(paths, index, index_dir, epochs=2, batch_size=1))
        if not index:
            plain = seen
    for ours, theirs in zip(seen, plain, strict=True):
        np.testing.assert_array_equal(ours["audio"], theirs["audio"])


def measure(
    paths: list[Path], is_indexed: bool, index_dir: Path, n_rows: int, period: float = 0.0,
    **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """Times of steps, each at least so long; and what was read for a row."""
    batch_size = options.get("batch_size", BATCH)
    it = iter(dataset(paths, is_indexed, index_dir, epochs=None, **options))
    for _ in range(min(WARM_UP, n_rows)):
        next(it)
        time.sleep(period)
    before, steps = it.stats().storage.bytes, []
    cpu, last = time.process_time(), time.perf_counter()
    for _ in range(max(1, n_rows // batch_size)):
        assert len(next(it)["label"]) == batch_size
        time.sleep(period)
        now = time.perf_counter()
        steps.append(now - last)
        last = now
    cpu, n_bytes = time.process_time() - cpu, it.stats().storage.bytes - before
    it.close()
    n = len(steps) * batch_size
    return {"steps": steps, "cpu": cpu / n, "seconds": sum(steps) / n, "bytes": n_bytes / n}


@pytest.mark.skipif(why_not() is not None, reason=f"no FUSE here: {why_not()}")
@pytest.mark.parametrize("job", [WHOLE, INDEXED, PACED])
def test_slow_storage(
    turns: Any, fresh: Any, size: Any, data: Path, tmp_path: Path, plots_folder: Path | None,
    job: str,
) -> None:  # fmt: skip
    paths = recordings(data, "Vorbis of 10 to 76 s", size)
    n_recordings, n_rows, batch_size = size((400, 6_400, BATCH), (200, 3_200, BATCH), (6, 4, 2))
    row_bytes = sum(path.stat().st_size for path in paths) / n_recordings

    def read(name: str, n_rows: int, period: float = 0.0) -> dict[str, Any]:
        # Without the kernel's page cache: a data set is larger than that.
        slow = SlowStorage(
            paths[0].parent, latency=LATENCY, bandwidth=BANDWIDTH, direct=True, at=tmp_path / "on"
        )
        with slow as mount:
            here = [mount / path.name for path in paths]
            job = functools.partial(measure, period=period, batch_size=batch_size)
            return fresh(job, here, name != WHOLE, tmp_path / "index", n_rows)

    def prepare(name: str) -> Callable[[int], dict[str, Any]]:
        period = 0.0
        if name == INDEXED:
            fresh(check, paths, tmp_path / "index")
            read(name, 2 * n_recordings)  # learns
        if name == PACED:
            period = batch_size * read(name, n_rows)["seconds"] / DEMAND

        def once(_: int) -> dict[str, Any]:
            got = read(name, n_rows, period)
            return {
                "seconds": got["seconds"],
                "rows / s": 1 / got["seconds"],
                OF_THE_ROWS: got["bytes"] / row_bytes,
                "p99 step / median": np.quantile(got["steps"], 0.99) / np.median(got["steps"]),
                "steps": got["steps"],
            }

        return once

    limits = {PACED: {"p99 step / median": {"at_most": 1.15}}}
    limits[INDEXED] = {OF_THE_ROWS: {"at_most": 0.2}}
    turns(
        prepare, rounds=size(3, 1, 1), than=WHOLE, limits=limits.get(job),
        at_most=1 / 5 if job == INDEXED else None,
    )  # fmt: skip
    if plots_folder and job == PACED:
        import plots

        steps = {name: of[0]["steps"] for name, of in turns.times.items()}
        plots.steps(plots_folder / "audio-index.svg", steps)


@pytest.mark.parametrize("job", [WHOLE, INDEXED])
@pytest.mark.parametrize("of", MARKS)
def test_page_cached(
    turns: Any, fresh: Any, size: Any, data: Path, tmp_path: Path, of: str, job: str
) -> None:
    """Processor time of a row: the machine's other programs count less than by the clock."""
    paths = recordings(data, of, size)
    batch_size, n_rows = size((16, 1_600), (16, 800), (2, 4))
    row_bytes = sum(path.stat().st_size for path in paths) / fresh(count, paths)

    def prepare(name: str) -> Callable[[int], dict[str, Any]]:
        if name == INDEXED:
            fresh(check, paths, tmp_path / "index")
        job = functools.partial(measure, batch_size=batch_size)

        def once(_: int) -> dict[str, Any]:
            got = fresh(job, paths, name == INDEXED, tmp_path / "index", n_rows)
            return {"seconds": got["cpu"], OF_THE_ROWS: got["bytes"] / row_bytes}

        return once

    at_most, part = MARKS[of] if job == INDEXED else (None, None)
    limits = {OF_THE_ROWS: {"at_most": part}} if part else None
    turns(prepare, rounds=size(9, 3, 1), than=WHOLE, limits=limits, at_most=at_most)


def count(paths: list[Path]) -> int:
    return len(gm.ArrowDataSource(paths, columns=["label"]))


@pytest.mark.parametrize("job", CODECS)
def test_codecs(turns: Any, fresh: Any, size: Any, data: Path, tmp_path: Path, job: str) -> None:
    """The part of each codec's bytes that crops take, out of recordings of 43 s in the mean."""
    lengths = size(range(10, 77, 6), range(10, 77, 22), [10])

    def prepare(codec: str) -> Callable[[int], dict[str, Any]]:
        rows = [Recording(codec, 1, seconds).read(data) for seconds in lengths]
        path = material.audio_shard(data / f"index-{codec}-{len(rows)}.arrow", rows, 4)
        fresh(check, [path], tmp_path / codec)
        epochs = size(50, 20, 1)

        def once(_: int) -> dict[str, Any]:
            seconds, n_bytes = fresh(take_epochs, path, tmp_path / codec, epochs)
            n_rows = epochs * len(rows)
            return {
                "seconds": seconds / n_rows,
                OF_THE_ROWS: n_bytes / epochs / path.stat().st_size,
            }

        return once

    turns(prepare, rounds=1, limits={OF_THE_ROWS: {"at_most": 0.2}})


def take_epochs(path: Path, index_dir: Path, epochs: int) -> tuple[float, int]:
    """Seconds, and bytes read, until the last crop of these epochs."""
    it = iter(dataset([path], True, index_dir, epochs=epochs, batch_size=1))
    began = time.perf_counter()
    for _ in it:
        pass
    return time.perf_counter() - began, it.stats().storage.bytes


@pytest.mark.skipif(why_not() is not None, reason=f"no FUSE here: {why_not()}")
@pytest.mark.parametrize("job", ["gristmill index --audio"])
def test_index_command(turns: Any, size: Any, data: Path, tmp_path: Path, job: str) -> None:
    """The whole command over slow storage. Its files are those of above under many names."""
    paths = recordings(data, "Vorbis of 10 to 76 s", size)
    folder = data / "index-command"
    folder.mkdir(exist_ok=True)
    copies = [folder / f"{k:02}-{path.name}" for k in range(size(24, 6, 1)) for path in paths]
    for k, copy in enumerate(copies):
        copy.unlink(missing_ok=True)
        os.link(paths[k % len(paths)], copy)
    n_bytes = sum(copy.stat().st_size for copy in copies)

    def prepare(name: str) -> Callable[[int], dict[str, Any]]:
        def once(k: int) -> dict[str, Any]:
            at, index_dir = tmp_path / f"on-{k}", tmp_path / f"indexes-{k}"
            with SlowStorage(folder, latency=LATENCY, bandwidth=BANDWIDTH, at=at) as mount:
                here = [mount / copy.name for copy in copies]
                command = [*name.split()[1:], "--quiet", "--index-dir", index_dir, *here]
                began = time.perf_counter()
                subprocess.run([sys.executable, "-m", "gristmill", *command], check=True)
                took = time.perf_counter() - began
            assert len(list(index_dir.glob("*.gmindex"))) == len(copies)
            return {"seconds": took, "MB / s": n_bytes / took / 1e6}

        return once

    turns(prepare, rounds=size(3, 1, 1), limits={"MB / s": {"at_least": 0.8 * BANDWIDTH / 1e6}})


@pytest.mark.parametrize("job", [WHOLE, "learning"])
def test_first_epoch(turns: Any, size: Any, data: Path, tmp_path: Path, job: str) -> None:
    """Processor time of a first epoch, with its end, where indexes are written.

    Many short turns in one process: a machine with other work changes its speed by more than the
    mark from one second to the next.
    """
    paths = recordings(data, "Vorbis of 10 to 76 s", size)
    rounds, mark = size(100, 25, 1), 1.02 if job == "learning" else None
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:

        def prepare(name: str) -> Callable[[int], float]:
            return lambda k: pool.submit(
                first_epoch, paths, name == "learning", tmp_path / f"{name}-{k}"
            ).result()

        turns(prepare, rounds=rounds, than=WHOLE, at_most=mark)


def first_epoch(paths: list[Path], is_indexed: bool, index_dir: Path) -> float:
    """Seconds of the processor for a row."""
    began, n = time.process_time(), 0
    for batch in dataset(paths, is_indexed, index_dir):
        n += len(batch["label"])
    took = time.process_time() - began
    assert not is_indexed or list(index_dir.glob("*.gmindex"))
    return took / n
