"""A whole training run on BirdSet-like data: front end, augmentation, checkpoints, evaluation.

    python examples/train_birds.py [--out DIR] [--steps N]

It makes small shards with BirdSet's own column names, and trains a convolutional network in Flax
NNX to tell which species sing in 5 s: recordings balanced by species, crops around detected events,
Perch's front end, augmentation in JAX (`augment.py`) with background noise from a second data set,
Optax, and checkpoints by Orbax that have the state of the model and of the data. Kill it at any
step and run it again: it resumes, and ends with the same numbers, bit for bit. No recordist of the
training set is in the test set. Scores of windows are evaluated by window and by
recording, as mean average precision over classes (cmAP). Several devices divide each batch.

The plots are in the folder of `--out`: spectrograms of a batch, the loss, and the steps' times.
"""

import argparse
import itertools
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import augment
import grain
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import optax
import orbax.checkpoint as ocp
import pyarrow as pa
from flax import nnx

import gristmill as gm
from gristmill.tools.demo.encode import encode

RATE_HZ = 32_000
SECONDS = 5.0
SPECIES = ("amecro", "amerob", "bkcchi", "norcar")
PITCHES_HZ = (900, 2_200, 3_800, 6_000)
LABEL = {"names": list(SPECIES), "_type": "ClassLabel"}
FEATURES = {
    "audio": {"sampling_rate": RATE_HZ, "_type": "Audio"},
    "ebird_code": LABEL,
    "ebird_code_multilabel": {"feature": LABEL, "_type": "List"},
}
SCHEMA = pa.schema(
    {
        "audio": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
        "filepath": pa.string(),
        "ebird_code": pa.int64(),
        "ebird_code_multilabel": pa.list_(pa.int64()),
        "detected_events": pa.list_(pa.list_(pa.float64())),
        "recordist": pa.string(),
    },
    metadata={"huggingface": json.dumps({"info": {"features": FEATURES}})},
)
LOG_MEL = gm.jax.LogMel("perch")
SILENCE = 0.1 * np.log(0.01)  # the floor of Perch's front end


# --- data ---------------------------------------------------------------------------------------


def recording(rng: np.random.Generator, number: int, species: list[int]) -> dict[str, Any]:
    """A row: noise, and songs of the species with where they are."""
    n = int(rng.uniform(6, 14) * RATE_HZ)
    pcm = 0.02 * rng.standard_normal(n)
    events = []
    for kind in species * 2:
        start = rng.uniform(0, n / RATE_HZ - 1.5)
        t = np.arange(round(rng.uniform(0.5, 1.2) * RATE_HZ)) / RATE_HZ
        sweep = PITCHES_HZ[kind] * (t + 0.006 * np.sin(2 * np.pi * (4 + 3 * kind) * t))
        song = rng.uniform(0.2, 0.6) * np.sin(2 * np.pi * sweep) * np.hanning(len(t))
        first = round(start * RATE_HZ)
        pcm[first : first + len(t)] += song
        events.append([start, start + len(t) / RATE_HZ])
    data = encode(np.clip(pcm, -1, 1).astype(np.float32)[:, None], RATE_HZ, "flac")
    return {
        "audio": {"bytes": data, "path": f"XC{number}.flac"},
        "filepath": f"XC{number}.flac",
        "ebird_code": species[0] if species else None,
        "ebird_code_multilabel": species,
        "detected_events": sorted(events),
        "recordist": f"recordist {number % 11}",
    }


def write_shards(folder: Path, n_shards: int, n_rows: int, seed: int, *, songs: bool) -> Path:
    """Shards of recordings, most of one species, the first species four times as often."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(n_shards):
        path = folder / f"part-{shard}.arrow"
        if path.exists():
            continue
        rng = np.random.default_rng([seed, shard])
        rows = []
        for k in range(n_rows):
            n_species = int(rng.choice([1, 2], p=[0.8, 0.2])) if songs else 0
            drawn = rng.choice(len(SPECIES), n_species, replace=False, p=[0.5, 0.2, 0.15, 0.15])
            rows.append(recording(rng, n_rows * shard + k, sorted(drawn.tolist())))
        part = path.with_suffix(".part")
        with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as writer:
            writer.write_table(pa.Table.from_pylist(rows, SCHEMA), max_chunksize=8)
        part.rename(path)
    return folder


def split(part: str) -> gm.Split:
    """By recordist: whoever is heard in training is not heard in the test."""
    return gm.Split(part, {"train": 0.7, "test": 0.3}, by="recordist", seed=1)


def training_data(birds: Path, backgrounds: Path, batch_size: int) -> grain.IterDataset:
    """An endless stream of (batch of songs, batch of backgrounds), int16."""
    songs = gm.ArrowIterDataset(
        birds,
        columns=["audio", "ebird_code_multilabel"],
        audio=gm.Audio(
            sample_rate=RATE_HZ,
            crop=gm.EventCrop(pairs="detected_events", seconds=SECONDS),
            dtype="int16",
        ),
        split=split("train"),
        sampling=gm.Balanced("ebird_code_multilabel", seed=1),
        multi_hot=["ebird_code_multilabel"],
        batch_size=batch_size,
        epochs=None,
    )
    noise = gm.ArrowIterDataset(
        backgrounds,
        columns=["audio"],
        audio=gm.Audio(sample_rate=RATE_HZ, crop=gm.RandomCrop(SECONDS), dtype="int16"),
        shuffle=gm.Shuffle(seed=2),
        batch_size=batch_size,
        epochs=None,
    )
    return grain.experimental.ZipIterDataset([songs, noise])


# --- model --------------------------------------------------------------------------------------


class Classifier(nnx.Module):
    """Three convolutions over a log-mel spectrogram; a maximum over time; a linear layer."""

    def __init__(self, n_classes: int, width: int, *, rngs: nnx.Rngs) -> None:
        sizes = (1, width, 2 * width, 4 * width)
        self.convolutions = nnx.List(
            nnx.Conv(n_in, n_out, (5, 5), strides=(3, 2), rngs=rngs)
            for n_in, n_out in itertools.pairwise(sizes)
        )
        self.norms = nnx.List(nnx.GroupNorm(n, num_groups=4, rngs=rngs) for n in sizes[1:])
        self.head = nnx.Linear(16 * sizes[-1], n_classes, rngs=rngs)

    def __call__(self, spectrograms: jax.Array) -> jax.Array:
        """Logits `(batch, classes)` of spectrograms `(batch, frames, bands)`."""
        x = 5 * (spectrograms[..., None] - SILENCE)  # 0 where it is silent, 2 where it is loud
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = nnx.gelu(norm(convolution(x)))
        return self.head(x.max(axis=1).reshape(len(x), -1))


@nnx.jit
def train_step(
    model: Classifier,
    optimizer: nnx.Optimizer,
    number: jax.Array,
    songs: jax.Array,
    targets: jax.Array,
    noise: jax.Array,
) -> jax.Array:
    """One step. What is drawn depends on its number alone, so that a run that goes on draws it."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(0), number), 4)
    audio, noise = (x.astype(jnp.float32) / 32_768 for x in (songs, noise))
    audio = augment.add_noise(keys[0], augment.gain(keys[1], audio), noise)
    audio, targets = augment.mixup(keys[2], audio, targets)
    spectrograms = augment.spec_augment(keys[3], LOG_MEL(audio))

    def loss_of(model: Classifier) -> jax.Array:
        return optax.sigmoid_binary_cross_entropy(model(spectrograms), targets).mean()

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


@nnx.jit
def predict(model: Classifier, audio: jax.Array) -> jax.Array:
    """The probability of each class."""
    return jax.nn.sigmoid(model(LOG_MEL(audio)))


# --- evaluation ---------------------------------------------------------------------------------


def class_mean_average_precision(scores: np.ndarray, targets: np.ndarray) -> float:
    """The mean over classes that occur of their average precision, ties counted as one place."""
    precisions = []
    for score, target in zip(scores.T, targets.T.astype(bool), strict=True):
        if not target.any():
            continue
        order = np.argsort(-score, kind="stable")
        last_of_tie = np.append(np.diff(score[order]) != 0, True)
        found = np.cumsum(target[order])[last_of_tie]
        precision = found / (np.flatnonzero(last_of_tie) + 1)
        precisions.append(np.sum(np.diff(found, prepend=0) / target.sum() * precision))
    return float(np.mean(precisions))


def by_recording(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The largest value of each recording, whose windows have one key `(shard, row)`."""
    recordings, place = np.unique(keys, axis=0, return_inverse=True)
    largest = np.full((len(recordings), values.shape[1]), -np.inf)
    np.maximum.at(largest, place.ravel(), values)
    return largest


def evaluate(model: Classifier, birds: Path, batch_size: int, over: Any) -> dict[str, float]:
    """CmAP over all windows of all test recordings, by window and by recording."""
    dataset = gm.ArrowIterDataset(
        birds,
        columns=["audio", "ebird_code_multilabel", "detected_events"],
        audio=gm.Audio(sample_rate=RATE_HZ, crop=gm.Windows(SECONDS), dtype="int16"),
        split=split("test"),
        multi_hot=["ebird_code_multilabel"],
        batch_size=batch_size,
        remainder="pad",
        with_crop=True,
        with_row_id=True,
    )
    keys, scores, in_recording, in_window = [], [], [], []
    for batch in gm.jax.to_device(dataset, over):
        is_real = np.asarray(batch["valid"])
        classes = np.asarray(batch["ebird_code_multilabel"])
        # BirdSet's events have no classes of their own: they are the recording's.
        events = gm.events_in(batch, sample_rate=RATE_HZ, pairs="detected_events", min_overlap=0.2)
        has_event = np.array([event.any() for event in events])
        keys.append(np.stack([batch["shard"], batch["row"]], axis=1)[is_real])
        scores.append(np.asarray(predict(model, batch["audio"]))[is_real])
        in_recording.append(classes[is_real])
        in_window.append((classes * has_event[:, None])[is_real])
    key, score, whole, window = map(np.concatenate, (keys, scores, in_recording, in_window))
    return {
        "windows": len(score),
        "recordings": len(by_recording(key, score)),
        "cmAP by window": class_mean_average_precision(score, window),
        "cmAP by recording": class_mean_average_precision(
            by_recording(key, score), by_recording(key, whole)
        ),
    }


# --- checkpoints --------------------------------------------------------------------------------


def save(
    checkpoints: ocp.CheckpointManager,
    number: int,
    model: Classifier,
    optimizer: nnx.Optimizer,
    batches: grain.DatasetIterator,
) -> None:
    """Saves model, optimizer and the position in the data as one checkpoint."""
    items = ocp.args.Composite(
        model=ocp.args.StandardSave(nnx.to_pure_dict(nnx.state((model, optimizer)))),
        data=ocp.args.JsonSave(batches.get_state()),
    )
    checkpoints.save(number, args=items)


def restore(
    checkpoints: ocp.CheckpointManager,
    model: Classifier,
    optimizer: nnx.Optimizer,
    batches: grain.DatasetIterator,
) -> int:
    """Goes back to the last checkpoint, and returns its step; 0 without one."""
    latest = checkpoints.latest_step()
    if latest is None:
        return 0
    state = nnx.state((model, optimizer))
    wanted = ocp.args.Composite(
        model=ocp.args.StandardRestore(nnx.to_pure_dict(state)), data=ocp.args.JsonRestore()
    )
    saved = checkpoints.restore(latest, args=wanted)
    nnx.replace_by_pure_dict(state, saved.model)
    nnx.update((model, optimizer), state)
    batches.set_state(saved.data)
    return latest


# --- the run ------------------------------------------------------------------------------------


def plot(folder: Path, log: list[dict[str, float]], audio: jax.Array, targets: np.ndarray) -> None:
    """Writes the pictures: spectrograms with their species; loss and times of the steps."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415 # after its backend was chosen

    spectrograms = np.asarray(jax.jit(LOG_MEL)(np.asarray(audio[:4])))
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.6), sharey=True, layout="constrained")
    for axis, spectrogram, target in zip(axes, spectrograms, targets, strict=False):
        axis.imshow(spectrogram.T, origin="lower", aspect="auto", extent=(0, SECONDS, 0, 128))
        axis.set_title(", ".join(SPECIES[k] for k in np.flatnonzero(target)), fontsize=9)
        axis.set_xlabel("seconds")
    axes[0].set_ylabel("mel band")
    figure.savefig(folder / "spectrograms.png", dpi=72)
    steps = [one["step"] for one in log]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 2.6), layout="constrained")
    left.plot(steps, [one["loss"] for one in log])
    left.set(xlabel="step", ylabel="loss")
    for name in ("seconds", "waited"):
        right.plot(steps[1:], [1e3 * one[name] for one in log[1:]], label=name)
    right.set(xlabel="step", ylabel="ms", ylim=0)
    right.legend(["step", "waiting for data"])
    figure.savefig(folder / "training.png", dpi=72)


def main() -> None:
    """Trains from the last checkpoint on, if there is one; evaluates; writes log and plots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("example-birds"))
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--save-every", type=int, default=20)
    args = parser.parse_args()
    out = args.out.resolve()
    birds = write_shards(out / "birds", 3, 24, seed=1, songs=True)
    backgrounds = write_shards(out / "backgrounds", 1, 12, seed=2, songs=False)

    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=auto)
    over, on_each = jax.NamedSharding(mesh, jax.P("data")), jax.NamedSharding(mesh, jax.P())
    model = Classifier(len(SPECIES), args.width, rngs=nnx.Rngs(0))
    schedule = optax.cosine_decay_schedule(3e-3, args.steps)
    optimizer = nnx.Optimizer(model, optax.adamw(schedule), wrt=nnx.Param)
    log_file = out / "log.jsonl"
    manager = ocp.CheckpointManager(
        out / "checkpoints", options=ocp.CheckpointManagerOptions(max_to_keep=2)
    )
    data = gm.jax.to_device(training_data(birds, backgrounds, args.batch_size), over)
    with closing(iter(data)) as batches, manager as checkpoints:
        first = restore(checkpoints, model, optimizer, batches)
        print(f"resumed after step {first}" if first else "a new run", flush=True)
        # Where a step leaves them: otherwise the second step would compile again.
        nnx.update((model, optimizer), jax.device_put(nnx.state((model, optimizer)), on_each))
        # Steps after the checkpoint are taken again.
        lines = log_file.read_text(encoding="utf-8").splitlines()[:first] if first else []
        log = [json.loads(line) for line in lines]
        log_file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

        for number in range(first + 1, args.steps + 1):
            began = time.perf_counter()
            songs, noise = next(batches)
            waited = time.perf_counter() - began
            loss = train_step(
                model,
                optimizer,
                jnp.uint32(number),
                songs["audio"],
                songs["ebird_code_multilabel"],
                noise["audio"],
            )
            log.append({"step": number, "loss": float(loss), "waited": waited})
            log[-1]["seconds"] = time.perf_counter() - began
            with log_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(log[-1]) + "\n")
            if number % args.save_every == 0 or number == args.steps:
                save(checkpoints, number, model, optimizer, batches)
                print(f"step {number}: loss {loss:.4f}", flush=True)
        if first < args.steps:
            print(gm.verdict(batches))
            plot(out, log, songs["audio"], np.asarray(songs["ebird_code_multilabel"]))
    weights = map(np.asarray, jax.tree.leaves(nnx.state(model, nnx.Param)))
    print(f"sum of the weights: {sum(float(np.abs(w).sum()) for w in weights).hex()}")
    for name, value in evaluate(model, birds, args.batch_size, over).items():
        print(f"{name}: {value:.4g}")


if __name__ == "__main__":
    main()
