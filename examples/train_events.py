"""Trains a multi-label model on crops around events, and evaluates it on windows.

    python examples/train_events.py [--data DIR] [--steps N]

It makes a few shards with the columns that BirdSet has: whole recordings, `detected_events` as
lists of [start, end] in seconds, and a class for each event. Some classes are rare, so recordings
are drawn by their rarest class. Training sees a crop around one event of each recording that is
drawn, and as targets the classes of all events that fall into it. Evaluation sees every window of
every recording once.
"""

import argparse
import json
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

import gristmill as gm
from gristmill.tools.demo.encode import encode

RATE_HZ = 16_000
SECONDS = 2.0
CLASSES = ("low", "middle", "high")
TONES_HZ = (500, 1_500, 4_000)
LABEL = {"names": list(CLASSES), "_type": "ClassLabel"}
FEATURES = {
    "audio": {"_type": "Audio"},
    "event_labels": {"feature": LABEL, "_type": "List"},
    "ebird_code_multilabel": {"feature": LABEL, "_type": "List"},
}
SCHEMA = pa.schema(
    {
        "audio": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
        "detected_events": pa.list_(pa.list_(pa.float64())),
        "event_labels": pa.list_(pa.int64()),
        "ebird_code_multilabel": pa.list_(pa.int64()),
    },
    metadata={"huggingface": json.dumps({"info": {"features": FEATURES}})},
)


def write_shard(path: Path, n_rows: int, seed: int) -> Path:
    """Recordings of noise with some tones in them, and where the tones are."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in range(n_rows):
        n = int(rng.integers(5 * RATE_HZ, 12 * RATE_HZ))
        pcm = 0.05 * rng.standard_normal(n)
        events, labels = [], []
        for _ in range(rng.integers(1, 5)):
            start, length = rng.uniform(0, n / RATE_HZ - 0.5), rng.uniform(0.5, 1.5)
            end, label = min(start + length, n / RATE_HZ), int(rng.choice(3, p=[0.6, 0.3, 0.1]))
            part = slice(round(start * RATE_HZ), round(end * RATE_HZ))
            t = np.arange(part.start, part.stop) / RATE_HZ
            pcm[part] += 0.2 * np.sin(2 * np.pi * TONES_HZ[label] * t)
            events.append([start, end])
            labels.append(label)
        data = encode(np.clip(pcm, -1, 1).astype(np.float32)[:, None], RATE_HZ, "flac")
        rows.append(
            {
                "audio": {"bytes": data, "path": f"{row}.flac"},
                "detected_events": events,
                "event_labels": labels,
                "ebird_code_multilabel": sorted(set(labels)),
            }
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA), max_chunksize=100)
    return path


def targets_of(batch: dict[str, np.ndarray]) -> np.ndarray:
    """The classes of the events in each row's crop, `(batch, classes)` of 0 and 1."""
    return gm.events_in(
        batch,
        sample_rate=RATE_HZ,
        pairs="detected_events",
        min_overlap=0.25,
        labels="event_labels",
        num_classes=len(CLASSES),
    )


def logits_of(params: dict[str, jax.Array], audio: jax.Array) -> jax.Array:
    """A linear model over the crop's largest log spectrum."""
    frames = audio.reshape(audio.shape[0], -1, 1_000)
    spectrum = jnp.log(jnp.abs(jnp.fft.rfft(frames)) + 1e-2).max(axis=1)
    return (spectrum - 1.0) @ params["weights"] + params["bias"]


@jax.jit
def step(
    params: dict[str, jax.Array], audio: jax.Array, targets: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    """One step of gradient descent on the binary cross-entropy."""

    def loss_of(params: dict[str, jax.Array]) -> jax.Array:
        logits = logits_of(params, audio)
        return (jnp.logaddexp(0, logits) - targets * logits).mean()

    loss, gradients = jax.value_and_grad(loss_of)(params)
    return jax.tree.map(lambda p, g: p - 0.02 * g, params, gradients), loss


def evaluate(params: dict[str, jax.Array], shard: Path) -> tuple[float, int]:
    """The share of right answers, one for each class and window, and the number of windows."""
    dataset = gm.ArrowIterDataset(
        shard,
        columns=["audio", "detected_events", "event_labels"],
        audio=gm.Audio(sample_rate=RATE_HZ, crop=gm.Windows(SECONDS)),
        batch_size=16,
        remainder="pad",  # one shape for the compiled model
        with_crop=True,
    )
    right, n_windows = 0, 0
    with closing(iter(dataset)) as batches:
        for batch in batches:
            answers = np.asarray(logits_of(params, batch["audio"]) > 0)
            is_right = (answers == targets_of(batch))[batch["valid"]]
            right, n_windows = right + int(is_right.sum()), n_windows + len(is_right)
    assert n_windows == dataset.rows_per_epoch()
    return right / (n_windows * len(CLASSES)), n_windows


def main() -> None:
    """Trains for some steps, and says before and after how good the model is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("example-events"))
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    train = write_shard(args.data / "train.arrow", 60, seed=1)
    test = write_shard(args.data / "test.arrow", 12, seed=2)

    dataset = gm.ArrowIterDataset(
        train,
        columns=["audio", "detected_events", "event_labels"],
        audio=gm.Audio(
            sample_rate=RATE_HZ, crop=gm.EventCrop(pairs="detected_events", seconds=SECONDS)
        ),
        sampling=gm.Balanced("ebird_code_multilabel", seed=1),
        batch_size=16,
        epochs=None,
        with_crop=True,
    )
    assert dataset.class_names("event_labels") == CLASSES
    n_bins = 501
    params = {"weights": jnp.zeros((n_bins, len(CLASSES))), "bias": jnp.zeros(len(CLASSES))}
    with closing(iter(dataset)) as batches:
        for number in range(1, args.steps + 1):
            batch = next(batches)
            params, loss = step(params, batch["audio"], targets_of(batch))
            if number % 50 == 0:
                print(f"step {number}: loss {loss:.3f}")
    accuracy, n_windows = evaluate(params, test)
    print(f"{n_windows} windows: {accuracy:.1%} of answers are right")


if __name__ == "__main__":
    main()
