"""Shards with damaged rows, and what a loader of our own finds in them."""

from __future__ import annotations

import functools
from pathlib import Path

import pyarrow as pa

import damaged_files
import gristmill as gm
import shards

FORMATS = ("WAV", "FLAC", "Ogg Vorbis", "MP3", "MP3 without a count", "AAC in ADTS")
N_SHARDS = 4


@functools.cache
def recordings() -> list[bytes | None]:
    """About 60 rows: each of these formats whole and in every damage, null, empty, garbage, cut."""
    made: list[bytes | None] = []
    for name in FORMATS:
        sound = damaged_files.made(name)
        made += [sound, *(change(sound) for change in damaged_files.damages(name).values()), sound]
    sound = damaged_files.made("WAV")
    return [*made, None, b"", b"no audio at all" * 40, sound[:30], sound]


def write(folder: Path, copies: int = 1) -> list[Path]:
    """The recordings over four shards, the last of them empty."""
    rows = recordings() * copies
    size = -(-len(rows) // (N_SHARDS - 1))
    return [
        shards.write_audio(
            folder / f"train-{k}.arrow", rows[k * size : (k + 1) * size], batch_rows=7
        )
        for k in range(N_SHARDS)
    ]


def bad_rows(paths: list[Path]) -> dict[tuple[str, int], str]:
    """The rows that raise, with the reason: pyarrow and `gm.decode` alone, in a loop."""
    found: dict[tuple[str, int], str] = {}
    for path in paths:
        for row, audio in enumerate(pa.ipc.open_stream(path).read_all()["audio"].to_pylist()):
            if audio["bytes"] is None:
                found[path.name, row] = "null"
                continue
            try:
                gm.decode(audio["bytes"])
            except gm.DecodeError as error:
                found[path.name, row] = error.reason
    return found
