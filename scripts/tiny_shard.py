"""Writes the shard of `gristmill demo --tiny` again: `python scripts/tiny_shard.py FILE`."""

import sys
import tempfile
from pathlib import Path

from gristmill.tools.demo.data import write_shards
from gristmill.tools.demo.sound import Recipe

RECIPE = Recipe(codecs=("vorbis",), rates_hz=(22_050, 32_000), duration_s=(1.0, 3.0), stereo=0.0)
N_ROWS = 16


def write(path: Path) -> None:
    """The same bytes each time, with the same libsndfile."""
    with tempfile.TemporaryDirectory() as folder:
        (shard,) = write_shards(Path(folder), n_rows=N_ROWS, rows_per_shard=N_ROWS, recipe=RECIPE)
        path.write_bytes(shard.read_bytes())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
