"""Trains on several JAX processes, and resumes after a crash on any number of them.

    python examples/train_hosts.py --process 0 --processes 2 --port 9911 SHARD ... &
    python examples/train_hosts.py --process 1 --processes 2 --port 9911 SHARD ...

Each process reads its own rows, as `shard_options` says; together they make the global batch of the
step, the same rows for any number of processes. Orbax saves the model and the state of the data in
one checkpoint. All processes are at the same position, so one state serves them all: after a crash,
or on purpose, start 1, 2 or 4 of them, and the run resumes with the next global batch.

Every process appends the rows that it saw to `rows-PROCESS.txt` in the checkpoint's folder. On a
cluster, leave out `--process`, `--processes` and `--port`: JAX finds them by itself.
"""

import argparse
from contextlib import closing
from pathlib import Path

import grain
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gristmill as gm

GLOBAL_BATCH = 8


@jax.jit
def step(params: jax.Array, audio: jax.Array) -> jax.Array:
    """Something that depends on every sample of the global batch."""
    return 0.9 * params + 0.1 * jnp.abs(audio).mean(axis=0)[: params.shape[0]]


def batches_of(shards: list[str]) -> gm.ArrowIterator:
    """This process's part of an endless, shuffled stream of global batches."""
    dataset = gm.ArrowIterDataset(
        shards,
        columns=["audio"],
        audio=gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=0.01)),
        shuffle=gm.Shuffle(seed=7),
        batch_size=GLOBAL_BATCH // jax.process_count(),
        epochs=None,
        shard_options=grain.sharding.ShardByJaxProcess(drop_remainder=True),
        with_row_id=True,
    )
    return iter(dataset)


def main() -> None:
    """Takes steps up to the given one, from the last checkpoint if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", nargs="+")
    parser.add_argument("--checkpoint", type=Path, default=Path("hosts-checkpoint"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--process", type=int)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--port", type=int)
    args = parser.parse_args()
    if args.processes is None or args.processes > 1:
        address = None if args.port is None else f"localhost:{args.port}"
        jax.distributed.initialize(address, args.processes, args.process)
    over_processes = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    folder = args.checkpoint.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    seen = folder / f"rows-{jax.process_index()}.txt"

    params, first = jnp.zeros(320), 0
    with (
        closing(batches_of(args.shards)) as batches,
        ocp.CheckpointManager(folder / "steps") as checkpoints,
        seen.open("a", encoding="utf-8") as log,
    ):
        if checkpoints.latest_step() is not None:
            wanted = ocp.args.Composite(model=ocp.args.JsonRestore(), data=ocp.args.JsonRestore())
            saved = checkpoints.restore(checkpoints.latest_step(), args=wanted)
            params, first = jnp.array(saved.model["params"]), saved.model["step"]
            batches.set_state(saved.data)
            print(f"resumed after step {first}", flush=True)

        for number in range(first + 1, args.steps + 1):
            batch = next(batches)
            audio = jax.make_array_from_process_local_data(over_processes, batch["audio"])
            params = step(params, audio)
            ids = " ".join(f"{s}:{r}" for s, r in zip(batch["shard"], batch["row"], strict=True))
            log.write(f"{number} {ids}\n")
            log.flush()
            if number % 4 == 0:
                model = {"params": np.asarray(params).tolist(), "step": number}
                items = ocp.args.Composite(
                    model=ocp.args.JsonSave(model),
                    data=ocp.args.JsonSave(batches.get_state()),
                )
                checkpoints.save(number, args=items)
            print(f"step {number}: {float(params.sum()):.6f}", flush=True)
        checkpoints.wait_until_finished()


if __name__ == "__main__":
    main()
