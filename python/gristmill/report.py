"""What is known of a recording: by its headers, and after decoding it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AudioInfo:
    """What a recording's headers say.

    Attributes:
        codec: `"wav"`, `"aiff"`, `"caf"`, `"flac"`, `"vorbis"`, `"opus"`, `"mp3"`, `"mp2"`,
            `"mp1"`, `"aac"`, `"alac"` or `"sphere"`.
        sample_rate: In Hz.
        channels: Number of channels.
        frames: Length, after the encoder's delay and padding are trimmed.
    """

    codec: str
    sample_rate: int
    channels: int
    frames: int

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.frames / self.sample_rate


@dataclass(frozen=True)
class DecodeReport:
    """How decoding a recording, or a part of it, went.

    Frames are those of the recording at its own rate, on all channels at once.

    Attributes:
        codec: As in `AudioInfo`.
        frames_promised: Frames of the whole recording according to its headers. If headers give no
            length (Vorbis, Opus, ADTS, MP3 without a count), it is what the file contains.
        frames_wanted: Frames that the result was made from: the part asked for, and what the
            resampler needs around it.
        frames_decoded: Frames among them that were decoded. The others are zeros.
        damage: How often each kind of damage was met, for the kinds that were: `"truncated"`,
            `"partial_frame"`, `"lost_pages"`, `"junk"`, `"checksums"`, `"corrupt_packets"`,
            `"lost_packets"`, `"params_changed"`, `"timeline"`, `"non_finite"`,
            `"decoder_panics"`, `"gaps"`. `docs/formats.md` explains them. Damage outside the part
            asked for may not be seen.
        notes: How often a header, count, time or mark contradicted the sound, which is all there
            as far as the file can tell: `"header_length"`, `"header_fields"`, `"timestamps"`,
            `"page_numbers"`, `"end_mark"`, `"late_start"`, `"junk"`, `"repeated_headers"`,
            `"chunk_padding"`, `"skipped_tracks"`. They are errors only with `strict="pedantic"`.
    """

    codec: str
    frames_promised: int
    frames_wanted: int
    frames_decoded: int
    damage: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_damaged(self) -> bool:
        """Whether any damage was met."""
        return bool(self.damage)

    @property
    def frames_missing(self) -> int:
        """Frames that are zeros because they could not be decoded."""
        return self.frames_wanted - self.frames_decoded
