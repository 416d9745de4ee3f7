"""Mel filter banks as NumPy matrices `(bins, mels)`, computed in float64.

A bank is triangles between edges that are evenly spaced on a mel scale. The four differ in the
scale, in whether the triangles are straight over hertz or over mel, in their heights, and in which
of the spectrum's bins they leave out.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np

Bank: TypeAlias = Literal["kaldi", "slaney", "htk", "tensorflow"]
_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Slaney's Auditory Toolbox (1998), as librosa has it: linear up to 1 kHz, 15 mel; above, 27 mel
# are a factor of 6.4.
_SLANEY_LINEAR_HZ: Final = 1_000.0
_SLANEY_HZ_PER_MEL: Final = 200 / 3
_SLANEY_LOG_STEP: Final = np.log(6.4) / 27


def mel_matrix(
    bank: Bank, *, n_mels: int, n_fft: int, sample_rate: int, fmin: float, fmax: float
) -> _Array:
    """The matrix `(n_fft // 2 + 1, n_mels)` that makes mel bands of the bins of a spectrum."""
    bins_hz = np.arange(n_fft // 2 + 1) * (sample_rate / n_fft)
    scale, inverse = (
        (_slaney_mel, _slaney_hz) if bank == "slaney" else (_logarithmic_mel, _logarithmic_hz)
    )
    lowest, highest = (float(scale(np.array([hz], np.float64))[0]) for hz in (fmin, fmax))
    edges: _Array = np.linspace(lowest, highest, n_mels + 2)
    if bank in ("slaney", "htk"):
        edges, points = inverse(edges), bins_hz
    else:
        points = scale(bins_hz)
    rising: _Array = (points[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling: _Array = (edges[2:] - points[:, None]) / (edges[2:] - edges[1:-1])
    weights: _Array = np.maximum(0.0, np.minimum(rising, falling))
    if bank == "slaney":  # each band has the same area over hertz
        weights *= 2 / (edges[2:] - edges[:-2])
    elif bank == "kaldi":  # it ends one bin below half of the rate
        weights[-1] = 0
    elif bank == "tensorflow":  # it leaves the constant out
        weights[0] = 0
    return weights


def _logarithmic_mel(hz: _Array) -> _Array:
    """HTK's scale: 1,127 ln(1 + f / 700), which is 2,595 log10(1 + f / 700) in other words."""
    return 2595 * np.log10(1 + hz / 700)


def _logarithmic_hz(mel: _Array) -> _Array:
    return 700 * (10 ** (mel / 2595) - 1)


def _slaney_mel(hz: _Array) -> _Array:
    above = np.log(np.maximum(hz, _SLANEY_LINEAR_HZ) / _SLANEY_LINEAR_HZ) / _SLANEY_LOG_STEP
    return np.minimum(hz, _SLANEY_LINEAR_HZ) / _SLANEY_HZ_PER_MEL + above


def _slaney_hz(mel: _Array) -> _Array:
    knee = _SLANEY_LINEAR_HZ / _SLANEY_HZ_PER_MEL
    above = np.exp(np.maximum(mel - knee, 0) * _SLANEY_LOG_STEP)
    return np.minimum(mel, knee) * _SLANEY_HZ_PER_MEL * above
