"""Per-channel energy normalization, in place of the logarithm."""

# JAX leaves types open; the functions here close them.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gristmill import checks

_BLOCK = 64
"""Frames whose running means are computed at once: few enough that most of the product is used."""


@dataclass(frozen=True)
class PCEN:
    """Per-channel energy normalization: a gain control for each band, and a root.

    With `M` the running mean of a band's energy `E`, it is
    `(E / (eps + M) ** gain + bias) ** power - bias ** power`. The running mean starts with the
    first spectrogram frame.

    The defaults are those of Wang and others, "Trainable frontend for robust and far-field keyword
    spotting" (ICASSP 2017), for a hop of 10 ms and 16-bit samples: set `LogMel(input_scale=32768)`
    for them. Perch 1 has `PCEN(smoothing=0.1, gain=0.5)` on full scale of 1.

    Args:
        smoothing: The weight of the newest frame in the running mean, above 0, at most 1.
        gain: How much of the running mean is divided out, 0 to 1.
        bias: Above 0.
        power: The exponent, above 0, at most 1.
        eps: Keeps silence from being divided by 0, above 0.
    """

    smoothing: float = 0.025
    gain: float = 0.98
    bias: float = 2.0
    power: float = 0.5
    eps: float = 1e-6

    def __post_init__(self) -> None:
        checks.settle(
            self,
            smoothing=checks.above_0(1, "smoothing=0.025"),
            gain=partial(checks.number, low=0, high=1, write="gain=0.98"),
            bias=checks.above_0(1e6, "bias=2.0"),
            power=checks.above_0(1, "power=0.5"),
            eps=checks.above_0(1, "eps=1e-6"),
        )

    def __call__(self, energies: jax.Array) -> jax.Array:
        """Normalizes energies `(..., spectrogram frames, bands)` of at least 0, in float32."""
        energies = jnp.asarray(energies, jnp.float32)
        if energies.ndim < 2 or energies.shape[-2] == 0:
            raise ValueError(
                "energies are (..., spectrogram frames, bands), not of shape "
                f"{energies.shape}: give the output of a mel filter bank"
            )
        # In logarithms: neither overflows, whatever the scale of the energies.
        mean = jnp.log(self.eps) + jnp.log1p(self._smoothed(energies) / self.eps)
        gained = energies * jnp.exp(-self.gain * mean)
        return self.bias**self.power * jnp.expm1(self.power * jnp.log1p(gained / self.bias))

    def _smoothed(self, energies: jax.Array) -> jax.Array:
        """The running mean: a block of frames at a time by one product of matrices."""
        n = energies.shape[-2]
        n_blocks = -(-n // _BLOCK)
        ends = [(0, 0)] * (energies.ndim - 2) + [(0, n_blocks * _BLOCK - n), (0, 0)]
        blocks = jnp.pad(energies, ends).reshape(
            *energies.shape[:-2], n_blocks, _BLOCK, energies.shape[-1]
        )
        age = np.arange(_BLOCK)[:, None] - np.arange(_BLOCK)
        decay = 1 - self.smoothing
        weights = np.where(age >= 0, self.smoothing * decay ** np.maximum(age, 0), 0)
        remains = decay ** np.arange(1, _BLOCK + 1)[:, None]

        def step(mean: jax.Array, block: jax.Array) -> tuple[jax.Array, jax.Array]:
            own = jnp.matmul(weights.astype(np.float32), block, precision=jax.lax.Precision.HIGHEST)
            means = own + remains.astype(np.float32) * mean
            return means[..., -1:, :], means

        _, means = jax.lax.scan(step, energies[..., :1, :], jnp.moveaxis(blocks, -3, 0))
        return jnp.moveaxis(means, 0, -3).reshape(*energies.shape[:-2], -1, energies.shape[-1])[
            ..., :n, :
        ]
