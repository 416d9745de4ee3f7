"""Each number that a file states, and the lies that writers tell: what players play is played.

The sound is that of the file without the lie, or what FFmpeg makes of it, or a loss that the file
proves. The table says which, and why it is a loss.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import av_files
import gristmill as gm
from lies import CLOCKS, FIELDS, HEADERS, lies, made, retimed, twice

# What comes of a lie: the sound as it was, without a note or with one; its beginning; what FFmpeg
# makes of the lie, if the field says what is heard; or the reason of a loss.
SAME, NOTED, BEGINNING = "same", "noted", "the beginning, noted"
FFMPEG, NOTED_FFMPEG = "as FFmpeg", "as FFmpeg, noted"
MALFORMED, TRUNCATED, CORRUPT = "malformed_header", "truncated", "corrupt_packets"
LOST, EMPTY = "lost_packets", "empty"

DATA = {SAME, NOTED, FFMPEG, NOTED_FFMPEG}  # fewer samples than the file has are believed
STORED: dict[str, dict[str, set[str]]] = {
    "WAV": {
        "RIFF size": {SAME, NOTED},
        "fmt size": {SAME, MALFORMED},
        "bytes a second": {SAME},
        "block align": {NOTED},
        "data size": DATA,
    },
    "WAV with chunks": {
        "fact size": {SAME, MALFORMED},
        "fact count": {SAME},
        "PEAK size": {SAME, MALFORMED},
        "data size": DATA,
    },
    "extensible WAV": {"bits": {SAME}, "valid bits": {SAME}, "channel mask": {SAME}},
    "RF64": {"ds64 RIFF size": {SAME, NOTED}, "ds64 data size": DATA, "ds64 count": {SAME}},
    "AIFF": {
        "FORM size": {SAME, NOTED},
        "COMM size": {MALFORMED},
        "count": {SAME, NOTED},
        "SSND size": {SAME, NOTED, NOTED_FFMPEG},
        "block size": {SAME},
    },
    "CAF": {
        "bytes a packet": {NOTED},
        "frames a packet": {SAME, NOTED},
        "data size": DATA | {TRUNCATED},
        "edits": {SAME},
    },
    "SPHERE": {
        "header size": {FFMPEG, NOTED_FFMPEG, MALFORMED, TRUNCATED},
        "sample_count": {SAME, NOTED, TRUNCATED},
        "sample_n_bytes": {NOTED, MALFORMED},
        "sample_sig_bits": {SAME},
    },
}
FRAMED: dict[str, dict[str, set[str]]] = {
    "FLAC": {
        "shortest block": {SAME},
        "longest block": {SAME},
        "shortest frame": {SAME},
        "longest frame": {SAME},
        "total": {SAME, NOTED},
        "MD5": {SAME},
    },
    "MP3": {
        "count": {SAME, NOTED, NOTED_FFMPEG},
        "bytes": {SAME},
        "table": {SAME},
        "checksum of the tag": {SAME},
    },
    "AAC in ADTS": {
        "frame length": {CORRUPT, TRUNCATED},
        "fullness": {SAME},
        "version": {SAME},
    },
}
MP4: dict[str, set[str]] = {
    "movie duration": {SAME},
    "track duration": {SAME},
    "media timescale": {NOTED},
    "media duration": {SAME, NOTED},
    "edits": {SAME},
    "runs of durations": {SAME, NOTED},
    "packets of a duration": {NOTED},
    "duration of packets": {NOTED},
    "first chunk": {SAME},
    "packets a chunk": {SAME, LOST, MALFORMED},
    "number of sizes": {NOTED, NOTED_FFMPEG, MALFORMED},
    "size of a packet": {CORRUPT, TRUNCATED, MALFORMED},
    "chunks": {SAME, MALFORMED},
    "place of a chunk": {CORRUPT, TRUNCATED},
    "mdat size": {TRUNCATED, MALFORMED},
    "moov size": {SAME, NOTED, MALFORMED},
    "stts size": {MALFORMED},
}
MATROSKA: dict[str, set[str]] = {
    "EBML size": {SAME},
    "segment size": {SAME, NOTED},
    "info size": {SAME},
    "timestamp scale": {SAME, NOTED},
    "duration": {SAME, NOTED},
    "tracks size": {SAME},
    "private size": {MALFORMED},
    "cluster size": {SAME},
    "cluster time": {SAME},
    "block size": {CORRUPT, MALFORMED},
    "block time": {SAME},
    "cues size": {SAME, NOTED},
    "place of a cue": {SAME},
}
TABLE: dict[str, dict[str, set[str]]] = {
    **STORED,
    **FRAMED,
    "AAC in MP4": {
        **MP4,
        "number of sizes": {NOTED, BEGINNING, EMPTY, MALFORMED},
        "movie timescale": {SAME, FFMPEG},
    },
    "ALAC in MP4": MP4,
    "FLAC in MP4": MP4,
    "Opus in MP4": MP4,
    "AAC in fragments": {
        "media timescale": {NOTED},
        "number of a fragment": {SAME},
        "time of a fragment": {SAME},
        "packets of a fragment": {NOTED_FFMPEG, LOST, MALFORMED},
        "place of packets": {CORRUPT, TRUNCATED},
    },
    # Two bytes of its configuration say all.
    "AAC in Matroska": {**MATROSKA, "private size": {NOTED, MALFORMED}},
    "FLAC in Matroska": MATROSKA,
    "PCM in Matroska": {name: row for name, row in MATROSKA.items() if name != "private size"},
    "Opus in WebM": {**MATROSKA, "codec delay": {SAME, FFMPEG}},
    # The padding of a block may follow its sound.
    "Vorbis in WebM": {**MATROSKA, "block size": {NOTED, CORRUPT, MALFORMED}},
}
# What proves a loss.
PROOF = {
    "fmt size": "the format or the samples are not found",
    "fact size": "the samples are not found",
    "PEAK size": "the samples are not found",
    "COMM size": "the format or the samples are not found",
    "data size": "more samples than the file has, and no other length: as where it is cut",
    "header size": "the samples begin elsewhere",
    "sample_count": "more samples than the file has, and no other length: as where it is cut",
    "sample_n_bytes": "no number",
    "frame length": "no frame follows where it should",
    "packets a chunk": "packets have a size and no place",
    "number of sizes": "no packet, or none but the encoder's delay",
    "size of a packet": "packets begin inside others, and do not decode",
    "chunks": "no packet has a place",
    "place of a chunk": "what is there does not decode",
    "mdat size": "the tables behind it are not found",
    "moov size": "the tables are cut",
    "stts size": "the tables behind it are not found",
    "packets of a fragment": "the next one begins later, or the table ends before its packets",
    "place of packets": "what is there does not decode",
    "private size": "the header of the codec is cut, or what follows it is not found",
    "block size": "something else than a block follows it, or it is empty",
}


@functools.cache
def whole(name: str) -> np.ndarray:
    return gm.decode(made(name), channels="keep")


def played(data: bytes) -> np.ndarray | None:
    """What FFmpeg plays, if anything."""
    try:
        return av_files.read(data)
    except (OSError, ValueError, IndexError, MemoryError):
        return None


def is_as_ffmpeg(ours: np.ndarray, theirs: np.ndarray | None) -> bool:
    """The same samples; FFmpeg cuts no packet, so it may have the padding of the last one."""
    if theirs is None or theirs.shape[0] != ours.shape[0]:
        return False
    n = min(ours.shape[1], theirs.shape[1])
    is_as_long = -1_152 <= theirs.shape[1] - ours.shape[1] <= 4_608
    return is_as_long and bool(np.allclose(ours[:, :n], theirs[:, :n], rtol=0, atol=2e-4))


def outcome(name: str, lying: bytes) -> str:
    """The word of the table for this file."""
    try:
        audio, report = gm.decode_with_report(lying, channels="keep", strict=True)
    except (gm.DecodeError, gm.LimitError) as error:
        return error.reason if isinstance(error, gm.DecodeError) else "limit"
    # Without `strict`, nothing is added or cut for a note, and all ways agree on the length.
    lenient, same = gm.decode_with_report(lying, channels="keep")
    assert not report.damage
    assert (lenient.tobytes(), same) == (audio.tobytes(), report)
    info = gm.probe(lying)
    assert (info.channels, info.frames) == audio.shape
    start, n = audio.shape[1] // 2, info.sample_rate // 10
    crop = gm.decode(lying, channels="keep", start=start / info.sample_rate, seconds=0.1)
    n = min(n, audio.shape[1] - start)
    np.testing.assert_allclose(crop[:, :n], audio[:, start : start + n], rtol=0, atol=1e-6)
    is_noted = bool(report.notes)
    if is_noted:
        with pytest.raises(gm.GristmillError):
            gm.decode(lying, strict="pedantic")
    if audio.tobytes() == whole(name).tobytes():
        return NOTED if is_noted else SAME
    if is_as_ffmpeg(audio, played(lying)):
        return NOTED_FFMPEG if is_noted else FFMPEG
    good = whole(name)[:, : audio.shape[1]]
    assert is_noted
    assert audio.tobytes() == good.tobytes(), "neither that sound nor FFmpeg's"
    return BEGINNING


CASES = [(name, field) for name, fields in FIELDS.items() for field in fields]


@pytest.mark.parametrize(("name", "field"), CASES)
def test_a_lie_costs_no_sound(name: str, field: str) -> None:
    lying = lies(FIELDS[name][field], made(name))
    found = {lie: outcome(name, data) for lie, data in lying.items()}
    assert set(found.values()) == TABLE[name][field], found


def test_each_loss_has_its_proof() -> None:
    words = {SAME, NOTED, BEGINNING, FFMPEG, NOTED_FFMPEG}
    assert {name: set(row) for name, row in TABLE.items()} == {
        name: set(fields) for name, fields in FIELDS.items()
    }
    lost = {field for row in TABLE.values() for field, found in row.items() if found - words}
    assert lost == set(PROOF)


# In MP4 the chunks are no longer where the tables say.
TWICE = {
    "WAV": NOTED_FFMPEG,
    "AIFF": NOTED_FFMPEG,
    "CAF": NOTED_FFMPEG,
    "SPHERE": NOTED_FFMPEG,
    "FLAC": SAME,
    "MP3": NOTED_FFMPEG,
    "AAC in ADTS": NOTED,
    "AAC in MP4": CORRUPT,
    "FLAC in Matroska": NOTED,
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_comes_twice(name: str) -> None:
    assert outcome(name, twice(name)) == TWICE[name]


@pytest.mark.parametrize("clock", CLOCKS)
def test_times_of_fragments_cost_no_sound(clock: str) -> None:
    is_told = clock == "of twice the speed"
    lying = retimed(CLOCKS[clock])
    assert outcome("AAC in fragments", lying) == (NOTED if is_told else SAME)
