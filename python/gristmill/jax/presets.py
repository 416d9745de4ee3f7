"""The numbers of each preset of `LogMel`, and where they are from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from gristmill.jax.mel_matrices import Bank

Name: TypeAlias = Literal["kaldi", "librosa", "htk", "perch"]
Window: TypeAlias = Literal["hann", "povey"]
Framing: TypeAlias = Literal["whole", "centered", "ceil"]

# 10 log10(x), as 10 / ln(10) ln(x).
_DECIBEL: Final = 10 / math.log(10)


@dataclass(frozen=True)
class Preset:
    """One front end.

    Attributes:
        sample_rate: In Hz.
        window: `"hann"` is periodic; `"povey"` is a symmetric Hann window to the power of 0.85.
        win_length: Samples of the window, or seconds of it if a float.
        hop_length: Samples from one spectrogram frame to the next, or seconds if a float.
        n_fft: Samples of the transform; `None` is the window's, up to the next power of two.
        framing: `"whole"`: windows that lie in the audio. `"centered"`: around every `hop_length`th
            sample, the end of the audio too. `"ceil"`: the same without a window around the end.
        n_mels: Bands.
        fmin: Where the lowest band begins, in Hz.
        bank: The bands' shapes.
        power: Of the magnitude that is summed up in bands: 1 or 2.
        input_scale: What full scale is multiplied by.
        is_normalized: Whether a spectrum is divided by the sum of its window.
        floor: The smallest band before the logarithm.
        factor: What the natural logarithm is multiplied by.
        top_db: Decibels below the largest value of a crop that are kept, if any.
        removes_mean: Whether each window loses its mean.
        preemphasis: How much of the sample before is taken from each.
    """

    sample_rate: int
    window: Window
    win_length: int | float
    hop_length: int | float
    n_fft: int | None
    framing: Framing
    n_mels: int
    fmin: float
    bank: Bank
    power: int
    input_scale: float
    is_normalized: bool
    floor: float
    factor: float
    top_db: float | None = None
    removes_mean: bool = False
    preemphasis: float = 0.0


# The defaults of `librosa.feature.melspectrogram` and `librosa.power_to_db` (0.11).
_LIBROSA: Final = Preset(
    sample_rate=22_050,
    window="hann",
    win_length=2_048,
    hop_length=512,
    n_fft=2_048,
    framing="centered",
    n_mels=128,
    fmin=0.0,
    bank="slaney",
    power=2,
    input_scale=1.0,
    is_normalized=False,
    floor=1e-10,
    factor=_DECIBEL,
    top_db=80.0,
)

PRESETS: Final[dict[str, Preset]] = {
    # Kaldi's `compute-fbank-feats`, without its dither, on samples as Kaldi reads them from 16-bit
    # files. Its default is 23 bands; 80 is what its recipes for neural networks have.
    "kaldi": Preset(
        sample_rate=16_000,
        window="povey",
        win_length=0.025,
        hop_length=0.010,
        n_fft=None,
        framing="whole",
        n_mels=80,
        fmin=20.0,
        bank="kaldi",
        power=2,
        input_scale=32_768.0,
        is_normalized=False,
        floor=2.0**-23,  # C's FLT_EPSILON
        factor=1.0,
        removes_mean=True,
        preemphasis=0.97,
    ),
    "librosa": _LIBROSA,
    # `librosa.feature.melspectrogram(htk=True, norm=None)`, and torchaudio's mel scale.
    "htk": replace(_LIBROSA, bank="htk"),
    # Perch 2.0 (van Merrienboer and others, 2025), `EmbeddingModel.frontend` of its reference
    # code. Its STFT is that of SciPy, which divides by the sum of the window.
    "perch": Preset(
        sample_rate=32_000,
        window="hann",
        win_length=0.020,
        hop_length=0.010,
        n_fft=None,
        framing="ceil",
        n_mels=128,
        fmin=60.0,
        bank="tensorflow",
        power=1,
        input_scale=1.0,
        is_normalized=True,
        floor=0.01,
        factor=0.1,
    ),
}
