"""The recipes of `examples/augment.py`, beside NumPy and their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from examples_of import example

jax = pytest.importorskip("jax")
KEYS = [jax.random.key(k) for k in range(3)]


augment = example("augment.py")


def noise(rows: int = 64, frames: int = 500, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((rows, frames)).astype(np.float32)


def test_gain_is_between_its_bounds_and_by_row() -> None:
    audio = noise()
    change = 20 * np.log10(np.abs(augment.gain(KEYS[0], audio, -9.0, 3.0) / audio))
    np.testing.assert_allclose(change, np.broadcast_to(change[:, :1], change.shape), atol=1e-3)
    assert change.min() >= -9.01
    assert change.max() <= 3.01
    assert change.max() - change.min() > 9
    assert len(np.unique(change[:, 0].round(3))) > 60


def test_noise_is_at_its_ratio() -> None:
    audio, background = 0.3 * noise(), noise(seed=1)
    background[3] = 0
    noisy = jax.jit(augment.add_noise)(KEYS[0], audio, background, 5.0, 20.0, 0.5)
    added = np.asarray(noisy) - audio
    is_noisy = np.abs(added).max(axis=1) > 0
    assert not is_noisy[3]
    assert 15 < is_noisy.sum() < 50
    powers = (np.square(x[is_noisy]).mean(axis=1) for x in (audio, added))
    ratio = 10 * np.log10(np.divide(*powers))
    assert 4.99 < ratio.min() < 8
    assert 17 < ratio.max() < 20.01
    assert np.isfinite(noisy).all()


@pytest.mark.parametrize("n", [1, 2, 4])
def test_mixup_is_a_sum_of_rows_whose_targets_it_has(n: int) -> None:
    rows = 64
    audio, targets = np.eye(rows, dtype=np.float32), np.eye(rows, dtype=np.float32)
    mixed, joined = map(
        np.asarray, jax.jit(augment.mixup, static_argnums=3)(KEYS[1], audio, targets, n)
    )
    # Of unit vectors, a sum shows its weights; of one row twice, their sum.
    is_in = mixed > 0
    assert (is_in == (joined > 0)).all()
    assert set(np.unique(joined)) <= {0, 1}
    assert is_in.diagonal().all()
    counts = is_in.sum(axis=1)
    assert counts.max() == n
    assert counts.min() == 1
    once = counts == counts.max()
    np.testing.assert_allclose(np.square(mixed[once]).sum(axis=1), 1, rtol=1e-5)


def test_the_beta_binomial_is_scipys() -> None:
    from scipy.stats import betabinom

    for n, alpha, beta in ((1, 1.0, 1.0), (4, 2.0, 5.0), (7, 0.5, 3.0)):
        expected = betabinom(n, alpha, beta).pmf(range(n + 1))
        np.testing.assert_allclose(augment.beta_binomial(n, alpha, beta), expected, rtol=1e-9)
    assert math.isclose(sum(augment.beta_binomial(9, 2.0, 2.0)), 1)


def test_spec_augment_masks_runs_of_frames_and_bands() -> None:
    spectrograms = noise(40, 100 * 32).reshape(40, 100, 32) + 5
    mask = jax.jit(augment.spec_augment, static_argnums=(2, 3, 4))
    found = np.asarray(mask(KEYS[2], spectrograms, 1, 20, 6))
    mean = spectrograms.mean(axis=(1, 2), keepdims=True)
    is_masked = found != spectrograms
    np.testing.assert_allclose(
        found[is_masked], np.broadcast_to(mean, found.shape)[is_masked], 1e-5
    )
    frames, bands = is_masked.all(axis=2), is_masked.all(axis=1)
    assert (is_masked == frames[:, :, None] | bands[:, None, :]).all()
    for runs, most in ((frames, 20), (bands, 6)):
        lengths = runs.sum(axis=1)
        assert lengths.max() <= most
        assert len(set(lengths.tolist())) > most // 2
        # One run a row: it begins at most once.
        assert (np.diff(runs.astype(int), axis=1, prepend=0) == 1).sum(axis=1).max() <= 1


def test_a_key_draws_the_same_again_and_another_key_does_not() -> None:
    audio, targets = noise(8), np.eye(8, dtype=np.float32)
    for call in (
        lambda key: augment.gain(key, audio),
        lambda key: augment.add_noise(key, audio, audio[::-1]),
        lambda key: augment.mixup(key, audio, targets)[0],
        lambda key: augment.spec_augment(key, audio.reshape(8, 50, 10)),
    ):
        one, again, other = (np.asarray(call(KEYS[k])) for k in (0, 0, 1))
        assert (one == again).all()
        assert (one != other).any()
