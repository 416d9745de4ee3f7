"""What the page of formats says and the tests assert: grades, and what damage does."""

from __future__ import annotations

from dataclasses import dataclass

from damage_seen import WORDS, Seen

__all__ = ["COUNTERS", "FLIPS", "FORMATS", "KINDS", "NOTES", "OUTCOMES", "WORDS"]

KINDS = [
    "cut at 1 %",
    "cut at 50 %",
    "cut at 99 %",
    "20 flipped bytes",
    "2 KB hole",
    "no header",
    "lying header",
]


@dataclass(frozen=True)
class Format:
    """A row of the table of formats.

    `made` names files of `damaged_files`, which are compared with `reference` ("soundfile" or
    "PyAV"): every sample within `tolerance`, and crops with slices of the whole within
    `crop_tolerance`.
    """

    name: str
    made: tuple[str, ...]
    reference: str
    tolerance: float
    crop: str
    missing: str
    crop_tolerance: float = 0.0

    @property
    def grade(self) -> str:
        if self.tolerance == 0:
            return "exact"
        return f"within {self.tolerance:.0e} of {self.reference}".replace("e-0", "e-")


FORMATS = [
    Format(
        "WAV, RF64, BW64 of up to 1,024 channels: 8 to 32-bit integers, 32 and 64-bit float, A-law,"
        " mu-law",
        ("WAV",),
        "soundfile",
        0.0,
        "reads its own bytes only",
        "ADPCM, GSM 6.10, MPEG and other codecs in WAV",
    ),
    Format(
        "AIFF, AIFF-C, CAF: the same, in both byte orders",
        ("AIFF", "CAF"),
        "soundfile",
        0.0,
        "reads its own bytes only",
        "compressed kinds",
    ),
    Format(
        "NIST SPHERE: 8 to 32-bit integers in both byte orders, A-law, mu-law",
        ("SPHERE",),
        "soundfile",
        0.0,
        "reads its own bytes only",
        "Shorten and other packed samples",
    ),
    Format(
        "FLAC, native and in Ogg: up to 8 channels, 4 to 32 bits",
        ("FLAC", "FLAC in Ogg"),
        "PyAV",
        0.0,
        "from its own frame",
        "32 bits with stereo differences; chains of FLAC in Ogg",
    ),
    Format(
        "Ogg Vorbis of 1 to 8 channels, also in chains and beside other streams",
        ("Ogg Vorbis",),
        "soundfile",
        1e-6,
        "from the page before it",
        "chains whose rate or channels change",
    ),
    Format(
        "Ogg Opus: mono, stereo, surround",
        ("Ogg Opus",),
        "soundfile",
        1e-4,
        "1 s earlier (10 s with SILK); within 1e-6 (2e-2 with SILK) of the slice",
        "ambisonics",
        1e-6,
    ),
    Format(
        "Opus in WebM, Matroska and MP4: the same, bit for bit",
        ("Opus in WebM", "Opus in MP4"),
        "PyAV",
        1e-4,
        "1 s earlier (10 s with SILK); within 1e-6 (2e-2 with SILK) of the slice",
        "as above",
        1e-6,
    ),
    Format(
        "MP3, with and without Xing, Info, VBRI and LAME headers",
        ("MP3", "MP3 without a count"),
        "soundfile",
        2e-6,
        "2 granules of 576 frames earlier; of the 511 bytes before those, only the bytes",
        "a free bit rate",
    ),
    Format(
        "MPEG layers I and II",
        ("MPEG layer II",),
        "soundfile",
        2e-5,
        "2 frames earlier",
        "a free bit rate; layer II in stereo at 32, 48, 56 or 80 kbit/s",
    ),
    Format(
        "AAC-LC, mono and stereo, in M4A/MP4 (also fragmented), ADTS, Matroska",
        ("AAC in MP4", "AAC in fragments", "AAC in ADTS", "AAC in Matroska"),
        "PyAV",
        1e-5,
        "2 packets earlier; with noise substitution the noise is another draw of the same energy",
        "HE-AAC, xHE-AAC, AAC Main, SSR, LTP, more than 2 channels, encryption",
    ),
    Format(
        "ALAC in M4A/MP4 and Matroska",
        ("ALAC in MP4",),
        "PyAV",
        0.0,
        "from its own packet",
        "edit lists of several parts",
    ),
    Format(
        "FLAC in MP4 and Matroska, PCM in Matroska",
        ("FLAC in MP4", "FLAC in Matroska"),
        "PyAV",
        0.0,
        "from its own packet",
        "MPEG layer II in Matroska; PCM and MP3 in MP4",
    ),
]

COUNTERS = {
    "truncated": "the file ends inside a page, packet or frame, or long before what its headers "
    "promise",
    "partial_frame": "an MPEG or FLAC stream without a count ends inside a frame. Whether "
    "something is missing cannot be told, so this alone is no error with `strict=True`",
    "lost_pages": "Ogg pages that are missing or unreadable",
    "junk": "stretches that are not frames, between frames or, if long, after the last one",
    "checksums": "Ogg pages and FLAC frames whose checksum is wrong",
    "corrupt_packets": "packets that did not decode, or gave a wrong number of frames",
    "lost_packets": "places where packets are missing, by the times of later ones",
    "params_changed": "frames of another rate or number of channels",
    "timeline": "positions that contradict each other",
    "non_finite": "samples that were NaN or infinite, and are 0",
    "decoder_panics": "panics inside a decoder, which ended its work",
    "gaps": "stretches of the result that are zeros because nothing could be decoded",
}

NOTES = {
    "header_length": "a size, count or duration in a header is not that of the sound",
    "header_fields": "a field of a header contradicts the others or the sound, which decides",
    "timestamps": "times, positions or numbers of frames contradict the sound",
    "page_numbers": "the numbers of Ogg pages have gaps or repeats",
    "end_mark": "an Ogg stream has no mark of its end, or one before its end",
    "late_start": "the stream was joined late, and plays from its first whole frame",
    "junk": "bytes that are not sound, where no sound is missing",
    "repeated_headers": "the headers come a second time",
    "chunk_padding": "a chunk of odd length has no pad byte",
    "skipped_tracks": "audio tracks that are not decoded come before the one that is",
}

# By format and damage; twenty flipped bytes may end in one of several ways.
OUTCOMES: dict[str, dict[str, Seen]] = {
    "WAV": {
        "cut at 1 %": Seen("truncated", "whole"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("", "unseen"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "AIFF": {
        "cut at 1 %": Seen("truncated", "whole"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("", "unseen"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "CAF": {
        "cut at 1 %": Seen("malformed_header", "refused"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("", "unseen"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("truncated", "longer"),
    },
    "SPHERE": {
        "cut at 1 %": Seen("truncated", "whole"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("", "unseen"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("truncated", "longer"),
    },
    "FLAC": {
        "cut at 1 %": Seen("truncated", "whole"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "FLAC in Ogg": {
        "cut at 1 %": Seen("truncated", "whole"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "Ogg Vorbis": {
        "cut at 1 %": Seen("malformed_header", "refused"),
        "cut at 50 %": Seen("truncated", "shorter"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "Ogg Opus": {
        "cut at 1 %": Seen("truncated", "refused"),
        "cut at 50 %": Seen("truncated", "shorter"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "Opus in WebM": {
        "cut at 1 %": Seen("truncated", "refused"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "Opus in MP4": {
        "cut at 1 %": Seen("truncated", "refused"),
        "cut at 50 %": Seen("truncated", "refused"),
        "cut at 99 %": Seen("truncated", "refused"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "MP3": {
        "cut at 1 %": Seen("unknown_format", "refused"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("", "unseen"),
        "lying header": Seen("", "noted"),
    },
    "MP3 without a count": {
        "cut at 1 %": Seen("unknown_format", "refused"),
        "cut at 50 %": Seen("", "marked"),
        "cut at 99 %": Seen("", "marked"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("", "unseen"),
    },
    "MPEG layer II": {
        "cut at 1 %": Seen("unknown_format", "refused"),
        "cut at 50 %": Seen("", "marked"),
        "cut at 99 %": Seen("", "marked"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("", "unseen"),
    },
    "AAC in MP4": {
        "cut at 1 %": Seen("truncated", "refused"),
        "cut at 50 %": Seen("truncated", "refused"),
        "cut at 99 %": Seen("truncated", "refused"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "AAC in fragments": {
        "cut at 1 %": Seen("truncated", "refused"),
        "cut at 50 %": Seen("truncated", "shorter"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "shorter"),
        "no header": Seen("unknown_format", "refused"),
    },
    "AAC in ADTS": {
        "cut at 1 %": Seen("truncated", "shorter"),
        "cut at 50 %": Seen("truncated", "shorter"),
        "cut at 99 %": Seen("truncated", "shorter"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("", "noted"),
    },
    "AAC in Matroska": {
        "cut at 1 %": Seen("truncated", "refused"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "ALAC in MP4": {
        "cut at 1 %": Seen("truncated", "refused"),
        "cut at 50 %": Seen("truncated", "refused"),
        "cut at 99 %": Seen("truncated", "refused"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "FLAC in MP4": {
        "cut at 1 %": Seen("truncated", "refused"),
        "cut at 50 %": Seen("truncated", "refused"),
        "cut at 99 %": Seen("truncated", "refused"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
    "FLAC in Matroska": {
        "cut at 1 %": Seen("truncated", "whole"),
        "cut at 50 %": Seen("truncated", "whole"),
        "cut at 99 %": Seen("truncated", "whole"),
        "2 KB hole": Seen("corrupt_packets", "whole"),
        "no header": Seen("unknown_format", "refused"),
        "lying header": Seen("", "noted"),
    },
}
FLIPS: dict[str, set[Seen]] = {
    "WAV": {Seen("", "unseen")},
    "AIFF": {Seen("", "unseen")},
    "CAF": {Seen("", "unseen")},
    "SPHERE": {Seen("", "unseen")},
    "FLAC": {Seen("corrupt_packets", "whole")},
    "FLAC in Ogg": {Seen("corrupt_packets", "whole")},
    "Ogg Vorbis": {
        Seen("corrupt_packets", "whole"),
        Seen("truncated", "refused"),
        Seen("corrupt_packets", "shorter"),
        Seen("corrupt_packets", "refused"),
        Seen("malformed_header", "whole"),
    },
    "Ogg Opus": {Seen("corrupt_packets", "whole"), Seen("malformed_header", "whole")},
    "Opus in WebM": {
        Seen("lost_packets", "whole"),
        Seen("", "unseen"),
        Seen("corrupt_packets", "whole"),
        Seen("truncated", "whole"),
        Seen("corrupt_packets", "longer"),
        Seen("malformed_header", "whole"),
        Seen("malformed_header", "longer"),
        Seen("truncated", "longer"),
    },
    "Opus in MP4": {Seen("", "unseen"), Seen("corrupt_packets", "whole")},
    "MP3": {Seen("", "unseen"), Seen("corrupt_packets", "whole"), Seen("params_changed", "whole")},
    "MP3 without a count": {
        Seen("", "unseen"),
        Seen("corrupt_packets", "whole"),
        Seen("params_changed", "longer"),
        Seen("params_changed", "whole"),
    },
    "MPEG layer II": {
        Seen("corrupt_packets", "whole"),
        Seen("", "unseen"),
        Seen("params_changed", "whole"),
    },
    "AAC in MP4": {Seen("corrupt_packets", "whole")},
    "AAC in fragments": {
        Seen("lost_packets", "longer"),
        Seen("corrupt_packets", "whole"),
        Seen("truncated", "whole"),
        Seen("malformed_header", "refused"),
        Seen("corrupt_packets", "refused"),
        Seen("truncated", "shorter"),
        Seen("corrupt_packets", "longer"),
        Seen("corrupt_packets", "shorter"),
    },
    "AAC in ADTS": {
        Seen("corrupt_packets", "whole"),
        Seen("unsupported_codec", "refused"),
        Seen("corrupt_packets", "shorter"),
    },
    "AAC in Matroska": {
        Seen("lost_packets", "whole"),
        Seen("corrupt_packets", "whole"),
        Seen("truncated", "whole"),
        Seen("corrupt_packets", "longer"),
        Seen("malformed_header", "whole"),
    },
    "ALAC in MP4": {Seen("corrupt_packets", "whole"), Seen("", "unseen")},
    "FLAC in MP4": {Seen("corrupt_packets", "whole")},
    "FLAC in Matroska": {
        Seen("corrupt_packets", "whole"),
        Seen("malformed_header", "whole"),
        Seen("truncated", "whole"),
        Seen("corrupt_packets", "longer"),
    },
}
