"""A table of recordings: rows contain paths, and the files are read from a folder.

    python examples/rows_with_paths.py

It makes a few recordings and a table of them. See docs/paths.md.
"""

import tempfile
from pathlib import Path

import pyarrow as pa

import gristmill as gm
from gristmill.tools.demo.data import write_shards
from gristmill.tools.demo.sound import Recipe

AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def make(folder: Path) -> tuple[Path, Path]:
    """A folder of recordings, and a table as `datasets` keeps local files."""
    recordings = folder / "recordings"
    recordings.mkdir()
    names = []
    shards = write_shards(
        folder / "shards", n_rows=8, rows_per_shard=4, recipe=Recipe(duration_s=(5, 8))
    )
    for number, row in enumerate(gm.ArrowIterDataset(shards, columns=["audio"], audio=None)):
        names.append(f"{number}.audio")
        (recordings / names[-1]).write_bytes(row["audio"]["bytes"])
    audio = pa.array([{"bytes": None, "path": name} for name in names], AUDIO)
    table = pa.table({"audio": audio, "number": range(len(names))})
    path = folder / "recordings.arrow"
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)
    return path, recordings


def main() -> None:
    """Prints batches of crops, and what is said without the folder."""
    with tempfile.TemporaryDirectory() as folder:
        table, recordings = make(Path(folder))
        audio = gm.Audio(sample_rate=32_000, crop=gm.RandomCrop(seconds=5), root=recordings)
        dataset = gm.ArrowIterDataset(
            table, audio=audio, shuffle=gm.Shuffle(seed=42), batch_size=4, epochs=2
        )
        for number, batch in enumerate(dataset, start=1):
            print(f"batch {number}: {batch['audio'].shape} {batch['number']}")
        try:
            gm.ArrowDataSource(table)[0]
        except gm.DecodeError as error:
            print(f"without root=: {str(error).partition(': ')[2]}")


if __name__ == "__main__":
    main()
