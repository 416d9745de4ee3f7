"""A few bytes that become gigabytes cost a typed error, and no memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
import probes
import shards
from av_files import remux, write
from flac_files import constant_flac
from ogg_files import opus
from signals import RATE, encode, synthetic

MIB = 1 << 20
STEREO = encode(synthetic(2, RATE, 2), RATE, "flac16")
# A day at 32 Hz: 11 GB at 32 kHz. And 8 channels of as many frames as need no further bytes.
LONG = constant_flac(rate_hz=32, n_channels=1, n_frames=86_400 * 32)
WIDE = constant_flac(rate_hz=8_000, n_channels=8, n_frames=65_535 * 256)
WIDE_BYTES = 65_535 * 256 * 8 * 4


def test_the_bombs_are_small() -> None:
    assert (len(LONG), len(WIDE)) == (601, 8_874)
    assert gm.probe(LONG).frames == 86_400 * 32
    assert gm.probe(WIDE).frames * 8 * 4 == WIDE_BYTES


def test_what_a_recording_becomes_is_bounded() -> None:
    with pytest.raises(gm.LimitError) as caught:
        gm.decode(LONG, sample_rate=32_000)
    held = 86_400 * 32_000 * 4 + gm.probe(LONG).frames * 4
    text = str(caught.value)
    assert caught.value.limit == "max_decoded_bytes"
    n_bytes = int(text.partition("decoding takes ")[2].split()[0])
    assert held <= n_bytes <= held + 4_096  # and what the filter takes at the ends
    assert f"{8 << 30} are allowed; raise it with Limits(max_decoded_bytes=...)" in text
    # A part of it is a part, and its own rate is small.
    assert gm.decode(LONG, sample_rate=32_000, start=80_000, seconds=2).shape == (64_000,)
    assert gm.decode(LONG).shape == (86_400 * 32,)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_the_edge_of_the_limit(dtype: gm.config.Dtype) -> None:
    n_bytes = 2 * RATE * 2 * 4
    tight = gm.Limits(max_decoded_bytes=n_bytes - 1)
    exact = gm.Limits(max_decoded_bytes=n_bytes)
    for strict in (True, False):
        with pytest.raises(gm.LimitError, match="max_decoded_bytes"):
            gm.decode(STEREO, channels="keep", dtype=dtype, strict=strict, limits=tight)
        whole = gm.decode(STEREO, channels="keep", dtype=dtype, strict=strict, limits=exact)
        assert whole.shape == (2, 2 * RATE)
        # The mean of the channels takes half of it, and so does half of the time.
        for part in ({"channels": "mono"}, {"channels": "keep", "seconds": 1.0}):
            assert gm.decode(STEREO, dtype=dtype, limits=tight, strict=strict, **part).size


def test_what_is_resampled_from_counts() -> None:
    """8 channels at 8 kHz become an 8th at 1 kHz, and are all there before."""
    limits = gm.Limits(max_decoded_bytes=WIDE_BYTES)
    with pytest.raises(gm.LimitError, match="max_decoded_bytes"):
        gm.decode(WIDE, sample_rate=1_000, channels="keep", limits=limits)
    wider = gm.Limits(max_decoded_bytes=WIDE_BYTES + WIDE_BYTES // 64)
    short = gm.decode(WIDE, sample_rate=1_000, channels=1, limits=wider)
    np.testing.assert_allclose(short[0, 1_000:-1_000], 0.25, atol=1e-4)


def test_a_crop_is_what_was_asked_for(tmp_path: Path) -> None:
    """Only what a recording decides is held against the budget."""
    path = shards.write_audio(tmp_path / "rows.arrow", [LONG, STEREO])
    crop = gm.StartCrop(seconds=250)
    dataset = gm.ArrowIterDataset(
        path,
        audio=gm.Audio(sample_rate=RATE, crop=crop),
        read=gm.ReadOptions(memory_budget="32MiB"),
    )
    assert [row["audio"].shape for row in dataset] == [(250 * RATE,)] * 2


SKIPPED = """
import logging
import gristmill as gm
from pathlib import Path

path, sample_rate, channels, limit = sys.argv[1:]

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

logging.disable(logging.WARNING)
before = resident("VmRSS")
dataset = gm.ArrowIterDataset(
    path,
    audio=gm.Audio(sample_rate=int(sample_rate) or None, channels=channels),
    on_error="skip",
    read=gm.ReadOptions(memory_budget="256MiB", num_threads=2),
)
it = iter(dataset)
shapes = [row["audio"].shape for row in it]
bad = it.bad_rows()
assert [row.row for row in bad] == [0, 2], bad
assert {row.reason for row in bad} == {limit}, bad
assert len(shapes) == 2, shapes
print(resident("VmHWM") - before)
"""


@pytest.mark.parametrize(
    ("bomb", "sample_rate", "channels", "limit"),
    [
        (LONG, 32_000, "mono", "max_decoded_bytes"),
        (LONG, 3_200, "mono", "memory_budget"),
        (WIDE, 0, "keep", "memory_budget"),
        (WIDE, 1_000, "keep", "memory_budget"),
    ],
    ids=["upsampled", "upsampled less", "many channels", "downsampled"],
)
def test_a_pipeline_skips_them_within_its_budget(
    tmp_path: Path, bomb: bytes, sample_rate: int, channels: str, limit: str
) -> None:
    path = shards.write_audio(tmp_path / "rows.arrow", [bomb, STEREO, bomb, STEREO])
    peak = int(probes.run(SKIPPED, path, sample_rate, channels, limit))
    assert peak < 64 * MIB, f"{peak / MIB:.0f} MiB"


def test_a_batch_of_whole_recordings_is_within_the_budget(tmp_path: Path) -> None:
    n_frames = 1 << 20
    rows = [constant_flac(rate_hz=8_000, n_channels=1, n_frames=n_frames)] * 32
    path = shards.write_audio(tmp_path / "rows.arrow", rows)
    for size, fits in ((32, True), (33, False)):
        read = gm.ReadOptions(memory_budget=32 * n_frames * 4)
        dataset = gm.ArrowIterDataset(path, epochs=2, batch_size=size, read=read)
        if fits:
            assert next(iter(dataset))["audio"].shape == (32, n_frames)
            continue
        with pytest.raises(gm.LimitError, match="samples of 33 such rows") as caught:
            next(iter(dataset))
        assert caught.value.limit == "memory_budget"


def test_the_budget_names_itself(tmp_path: Path) -> None:
    path = shards.write_audio(tmp_path / "rows.arrow", [WIDE])
    read = gm.ReadOptions(memory_budget="256MiB")
    dataset = gm.ArrowIterDataset(path, audio=gm.Audio(channels="keep"), read=read)
    with pytest.raises(gm.LimitError, match=r"ReadOptions\(memory_budget=\.\.\.\)") as caught:
        next(iter(dataset))
    assert (caught.value.limit, caught.value.row) == ("memory_budget", 0)
    assert f"{WIDE_BYTES} bytes" in str(caught.value)
    assert f"the memory budget has {256 * MIB}; raise" in str(caught.value)


SCANNED = """
import gristmill as gm
from pathlib import Path

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

before = resident("VmRSS")
report = gm.scan(sys.argv[1], limits=gm.Limits(max_decoded_bytes=1))
assert report.rows == 3 and not report.findings, report
print(resident("VmHWM") - before)
"""


def test_a_scan_keeps_nothing(tmp_path: Path) -> None:
    path = shards.write_audio(tmp_path / "rows.arrow", [LONG, WIDE, STEREO])
    peak = int(probes.run(SCANNED, path))
    assert peak < 64 * MIB, f"{peak / MIB:.0f} MiB"


# Within an address space that has 200 MiB left.
TIGHT = """
import gc, resource
import gristmill as gm
from pathlib import Path

path, kind = sys.argv[1:]
data = Path(path).read_bytes()
gm.decode(data, seconds=0.1)

def limit():
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    used = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), resource.RLIM_INFINITY))

options = {
    "result": {"channels": "keep"},
    "window": {"channels": "keep", "sample_rate": 1_000},
    "16 bits": {"channels": 3, "dtype": "int16"},
}
limit()
try:
    print(gm.decode(data, **options[kind]).shape)
except MemoryError as error:
    print(f"MemoryError: {error}")
# It is as usable as before.
assert gm.decode(data, seconds=1).shape == (8_000,)
"""


@pytest.mark.parametrize("kind", ["result", "window", "16 bits"])
def test_memory_that_cannot_be_had_is_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "wide.flac"
    path.write_bytes(WIDE)
    out = probes.run(TIGHT, path, kind)
    assert out.startswith("MemoryError: there is no memory for "), out


# Each recording, whole, in children whose address space has so much left.
FORKED = """
import os, resource
import gristmill as gm
from pathlib import Path

folder, = sys.argv[1:]
files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
for data in files.values():
    gm.decode(data, seconds=0.1)

def child(data, n_bytes, sample_rate):
    lines = Path("/proc/self/status").read_text().splitlines()
    used = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes, resource.RLIM_INFINITY))
    try:
        gm.decode(data, channels="keep", sample_rate=sample_rate)
    except MemoryError:
        return 1
    return 0

for name, data in files.items():
    seen = set()
    for n_bytes in (1 << 20, 8 << 20, 12 << 20, 256 << 20):
        for sample_rate in (None, 32_000):
            if not (pid := os.fork()):
                os._exit(child(data, n_bytes, sample_rate))
            _, status = os.waitpid(pid, 0)
            assert status in (0, 256), (name, n_bytes, sample_rate, status)
            seen.add(status)
    print(name, sorted(seen))
"""


def test_whole_recordings_end_in_data_or_memory_error(tmp_path: Path) -> None:
    sound = synthetic(30, 48_000, 2)
    s16 = {"sample_format": "s16", "bit_rate": None}
    ogg_opus = opus(sound)
    files = {
        **{kind: encode(sound, 48_000, kind) for kind in ("wav16", "flac16", "vorbis", "mp3")},
        "opus": ogg_opus,
        "opus in webm": remux(ogg_opus, "webm"),
        "opus in mp4": remux(ogg_opus, "mp4"),
        "flac in ogg": write(sound, 48_000, "ogg", "flac", **s16),
        "pcm in matroska": write(sound, 48_000, "matroska", "pcm_s16le", **s16),
        "alac": write(sound, 48_000, "ipod", "alac", sample_format="s16p", bit_rate=None),
        "aac": write(sound, 48_000, "ipod", "aac"),
        "adts": write(sound, 48_000, "adts", "aac"),
        "mp2": write(sound, 48_000, "mp2", "mp2", sample_format="s16"),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    out = probes.run(FORKED, tmp_path)
    assert out.splitlines() == [f"{name} [0, 256]" for name in sorted(files)]
