"""Feeds JAX from Arrow shards of audio, at the speed of the codec."""

from gristmill._core import __version__
from gristmill.audio import AudioInfo, decode, decode_with_report, probe
from gristmill.config import Audio, CenterCrop, RandomCrop, ReadOptions, Shuffle, StartCrop
from gristmill.dataset import ArrowIterator, ArrowIterDataset
from gristmill.errors import (
    CorruptShardError,
    DecodeError,
    GristmillError,
    InternalError,
    LimitError,
    SchemaError,
    UnsupportedCodecError,
)
from gristmill.limits import Limits
from gristmill.order import GlobalOrder, global_order
from gristmill.quality import ShuffleQuality, shuffle_quality
from gristmill.quarantine import BadRow, QuarantineFile, read_quarantine
from gristmill.report import DamagedRow, DecodeReport
from gristmill.stats import Stats
from gristmill.verdict import Advice, Case, Verdict

__all__ = [
    "Advice",
    "ArrowIterDataset",
    "ArrowIterator",
    "Audio",
    "AudioInfo",
    "BadRow",
    "Case",
    "CenterCrop",
    "CorruptShardError",
    "DamagedRow",
    "DecodeError",
    "DecodeReport",
    "GlobalOrder",
    "GristmillError",
    "InternalError",
    "LimitError",
    "Limits",
    "QuarantineFile",
    "RandomCrop",
    "ReadOptions",
    "SchemaError",
    "Shuffle",
    "ShuffleQuality",
    "StartCrop",
    "Stats",
    "UnsupportedCodecError",
    "Verdict",
    "__version__",
    "decode",
    "decode_with_report",
    "global_order",
    "probe",
    "read_quarantine",
    "shuffle_quality",
]
