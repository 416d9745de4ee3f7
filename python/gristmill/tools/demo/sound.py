"""Bird-like calls over noise: four classes that a small model can tell apart, made from a seed."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

CLASSES = ("dusk_whistle", "hill_sweep", "marsh_buzz", "reed_trill")
"""Class names, in the order of their labels."""

PLACES = ("forest", "meadow", "river", "rain", "wind")

Pcm = NDArray[np.float32]


@dataclass(frozen=True)
class Recipe:
    """What recordings of a demo set may be like; each is drawn from (seed, row) alone.

    Attributes:
        seed: Two sets of the same recipe and seed are equal byte for byte.
        codecs: Of "vorbis", "flac", "mp3" and "wav"; repeat one to see it more often.
        rates_hz: Sample rates, drawn evenly.
        duration_s: Shortest and longest recording; logarithms are drawn evenly.
        stereo: Share of recordings with two channels.
    """

    seed: int = 0
    codecs: tuple[str, ...] = ("vorbis", "vorbis", "vorbis", "mp3", "mp3", "flac", "wav")
    rates_hz: tuple[int, ...] = (22_050, 32_000, 44_100, 48_000)
    duration_s: tuple[float, float] = (5.0, 40.0)
    stereo: float = 0.25


@dataclass(frozen=True)
class Recording:
    """One recording before it is encoded, with what the small columns say of it."""

    pcm: Pcm
    """Frames by channels, within [-1, 1]."""
    rate_hz: int
    codec: str
    label: int
    recording_id: str
    latitude: float
    longitude: float
    recorded_at: datetime
    quality: int
    tags: list[str]


def draw(recipe: Recipe, row: int) -> Recording:
    """Makes the recording of a row; rows can be made in any order and on any thread."""
    rng = np.random.default_rng([recipe.seed, row])
    # Labels alternate, so that every shard holds as many of each.
    label = row % len(CLASSES)
    rate_hz = int(rng.choice(recipe.rates_hz))
    shortest, longest = map(math.log, recipe.duration_s)
    n_frames = round(math.exp(rng.uniform(shortest, longest)) * rate_hz)
    n_channels = 2 if rng.random() < recipe.stereo else 1
    return Recording(
        pcm=_sing(rng, label, rate_hz, n_frames, n_channels),
        rate_hz=rate_hz,
        codec=str(rng.choice(recipe.codecs)),
        label=label,
        recording_id=f"GM{recipe.seed:03d}{row:06d}",
        latitude=float(rng.uniform(-60, 70)),
        longitude=float(rng.uniform(-180, 180)),
        recorded_at=datetime(2024, 4, 1, tzinfo=UTC)
        + timedelta(seconds=int(rng.integers(90 * 86_400))),
        quality=int(rng.integers(1, 6)),
        tags=[str(tag) for tag in rng.permutation(PLACES)[: rng.integers(0, 3)]],
    )


def _sing(
    rng: np.random.Generator, label: int, rate_hz: int, n_frames: int, n_channels: int
) -> Pcm:
    """Lays calls over noise, often enough that every five seconds hold two or more."""
    noise = rng.standard_normal((n_frames, n_channels), dtype=np.float32)
    noise[1:] += noise[:-1]  # less hiss than rumble, as outdoors
    pcm = noise * np.float32(rng.uniform(0.01, 0.05))
    pitch = rng.uniform(0.92, 1.08)  # this bird's own
    pan = rng.uniform(0.4, 1.0, n_channels).astype(np.float32)
    start_s = rng.uniform(0.0, 0.8)
    while (first := int(start_s * rate_hz)) < n_frames:
        call = _call(label, pitch * rng.uniform(0.98, 1.02), rate_hz)[: n_frames - first]
        level = np.float32(rng.uniform(0.05, 0.4))
        pcm[first : first + len(call)] += call[:, None] * pan * level
        start_s += rng.uniform(1.0, 1.8)
    return np.clip(pcm, -1.0, 1.0)


def _call(label: int, pitch: float, rate_hz: int) -> Pcm:
    """One call of a class, peak 1, 0.2 to 0.7 s."""
    seconds = (0.6, 0.25, 0.5, 0.7)[label]
    t = np.arange(int(seconds * rate_hz)) / rate_hz
    part = t / seconds
    if label == 0:  # a long whistle that falls
        wave = np.sin(2 * np.pi * pitch * (3000 * t - 500 * t * part))
    elif label == 1:  # a quick sweep upwards
        wave = np.sin(2 * np.pi * pitch * (2000 * t + 2250 * t * part))
    elif label == 2:  # a low, rough stack of harmonics
        k = np.arange(1, 6)[:, None]
        wave = (np.sin(2 * np.pi * pitch * 600 * k * t) / k).sum(axis=0)
        wave = wave * (0.6 + 0.4 * np.sin(2 * np.pi * 70 * t)) / 2
    else:  # pulses on one high pitch
        wave = np.sin(2 * np.pi * pitch * 5500 * t) * (np.sin(2 * np.pi * 22 * t) > 0)
    return (wave * np.sin(np.pi * part) ** 0.5).astype(np.float32)
