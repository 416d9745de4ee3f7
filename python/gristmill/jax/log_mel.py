"""Log-mel spectrograms as pure functions of audio, equal to those of other libraries."""

# JAX leaves types open; the functions here close them.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from gristmill import checks
from gristmill.jax.mel_matrices import mel_matrix
from gristmill.jax.pcen import PCEN
from gristmill.jax.presets import PRESETS, Name, Preset

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class LogMel:
    """A log-mel spectrogram: a function of audio, for `jax.jit`, `jax.vmap` and `jax.grad`.

    It has no parameters. Objects with the same options are equal, and hash alike.

    A preset gives what its source gives, within the tolerances that `docs/device.md` states:

    - `"kaldi"`: Kaldi's `compute-fbank-feats` without dither. Natural logarithm of power; windows
      of 25 ms each 10 ms that lie in the audio. Oracle: kaldi-native-fbank.
    - `"librosa"`: `librosa.power_to_db(librosa.feature.melspectrogram(...))` with librosa's
      defaults, row by row: decibels, and no value more than 80 dB below the largest of its row.
    - `"htk"`: the same with `htk=True, norm=None`, torchaudio's mel scale.
    - `"perch"`: the front end of Perch 2.0: 32 kHz, Hann windows of 20 ms each 10 ms, an FFT of
      1,024, the magnitude divided by the window's sum as `scipy.signal.stft` does, 128 bands from
      60 Hz to 16 kHz by TensorFlow's mel matrix, `0.1 * log(max(x, 0.01))`. 5 s are 500 frames.

    Example:
        >>> import gristmill as gm
        >>> log_mel = gm.jax.LogMel("perch")
        >>> log_mel(np.zeros((2, 160_000), np.int16)).shape
        (2, 500, 128)

    Args:
        preset: `"kaldi"`, `"librosa"`, `"htk"` or `"perch"`. It decides how audio is cut into
            windows, the shape of these, the mel scale and the logarithm. Each option below is the
            preset's where it is `None`.
        sample_rate: Rate of the audio in Hz, 1,000 to 768,000. Windows and hops of `"kaldi"` and
            `"perch"` are times and follow it; those of `"librosa"` and `"htk"` are 2,048 and 512
            samples at any rate.
        n_mels: Bands, at least 1.
        fmin: Where the lowest band begins, in Hz.
        fmax: Where the highest band ends, in Hz, at most half of the rate, which is the default.
        n_fft: Samples of the transform, at least `win_length`.
        win_length: Samples of the window, at least 2.
        hop_length: Samples from one spectrogram frame to the next, at least 1.
        top_db: Decibels below the largest value of a row that are kept, above 0; `None` keeps
            all. `"auto"` is the preset's: 80 for `"librosa"` and `"htk"`, `None` for the others.
            It makes padding and noise of a row depend on the row's largest value.
        pcen: Per-channel energy normalization in place of the logarithm and `top_db`.
        input_scale: What full scale is multiplied by. `"kaldi"` has 32,768, since Kaldi reads
            16-bit samples as they are; write 1 for models that were given floats of -1 to 1.
        dtype: Of the result: float32, float16 or bfloat16. Everything is computed in float32.

    Raises:
        ValueError: An option is out of range.
    """

    preset: Name
    _: KW_ONLY
    sample_rate: int | None = None
    n_mels: int | None = None
    fmin: float | None = None
    fmax: float | None = None
    n_fft: int | None = None
    win_length: int | None = None
    hop_length: int | None = None
    top_db: float | Literal["auto"] | None = "auto"
    pcen: PCEN | None = None
    input_scale: float | None = None
    dtype: Any = "float32"

    def __post_init__(self) -> None:
        write = 'gm.jax.LogMel("perch")'
        checks.choice("preset", self.preset, get_args(Name), write=write)
        preset = PRESETS[self.preset]
        _fill(self, sample_rate=preset.sample_rate, n_mels=preset.n_mels, fmin=preset.fmin)
        checks.settle(self, sample_rate=checks.within(1_000, 768_000, "sample_rate=32_000"))
        rate = self._rate
        _fill(
            self,
            fmax=rate / 2,
            win_length=_samples(preset.win_length, rate),
            hop_length=_samples(preset.hop_length, rate),
            input_scale=preset.input_scale,
        )
        checks.settle(self, win_length=checks.within(2, 2**20, "win_length=640"))
        if self.n_fft is None:
            power_of_2 = 1 << (int(self.win_length or 2) - 1).bit_length()
            _fill(self, n_fft=max(preset.n_fft or 0, power_of_2))
        if self.top_db == "auto":
            object.__setattr__(self, "top_db", preset.top_db)
        checks.settle(
            self,
            n_mels=checks.within(1, 4_096, "n_mels=128"),
            hop_length=checks.within(1, 2**20, "hop_length=320"),
            n_fft=checks.within(2, 2**20, "n_fft=1_024"),
            fmin=partial(checks.number, low=0, high=rate / 2, write="fmin=60"),
            fmax=partial(checks.number, low=0, high=rate / 2, above=True, write="fmax=16_000"),
            top_db=checks.above_0(1_000, "top_db=80", none=True),
            pcen=partial(checks.instance, kind=PCEN, write="pcen=gm.jax.PCEN()", none=True),
            input_scale=checks.above_0(2**31, "input_scale=32_768"),
            dtype=_float_dtype,
        )
        if self._fft < self._win:
            raise ValueError(
                f"n_fft is {self._fft}, less than a window of {self._win} samples: write "
                f"n_fft={1 << (self._win - 1).bit_length()}, or a smaller win_length"
            )
        if (self.fmin or 0) >= (self.fmax or 0):
            raise ValueError(
                f"fmin is {self.fmin:g} Hz and fmax {self.fmax:g} Hz: write a fmin below fmax"
            )

    def __call__(self, audio: Any) -> jax.Array:
        """Makes the spectrograms of a batch.

        Args:
            audio: `(batch, frames)`, with any number of axes before the last. Floats of -1 to 1,
                or int16, which stands for 1/32,768 of its value, as `gm.Audio(dtype="int16")`
                delivers it: only half of the bytes cross to the device then.

        Returns:
            `(batch, num_frames(frames), n_mels)`, of `dtype`.

        Raises:
            ValueError: The audio is of another dtype, or shorter than the preset can use. It is
                raised when the function is traced, with the shapes at hand.
        """
        audio = jnp.asarray(audio)
        scale = float(self.input_scale or 1)
        if audio.dtype == jnp.int16:
            scale /= 32_768
        elif not jnp.issubdtype(audio.dtype, jnp.floating):
            raise ValueError(
                f"audio is floats of -1 to 1 or int16, not {audio.dtype}: write "
                'gm.Audio(dtype="int16"), or "float32"'
            )
        if audio.ndim == 0 or self.num_frames(audio.shape[-1]) < 1:
            raise ValueError(
                f"audio of shape {audio.shape} is shorter than the preset {self.preset!r} can use, "
                f"with windows of {self._win} samples: write a longer crop"
            )
        rows = audio.reshape(-1, audio.shape[-1])

        def at_once(rows: jax.Array) -> jax.Array:
            return self._of_rows(rows, scale)

        def alone(row: jax.Array) -> jax.Array:
            return at_once(row[None])[0]

        def one_by_one(rows: jax.Array) -> jax.Array:
            return jax.lax.map(alone, rows)

        # A CPU is faster row by row, since a row's windows and spectra stay in its caches; an
        # accelerator wants the batch at once. Rows that are divided over devices have no order.
        on_cpu = at_once if _is_divided(rows) else one_by_one
        spectrograms = jax.lax.platform_dependent(rows, cpu=on_cpu, default=at_once)
        return spectrograms.reshape(*audio.shape[:-1], *spectrograms.shape[1:])

    def num_frames(self, frames: int) -> int:
        """The number of spectrogram frames of so many frames of audio, 0 where there are none."""
        if frames < 1:
            return 0
        framing = PRESETS[self.preset].framing
        if framing == "whole":
            return max(0, 1 + (frames - self._win) // self._hop)
        if framing == "ceil":
            return -(-frames // self._hop)
        return max(0, 1 + (frames + 2 * (self._fft // 2) - self._fft) // self._hop)

    def frame_mask(self, crop_frames: Any, frames: int) -> jax.Array:
        """Which spectrogram frames are of the recording, and not of the padding behind it.

        As many are as the recording would have without padding. With `pad="zero"` these are the
        same values, too, unless `top_db` or `dtype` says otherwise.

        Args:
            crop_frames: `(batch,)` integers: the column of this name, which `with_crop=True` adds.
            frames: Frames of a padded crop: `audio.shape[-1]`.

        Returns:
            bool, `(batch, num_frames(frames))`.
        """
        n = jnp.asarray(crop_frames)[..., None]
        if not jnp.issubdtype(n.dtype, jnp.integer):
            raise ValueError(
                f'crop_frames are integers, not {n.dtype}: give batch["crop_frames"], which '
                "with_crop=True adds"
            )
        number = jnp.arange(self.num_frames(frames))
        framing = PRESETS[self.preset].framing
        if framing == "whole":
            return number * self._hop + self._win <= n
        if framing == "ceil":
            return number * self._hop < n
        extra = 2 * (self._fft // 2) - self._fft
        return (number * self._hop <= n + extra) & (n > 0)

    @property
    def _rate(self) -> int:
        return int(self.sample_rate or 0)

    @property
    def _win(self) -> int:
        return int(self.win_length or 0)

    @property
    def _hop(self) -> int:
        return int(self.hop_length or 0)

    @property
    def _fft(self) -> int:
        return int(self.n_fft or 0)

    def _of_rows(self, rows: jax.Array, scale: float) -> jax.Array:
        """The spectrograms `(rows, spectrogram frames, bands)` of `(rows, frames)`."""
        preset, tables = PRESETS[self.preset], _tables(self)
        windows = self._windows(rows.astype(jnp.float32) * np.float32(scale))
        if preset.removes_mean:
            windows -= windows.mean(axis=-1, keepdims=True)
        if preset.preemphasis:
            before = jnp.concatenate([windows[..., :1], windows[..., :-1]], axis=-1)
            windows -= preset.preemphasis * before
        spectrum = jnp.fft.rfft(windows * tables.window, self._fft)
        values = spectrum.real**2 + spectrum.imag**2
        if preset.power == 1:
            # The derivative of a root is infinite at 0, and its product with 0 no number.
            is_silent = values == 0
            values = jnp.where(is_silent, 0, jnp.sqrt(jnp.where(is_silent, 1, values)))
        # GPUs and TPUs would multiply in fewer bits by default.
        bands = jnp.matmul(values, tables.bank, precision=jax.lax.Precision.HIGHEST)
        if self.pcen is not None:
            return self.pcen(bands).astype(self.dtype)
        logarithm = preset.factor * jnp.log(jnp.maximum(bands, np.float32(preset.floor)))
        if self.top_db is not None:
            largest = logarithm.max(axis=(-2, -1), keepdims=True)
            decibels = preset.factor * math.log(10) / (20 / preset.power) * float(self.top_db)
            logarithm = jnp.maximum(logarithm, largest - np.float32(decibels))
        return logarithm.astype(self.dtype)

    def _windows(self, rows: jax.Array) -> jax.Array:
        """The windows `(rows, spectrogram frames, win_length)`, with zeros around the audio."""
        n, win, hop = self.num_frames(rows.shape[-1]), self._win, self._hop
        framing = PRESETS[self.preset].framing
        # A window that is shorter than the transform stands in the middle of it.
        left = {"whole": 0, "ceil": win // 2}.get(framing, self._fft // 2 - (self._fft - win) // 2)
        # Pieces of `hop` samples, of which a window has `k`: slices, where indices would be slow.
        k = -(-win // hop)
        length = (n - 1 + k) * hop
        rows = jnp.pad(rows, ((0, 0), (left, max(0, length - left - rows.shape[-1]))))
        pieces = rows[:, :length].reshape(rows.shape[0], n - 1 + k, hop)
        return jnp.concatenate([pieces[:, i : i + n] for i in range(k)], axis=-1)[..., :win]


@dataclass(frozen=True)
class _Tables:
    """Constants of a front end."""

    window: _Array
    bank: _Array


@lru_cache(maxsize=64)
def _tables(options: LogMel) -> _Tables:
    preset = PRESETS[options.preset]
    win, n_fft = int(options.win_length or 0), int(options.n_fft or 0)
    bank = mel_matrix(
        preset.bank,
        n_mels=int(options.n_mels or 0),
        n_fft=n_fft,
        sample_rate=int(options.sample_rate or 0),
        fmin=float(options.fmin or 0),
        fmax=float(options.fmax or 0),
    )
    window = _window(preset, win)
    return _Tables(window.astype(np.float32), bank.astype(np.float32))


def _is_divided(rows: jax.Array) -> bool:
    """Whether the type of the rows says so, as that of arrays over a mesh of explicit axes does."""
    spec = getattr(getattr(jax.typeof(rows), "sharding", None), "spec", None)
    return bool(spec) and spec[0] is not None


def _window(preset: Preset, win_length: int) -> _Array:
    n = np.arange(win_length)
    if preset.window == "povey":
        return (0.5 - 0.5 * np.cos(2 * np.pi * n / (win_length - 1))) ** 0.85
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / win_length)
    return hann / hann.sum() if preset.is_normalized else hann


def _samples(length: float, rate: int) -> int:
    """A length in samples; a float is seconds."""
    return length if isinstance(length, int) else max(1, round(length * rate))


def _fill(options: LogMel, **defaults: float) -> None:
    """Takes the defaults of options that are `None`."""
    for name, value in defaults.items():
        if getattr(options, name) is None:
            object.__setattr__(options, name, value)


def _float_dtype(name: str, value: Any) -> Any:
    try:
        dtype = jnp.dtype(value)
    except TypeError:
        dtype = None
    if dtype not in (jnp.dtype("float32"), jnp.dtype("float16"), jnp.dtype("bfloat16")):
        raise checks.wrong(name, "float32, float16 or bfloat16", value, 'dtype="bfloat16"')
    return dtype
