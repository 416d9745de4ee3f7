"""A limit of the address space just above what is used ends in an error or in rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import probes
import shards
from signals import encode, synthetic

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has this limit")

# A child for each limit, in KiB above what is used, which prints what came of it.
SCRIPT = """
import os
import resource
from pathlib import Path
import gristmill as gm

path, audio = sys.argv[1], Path(sys.argv[2]).read_bytes()

def rows():
    read = gm.ReadOptions(num_threads=4, index_dir=None, memory_budget="64MiB")
    audio = gm.Audio(sample_rate=16_000, crop=gm.RandomCrop(0.25))
    it = iter(gm.ArrowIterDataset(path, audio=audio, columns=[], batch_size=8, epochs=2, read=read))
    try:
        return str(sum(1 for _ in it))
    finally:
        it.close()

def decoded():
    return str(len(gm.decode(audio)))

def tried(work, extra):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + (extra << 10)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        return work()
    except (MemoryError, OSError) as error:
        return type(error).__name__

for extra in map(int, sys.argv[3:]):
    for work in (decoded, rows):
        child = os.fork()
        if child == 0:
            try:
                text = tried(work, extra)
                os.write(1, f"{work.__name__} {extra} {text}\\n".encode())
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(work.__name__, extra, "status", status, flush=True)
"""


def test_next_to_the_limit_there_are_errors_or_rows(tmp_path: Path) -> None:
    path = shards.write_audio(
        tmp_path / "rows.arrow",
        [encode(synthetic(2, 16_000, 1, k), 16_000, "wav16") for k in range(40)],
    )
    data = tmp_path / "one.ogg"
    data.write_bytes(encode(synthetic(2, 16_000, 1), 16_000, "vorbis"))
    extras = [*range(0, 400, 40), 600, 1_000, 4_200, 4_700, 8_000, 12_000, 18_000, 24_000, 300_000]
    came = probes.run(SCRIPT, path, data, *extras).splitlines()
    words = [line.split() for line in came]
    assert len(words) == 2 * len(extras)
    allowed = {"MemoryError", "OSError"}
    assert all(word[2] in allowed | {"10", "32000"} for word in words), came
    assert [word[2] for word in words[:2]] == ["MemoryError"] * 2
    assert [word[2] for word in words[-2:]] == ["32000", "10"]
