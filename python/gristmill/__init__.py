"""Feeds JAX from Arrow shards of audio, at the speed of the codec.

Docstrings refer to pages such as `docs/formats.md`, which are in the folder `docs` of this package.
"""

import importlib
from typing import TYPE_CHECKING, Any

from gristmill import _grain  # noqa: F401 # pyright: ignore[reportUnusedImport] - imports Grain
from gristmill._core import __version__
from gristmill.audio import decode, decode_with_report, probe
from gristmill.bad_rows.quarantine import QuarantineFile, read_quarantine
from gristmill.bad_rows.rows import BadRow, DamagedRow
from gristmill.crops import CenterCrop, EventCrop, RandomCrop, StartCrop, Windows
from gristmill.dataset import ArrowIterDataset
from gristmill.decode_audio import DecodeAudio
from gristmill.errors import (
    CorruptShardError,
    DecodeError,
    GristmillError,
    InternalError,
    LimitError,
    NoUsableRowsError,
    SchemaError,
    SourceNotFoundError,
    UnsupportedCodecError,
)
from gristmill.events import events_in
from gristmill.iterator import ArrowIterator
from gristmill.metrics.stats import Stats
from gristmill.metrics.verdict import Advice, Case, Verdict
from gristmill.mixture import Mixture
from gristmill.options import (
    Audio,
    Limits,
    ReadOptions,
    Shuffle,
)
from gristmill.order import GlobalOrder, MixtureOrder, global_order
from gristmill.pipelines import PerSource, stats, verdict
from gristmill.report import AudioInfo, DecodeReport
from gristmill.sampling import Balanced, Weighted
from gristmill.selection import Split
from gristmill.source import ArrowDataSource
from gristmill.tools.audio_index import AudioCoverage
from gristmill.tools.bench import BenchReport, bench
from gristmill.tools.doctor.conclude import Conclusion
from gristmill.tools.doctor.report import Diagnosis
from gristmill.tools.doctor.run import diagnose
from gristmill.tools.index import IndexReport, build_indexes
from gristmill.tools.inspect import inspect
from gristmill.tools.inspection import Inspection
from gristmill.tools.pack.api import pack
from gristmill.tools.pack.report import BadFile, PackedShard, PackReport
from gristmill.tools.part_jobs import (
    IndexPart,
    ScanPart,
    index_parts,
    merge_parts,
    scan_parts,
)
from gristmill.tools.quality import ShuffleQuality, shuffle_quality
from gristmill.tools.sample import AudioSample
from gristmill.tools.scan.merge import merge_scans
from gristmill.tools.scan.report import Finding, ScanReport
from gristmill.tools.scan.run import Scan, scan
from gristmill.tools.scan.summary import ScanSummary
from gristmill.tools.shards import ShardHeader, UnreadableShard

if TYPE_CHECKING:
    from gristmill import jax as jax

__all__ = [
    "Advice",
    "ArrowDataSource",
    "ArrowIterDataset",
    "ArrowIterator",
    "Audio",
    "AudioCoverage",
    "AudioInfo",
    "AudioSample",
    "BadFile",
    "BadRow",
    "Balanced",
    "BenchReport",
    "Case",
    "CenterCrop",
    "Conclusion",
    "CorruptShardError",
    "DamagedRow",
    "DecodeAudio",
    "DecodeError",
    "DecodeReport",
    "Diagnosis",
    "EventCrop",
    "Finding",
    "GlobalOrder",
    "GristmillError",
    "IndexPart",
    "IndexReport",
    "Inspection",
    "InternalError",
    "LimitError",
    "Limits",
    "Mixture",
    "MixtureOrder",
    "NoUsableRowsError",
    "PackReport",
    "PackedShard",
    "PerSource",
    "QuarantineFile",
    "RandomCrop",
    "ReadOptions",
    "Scan",
    "ScanPart",
    "ScanReport",
    "ScanSummary",
    "SchemaError",
    "ShardHeader",
    "Shuffle",
    "ShuffleQuality",
    "SourceNotFoundError",
    "Split",
    "StartCrop",
    "Stats",
    "UnreadableShard",
    "UnsupportedCodecError",
    "Verdict",
    "Weighted",
    "Windows",
    "__version__",
    "bench",
    "build_indexes",
    "decode",
    "decode_with_report",
    "diagnose",
    "events_in",
    "global_order",
    "index_parts",
    "inspect",
    "merge_parts",
    "merge_scans",
    "pack",
    "probe",
    "read_quarantine",
    "scan",
    "scan_parts",
    "shuffle_quality",
    "stats",
    "verdict",
]


def __getattr__(name: str) -> Any:
    # Not before it is used: it imports JAX.
    if name == "jax":
        return importlib.import_module("gristmill.jax")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
