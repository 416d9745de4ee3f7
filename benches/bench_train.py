"""A training job on whatever accelerator JAX finds, with synthetic data and with Gristmill.

A convolutional network hears crops of 5 s at 32 kHz and learns a label, in batches of 64. Its
layers are wide on a GPU or TPU, so that a step is work for it. With synthetic data a step is the
same transfer and the same computing, on one batch again and again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import material
import peers
import processes
import pytest

WAITING = 1.0  # percent of the steps' time
N_CLASSES = 16


def train(name: str, crops: peers.Crops, n_steps: int) -> dict[str, Any]:
    """Seconds of a step, and the part of it that waits for data, after two warm steps."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    platform = jax.default_backend()
    width = 32 if platform == "cpu" else 2048
    sizes, keys = [1, width, width, width, N_CLASSES], jax.random.split(jax.random.key(0), 4)
    shapes = list(zip(keys, sizes, sizes[1:], (400, 9, 9, 9), strict=False))
    params = [
        jax.random.normal(k, (n_out, n_in, n)) / (n_in * n) ** 0.5 for k, n_in, n_out, n in shapes
    ]
    adam = optax.adam(1e-3)

    def loss(params: Any, audio: Any, label: Any) -> Any:
        x = audio[:, None, :]
        for k, kernel in enumerate(params):
            stride = 160 if k == 0 else 4
            x = jax.lax.conv_general_dilated(x, kernel, (stride,), "SAME")
            x = jax.nn.gelu(x)
        logits = x.mean(axis=2)
        return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()

    @jax.jit
    def step(params: Any, state: Any, audio: Any, label: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, audio, label % N_CLASSES)
        updates, state = adam.update(gradients, state)
        return optax.apply_updates(params, updates), state, value

    batches = iter(peers.dataset(crops, epochs=None))
    synthetic = next(batches)
    state, waited, losses = adam.init(params), 0.0, []
    for k in range(n_steps + 2):
        if k == 2:
            began, waited = time.perf_counter(), 0.0
        asked = time.perf_counter()
        batch = next(batches) if name == "gristmill" else synthetic
        waited += time.perf_counter() - asked
        audio, label = jax.device_put((batch["audio"], jnp.int32(batch["label"])))
        params, state, value = step(params, state, audio, label)
        losses.append(jax.block_until_ready(value))
    took = time.perf_counter() - began
    batches.close()
    assert np.isfinite(losses).all()
    return {
        "seconds": took / n_steps,
        "% of the time waiting for data": 100 * waited / took,
        "rows a second": n_steps * crops.batch_size / took,
        "peak memory of the host, MiB": processes.peak_rss() / processes.MIB,
        "platform": platform,
    }


@pytest.mark.parametrize("job", ["synthetic data", "gristmill"])
def test_training(turns: Any, fresh: Any, size: Any, data: Path, benchmark: Any, job: str) -> None:
    pytest.importorskip("optax")
    n_recordings, longest, batch_size = size((150, 180.0, 64), (24, 180.0, 64), (6, 11.0, 2))
    paths = material.vorbis_shards(data, n_recordings, "half 44.1 kHz", longest)
    crops, n_steps = peers.Crops(paths, batch_size), size(200, 30, 2)
    limits = {"% of the time waiting for data": {"at_most": WAITING}} if job == "gristmill" else {}
    turns(
        lambda name: lambda _: fresh(train, name, crops, n_steps),
        rounds=size(3, 2, 1),
        than="synthetic data",
        limits=limits,
    )
    benchmark.extra_info["platform"] = turns.times[job][0]["platform"]
