"""What came of a recording, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DecodeReport:
    """What came of a recording, or of the part of it that was asked for.

    Frames are those of the recording at its own rate, on all channels at once.

    Attributes:
        codec: As in `AudioInfo`.
        frames_promised: Frames of the whole recording, as its headers promise them. Where they
            promise nothing (Vorbis, Opus, ADTS, MP3 without a count) it is what the file holds.
        frames_wanted: Frames that the result was made from: the part asked for, and what the
            resampler needs around it.
        frames_decoded: Frames among them that were decoded. The others are zeros.
        damage: How often each kind of damage was met, for the kinds that were: `"truncated"`,
            `"partial_frame"`, `"lost_pages"`, `"junk"`, `"checksums"`, `"corrupt_packets"`,
            `"lost_packets"`, `"params_changed"`, `"timeline"`, `"non_finite"`,
            `"decoder_panics"`, `"gaps"`. What they mean is in `docs/formats.md`. Damage outside the
            part asked for may not be seen.
    """

    codec: str
    frames_promised: int
    frames_wanted: int
    frames_decoded: int
    damage: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_damaged(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.damage)

    @property
    def frames_missing(self) -> int:
        """Frames that are zeros because nothing could be decoded."""
        return self.frames_wanted - self.frames_decoded


@dataclass(frozen=True)
class DamagedRow:
    """A row that was delivered though its audio is damaged.

    Attributes:
        shard: Path of the shard.
        row: Index of the row in its shard.
        report: What came of it; `report.codec` is its codec.
    """

    shard: str
    row: int
    report: DecodeReport
