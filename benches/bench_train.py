"""The share of a training job's time that is lost to data, on whatever device JAX finds.

A convolutional network hears crops of 5 s at 32 kHz and learns a label, in batches of 64. Its
layers are wide on a GPU or TPU, so that a step is work for it. Lost is what steps take longer with
data than on one batch that is held on the device: waiting, transfer, and on CPU devices also the
processors that reading takes from the step. Beside it stands how fast the batches come without any
step: steps that take longer than a batch need lose nothing to supply.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grain
import material
import peers
import processes
import pytest

import gristmill as gm

LOST = 1.0  # percent of the steps' time, where the processors are not those of the step
WAITING = 1.0  # percent of the steps' time
N_CLASSES = 16
HELD = "a batch held on the device"


def plain(crops: peers.Crops, n_threads: int) -> Iterator[Any]:
    """NumPy arrays, which JAX copies when the step is called."""
    return peers.gristmill(crops, n_threads)


def to_device(crops: peers.Crops, n_threads: int) -> Iterator[Any]:
    """Copied ahead, by `gm.jax.to_device`."""
    read = gm.ReadOptions(num_threads=n_threads)
    return iter(gm.jax.to_device(peers.dataset(crops, epochs=None, read=read)))


def device_put(crops: peers.Crops, n_threads: int) -> Iterator[Any]:
    """Copied ahead, by Grain."""
    import jax

    dataset = peers.dataset(crops, epochs=None, read=gm.ReadOptions(num_threads=n_threads))
    return iter(grain.experimental.device_put(dataset, jax.devices()[0]))


OURS = {"gristmill": plain, "gristmill to_device": to_device, "gristmill device_put": device_put}
JOBS: dict[str, Callable[[peers.Crops, int], Iterator[Any]]] = {
    HELD: plain,
    **OURS,
    "Grain in threads": peers.seek,
    "Grain mp_prefetch": peers.whole_file,
}


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

    if name not in OURS and name != HELD:
        n_steps = max(n_steps // 5, 2)  # whole recordings take minutes
    batches = JOBS[name](crops, len(os.sched_getaffinity(0)))
    held = None
    if name == HELD:
        held = jax.device_put({k: next(batches)[k] for k in ("audio", "label")})
        batches.close()  # pyright: ignore[reportAttributeAccessIssue]
    state, waited, losses, began = adam.init(params), 0.0, [], 0.0
    for k in range(n_steps + 2):
        if k == 2:
            began, waited = time.perf_counter(), 0.0
        asked = time.perf_counter()
        batch = next(batches) if held is None else held
        waited += time.perf_counter() - asked
        assert batch["audio"].shape == (crops.batch_size, peers.FRAMES)
        params, state, value = step(params, state, batch["audio"], jnp.int32(batch["label"]))
        losses.append(jax.block_until_ready(value))
    took = time.perf_counter() - began
    found = {
        "seconds": took / n_steps,
        "% of the time waiting for data": 100 * waited / took,
        "rows a second": n_steps * crops.batch_size / took,
        "peak memory of the host, MiB": processes.peak_rss() / processes.MIB,
        "platform": platform,
    }
    if held is None:
        # What had been made ahead is taken first.
        n_ahead, n_more = 8 if name in OURS else 2, max(n_steps // 2, 2)
        for k in range(n_ahead + n_more):
            if k == n_ahead:
                began = time.perf_counter()
            jax.block_until_ready(next(batches)["audio"])
        found["ms of a batch without a step"] = 1e3 * (time.perf_counter() - began) / n_more
        getattr(batches, "close", lambda: None)()
    assert np.isfinite(losses).all()
    return found


def check(name: str, crops: peers.Crops) -> None:
    """What is timed are the batches that were asked for."""
    import numpy as np

    peers.check(crops)
    if name in OURS:
        one, other = plain(crops, 1), JOBS[name](crops, 2)
        for _ in range(3):
            batch, expected = next(other), next(one)
            for column in ("audio", "label"):
                np.testing.assert_array_equal(batch[column], expected[column])
        one.close()  # pyright: ignore[reportAttributeAccessIssue]
        other.close()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("job", JOBS)
def test_training(
    turns: Any, fresh: Any, size: Any, figure: Any, data: Path, benchmark: Any, job: str
) -> None:
    pytest.importorskip("optax")
    n_recordings, longest, batch_size = size((150, 180.0, 64), (24, 180.0, 64), (6, 11.0, 2))
    paths = material.vorbis_shards(data, n_recordings, "half 44.1 kHz", longest)
    crops, n_steps = peers.Crops(paths, batch_size), size(200, 20, 2)

    def prepare(name: str) -> Any:
        fresh(check, name, crops)
        return lambda _: fresh(train, name, crops, n_steps)

    limits = {"% of the time waiting for data": {"at_most": WAITING}} if job in OURS else {}
    turns(prepare, rounds=size(3, 2, 1), than=HELD, limits=limits)
    platform = turns.times[job][0]["platform"]
    benchmark.extra_info["platform"] = platform
    if job != HELD:
        pairs = zip(turns.times[job], turns.times[HELD], strict=True)
        lost = sorted(100 * (1 - held["seconds"] / its["seconds"]) for its, held in pairs)
        mark = {"at_most": LOST} if job in OURS and platform != "cpu" else {}
        spread = f" ({lost[0]:.3g} to {lost[-1]:.3g})"
        figure("% of the time lost to data", lost[len(lost) // 2], spread=spread, **mark)
