"""Demo shards: Arrow IPC streams as Hugging Face `datasets` writes them.

Tests and benches make theirs with `write_shards` too.
"""

# pyarrow ships no types: its values are unknown, and are given types where they leave this module.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from gristmill.tools.demo.encode import FORMATS, encode
from gristmill.tools.demo.sound import CLASSES, Recipe, draw

FEATURES: dict[str, Any] = {
    "audio": {"_type": "Audio"},
    "label": {"names": list(CLASSES), "_type": "ClassLabel"},
    "recording_id": {"dtype": "string", "_type": "Value"},
    "latitude": {"dtype": "float32", "_type": "Value"},
    "longitude": {"dtype": "float32", "_type": "Value"},
    "recorded_at": {"dtype": "timestamp[s]", "_type": "Value"},
    "quality": {"dtype": "int8", "_type": "Value"},
    "tags": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"},
}
"""The `datasets` features, in the form in which they stand in the schema's metadata."""

SCHEMA = pa.schema(
    {
        "audio": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
        "label": pa.int64(),
        "recording_id": pa.string(),
        "latitude": pa.float32(),
        "longitude": pa.float32(),
        "recorded_at": pa.timestamp("s"),
        "quality": pa.int8(),
        "tags": pa.list_(pa.field("item", pa.string())),
    },
    metadata={"huggingface": json.dumps({"info": {"features": FEATURES}})},
)

ROWS_PER_RECORD_BATCH = 100
"""What `datasets` writes for audio."""

_MANIFEST = "made-by-gristmill.json"


def write_shards(
    directory: Path,
    *,
    n_rows: int,
    rows_per_shard: int,
    recipe: Recipe | None = None,
    first_row: int = 0,
    prefix: str = "train",
    rows_per_record_batch: int = ROWS_PER_RECORD_BATCH,
    num_threads: int = 2,
    on_row: Callable[[], object] | None = None,
) -> list[Path]:
    """Writes `n_rows` recordings to shards in `directory`, which is made if need be.

    The bytes depend on the arguments alone, not on threads or the clock. A shard appears under its
    name once it is whole.

    Args:
        directory: Where the shards go.
        n_rows: Rows in all.
        rows_per_shard: The last shard may have fewer.
        recipe: What the recordings are like.
        first_row: The first recording's number, so that sets of one recipe can be kept apart.
        prefix: Shards are called `prefix-00000-of-00002.arrow` and so on.
        rows_per_record_batch: As `datasets` has it by default.
        num_threads: Threads that synthesise and encode, both without the GIL.
        on_row: Called after each row, for progress.

    Returns:
        The shards, in order.
    """
    directory.mkdir(parents=True, exist_ok=True)
    n_shards = -(-n_rows // rows_per_shard)
    paths = [directory / f"{prefix}-{i:05d}-of-{n_shards:05d}.arrow" for i in range(n_shards)]
    with ThreadPoolExecutor(num_threads) as pool:
        rows = _rows_in_order(pool, recipe or Recipe(), first_row, n_rows, 2 * num_threads)
        for i, path in enumerate(paths):
            part = path.with_suffix(".part")
            left = min(rows_per_shard, n_rows - i * rows_per_shard)
            with pa.RecordBatchStreamWriter(part, SCHEMA) as writer:
                while left:
                    n = min(left, rows_per_record_batch)
                    left -= n
                    batch: list[dict[str, Any]] = []
                    for _ in range(n):
                        batch.append(next(rows))
                        if on_row:
                            on_row()
                    writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=SCHEMA))
            part.replace(path)
    return paths


def _rows_in_order(
    pool: ThreadPoolExecutor, recipe: Recipe, first: int, n_rows: int, ahead: int
) -> Iterator[dict[str, Any]]:
    """Makes rows on the pool, a few ahead of the consumer."""
    waiting: deque[Future[dict[str, Any]]] = deque()
    for row in range(first, first + n_rows):
        waiting.append(pool.submit(_row, recipe, row))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _row(recipe: Recipe, row: int) -> dict[str, Any]:
    recording = draw(recipe, row)
    name = f"{recording.recording_id}.{FORMATS[recording.codec][2]}"
    data = encode(recording.pcm, recording.rate_hz, recording.codec)
    columns = {field: getattr(recording, field) for field in FEATURES if field != "audio"}
    return {"audio": {"bytes": data, "path": name}, **columns}


def demo_shards(
    directory: Path,
    *,
    n_rows: int,
    rows_per_shard: int,
    n_held_out: int,
    seed: int,
    on_row: Callable[[], object] | None = None,
) -> tuple[list[Path], Path, bool]:
    """Finds or makes the demo's shards: those to train on and one that is held out.

    Args:
        directory: Where they are or will be.
        n_rows: Rows to train on.
        rows_per_shard: Rows of a training shard.
        n_held_out: Rows of the held-out shard.
        seed: Of every recording.
        on_row: Called after each row that is made.

    Returns:
        The training shards, the held-out shard, and whether they were there already.
    """
    recipe = Recipe(seed=seed)
    wanted = {
        "n_rows": n_rows,
        "rows_per_shard": rows_per_shard,
        "n_held_out": n_held_out,
        "recipe": json.loads(json.dumps(asdict(recipe))),
        "format": 1,
    }
    manifest = directory / _MANIFEST
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
        sizes: dict[str, int] = found.pop("sizes")
        paths = [directory / name for name in sizes]
        here = {path.name: path.stat().st_size for path in paths}
        if found == wanted and here == sizes:
            return paths[:-1], paths[-1], True
    except (OSError, ValueError, KeyError, AttributeError):
        pass  # absent, or not ours: made anew below

    manifest.unlink(missing_ok=True)
    train = write_shards(
        directory, n_rows=n_rows, rows_per_shard=rows_per_shard, recipe=recipe, on_row=on_row
    )
    (held_out,) = write_shards(
        directory,
        n_rows=n_held_out,
        rows_per_shard=n_held_out,
        recipe=recipe,
        first_row=n_rows,
        prefix="held-out",
        on_row=on_row,
    )
    sizes = {path.name: path.stat().st_size for path in (*train, held_out)}
    part = manifest.with_suffix(".part")
    part.write_text(json.dumps({**wanted, "sizes": sizes}, indent=1), encoding="utf-8")
    part.replace(manifest)
    return train, held_out, False
