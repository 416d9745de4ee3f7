"""Signals and their encodings: made here, or cut from the public field recordings."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

RATE = 32_000  # of most signals here, and of most crops

# kind -> (container, subtype) of soundfile
KINDS = {
    "wav16": ("WAV", "PCM_16"),
    "wav24": ("WAV", "PCM_24"),
    "wavf32": ("WAV", "FLOAT"),
    "wavu8": ("WAV", "PCM_U8"),
    "flac16": ("FLAC", "PCM_16"),
    "flac24": ("FLAC", "PCM_24"),
    "vorbis": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "mp3vbr": ("MP3", "MPEG_LAYER_III"),
}
CODEC = {
    kind: next(codec for codec in ("wav", "flac", "vorbis", "mp3") if kind.startswith(codec))
    for kind in KINDS
}
# The largest difference from libsndfile, before resampling.
TOLERANCE = {"wav": 0.0, "flac": 0.0, "vorbis": 1e-6, "mp3": 2e-6}

CORPUS = Path(os.environ.get("GRISTMILL_CORPUS", Path(__file__).parents[3] / "shared" / "corpora"))


def synthetic(seconds: float, rate: int, channels: int = 1, seed: int = 0) -> np.ndarray:
    """Bird-like chirps over noise, as (frames, channels) within +-0.8."""
    rng = np.random.default_rng(seed)
    n = round(seconds * rate)
    t = np.arange(n) / rate
    out = np.empty((n, channels))
    for channel in range(channels):
        low, span = rng.uniform(300, 0.1 * rate), rng.uniform(500, 0.25 * rate)
        phase = 2 * np.pi * (low * t + span * (t / 2 - np.sin(4 * np.pi * t) / (8 * np.pi)))
        envelope = np.clip(np.sin(2 * np.pi * rng.uniform(1, 3) * t), 0, None)
        out[:, channel] = 0.5 * np.sin(phase) * envelope + 0.03 * rng.standard_normal(n)
    return np.clip(out, -0.8, 0.8).astype(np.float32)


def field(name: str, seconds: float | None = None) -> tuple[np.ndarray, int]:
    """A public field recording as (frames, channels), and its rate; skips where it is absent."""
    path = CORPUS / "field" / name
    if not path.exists():
        pytest.skip(f"no field recordings at {CORPUS}; set GRISTMILL_CORPUS to find them")
    frames, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return (frames if seconds is None else frames[: round(seconds * rate)]), rate


def encode(frames: np.ndarray, rate: int, kind: str) -> bytes:
    """Encodes (frames, channels); in blocks, since libsndfile can crash on one long write."""
    container, subtype = KINDS[kind]
    out = io.BytesIO()
    mode = {"bitrate_mode": "VARIABLE", "compression_level": 0.3} if kind == "mp3vbr" else {}
    with soundfile.SoundFile(
        out, "w", rate, frames.shape[1], format=container, subtype=subtype, **mode
    ) as f:
        for start in range(0, len(frames), 16_384):
            f.write(frames[start : start + 16_384])
    return out.getvalue()
