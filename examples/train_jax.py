"""Trains with JAX straight from Arrow shards, and resumes when run again.

    python examples/train_jax.py [--checkpoint DIR] [--steps N] [SHARD ...]

Without shards it makes a few small ones. The shards must have the columns `audio` and `label`.
Run it twice: the second run continues with the batches that the first would have seen next.
"""

import argparse
import json
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import gristmill as gm
from gristmill.tools.demo.data import write_shards
from gristmill.tools.demo.sound import Recipe

RATE_HZ = 32_000
N_CLASSES = 4


def loss_of(params: dict[str, jax.Array], audio: jax.Array, labels: jax.Array) -> jax.Array:
    """Cross-entropy of a linear model over the crop's mean log spectrum."""
    windows = audio[:, : audio.shape[1] // 1024 * 1024].reshape(audio.shape[0], -1, 1024)
    spectrum = jnp.log(jnp.abs(jnp.fft.rfft(windows)) + 1e-3).mean(axis=1)
    log_p = jax.nn.log_softmax(spectrum @ params["weights"] + params["bias"])
    return -jnp.take_along_axis(log_p, labels[:, None], axis=1).mean()


@jax.jit
def step(
    params: dict[str, jax.Array], audio: jax.Array, labels: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    """One step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(params, audio, labels)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), loss


def main() -> None:
    """Takes some steps, from the checkpoint if there is one, and leaves a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", nargs="*")
    parser.add_argument("--checkpoint", type=Path, default=Path("example-checkpoint"))
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    shards = args.shards or write_shards(
        args.checkpoint / "shards",
        n_rows=40,
        rows_per_shard=20,
        recipe=Recipe(duration_s=(5, 15)),
    )

    dataset = gm.ArrowIterDataset(
        shards,
        columns=["audio", "label"],
        audio=gm.Audio(sample_rate=RATE_HZ, crop=gm.RandomCrop(seconds=5)),
        shuffle=gm.Shuffle(seed=1),
        batch_size=8,
        epochs=None,
    )
    params = {"weights": jnp.zeros((513, N_CLASSES)), "bias": jnp.zeros(N_CLASSES)}
    first = 0

    with closing(iter(dataset)) as batches:
        model_file, data_file = args.checkpoint / "model.npz", args.checkpoint / "data.json"
        if data_file.exists():
            saved = json.loads(data_file.read_text(encoding="utf-8"))
            first = saved["step"]
            batches.set_state(saved["data"])
            params = {name: jnp.asarray(value) for name, value in np.load(model_file).items()}
            print(f"resumed after step {first}")

        for number in range(first + 1, first + args.steps + 1):
            batch = next(batches)
            params, loss = step(params, batch["audio"], batch["label"])
            if number % 5 == 0:
                print(f"step {number}: loss {loss:.3f}, {batch['audio'].shape} {batch['label']}")

        args.checkpoint.mkdir(parents=True, exist_ok=True)
        np.savez(model_file, **params)
        saved = {"step": number, "data": batches.get_state()}
        data_file.write_text(json.dumps(saved), encoding="utf-8")
        print(f"saved after step {number}")


if __name__ == "__main__":
    main()
