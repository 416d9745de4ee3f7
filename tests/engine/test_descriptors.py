"""Descriptors: all iterators of a process together leave room for the program's own files."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
import probes
import shards
from signals import RATE, encode

N_SHARDS = 300
ROWS = 2

# Prints the most descriptors that there were beside those of the program.
SCRIPT = """
import os, resource
import gristmill as gm
import probes
from probes import n_descriptors

folder, limit, own, n_iterators = sys.argv[1], *map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
before = n_descriptors()
source = gm.ArrowIterDataset(
    folder,
    columns=["audio", "label", "count"],
    audio=gm.Audio(crop=gm.StartCrop(0.01)),
    shuffle=gm.Shuffle(seed=1),
    batch_size=25,
    read=gm.ReadOptions(num_threads=2, index_dir=None),
)
iterators = [iter(source) for _ in range(n_iterators)]
counts = [[] for _ in iterators]
most = 0
for _ in range(24):
    for it, seen in zip(iterators, counts):
        batch = next(it)
        seen += batch["count"].tolist()
        # A row's audio is a constant that tells its number.
        rows = (batch["count"] + 3) / 1024
        assert (abs(batch["audio"] - rows[:, None]) < 1e-3).all()
    most = max(most, n_descriptors())
    files = [open(os.devnull) for _ in range(own)]
    for file in files:
        file.close()
for seen in counts:
    assert sorted(seen) == [row - 3 for row in range(600)], seen
for it in iterators:
    it.close()
assert probes.settles(n_descriptors, before)
print(most - before)
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 shards of two rows each, whose audio tells the row's number."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(N_SHARDS):
        numbers = range(i * ROWS, (i + 1) * ROWS)
        constant = [np.full((640, 1), n / 1024, np.float32) for n in numbers]
        rows = [
            shards.row(n, encode(frames, RATE, "wav16"))
            for n, frames in zip(numbers, constant, strict=True)
        ]
        shards.write(folder / f"{i:03}.arrow", rows)
    return folder


@pytest.mark.parametrize(
    ("limit", "own", "n_iterators"), [(1024, 400, 8), (256, 100, 8), (64, 8, 3)]
)
def test_iterators_leave_descriptors_to_the_program(
    many: Path, limit: int, own: int, n_iterators: int
) -> None:
    most = int(probes.run(SCRIPT, many, limit, own, n_iterators, timeout_s=240))
    # Half of what the process may have, and a few that are open for a moment.
    assert 0 < most <= limit // 2 + 8


DOCTOR = """
import resource
import gristmill as gm

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
found = gm.diagnose(sys.argv[1], seconds=1.0, batch_size=8)
print(min(found.measured.reads[0].reads, found.measured.decodes[0].crops) > 0)
"""


def test_the_doctor_leaves_descriptors_to_the_program(many: Path) -> None:
    assert probes.run(DOCTOR, many) == "True\n"


@pytest.fixture
def few_left() -> Iterator[None]:
    """The program itself has used up its descriptors but for a handful."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, limits[1]), limits[1]))
    taken: list[socket.socket] = []
    try:
        while True:
            try:
                taken.append(socket.socket())
            except OSError:
                break
        for _ in range(12):
            taken.pop().close()
        yield
    finally:
        for each in taken:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("few_left")
def test_files_are_closed_where_the_program_has_used_up_its_descriptors(many: Path) -> None:
    source = gm.ArrowIterDataset(
        many,
        columns=["count"],
        audio=None,
        shuffle=gm.Shuffle(seed=1),
        batch_size=100,
        read=gm.ReadOptions(num_threads=1, num_requests=2, index_dir=None),
    )
    seen = np.concatenate([batch["count"] for batch in source])
    assert sorted(seen.tolist()) == [row - 3 for row in range(N_SHARDS * ROWS)]
