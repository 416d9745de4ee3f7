"""Augmentations of audio and spectrograms in JAX, for the compiled step: recipes to copy.

    python examples/augment.py

Each is a pure function of a key and a batch, of fixed shapes, that draws for every row. Run as a
program, it prints what they do to a batch of tones. `train_birds.py` trains with them.
"""

import math

import jax
import jax.numpy as jnp

Key = jax.Array


def gain(key: Key, audio: jax.Array, low_db: float = -6.0, high_db: float = 6.0) -> jax.Array:
    """Makes each row of `(batch, frames)` louder or softer by decibels from `low_db` on."""
    decibels = jax.random.uniform(key, (len(audio), 1), minval=low_db, maxval=high_db)
    return audio * 10 ** (decibels / 20)


def add_noise(
    key: Key,
    audio: jax.Array,
    noise: jax.Array,
    low_db: float = 6.0,
    high_db: float = 30.0,
    share: float = 0.7,
) -> jax.Array:
    """Adds to a `share` of the rows a row of `noise`, at a signal-to-noise ratio in decibels.

    Rows whose audio or noise is silent stay as they are.
    """
    for_ratio, for_share = jax.random.split(key)
    decibels = jax.random.uniform(for_ratio, (len(audio), 1), minval=low_db, maxval=high_db)
    powers = [jnp.square(x).mean(axis=1, keepdims=True) for x in (audio, noise)]
    scale = jnp.sqrt(powers[0] / jnp.maximum(powers[1], 1e-12)) * 10 ** (-decibels / 20)
    is_noisy = jax.random.bernoulli(for_share, share, (len(audio), 1)) & (powers[1] > 1e-12)
    return audio + jnp.where(is_noisy, scale, 0) * noise


def mixup(
    key: Key,
    audio: jax.Array,
    targets: jax.Array,
    max_signals: int = 2,
    alpha: float = 1.0,
    beta: float = 1.0,
    concentration: int = 5,
) -> tuple[jax.Array, jax.Array]:
    """Generalized mixup as in Perch 2.0: each row becomes a sum of 1 to `max_signals` rows.

    How many is drawn from a beta-binomial distribution, their weights from a Dirichlet
    distribution; the sum is divided by the root of the sum of their squares, so that the expected
    power stays. A row's targets are those of all rows in it.
    """
    n = len(audio)
    for_count, for_weights, for_rows = jax.random.split(key, 3)
    # The distribution of the count is a short table, which compiles faster than drawing from beta.
    table = jnp.log(jnp.array(beta_binomial(max_signals - 1, alpha, beta)))
    count = 1 + jax.random.categorical(for_count, table, shape=(n, 1))
    is_in = jnp.arange(max_signals) < count
    # Normalized, sums of exponential variables are Dirichlet's.
    weights = jax.random.exponential(for_weights, (n, max_signals, concentration)).sum(-1) * is_in
    weights /= jnp.sqrt(jnp.square(weights).sum(axis=1, keepdims=True))
    others = [jax.random.permutation(k, n) for k in jax.random.split(for_rows, max_signals - 1)]
    rows = jnp.stack([jnp.arange(n), *others], axis=1)
    mixed = sum(weights[:, k, None] * audio[rows[:, k]] for k in range(max_signals))
    joined = jnp.where(is_in[..., None], jnp.asarray(targets)[rows], 0).max(axis=1)
    return mixed, joined


def beta_binomial(n: int, alpha: float, beta: float) -> list[float]:
    """The probability of each number from 0 to `n`."""

    def log_beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    return [
        math.comb(n, k) * math.exp(log_beta(k + alpha, n - k + beta) - log_beta(alpha, beta))
        for k in range(n + 1)
    ]


def spec_augment(
    key: Key,
    spectrograms: jax.Array,
    n_masks: int = 2,
    most_frames: int = 30,
    most_bands: int = 8,
) -> jax.Array:
    """SpecAugment: masks runs of frames and of bands of `(batch, frames, bands)`, in each axis.

    What is masked becomes the mean of its row. Each mask is up to `most_frames` frames or
    `most_bands` bands long, at any place.
    """
    mean = spectrograms.mean(axis=(1, 2), keepdims=True)
    masked = jnp.zeros(spectrograms.shape, bool)
    for axis, most in ((1, most_frames), (2, most_bands)):
        size = spectrograms.shape[axis]
        key, for_length, for_start = jax.random.split(key, 3)
        shape = (len(spectrograms), n_masks, 1)
        length = jax.random.randint(for_length, shape, 0, min(most, size) + 1)
        start = jnp.floor(jax.random.uniform(for_start, shape) * (size - length + 1))
        places = jnp.arange(size)
        runs = ((places >= start) & (places < start + length)).any(axis=1)
        masked |= runs[:, :, None] if axis == 1 else runs[:, None, :]
    return jnp.where(masked, mean, spectrograms)


def main() -> None:
    """Prints the power of a batch after each augmentation, and how much SpecAugment masks."""
    seconds = jnp.arange(16_000) / 16_000
    pitches = 200.0 * (1 + jnp.arange(8))[:, None]
    audio, targets = 0.1 * jnp.sin(2 * jnp.pi * pitches * seconds), jnp.eye(8)
    keys = jax.random.split(jax.random.key(0), 5)
    noise = 0.05 * jax.random.normal(keys[0], audio.shape)

    def power(x: jax.Array) -> str:
        return f"{10 * jnp.log10(jnp.square(x).mean()):.1f} dB"

    print(f"audio: {power(audio)}")
    print(f"gain: {power(gain(keys[1], audio))}")
    print(f"noise: {power(add_noise(keys[2], audio, noise))}")
    mixed, joined = mixup(keys[3], audio, targets)
    print(f"mixup: {power(mixed)}, {int(joined.sum())} classes in {len(joined)} rows")
    ramp = jnp.broadcast_to(jnp.arange(1.0, 65), (8, 100, 64))
    masked = spec_augment(keys[4], ramp) != ramp
    print(f"SpecAugment: {float(masked.mean()):.0%} masked")


if __name__ == "__main__":
    main()
