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
from gristmill.report import DamagedRow, DecodeReport

__all__ = [
    "ArrowIterDataset",
    "ArrowIterator",
    "Audio",
    "AudioInfo",
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
    "RandomCrop",
    "ReadOptions",
    "SchemaError",
    "Shuffle",
    "ShuffleQuality",
    "StartCrop",
    "UnsupportedCodecError",
    "__version__",
    "decode",
    "decode_with_report",
    "global_order",
    "probe",
    "shuffle_quality",
]
