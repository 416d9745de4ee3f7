"""Several data sets in one stream, in proportion, with one state.

    python examples/mixture.py [--data DIR] [--steps N]

It makes two small data sets with different classes, and takes batches of both, three rows in four
from the first. Halfway it saves the state and resumes with a new iterator, as a job that was
stopped does. See docs/mixtures.md.
"""

import argparse
import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa

import gristmill as gm
from gristmill.tools.demo.encode import encode

RATE_HZ = 16_000


def write_shard(path: Path, classes: list[str], tones_hz: list[int], n_rows: int) -> Path:
    """Recordings of one tone each, with the class that the tone stands for."""
    label = {"names": classes, "_type": "ClassLabel"}
    features = {"audio": {"_type": "Audio"}, "label": label}
    schema = pa.schema(
        {
            "audio": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
            "label": pa.int64(),
        },
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    t = np.arange(3 * RATE_HZ, dtype=np.float32) / RATE_HZ
    rows = []
    for row in range(n_rows):
        tone = 0.3 * np.sin(2 * np.pi * tones_hz[row % len(classes)] * t)
        data = encode(tone[:, None].astype(np.float32), RATE_HZ, "flac")
        audio = {"bytes": data, "path": f"{row}.flac"}
        rows.append({"audio": audio, "label": row % len(classes)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema))
    return path


def main() -> None:
    """Prints how often each data set and each class came."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("example-mixture"))
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    field = write_shard(args.data / "field.arrow", ["wren", "crow"], [4_000, 800], 40)
    archive = write_shard(args.data / "archive.arrow", ["owl", "wren"], [400, 4_000], 12)

    audio = gm.Audio(sample_rate=RATE_HZ, crop=gm.RandomCrop(1))
    mixture = gm.Mixture(
        [
            gm.ArrowIterDataset(field, audio=audio, shuffle=gm.Shuffle(seed=1), epochs=None),
            gm.ArrowIterDataset(
                archive, audio=audio, sampling=gm.Balanced("label", seed=2), epochs=None
            ),
        ],
        weights=[3, 1],
        batch_size=16,
        with_row_id=True,
    )
    names = mixture.class_names("label")
    print(f"classes: {', '.join(names)}")

    datasets: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    state = None
    for n_steps in (args.steps // 2, args.steps - args.steps // 2):
        with closing(iter(mixture)) as batches:
            if state is not None:
                batches.set_state(json.loads(state))
            for _ in range(n_steps):
                batch = next(batches)
                assert batch["audio"].shape == (16, RATE_HZ)
                datasets.update(("field", "archive")[k] for k in batch["dataset"])
                labels.update(names[k] for k in batch["label"])
            state = json.dumps(batches.get_state())
    print("rows: " + ", ".join(f"{datasets[name]} of {name}" for name in ("field", "archive")))
    print("labels: " + ", ".join(f"{labels[name]} of {name}" for name in names))
    print(f"state: {len(state or '')} bytes")


if __name__ == "__main__":
    main()
