# What is imported when it is first asked for: `__init__.py`.

from .audio import decode, decode_with_report, probe
from .bad_rows.quarantine import QuarantineFile, read_quarantine
from .bad_rows.rows import BadRow, DamagedRow
from .crops import CenterCrop, EventCrop, RandomCrop, StartCrop, Windows
from .dataset import ArrowIterDataset
from .decode_audio import DecodeAudio
from .errors import (
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
from .events import events_in
from .iterator import ArrowIterator
from .metrics.stats import Stats
from .metrics.verdict import Advice, Case, Verdict
from .mixture import Mixture
from .options import (
    Audio,
    Limits,
    ReadOptions,
    Shuffle,
)
from .order import GlobalOrder, MixtureOrder, global_order
from .pipelines import PerSource, stats, verdict
from .report import AudioInfo, DecodeReport
from .sampling import Balanced, Weighted
from .selection import Split
from .source import ArrowDataSource
from .tools.audio_index import AudioCoverage
from .tools.bench import BenchReport, bench
from .tools.doctor.conclude import Conclusion
from .tools.doctor.report import Diagnosis
from .tools.doctor.run import diagnose
from .tools.index import IndexReport, build_indexes
from .tools.inspect import inspect
from .tools.inspection import Inspection
from .tools.pack.api import pack
from .tools.pack.report import BadFile, PackedShard, PackReport
from .tools.quality import ShuffleQuality, shuffle_quality
from .tools.sample import AudioSample
from .tools.scan.merge import merge_scans
from .tools.scan.report import Finding, ScanReport
from .tools.scan.run import Scan, scan
from .tools.shards import ShardHeader, UnreadableShard

__version__: str

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
    "ScanReport",
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
    "inspect",
    "merge_scans",
    "pack",
    "probe",
    "read_quarantine",
    "scan",
    "shuffle_quality",
    "stats",
    "verdict",
]
