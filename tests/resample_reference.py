"""The resampler's kernel, evaluated directly in f64: slow, and written apart from the fast one.

The constants are those of `docs/decisions/resampling.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Kernel:
    """A sinc of `zeros` zero crossings a side, under a Kaiser window."""

    zeros: float = 88.0
    cutoff: float = 0.9565  # of the lower one of the two Nyquist frequencies
    beta: float = 11.5


KERNEL = Kernel()


def resample(
    signal: np.ndarray, rate_in: int, rate_out: int, kernel: Kernel = KERNEL
) -> np.ndarray:
    """Resamples the last axis; zeros lie before and after the recording. Returns f64."""
    g = math.gcd(rate_in, rate_out)
    up, down = rate_out // g, rate_in // g
    n_in = signal.shape[-1]
    n_out = -(-n_in * up // down)
    scale = min(1.0, up / down) * kernel.cutoff
    half = math.ceil(kernel.zeros / scale)
    padded = np.pad(signal.astype(np.float64), [(0, 0)] * (signal.ndim - 1) + [(half, half + 1)])
    taps = np.arange(-half, half + 1)
    out = np.empty((*signal.shape[:-1], n_out))
    for phase in range(up):  # output frames that lie at the same place between two input frames
        m = np.arange(phase, n_out, up)
        if m.size == 0:
            continue
        whole, part = divmod(m[0] * down, up)
        x = taps - part / up
        window = np.i0(kernel.beta * np.sqrt(np.clip(1 - (x * scale / kernel.zeros) ** 2, 0, None)))
        window[np.abs(x * scale) > kernel.zeros] = 0
        h = np.sinc(scale * x) * window
        h /= h.sum()  # a constant passes unchanged
        first = whole + down * np.arange(m.size)
        windows = np.lib.stride_tricks.sliding_window_view(padded, taps.size, axis=-1)
        out[..., m] = windows[..., first, :] @ h
    return out


def snr_db(reference: np.ndarray, signal: np.ndarray) -> float:
    """How far `signal` lies from `reference`, in dB below it."""
    reference = np.asarray(reference, np.float64)
    noise = np.sum((reference - signal) ** 2)
    return math.inf if noise == 0 else 10 * math.log10(np.sum(reference**2) / noise)
