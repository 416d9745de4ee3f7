"""One of several JAX processes that put their rows into global batches, for `test_processes.py`.

`python global_batches.py PROCESS N_PROCESSES PORT FOLDER` prints, as JSON, what it saw.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import grain
import jax
import numpy as np

import gristmill as gm

GLOBAL_BATCH = 8
STEPS = 12  # more than an epoch


def dataset(folder: Path) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(
        folder,
        columns=["audio", "count", "name"],
        audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(0.01), dtype="int16"),
        shuffle=gm.Shuffle(5),
        batch_size=GLOBAL_BATCH // jax.process_count(),
        epochs=None,
        shard_options=grain.sharding.ShardByJaxProcess(drop_remainder=True),
    )


def main(process: int, n_processes: int, port: int, folder: Path) -> dict[str, Any]:
    if n_processes > 1:
        jax.distributed.initialize(f"localhost:{port}", n_processes, process)
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=auto)
    over = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

    @jax.jit
    def total(audio: jax.Array, count: jax.Array) -> jax.Array:
        """It needs all rows of all processes."""
        return (audio.astype(np.int32).sum(axis=1) * (count + 4)).sum()

    gather = jax.jit(lambda x: x, out_shardings=replicated)
    seen: list[list[int]] = []
    totals, states = [], []
    ahead = gm.jax.to_device(dataset(folder), over)
    with closing(iter(ahead)) as batches:
        for _ in range(STEPS):
            states.append(batches.get_state())
            batch = next(batches)
            assert batch["audio"].shape == (GLOBAL_BATCH, 320)
            assert len(batch["name"]) == GLOBAL_BATCH // n_processes  # objects: this process's
            own = [part.data.shape[0] for part in batch["count"].addressable_shards]
            assert own == [GLOBAL_BATCH // jax.device_count()] * jax.local_device_count()
            totals.append(int(total(batch["audio"], batch["count"])))
            seen.append(np.asarray(gather(batch["count"])).tolist())
    # From the middle, with batches on their way when it was saved.
    with closing(iter(ahead)) as batches:
        batches.set_state(json.loads(json.dumps(states[7])))
        again = [np.asarray(gather(next(batches)["count"])).tolist() for _ in range(7, STEPS)]
    assert again == seen[7:]
    return {"seen": seen, "totals": totals, "state": states[7]}


if __name__ == "__main__":
    process, n_processes, port, folder = sys.argv[1:]
    found = main(int(process), int(n_processes), int(port), Path(folder))
    sys.stdout.write("\n" + json.dumps(found))
