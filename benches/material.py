"""The shards that the benches run on, made once into a folder. The same seeds, the same bytes."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile
from tqdm import tqdm

AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FEATURES = {"audio": {"_type": "Audio"}, "label": {"dtype": "int64", "_type": "Value"}}
SCHEMA = pa.schema(
    [("audio", AUDIO), ("label", pa.int64())],
    metadata={"huggingface": json.dumps({"info": {"features": FEATURES}})},
)
RATES = {
    "32 kHz": [(32_000, 1)],
    "half 44.1 kHz": [(32_000, 1), (44_100, 1), (32_000, 1), (44_100, 2)],
}
"""What recordings are in turn: frames a second, and channels."""


def once(path: Path, write: Callable[[Path], None]) -> Path:
    """Writes a file that is not there yet, a minute old: younger ones get no sidecars."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        write(part)
        old = time.time() - 60
        os.utime(part, (old, old))
        part.rename(path)
    return path


def write_stream(path: Path, batches: Iterable[pa.RecordBatch], **options: Any) -> None:
    batches = iter(batches)
    first = next(batches)
    form = pa.ipc.IpcWriteOptions(**options)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, first.schema, options=form) as out,
    ):
        out.write_batch(first)
        for batch in batches:
            out.write_batch(batch)


def audio_batch(rows: Sequence[bytes], first: int) -> pa.RecordBatch:
    """Encoded recordings, whose labels and names are numbers from `first` on."""
    numbers = range(first, first + len(rows))
    audio = [{"bytes": data, "path": str(i)} for i, data in zip(numbers, rows, strict=True)]
    columns = [pa.array(audio, AUDIO), pa.array(numbers, pa.int64())]
    return pa.record_batch(columns, schema=SCHEMA)


def audio_shard(path: Path, rows: Sequence[bytes], batch_rows: int, first: int = 0) -> Path:
    """A shard of these recordings."""
    starts = range(0, len(rows), batch_rows)
    batches = (audio_batch(rows[s : s + batch_rows], first + s) for s in starts)
    return once(path, lambda part: write_stream(part, batches))


def field_like(seconds: float, rate: int, channels: int, seed: int) -> np.ndarray:
    """Chirps over noise that falls with frequency, as (frames, channels)."""
    rng = np.random.default_rng(seed)
    n = round(seconds * rate)
    t = np.arange(n, dtype=np.float32) / rate
    out = np.empty((n, channels), np.float32)
    sweep = np.cumsum(2_000 + 1_500 * np.sin(2 * np.pi * 3 * t), dtype=np.float64) / rate
    song = 0.3 * np.sin(2 * np.pi * sweep) * (np.sin(2 * np.pi * 0.4 * t) > 0.3)
    for channel in range(channels):
        noise = rng.standard_normal(n + 7, dtype=np.float32)
        smooth = np.convolve(
            noise, np.float32([0.3, 0.25, 0.2, 0.1, 0.07, 0.05, 0.02, 0.01]), "valid"
        )
        out[:, channel] = song + 0.08 * smooth + 0.01 * noise[:n]
    return out


def encode(frames: np.ndarray, rate: int, container: str, subtype: str) -> bytes:
    """Encodes in blocks: libsndfile can crash on one long write of Vorbis."""
    out = io.BytesIO()
    channels = frames.shape[1]
    with soundfile.SoundFile(out, "w", rate, channels, format=container, subtype=subtype) as f:
        for start in range(0, len(frames), 16_384):
            f.write(frames[start : start + 16_384])
    return out.getvalue()


def vorbis_shards(
    folder: Path, n_recordings: int, rates: str, longest: float = 180.0, n_shards: int = 2
) -> list[Path]:
    """Ogg Vorbis of 10 s and more, in record batches of 100 rows."""
    name = f"vorbis-{rates.replace(' ', '-')}-{longest:g}-{n_recordings}"
    paths = [folder / f"{name}-{k}-of-{n_shards}.arrow" for k in range(n_shards)]
    if all(path.exists() for path in paths):
        return paths

    def recording(i: int) -> bytes:
        seconds = np.random.default_rng([1, i]).uniform(10, longest)
        rate, channels = RATES[rates][i % len(RATES[rates])]
        return encode(field_like(seconds, rate, channels, i), rate, "OGG", "VORBIS")

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        rows = list(tqdm(pool.map(recording, range(n_recordings)), "encoding", n_recordings))
    return [audio_shard(path, rows[k::n_shards], 100) for k, path in enumerate(paths)]


def noise_shard(path: Path, n_rows: int, batch_rows: int, sizes: tuple[int, int]) -> Path:
    """Rows of noise that begin with their number, of sizes between these."""
    first = int(path.stem.split("-")[-1]) * n_rows
    rng = np.random.default_rng([9, first, *sizes])
    noise = rng.bytes(2 * sizes[1])

    def batch(start: int) -> pa.RecordBatch:
        numbers = range(first + start, first + min(start + batch_rows, n_rows))
        drawn = rng.integers(*sizes, len(numbers)).tolist()
        rows = [
            i.to_bytes(8, "little") + noise[i % sizes[1] :][: n - 8]
            for i, n in zip(numbers, drawn, strict=True)
        ]
        return audio_batch(rows, numbers[0])

    batches = map(batch, range(0, n_rows, batch_rows))
    return once(path, lambda part: write_stream(part, batches))
