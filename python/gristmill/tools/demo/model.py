"""A small JAX classifier of five-second crops: log-mel spectrogram, two convolutions, a maximum."""

# optax and parts of JAX leave types open; the public functions here close them.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import math
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

SAMPLE_RATE_HZ = 32_000
_WINDOW = 1024
_HOP = _WINDOW // 2
_MELS = 48
_CHANNELS = 48

Array = NDArray[Any]
Params = dict[str, jax.Array]

_optimizer = optax.adam(1e-3)


class Model(NamedTuple):
    """Weights and the optimizer's memory of them."""

    params: Params
    optimizer: Any


def new_model(seed: int, n_classes: int) -> Model:
    """Draws weights."""
    keys = jax.random.split(jax.random.key(seed), 3)
    shapes = {
        "conv1": (9, _MELS, _CHANNELS),
        "conv2": (5, _CHANNELS, _CHANNELS),
        "head": (_CHANNELS, n_classes),
    }
    params: Params = {}
    for key, (name, shape) in zip(keys, shapes.items(), strict=True):
        scale = float(np.sqrt(2 / np.prod(shape[:-1])))
        params[name] = scale * jax.random.normal(key, shape)
        params[name + "_bias"] = jnp.zeros(shape[-1])
    return Model(params, _optimizer.init(params))


def train_step(model: Model, audio: Array, labels: Array) -> tuple[Model, float]:
    """Takes one step of Adam; returns the model after it and the loss before it.

    The model that goes in is used up.
    """
    model, loss = _step(model, audio, labels)
    return model, float(loss)


def predict(model: Model, audio: Array) -> Array:
    """Returns the likeliest class of each crop."""
    return np.asarray(_answers(model.params, audio))


def save(model: Model, path: Path) -> None:
    """Writes the whole model as NumPy arrays."""
    np.savez(path, *map(np.asarray, jax.tree.leaves(model)))


def load(path: Path, like: Model) -> Model:
    """Reads what `save` wrote; `like` lends its structure."""
    with np.load(path) as file:
        leaves = [jnp.asarray(file[name]) for name in file.files]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


@partial(jax.jit, donate_argnums=0)
def _step(model: Model, audio: jax.Array, labels: jax.Array) -> tuple[Model, jax.Array]:
    def loss_of(params: Params) -> jax.Array:
        logits = _logits(params, audio)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, gradients = jax.value_and_grad(loss_of)(model.params)
    updates, optimizer = _optimizer.update(gradients, model.optimizer, model.params)
    # optax types every tree of arrays as one wide union, ours among them.
    params = cast("Params", optax.apply_updates(model.params, updates))
    return Model(params, optimizer), loss


@jax.jit
def _answers(params: Params, audio: jax.Array) -> jax.Array:
    return _logits(params, audio).argmax(axis=-1)


def _logits(params: Params, audio: jax.Array) -> jax.Array:
    x = _log_mel(audio)
    for name in ("conv1", "conv2"):
        x = jax.lax.conv_general_dilated(
            x, params[name], (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        )
        x = jax.nn.relu(x + params[name + "_bias"])
    # The loudest answer in the crop counts: calls are short, and the rest is noise.
    return x.max(axis=1) @ params["head"] + params["head_bias"]


def _log_mel(audio: jax.Array) -> jax.Array:
    """Batch by frames to batch by windows by mel bands, each band's mean over the crop removed."""
    n_hops = audio.shape[1] // _HOP
    hops = audio[:, : n_hops * _HOP].reshape(audio.shape[0], n_hops, _HOP)
    windows = jnp.concatenate([hops[:, :-1], hops[:, 1:]], axis=-1)
    spectrum = jnp.fft.rfft(windows * np.hanning(_WINDOW).astype(np.float32))
    power = jnp.square(spectrum.real) + jnp.square(spectrum.imag)
    log_mel = jnp.log(power @ _mel_filters() + 1e-4)
    return (log_mel - log_mel.mean(axis=1, keepdims=True)) / 3


def _mel_filters() -> NDArray[np.float32]:
    """Triangles over the spectrum's bins, evenly spaced in mel from 100 Hz to 10 kHz."""
    lowest, highest = (2595 * math.log10(1 + hz / 700) for hz in (100, 10_000))
    edges_mel = np.linspace(lowest, highest, _MELS + 2)
    edges_hz = 700 * (10 ** (edges_mel / 2595) - 1)
    bins_hz = np.arange(_WINDOW // 2 + 1)[:, None] * SAMPLE_RATE_HZ / _WINDOW
    rising = (bins_hz - edges_hz[:-2]) / (edges_hz[1:-1] - edges_hz[:-2])
    falling = (edges_hz[2:] - bins_hz) / (edges_hz[2:] - edges_hz[1:-1])
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)
