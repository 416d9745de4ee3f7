"""Kills readers that share a cache folder.

`PYTHONPATH=tests/support python tests/remote/cache_kill_loop.py --kills 1000` runs it by hand.

Two processes at a time read shards from a server through one folder and check each row. They die
by SIGKILL at any instant: while they write bytes, add to a log, remove files. No row of a later
life, nor of one beside it, may be wrong; and in the end everything is read from the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import cached
from range_server import serving

SHARDS = 3


def live(paths: list[str], cache: str, size: str, seed: int) -> None:
    """One life: epochs without end."""
    for row in cached.dataset(paths, Path(cache), seed=-1 - seed, cache_size=size):
        cached.check(row)


def disturb(cache: Path, rng: random.Random) -> None:
    """Removes one of the files, so that something is to be written, and makes the others old."""
    files = sorted(cache.iterdir()) if cache.exists() else []
    with contextlib.suppress(FileNotFoundError):
        for path in files:
            os.utime(path, (0, 0))
        if files:
            rng.choice(files).unlink()


def kill_often(folder: Path, n_kills: int, longest_s: float, size: str) -> tuple[int, int]:
    """Kills as often, and returns the requests of all lives and of the last epoch."""
    rng = random.Random(7)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gristmill", "cached"])
    far, cache = folder / "far", folder / "near"
    far.mkdir()
    for k in range(SHARDS):
        cached.write_shard(far / f"s-{k}.arrow", k)
    with serving(far) as server:
        paths = [f"{server.url}/s-{k}.arrow" for k in range(SHARDS)]
        lives = []
        for n in range(n_kills):
            # Not all of the shards: those that others have left make room, once they are old.
            own = paths[:2] if n % 2 else paths[1:]
            disturb(cache, rng)
            life = context.Process(target=live, args=(own, str(cache), size, n))
            life.start()
            lives.append(life)
            if len(lives) < 2:
                continue
            time.sleep(rng.uniform(0, longest_s))
            oldest = lives.pop(0)
            assert oldest.pid is not None
            assert oldest.is_alive(), f"a life ended by itself with {oldest.exitcode}"
            os.kill(oldest.pid, signal.SIGKILL)
            oldest.join()
        for life in lives:
            life.kill()
            life.join()
        n_requests = server.n
        # Several, since damage that one meets may take what was read before.
        last = [cached.read_all(paths, cache, cache_size=size) for _ in range(20)]
        return n_requests, last[-1].storage.requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--longest", type=float, default=0.5, help="seconds of a life at most")
    parser.add_argument("--size", default="1GB", help="the limit of the folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        of_all, of_last = kill_often(Path(folder), args.kills, args.longest, args.size)
    assert of_last == 0 or args.size != "1GB", f"the last epoch made {of_last} requests"
    print(f"{args.kills} kills, {of_all} requests, {of_last} in the last epoch")  # noqa: T201


if __name__ == "__main__":
    main()
