"""Folders and tars of recordings for the tests of packing."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from signals import encode, synthetic

RATE = 16_000
ENDINGS = {"wav16": "wav", "flac16": "flac", "vorbis": "ogg", "mp3": "mp3"}
ROWS: list[dict[str, Any]] = [
    {"species": "wren", "seconds": 1.5, "count": 3, "checked": True, "note": "near, a road"},
    {"species": "crow", "seconds": 2.0, "count": 1, "checked": False, "note": None},
    {"species": "wren", "seconds": 0.25, "count": 7, "checked": True, "note": "line\nbreak"},
    {"species": "owl", "seconds": 4.0, "count": 2, "checked": False, "note": 'in "quotes"'},
]


def recording(seed: int, kind: str = "wav16", seconds: float = 0.3) -> bytes:
    """A short recording."""
    return encode(synthetic(seconds, RATE, 1, seed), RATE, kind)


def class_folders(root: Path, n_each: int = 3) -> Path:
    """Three classes, in every encoding, and files that are none."""
    kinds = list(ENDINGS)
    for k, name in enumerate(("wren", "crow", "barn owl")):
        folder = root / name
        folder.mkdir(parents=True)
        for i in range(n_each):
            kind = kinds[(k + i) % len(kinds)]
            data = recording(10 * k + i, kind)
            (folder / f"{name}-{i}.{ENDINGS[kind]}").write_bytes(data)
    (root / "README.txt").write_text("about\n")
    (root / ".hidden.wav").write_bytes(b"hidden")
    for name in (".git", "__MACOSX"):
        (root / name).mkdir()
        (root / name / "hidden.wav").write_bytes(b"hidden")
    return root


def with_metadata(root: Path, kind: str) -> Path:
    """Recordings and a metadata file of this kind, which names them in an order of its own."""
    (root / "clips").mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    for i, row in enumerate(ROWS):
        name = f"clips/{9 - i}.wav"
        (root / name).write_bytes(recording(i))
        rows.append({"file_name": name, **row})
    (root / "clips" / "unnamed.wav").write_bytes(recording(99))
    path = root / f"metadata.{kind}"
    if kind == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return root
    for i, row in enumerate(rows):
        row["events"] = [[0.5 * k, 0.5 * k + 0.25] for k in range(i)]
        row["place"] = {"lat": 10.5 + i, "lon": None if i == 1 else 20.5}
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    return root


def member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A member of a tar."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def write_tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """A tar of these members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return path


def samples(seed: int, n: int = 3, ending: str = "flac") -> list[tuple[tarfile.TarInfo, bytes]]:
    """WebDataset samples of a recording, a class, a text, and JSON."""
    found: list[tuple[tarfile.TarInfo, bytes]] = []
    for i in range(n):
        key = f"clip/{seed:02d}-{i}"
        told = {"site": f"s{i}", "gain": i + 0.5, "tags": ["a"] * i, "at": {"lat": 1.0 * i}}
        found += [
            member(f"{key}.cls", str(i).encode()),
            member(f"{key}.{ending}", recording(seed + i, "flac16")),
            member(f"{key}.json", json.dumps(told).encode()),
            member(f"{key}.txt", f"recording {i} \N{BIRD}".encode()),
        ]
    return found
