"""Long recordings of each format, and a data set read with and without an audio index."""

from __future__ import annotations

import functools
import io
import os
import time
import wave
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import damaged_files
import gristmill as gm
import shards

SECONDS = 30.05


@functools.cache
def long(name: str) -> bytes:
    """The file of this format of `damaged_files`, but half a minute of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(damaged_files, "SECONDS", SECONDS)
        patch.setattr(damaged_files, "N_FRAMES", round(SECONDS * damaged_files.RATE))
        patch.setattr(damaged_files, "made", lambda other: damaged_files.MAKERS[other]())
        return damaged_files.MAKERS[name]()


def noise(seconds: float) -> bytes:
    """A WAV file of 16,000 bytes a second."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, 8000, 0, "NONE", ""))
        out.writeframes(np.random.default_rng(1).bytes(2 * round(seconds * 8000)))
    return file.getvalue()


def write(path: Path, recordings: Sequence[bytes], **options: Any) -> Path:
    """A shard that is old enough to be known by its modification time."""
    return settled(shards.write_audio(path, recordings, **options))


def settled(path: Path, seconds_ago: float = 60) -> Path:
    os.utime(path, (time.time() - seconds_ago, time.time() - seconds_ago))
    return path


@dataclass
class Run:
    """What came of a data set, and what was read for it."""

    audio: list[np.ndarray] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)
    crops: list[float] = field(default_factory=list)
    bad: list[Any] = field(default_factory=list)
    damaged: list[Any] = field(default_factory=list)
    error: str | None = None
    n_bytes: int = 0

    def assert_same(self, other: Run) -> None:
        """Everything but the bytes that were read."""
        assert (self.rows, self.crops, self.error) == (other.rows, other.crops, other.error)
        assert (self.bad, self.damaged) == (other.bad, other.damaged)
        for ours, theirs in zip(self.audio, other.audio, strict=True):
            assert ours.tobytes() == theirs.tobytes()


def run(paths: Any, audio: gm.Audio, index_dir: Path | None, **options: Any) -> Run:
    """One pass over the data; without an index where there is no folder for it."""
    read = options.pop("read", {})
    ds = gm.ArrowIterDataset(
        paths,
        columns=["audio"],
        audio=audio,
        with_row_id=True,
        with_crop=True,
        read=gm.ReadOptions(index_dir=index_dir, audio_index=index_dir is not None, **read),
        **options,
    )
    it, found = iter(ds), Run()
    try:
        for element in it:
            found.audio.append(np.array(element["audio"]))
            shard, row = np.atleast_1d(element["shard"]), np.atleast_1d(element["row"])
            found.rows += zip(shard.tolist(), row.tolist(), strict=True)
            found.crops += np.atleast_1d(element["crop_start"]).tolist()
            found.n_bytes = n_read(it)
    except gm.DecodeError as error:
        found.error = str(error)
    found.bad, found.damaged = it.bad_rows(), it.damaged_rows()
    it.close()
    return found


def n_read(it: gm.ArrowIterator) -> int:
    """Bytes read from the shards so far."""
    assert it._pipeline is not None
    return it._pipeline.reads().bytes
