"""The resampler's kernel, evaluated directly in f64: slow, and written apart from the fast one.

The constants are those of `docs/decisions/resampling.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Part:
    """A sinc under a Kaiser window, whose gain at 0 Hz is `gain`."""

    zeros: float  # zero crossings a side, under the whole window
    cutoff: float  # of the lower one of the two Nyquist frequencies
    beta: float
    gain: float = 1.0

    def at(self, t: np.ndarray) -> np.ndarray:
        """The response at `t` frames of the lower one of the two rates."""
        x = self.cutoff * t
        window = np.i0(self.beta * np.sqrt(np.clip(1 - (x / self.zeros) ** 2, 0, None)))
        window[np.abs(x) > self.zeros] = 0
        return self.gain * self.cutoff * np.sinc(x) * window / np.i0(self.beta)


@dataclass(frozen=True)
class Kernel:
    """The sum of some windowed sincs, cut off after `zeros` zero crossings of the first."""

    zeros: float
    parts: tuple[Part, ...]


BEST = Kernel(174.0, (Part(174.0, 0.975, 14.0),))


def hq(up: int, down: int) -> Kernel:
    longer = 1.0475 if down >= 4 * up or up > 4 * down else 1.0
    if {up, down} <= {1, 2, 3, 4, 6}:
        return Kernel(91.8 * longer, (Part(92.9 * longer, 0.95687, 13.04 * longer),))
    main = Part(96.78 * longer, 0.95686, 13.495 * longer, 1 - 1.1045e-3)
    return Kernel(91.8 * longer, (main, Part(13.75, 0.8513, 7.36, 1.1045e-3)))


def resample(
    signal: np.ndarray, rate_in: int, rate_out: int, kernel: Kernel | None = None
) -> np.ndarray:
    """Resamples the last axis, by `hq` or `kernel`; zeros lie around the recording. Returns f64."""
    g = math.gcd(rate_in, rate_out)
    up, down = rate_out // g, rate_in // g
    n_in = signal.shape[-1]
    n_out = -(-n_in * up // down)
    kernel = kernel or hq(up, down)
    scale = min(1.0, up / down)
    half_width = kernel.zeros / kernel.parts[0].cutoff / scale
    half = math.ceil(half_width)
    padded = np.pad(signal.astype(np.float64), [(0, 0)] * (signal.ndim - 1) + [(half, half + 1)])
    taps = np.arange(-half, half + 1)
    out = np.empty((*signal.shape[:-1], n_out))
    for phase in range(up):  # output frames that lie at the same place between two input frames
        m = np.arange(phase, n_out, up)
        if m.size == 0:
            continue
        whole, part = divmod(m[0] * down, up)
        x = taps - part / up
        h = sum(part.at(scale * x) for part in kernel.parts) * (np.abs(x) <= half_width)
        h /= h.sum()  # a constant passes unchanged
        first = whole + down * np.arange(m.size)
        windows = np.lib.stride_tricks.sliding_window_view(padded, taps.size, axis=-1)
        out[..., m] = windows[..., first, :] @ h
    return out


def torchaudio(signal: np.ndarray, rate_in: int, rate_out: int) -> np.ndarray:
    """torchaudio's default, `sinc_interp_hann` with a width of 6 and a rolloff of 0.99, in f64.

    Like `torchaudio.transforms.Resample`, whose filter is computed in f64.
    """
    g = math.gcd(rate_in, rate_out)
    down, up = rate_in // g, rate_out // g
    base = min(down, up) * 0.99
    width = math.ceil(6 * down / base)
    m = np.arange(-(-up * len(signal) // down))[:, None]
    # torchaudio's rows of filters are as long as `down` and zero but for these taps.
    n = m * down // up + np.arange(-width, width + 2)[None]
    t = np.clip((n / down - m / up) * base, -6, 6)
    filters = np.sinc(t) * np.cos(t * np.pi / 12) ** 2 * base / down
    padded = np.pad(signal.astype(np.float64), (width, width + 2))
    return np.sum(filters * padded[n + width], axis=1)


def snr_db(reference: np.ndarray, signal: np.ndarray) -> float:
    """How far `signal` lies from `reference`, in dB below it."""
    reference = np.asarray(reference, np.float64)
    noise = np.sum((reference - signal) ** 2)
    return math.inf if noise == 0 else 10 * math.log10(np.sum(reference**2) / noise)
