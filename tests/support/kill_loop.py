"""Kills a small training loop at random instants.

`python tests/support/kill_loop.py --kills 1000` runs it by hand.

The loop notes the rows of each step, then saves a checkpoint with Orbax, asynchronously. It dies by
SIGKILL at any instant: while it opens, reads, trains, saves, restores. In the end the rows of each
step, as the last life that took it saw them, must be those of the order: none lost, none twice.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pyarrow as pa

import gristmill as gm

BATCH, N_ROWS = 5, 37


def dataset(folder: Path) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(
        folder / "*.arrow",
        audio=None,
        shuffle=gm.Shuffle(6, window=12, streams=3),
        batch_size=BATCH,
        epochs=None,
        with_row_id=True,
    )


def live(folder: str, n_steps: int | None) -> None:
    """One life: from the last checkpoint on, for ever or for some steps."""
    import orbax.checkpoint as ocp

    root = Path(folder)
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    it = iter(dataset(root))
    with (
        ocp.CheckpointManager(root / "steps", options=options) as manager,
        (root / "rows.txt").open("a", encoding="utf-8") as log,
    ):
        step = manager.latest_step() or 0
        if step:
            it.set_state(manager.restore(step, args=ocp.args.JsonRestore()))
        last = None if n_steps is None else step + n_steps
        while step != last:
            batch = next(it)
            step += 1
            rows = list(zip(batch["shard"].tolist(), batch["row"].tolist(), strict=True))
            log.write(f"\n{json.dumps([step, rows])}")
            log.flush()
            manager.save(step, args=ocp.args.JsonSave(it.get_state()))
        manager.wait_until_finished()
    it.close()


def write_shards(folder: Path) -> None:
    for s, n in enumerate((N_ROWS - 11, 0, 10, 1)):
        table = pa.table({"number": np.arange(n)})
        with (
            pa.OSFile(str(folder / f"{s}.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as writer,
        ):
            writer.write_table(table, max_chunksize=4)


def check(folder: Path) -> int:
    """How many steps were taken, all of them with the rows of the order."""
    steps: dict[int, list[list[int]]] = {}
    for line in (folder / "rows.txt").read_text(encoding="utf-8").splitlines():
        try:
            number, rows = json.loads(line)
        except ValueError:
            continue  # cut short by a kill, or empty
        steps[number] = rows
    assert sorted(steps) == list(range(1, len(steps) + 1)), "a step is missing"
    order = gm.global_order(dataset(folder), 0, BATCH * len(steps))
    expected = list(zip(order.shard.tolist(), order.row.tolist(), strict=True))
    got = [tuple(row) for number in sorted(steps) for row in steps[number]]
    assert got == expected, "rows are not those of the order"
    return len(steps)


def wait(process: BaseProcess, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.001)


def kill_often(folder: Path, n_kills: int, longest_s: float, seed: int = 0) -> int:
    """Kills as often, each life after a random time, and returns how many steps were taken."""
    rng = random.Random(seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gristmill", "orbax.checkpoint"])
    write_shards(folder)
    for n in range(n_kills):
        life = context.Process(target=live, args=(str(folder), None))
        life.start()
        wait(life, rng.uniform(0, longest_s))
        assert life.pid is not None
        assert life.is_alive(), f"life {n} ended by itself with {life.exitcode}"
        os.kill(life.pid, signal.SIGKILL)
        life.join()
        if (folder / "rows.txt").exists() and n % 50 == 49:
            print(f"{n + 1} kills, {check(folder)} steps", flush=True)  # noqa: T201
    life = context.Process(target=live, args=(str(folder), 20))
    life.start()
    life.join()
    assert life.exitcode == 0
    return check(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--longest", type=float, default=2.0, help="seconds of a life at most")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        n_steps = kill_often(Path(folder), args.kills, args.longest)
    print(f"{args.kills} kills, {n_steps} steps, every row in its place")  # noqa: T201


if __name__ == "__main__":
    main()
