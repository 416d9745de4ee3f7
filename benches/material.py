"""The shards that the benches run on, made once into a folder."""

from __future__ import annotations

import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import soundfile
from tqdm import tqdm

SMOOTHING = np.float32([0.3, 0.25, 0.2, 0.1, 0.07, 0.05, 0.02, 0.01])
SCHEMA = pa.schema(
    [
        ("audio", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        ("label", pa.int64()),
    ],
    metadata={
        "huggingface": json.dumps(
            {
                "info": {
                    "features": {
                        "audio": {"_type": "Audio"},
                        "label": {"dtype": "int64", "_type": "Value"},
                    }
                }
            }
        )
    },
)


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


def _recording(i: int) -> bytes:
    rng = np.random.default_rng([1, i])
    seconds = rng.uniform(10, 180)
    rate, channels = [(32_000, 1), (44_100, 1), (32_000, 1), (44_100, 2)][i % 4]
    return encode(field_like(seconds, rate, channels, i), rate, "OGG", "VORBIS")


def _write(path: Path, recordings: list[bytes], batch_rows: int) -> Path:
    part = path.with_suffix(".part")
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as writer:
        for start in range(0, len(recordings), batch_rows):
            rows = recordings[start : start + batch_rows]
            audio = [{"bytes": data, "path": f"{start + k}"} for k, data in enumerate(rows)]
            labels = range(start, start + len(rows))
            columns = [pa.array(audio, SCHEMA.field("audio").type), pa.array(labels, pa.int64())]
            writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
    return part.rename(path)


def vorbis_shards(folder: Path, n_recordings: int, n_shards: int = 2) -> list[Path]:
    """Ogg Vorbis of 10 to 180 s at 32 and 44.1 kHz, in record batches of 100 rows."""
    paths = [folder / f"vorbis-{n_recordings}-{k}-of-{n_shards}.arrow" for k in range(n_shards)]
    if all(path.exists() for path in paths):
        return paths
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        made = list(
            tqdm(pool.map(_recording, range(n_recordings)), "encoding", n_recordings, unit="row")
        )
    return [_write(path, made[k::n_shards], 100) for k, path in enumerate(paths)]


def heavy_shard(folder: Path, n_batches: int) -> Path:
    """WAV rows of 1.5 MB in record batches of 100 rows, 150 MB each."""
    path = folder / f"heavy-{n_batches}.arrow"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    data = encode(field_like(750_000 / 32_000, 32_000, 1, 0), 32_000, "WAV", "PCM_16")
    return _write(path, [data] * (100 * n_batches), 100)
