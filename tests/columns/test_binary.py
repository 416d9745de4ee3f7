"""The option `binary`: arrays hold what `bytes` do, in memory that is nobody else's."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import probes
import shards
from rounds import rounds

MIB = 1 << 20
SIZES = [0, 10, 65_535, 65_536, MIB, None, MIB + 1, 3 * MIB + 5, 9 * MIB]


def as_bytes(value: Any) -> Any:
    """The same with `bytes` for arrays of uint8, each of which must be one's own to write to."""
    if isinstance(value, dict):
        return {name: as_bytes(child) for name, child in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(as_bytes, value))
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:
        assert value.ndim == 1
        assert value.flags.writeable
        assert value.flags.c_contiguous
        return value.tobytes()
    if isinstance(value, np.ndarray):
        return [as_bytes(cell) for cell in value.tolist()]
    return value


def write(path: Path, codec: str | None = None, batch_rows: int = 3, **columns: pa.Array) -> Path:
    features = shards.schema({"audio": shards.AUDIO}).metadata if "audio" in columns else None
    table = pa.table(columns).replace_schema_metadata(features)
    return shards.write_table(path, table, batch_rows, codec=codec)


def blob_shard(path: Path, rows: list[bytes | None], batch_rows: int = 3) -> Path:
    audio = [{"bytes": row, "path": f"{i}"} for i, row in enumerate(rows)]
    return write(path, batch_rows=batch_rows, audio=pa.array(audio, shards.AUDIO))


CELLS = st.none() | st.binary(max_size=40) | st.integers(0, 9_000).map(lambda n: bytes(n // 2) * 2)


@settings(max_examples=rounds(60), deadline=None)
@given(data=st.data())
def test_arrays_hold_what_bytes_do(data: st.DataObject) -> None:
    cells = data.draw(st.lists(CELLS, min_size=1, max_size=12))
    cut = [None if cell is None else cell[:4].ljust(4) for cell in cells]
    plain = pa.array(cells, pa.binary())
    audio = [None if i % 5 == 4 else {"bytes": c, "path": str(i)} for i, c in enumerate(cells)]
    columns = {
        "audio": pa.array(audio, shards.AUDIO),
        "plain": plain,
        "large": plain.cast(pa.large_binary()),
        "view": pa.array(cells, pa.binary_view()),
        "fixed": pa.array(cut, pa.binary(4)),
        "coded": pa.array([b"" if c is None else c for c in cells]).dictionary_encode(),
        "lists": pa.array([[c, b"x"] for c in cells], pa.list_(pa.binary())),
        "inner": pa.StructArray.from_arrays([plain], ["b"]),
        "map": pa.array([[("key", c)] for c in cells], pa.map_(pa.string(), pa.binary())),
    }
    options: dict[str, Any] = {
        "audio": None,
        "batch_size": data.draw(st.none() | st.integers(1, 5)),
        "shuffle": data.draw(st.sampled_from([None, gm.Shuffle(1)])),
        "epochs": 2,
    }
    codec = data.draw(st.sampled_from([None, "lz4"]))
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.arrow", codec, **columns)
        as_they_are = list(gm.ArrowIterDataset(path, **options))
        arrays = list(gm.ArrowIterDataset(path, binary="numpy", **options))
    assert as_bytes(arrays) == as_bytes(as_they_are)
    holder = arrays[0]["plain"]
    kept = [holder] if options["batch_size"] is None else holder.tolist()
    assert all(cell is None or cell.dtype == np.uint8 for cell in kept)


@pytest.mark.parametrize("binary", ["bytes", "numpy"])
@pytest.mark.parametrize("batch_size", [None, 4, 9])
def test_rows_of_all_sizes(tmp_path: Path, binary: Any, batch_size: int | None) -> None:
    rng = np.random.default_rng(3)
    rows = [None if n is None else rng.bytes(n) for n in SIZES]
    path = blob_shard(tmp_path / "a.arrow", rows)
    ds = gm.ArrowIterDataset(
        path,
        audio=None,
        binary=binary,
        batch_size=batch_size,
        read=gm.ReadOptions(num_threads=4),
    )
    got: list[Any] = []
    for element in ds:
        cell = element["audio"]["bytes"]
        got += [cell] if batch_size is None else list(cell)
    kinds = {type(cell) for cell in got if cell is not None}
    assert kinds == {bytes if binary == "bytes" else np.ndarray}
    assert [None if c is None else bytes(c) for c in got] == rows


def test_memory_is_not_used_again_while_an_array_lives(tmp_path: Path) -> None:
    n_bytes = 200_000
    rows = [np.full(n_bytes, i, np.uint8).tobytes() for i in range(20)]
    path = blob_shard(tmp_path / "a.arrow", rows)
    ds = gm.ArrowIterDataset(path, audio=None, binary="numpy", batch_size=4, epochs=8)
    parts: list[tuple[int, np.ndarray[Any, Any]]] = []
    with_rest = iter(ds)
    for batch in with_rest:
        for label, cell in zip(batch["audio"]["path"], batch["audio"]["bytes"], strict=True):
            assert (cell == int(label)).all()
            if len(parts) < 30:
                parts.append((int(label), cell[1_000:1_010]))
            else:
                cell[:] = 255  # whose memory the next rows are read into
    with_rest.close()
    del batch, cell, with_rest
    gc.collect()
    assert len(list(ds)) == 40
    assert all((part == i).all() and len(part) == 10 for i, part in parts)


def test_what_is_kept_counts_for_the_budget(tmp_path: Path) -> None:
    """Who keeps more than the budget still gets rows, and none are read ahead of him."""
    rows = [bytes([i]) * MIB for i in range(48)]
    path = blob_shard(tmp_path / "a.arrow", rows, batch_rows=16)
    read = gm.ReadOptions(memory_budget=16 * MIB, num_requests=2, num_threads=2)
    it = iter(gm.ArrowIterDataset(path, audio=None, binary="numpy", read=read))
    kept: list[Any] = []
    ahead: list[int] = []
    for i, row in enumerate(it):
        kept.append(row["audio"]["bytes"])
        if i + 1 == len(rows):
            break
        if i > 20:
            assert it._pipeline is not None
            ahead.append(it._pipeline.reads().bytes // MIB - len(kept))
    assert [int(cell[5]) for cell in kept] == list(range(48))
    # A request of each reader may be under way, and headers take less than one more.
    assert max(ahead) <= 3, ahead
    kept.clear()
    assert list(it) == []


RETURNS = """
import gc
import gristmill as gm
from pathlib import Path

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

def rows(n):
    ds = gm.ArrowIterDataset(sys.argv[1], audio=None, binary="numpy", batch_size=8, epochs=2)
    it = iter(ds)
    kept = [cell for _ in range(n) for cell in next(it)["audio"]["bytes"]]
    return it, kept

it, kept = rows(1)
it.close()
del it, kept
gc.collect()
before = resident()
it, kept = rows(6)
it.close()
held = resident() - before
total = sum(int(cell[7]) for cell in kept)
kept.clear()
print(held, resident() - before, total)
"""


def test_memory_goes_back_when_arrays_die_after_close(tmp_path: Path) -> None:
    path = blob_shard(tmp_path / "a.arrow", [bytes([i]) * MIB for i in range(24)])
    held, left, total = map(int, probes.run(RETURNS, path).split())
    assert total == 2 * sum(range(24))
    assert held >= 46 * MIB, f"{held / MIB:.0f} MiB"
    assert left <= 6 * MIB, f"{left / MIB:.0f} of {held / MIB:.0f} MiB"


def test_element_spec_says_what_comes(tmp_path: Path) -> None:
    fixed = pa.array([b"abcd"] * 3, pa.binary(4))
    audio = pa.array([{"bytes": b"x", "path": "p"}] * 3, shards.AUDIO)
    path = write(tmp_path / "a.arrow", audio=audio, fixed=fixed, plain=fixed.cast(pa.binary()))

    def spec(**options: Any) -> dict[str, Any]:
        ds = gm.ArrowIterDataset(path, audio=None, **options)
        found = grain.experimental.get_element_spec(ds)
        leaves = {"bytes": found["audio"]["bytes"], "fixed": found["fixed"]}
        leaves |= {"plain": found["plain"]}
        return {name: (leaf.shape, str(leaf.dtype)) for name, leaf in leaves.items()}

    of_bytes = dict.fromkeys(("bytes", "fixed", "plain"), ((), "object"))
    assert spec() == of_bytes
    lengths = {"bytes": None, "fixed": 4, "plain": None}
    assert spec(binary="numpy") == {name: ((n,), "uint8") for name, n in lengths.items()}
    of_batches = dict.fromkeys(("bytes", "fixed", "plain"), ((2,), "object"))
    assert spec(binary="numpy", batch_size=2, drop_remainder=True) == of_batches


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match="binary is one of 'bytes', 'numpy', not 'arrow'"):
        gm.ArrowIterDataset("x.arrow", binary="arrow")  # type: ignore[arg-type]


def test_rows_as_arrays_decode() -> None:
    import io

    import soundfile

    out = io.BytesIO()
    soundfile.write(out, np.linspace(-0.5, 0.5, 999), 8_000, format="WAV", subtype="PCM_16")
    data = out.getvalue()
    row = np.frombuffer(data, np.uint8)
    assert gm.decode(row).tobytes() == gm.decode(data).tobytes()
    assert gm.probe(row) == gm.probe(data)
    with pytest.raises(TypeError, match="uint8, not of float32"):
        gm.decode(np.zeros(9, np.float32))  # pyright: ignore[reportArgumentType]
