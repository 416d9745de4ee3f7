"""`gm.jax.LogMel` beside the libraries whose spectrograms it makes, and as a function in JAX."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from signals import synthetic

jax = pytest.importorskip("jax")
jnp = jax.numpy

# The largest difference from the oracles over the signals below, in the logarithm's own unit, at
# about three times what was measured.
TOLERANCE = {"kaldi": 5e-4, "librosa": 1e-3, "htk": 1e-3, "perch": 1e-5}
PRESETS = sorted(TOLERANCE)
# "htk" has librosa's path but for one matrix, and so has "librosa" Perch's but for its framing.
PATHS = ["kaldi", "perch", pytest.param("librosa", marks=pytest.mark.gate)]
PERCH_FIRST = ["perch", *(pytest.param(p, marks=pytest.mark.gate) for p in ("kaldi", "librosa"))]


def audio_of(seconds: float, rate: int, rows: int = 3) -> np.ndarray:
    """Chirps over noise; the last row is silent in its second half."""
    rows_ = np.stack([synthetic(seconds, rate, seed=k)[:, 0] for k in range(rows)])
    rows_[-1, rows_.shape[1] // 2 :] = 0
    return rows_


def run(log_mel: gm.jax.LogMel, audio: Any) -> np.ndarray:
    return np.asarray(jax.jit(log_mel)(audio))


def kaldi(audio: np.ndarray, rate: int, n_mels: int = 80, scale: float = 32_768.0) -> np.ndarray:
    knf = pytest.importorskip("kaldi_native_fbank")
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.samp_freq = rate
    options.mel_opts.num_bins = n_mels
    fbank = knf.OnlineFbank(options)
    fbank.accept_waveform(rate, (audio * np.float32(scale)).tolist())
    fbank.input_finished()
    return np.stack([fbank.get_frame(k) for k in range(fbank.num_frames_ready)])


def librosas(audio: np.ndarray, rate: int, top_db: float | None = 80.0, **more: Any) -> np.ndarray:
    librosa = pytest.importorskip("librosa")
    energies = librosa.feature.melspectrogram(y=audio, sr=rate, **more)
    return librosa.power_to_db(energies, top_db=top_db).T


def htk(audio: np.ndarray, rate: int, **more: Any) -> np.ndarray:
    return librosas(audio, rate, htk=True, norm=None, **more)


def perch(audio: np.ndarray, rate: int, n_mels: int = 128, fmax: float = 16_000) -> np.ndarray:
    """From the formulae, in float64: SciPy's STFT, and TensorFlow's matrix by its definition."""
    import scipy.signal  # takes seconds, which only this test has to wait

    win, hop = round(0.02 * rate), round(0.01 * rate)
    n_fft = 2 ** int(np.ceil(np.log2(win)))
    _, _, spectra = scipy.signal.stft(
        audio.astype(np.float64), nperseg=win, noverlap=win - hop, nfft=n_fft, padded=False
    )
    if len(audio) % hop == 0:
        spectra = spectra[:, :-1]
    magnitudes = np.abs(spectra).T

    def mel(hz: float) -> float:
        return 1127.0 * np.log1p(hz / 700.0)

    edges = np.linspace(mel(60.0), mel(fmax), n_mels + 2)
    matrix = np.zeros((n_fft // 2 + 1, n_mels))
    for k in range(1, n_fft // 2 + 1):  # the first bin is the constant, which is left out
        at = mel(k * rate / n_fft)
        for band in range(n_mels):
            low, center, high = edges[band : band + 3]
            slope = (at - low) / (center - low) if at <= center else (high - at) / (high - center)
            matrix[k, band] = max(0.0, slope)
    return 0.1 * np.log(np.maximum(magnitudes @ matrix, 0.01))


ORACLES = {"kaldi": kaldi, "librosa": librosas, "htk": htk, "perch": perch}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("seconds", "rate"), [(0.7123, 32_000), pytest.param(0.5, 48_000, marks=pytest.mark.gate)]
)
def test_the_same_as_its_source(preset: Any, seconds: float, rate: int) -> None:
    audio = audio_of(seconds, rate)
    more = {"fmax": 16_000} if preset == "perch" else {}
    log_mel = gm.jax.LogMel(preset, sample_rate=rate, **more)
    found = run(log_mel, audio)
    expected = np.stack([ORACLES[preset](row, rate) for row in audio])
    assert found.dtype == np.float32
    assert found.shape == expected.shape == (3, log_mel.num_frames(audio.shape[1]), log_mel.n_mels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[preset])


@pytest.mark.gate
@pytest.mark.parametrize("preset", ["kaldi", "librosa", "perch"])
def test_its_own_defaults(preset: Any) -> None:
    log_mel = gm.jax.LogMel(preset)
    rate = log_mel.sample_rate
    assert rate == {"kaldi": 16_000, "perch": 32_000}.get(preset, 22_050)
    audio = audio_of(0.5, rate, rows=1)
    np.testing.assert_allclose(
        run(log_mel, audio)[0], ORACLES[preset](audio[0], rate), rtol=0, atol=TOLERANCE[preset]
    )


@pytest.mark.gate
@pytest.mark.parametrize(
    ("preset", "more"), [("librosa", {}), ("htk", {"htk": True, "norm": None})]
)
def test_the_same_as_librosax(preset: Any, more: dict[str, Any]) -> None:
    """A second witness, which computes in JAX as we do."""
    librosax = pytest.importorskip("librosax")
    audio = audio_of(0.7123, 32_000)
    found = run(gm.jax.LogMel(preset, sample_rate=32_000), audio)
    for row, ours in zip(audio, found, strict=True):
        energies = librosax.feature.melspectrogram(y=jnp.asarray(row), sr=32_000, **more)
        expected = np.asarray(librosax.power_to_db(energies)).T
        np.testing.assert_allclose(ours, expected, rtol=0, atol=TOLERANCE[preset])


@pytest.mark.parametrize(
    "options",
    [
        {"n_fft": 1_024, "hop_length": 320, "win_length": 640, "n_mels": 64, "fmin": 50.0},
        {"n_fft": 1_000, "hop_length": 333, "win_length": 777, "fmax": 9_000.0},
        pytest.param({"n_fft": 512, "hop_length": 700}, marks=pytest.mark.gate),
        pytest.param({"n_fft": 511, "hop_length": 200}, marks=pytest.mark.gate),
    ],
)
@pytest.mark.parametrize("preset", ["librosa", pytest.param("htk", marks=pytest.mark.gate)])
@pytest.mark.filterwarnings("ignore:Empty filters detected")
def test_other_options(preset: Any, options: dict[str, Any]) -> None:
    audio = audio_of(0.4, 22_050, rows=1)
    options = {"win_length": options["n_fft"], **options}
    found = run(gm.jax.LogMel(preset, top_db=None, **options), audio)[0]
    expected = ORACLES[preset](audio[0], 22_050, top_db=None, **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-2)  # rounding near silence, in dB


def test_kaldi_on_full_scale_of_1() -> None:
    audio = audio_of(0.5, 16_000, rows=1)
    found = run(gm.jax.LogMel("kaldi", n_mels=64, input_scale=1), audio)[0]
    np.testing.assert_allclose(found, kaldi(audio[0], 16_000, 64, 1.0), rtol=0, atol=1e-3)


@pytest.mark.parametrize("preset", PATHS)
def test_int16_is_scaled_inside(preset: Any) -> None:
    log_mel = gm.jax.LogMel(preset, sample_rate=32_000)
    stored = np.round(audio_of(0.3, 32_000) * 32_768).astype(np.int16)
    floats = stored.astype(np.float32) / 32_768
    np.testing.assert_allclose(run(log_mel, stored), run(log_mel, floats), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("preset", PERCH_FIRST)
def test_bfloat16(preset: Any) -> None:
    """Results are rounded to 8 bits; audio of 8 bits has that much noise."""
    audio = audio_of(0.3, 32_000)
    log_mel = gm.jax.LogMel(preset, sample_rate=32_000)
    exact = run(log_mel, audio)
    rounded = run(gm.jax.LogMel(preset, sample_rate=32_000, dtype="bfloat16"), audio)
    assert rounded.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(rounded, np.float32), exact, rtol=2**-8, atol=1e-6)
    coarse = run(log_mel, jnp.asarray(audio, jnp.bfloat16))
    assert coarse.dtype == jnp.float32
    loud = exact > np.quantile(exact, 0.9)
    spread = exact.max() - exact.min()
    assert np.abs(coarse - exact)[loud].max() < 0.05 * spread


@pytest.mark.parametrize("preset", ["perch"])
def test_one_compilation_for_all_batches(preset: Any) -> None:
    step = jax.jit(gm.jax.LogMel(preset, sample_rate=32_000))
    rng = np.random.default_rng(0)
    for _ in range(4):
        step(rng.standard_normal((2, 8_000), np.float32))
    assert step._cache_size() == 1
    # An equal object is the same function to JAX, as a static argument or an attribute is.
    static = jax.jit(lambda log_mel, audio: log_mel(audio), static_argnums=0)
    for _ in range(3):
        static(gm.jax.LogMel(preset, sample_rate=32_000), np.zeros((2, 8_000), np.float32))
    assert static._cache_size() == 1


@pytest.mark.parametrize("preset", PERCH_FIRST)
def test_rows_vmap_and_any_leading_axes(preset: Any) -> None:
    log_mel = gm.jax.LogMel(preset, sample_rate=32_000)
    audio = audio_of(0.2, 32_000, rows=4)
    batch = run(log_mel, audio)
    of_rows = jax.jit(log_mel)
    for other in (
        jax.jit(jax.vmap(log_mel))(audio),
        of_rows(audio.reshape(2, 2, -1)).reshape(batch.shape),
        np.stack([of_rows(row) for row in audio]),
    ):
        np.testing.assert_allclose(other, batch, rtol=1e-5, atol=1e-4)


SLOPES = {"kaldi": 2.0, "librosa": 20 / np.log(10), "perch": 0.1}
FLOORS = {"kaldi": np.log(2.0**-23), "librosa": -100.0, "perch": 0.1 * np.log(0.01)}


@pytest.mark.parametrize("preset", PERCH_FIRST)
def test_gradients(preset: Any) -> None:
    """A louder crop has a larger logarithm, by a known slope; and silence has a gradient too."""
    log_mel = gm.jax.LogMel(preset, sample_rate=8_000, fmax=4_000, n_mels=20, top_db=None)
    audio = jnp.asarray(8 * audio_of(0.3, 8_000, rows=1))

    @jax.jit
    @jax.value_and_grad
    def mean(gain: Any, audio: Any) -> Any:
        return log_mel(gain * audio).mean()

    above = run(log_mel, audio) > FLOORS[preset] + 1e-4
    np.testing.assert_allclose(mean(1.0, audio)[1], SLOPES[preset] * above.mean(), rtol=1e-3)
    assert above.mean() > 0.4
    silent = jax.jit(jax.grad(lambda x: log_mel(x).sum()))(jnp.zeros((1, 4_000)))
    assert np.isfinite(silent).all()


@pytest.mark.gate
def test_gradients_are_those_of_differences() -> None:
    log_mel = gm.jax.LogMel("perch", sample_rate=8_000, fmax=4_000, n_mels=20, pcen=gm.jax.PCEN())
    audio = jnp.asarray(audio_of(0.3, 8_000, rows=1))
    weights = jnp.cos(jnp.arange(20.0))
    direction = jnp.asarray(np.random.default_rng(1).standard_normal(audio.shape), jnp.float32)

    @jax.jit
    def loss(at: Any) -> Any:
        return (log_mel(audio + at * direction) * weights).mean()

    step = 1e-3
    slope = (loss(step) - loss(-step)) / (2 * step)
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(0.0), slope, rtol=0.05)


@pytest.mark.parametrize("preset", PATHS)
def test_masks_are_of_the_frames_without_padding(preset: Any) -> None:
    log_mel = gm.jax.LogMel(preset, sample_rate=32_000, top_db=None)
    crop_frames = np.array([0, 1, 319, 320, 321, 799, 800, 801, 5_000, 8_000], np.int32)
    audio = np.array(audio_of(0.25, 32_000, rows=1).repeat(len(crop_frames), axis=0))
    for row, n in zip(audio, crop_frames, strict=True):
        row[n:] = 0
    mask = np.asarray(log_mel.frame_mask(crop_frames, 8_000))
    found = run(log_mel, audio)
    assert mask.shape == found.shape[:2]
    assert mask.sum(axis=1).tolist() == [log_mel.num_frames(n) for n in crop_frames.tolist()]
    assert mask[-1].all()
    for row, values, n in zip(mask, found, crop_frames, strict=True):
        assert not row[row.sum() :].any()
        if n == 801:  # what the recording alone gives
            alone = run(log_mel, audio[-1:, :n])[0]
            np.testing.assert_allclose(values[row], alone, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1, "gain": 0.5, "bias": 0.5, "power": 1}])
def test_pcen_is_librosas(options: dict[str, float]) -> None:
    librosa = pytest.importorskip("librosa")
    pcen = gm.jax.PCEN(**options)
    energies = np.random.default_rng(0).gamma(0.3, 2.0, (2, 300, 7)).astype(np.float32)
    expected = [
        librosa.pcen(
            one.T.astype(np.float64),
            b=pcen.smoothing,
            gain=pcen.gain,
            bias=pcen.bias,
            power=pcen.power,
            eps=pcen.eps,
            zi=(1 - pcen.smoothing) * one.T[:, :1],
        ).T
        for one in energies
    ]
    np.testing.assert_allclose(jax.jit(pcen)(energies), expected, rtol=1e-4, atol=1e-5)


def test_pcen_in_place_of_the_logarithm() -> None:
    audio = audio_of(0.5, 22_050, rows=1)
    librosa = pytest.importorskip("librosa")
    energies = librosa.feature.melspectrogram(y=audio[0] * 32_768, sr=22_050).T
    pcen = gm.jax.PCEN()
    found = run(gm.jax.LogMel("librosa", pcen=pcen, input_scale=32_768), audio)[0]
    np.testing.assert_allclose(found, pcen(energies), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"preset": "mel"}, "preset is one of 'kaldi', 'librosa', 'htk', 'perch', not 'mel'"),
        ({"sample_rate": 16}, "sample_rate is an integer from 1000 to 768000, not 16"),
        ({"n_mels": 0}, "n_mels is an integer from 1 to 4096, not 0"),
        ({"n_fft": 512}, "n_fft is 512, less than a window of 640 samples: write n_fft=1024"),
        ({"fmin": 9_000, "fmax": 8_000}, "fmin is 9000 Hz and fmax 8000 Hz: write a fmin below"),
        ({"fmax": 20_000}, "fmax is a number above 0, at most 16,000, not 20000"),
        ({"top_db": -1}, "top_db is a number above 0, at most 1,000 or None, not -1"),
        ({"dtype": "int16"}, "dtype is float32, float16 or bfloat16, not 'int16'"),
        ({"pcen": True}, r"pcen is PCEN or None, not True: write pcen=gm\.jax\.PCEN\(\)"),
    ],
)
def test_wrong_options(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        gm.jax.LogMel(**{"preset": "perch", **options})
    with pytest.raises(ValueError, match=r"gain is a number from 0 to 1, not 2: write gain=0\.98"):
        gm.jax.PCEN(gain=2)


@pytest.mark.parametrize(
    ("audio", "told"),
    [
        (np.zeros((2, 800), np.int32), 'not int32: write gm.Audio(dtype="int16")'),
        (np.zeros((2, 399), np.float32), "shape (2, 399) is shorter than the preset 'kaldi' can"),
        (np.float32(0), "audio of shape () is shorter"),
    ],
)
def test_wrong_audio(audio: Any, told: str) -> None:
    with pytest.raises(ValueError) as raised:  # its text is compared below
        jax.jit(gm.jax.LogMel("kaldi"))(audio)
    assert told in str(raised.value)
    with pytest.raises(ValueError, match=r'give batch\["crop_frames"\]'):
        gm.jax.LogMel("kaldi").frame_mask(np.zeros(2), 800)


def test_no_jax_is_one_sentence() -> None:
    code = """
import sys
sys.modules["jax"] = None
import gristmill as gm
try:
    gm.jax
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "gm.jax needs JAX, which is not installed: pip install jax\n"


def test_all_that_is_public_has_a_docstring() -> None:
    assert sorted(gm.jax.__all__) == ["LogMel", "PCEN", "to_device"]
    own = {name for name in vars(gm.jax.LogMel) if not name.startswith("_")}
    options = set(inspect.signature(gm.jax.LogMel).parameters)
    assert own - options == {"frame_mask", "num_frames"}
    for kind in (gm.jax.LogMel, gm.jax.PCEN, gm.jax.to_device):
        doc = inspect.getdoc(kind) or ""
        for name in inspect.signature(kind).parameters:
            assert re.search(rf"^ +{name}: \S", doc, re.MULTILINE), (kind, name)
    assert all(getattr(gm.jax.LogMel, name).__doc__ for name in own - options)
