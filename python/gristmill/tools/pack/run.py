"""Packs all shards: several recordings at a time, one shard after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gristmill import _core
from gristmill.options import Limits
from gristmill.tools.pack.plan import FORMAT, PackOptions, Plan, ShardPlan, make_plan
from gristmill.tools.pack.reader import Loaded, Pool, Reader
from gristmill.tools.pack.report import BadFile, PackedShard, PackReport
from gristmill.tools.pack.state import PackFolder
from gristmill.tools.pack.writer import write_shard

OnFiles = Callable[[int, int, int], None]
"""Is told how many recordings are done, of how many, and how many of them are bad."""


def run(
    sources: Sequence[str],
    out: str,
    options: PackOptions,
    limits: Limits,
    *,
    num_threads: int | None,
    overwrite: bool,
    on_files: OnFiles | None,
) -> PackReport:
    """As `gm.pack`, with its options checked."""
    began = time.monotonic()
    if os.path.realpath(out) in map(os.path.realpath, sources):
        raise ValueError(f"{out} is the source itself; give another folder for the shards")
    plan = make_plan(sources, out, options)
    with PackFolder(Path(out), overwrite=overwrite) as folder:
        progress = _Progress(plan, on_files)
        done = folder.finished()
        if done is not None:
            shards, bad, reused = _finished(folder, plan, done), _bad_of(done), len(plan.shards)
        else:
            n_threads = num_threads or _core.usable_cpus()
            pool = Pool(n_threads)
            reader = Reader(
                pool,
                n_threads,
                limits,
                fast=options.fast,
                keep=options.keep_bad,
                convert=options.convert,
            )
            try:
                folder.begin(plan.digest, (shard.file for shard in plan.shards))
                shards, bad, reused = _write_all(folder, plan, reader, progress)
            finally:
                pool.close()
            done = {
                "gristmill_pack": FORMAT,
                "plan": plan.digest,
                "shards": [asdict(shard) for shard in shards],
                "bad": [asdict(one) for one in bad],
            }
            folder.finish(shards, bad, plan.features, done)
        progress.end()
    return PackReport(
        folder=out,
        shards=tuple(shards),
        reused=reused,
        features=plan.features,
        bad=tuple(bad),
        unlisted=plan.source.unlisted,
        ignored=dict(sorted(plan.source.ignored.items())),
        notes=tuple(plan.source.notes),
        seconds=time.monotonic() - began,
    )


class _Progress:
    def __init__(self, plan: Plan, tell: OnFiles | None) -> None:
        self._total = len(plan.source.recordings)
        self._bad = len(plan.source.bad)
        self._done = 0
        self._tell = tell

    def end(self) -> None:
        self._done = self._total
        self.add(0, 0)

    def add(self, n_files: int, n_bad: int) -> None:
        self._done += n_files
        self._bad += n_bad
        if self._tell:
            self._tell(self._done, self._total, self._bad)

    def one(self, loaded: Loaded) -> None:
        self.add(1, int(loaded.bad is not None))


def _write_all(
    folder: PackFolder, plan: Plan, reader: Reader, progress: _Progress
) -> tuple[list[PackedShard], list[BadFile], int]:
    """All shards, the bad files, and how many shards were there already."""
    shards: list[PackedShard] = []
    bad = list(plan.source.bad)
    reused = 0
    for shard in plan.shards:
        stamp = plan.stamp(shard)
        kept = folder.kept(shard.file, stamp)
        if kept is None:
            kept = _write_one(folder, plan, shard, reader, progress)
            folder.keep(*kept, stamp)
        else:
            reused += 1
            progress.add(len(shard.rows), len(kept[1]))
        shards.append(kept[0])
        bad += kept[1]
    return shards, sorted(bad, key=lambda one: (one.file, one.reason)), reused


def _write_one(
    folder: PackFolder, plan: Plan, shard: ShardPlan, reader: Reader, progress: _Progress
) -> tuple[PackedShard, list[BadFile]]:
    loaded = reader.in_order((row, plan.recording(row)) for row in shard.rows)
    try:
        written = write_shard(folder.partial(), plan, loaded, progress.one)
    finally:
        loaded.close()
    seconds = written.audio_seconds
    packed = PackedShard(
        shard.file, shard.split, written.rows, written.bytes, seconds, written.converted
    )
    return packed, written.bad


def _finished(folder: PackFolder, plan: Plan, done: dict[str, Any]) -> list[PackedShard]:
    """The shards of a folder that is complete, if they are those of the plan."""
    if done.get("plan") != plan.digest:
        raise ValueError(
            f"{folder.folder} contains shards of another pack: its source or options differ; "
            "start over with --overwrite, or give another folder"
        )
    shards = [PackedShard(**shard) for shard in done["shards"]]
    for shard in shards:
        path = folder.folder / shard.file
        if not path.is_file() or path.stat().st_size != shard.bytes:
            raise ValueError(f"{path} was changed after it was packed; start over with --overwrite")
    return shards


def _bad_of(done: dict[str, Any]) -> list[BadFile]:
    return [BadFile(**bad) for bad in done["bad"]]
