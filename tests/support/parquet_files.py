"""Writes Parquet as versions of Hugging Face `datasets` do, and with odd pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import oracle

OLD = {"compression": "SNAPPY", "row_group_size": 4}
"""`datasets` 3.x: no page index."""
CHUNKED = {
    "compression": "SNAPPY",
    "write_page_index": True,
    "use_content_defined_chunking": {
        "min_chunk_size": 2_048,
        "max_chunk_size": 8_192,
        "norm_level": 0,
    },
}
"""`datasets` 4.1 to 4.5: pages where the content says, here smaller ones."""
NEW = {
    **CHUNKED,
    "compression": {"audio.bytes": "NONE"},
    "use_dictionary": ["name", "audio.path"],
    "column_encoding": {"audio.bytes": "PLAIN"},
}
"""`datasets` 4.6 and later: embedded files are not compressed."""
PLAIN = {"compression": "NONE", "use_dictionary": False}
SMALL_PAGES = {"data_page_size": 100, "write_batch_size": 1, "write_page_index": True}

OPTIONS: dict[str, dict[str, Any]] = {
    "datasets-3": OLD,
    "datasets-4.1": CHUNKED,
    "datasets-4.6": NEW,
    "plain": PLAIN,
    "plain-groups": {**PLAIN, "row_group_size": 3},
    "plain-index": {**PLAIN, **SMALL_PAGES},
    "plain-v2": {**PLAIN, **SMALL_PAGES, "data_page_version": "2.0"},
    "v2": {"data_page_version": "2.0", "row_group_size": 5},
    "small-pages": {"data_page_size": 100, "write_batch_size": 1},
    "small-pages-index": SMALL_PAGES,
    "zstd": {"compression": "ZSTD", **SMALL_PAGES},
    "gzip": {"compression": "GZIP"},
    "brotli": {"compression": "BROTLI"},
    "lz4": {"compression": "LZ4"},
    "delta": {
        "use_dictionary": False,
        "column_encoding": {"name": "DELTA_BYTE_ARRAY", "audio.bytes": "DELTA_LENGTH_BYTE_ARRAY"},
    },
}
WITHOUT_SCHEMA = {"store_schema": False}
"""As writers other than pyarrow: types by Parquet's own, and no features."""


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    """Writes one shard."""
    compression = options.get("compression")
    if isinstance(compression, dict):
        names = [".".join(leaf.path.split(".")) for leaf in _leaves(table)]
        options["compression"] = {name: compression.get(name, "SNAPPY") for name in names}
    pq.write_table(table, path, **options)
    return path


def _leaves(table: pa.Table) -> list[Any]:
    sink = pa.BufferOutputStream()
    pq.write_table(table.slice(0, 0), sink)
    schema = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [schema.column(k) for k in range(len(schema))]


def copies(paths: list[Path], folder: Path, **options: Any) -> list[Path]:
    """The same shards as Parquet, of the same names, so that they have the same order."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write(folder / path.name, oracle.read_table(path), **options) for path in paths]
