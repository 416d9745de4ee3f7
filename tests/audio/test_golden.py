"""Samples are the same to the bit for ever, and on processors with other instructions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import golden_hashes

# Neither AVX2 nor fused multiply-add; both.
PROCESSORS = ["SandyBridge-v1", "Haswell-v1"]


def golden() -> dict[str, str]:
    return json.loads(golden_hashes.GOLDEN.read_text())


def test_all_codecs_are_covered() -> None:
    # ALAC is in Matroska and MP4.
    assert {name.split("/")[0] for name in golden()} >= {
        *("adts", "aiff", "caf", "flac", "matroska", "mp2", "mp3", "mp4"),
        *("ogg_flac", "ogg_vorbis", "opus", "sphere", "wav", "resampled"),
    }


def test_samples_are_what_they_were() -> None:
    assert golden_hashes.hashes() == golden()


@pytest.mark.gate
@pytest.mark.timeout(1200)  # emulated instructions take some twenty times as long
@pytest.mark.parametrize("processor", PROCESSORS)
def test_samples_are_the_same_on(processor: str) -> None:
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        pytest.skip("qemu-x86_64 is not installed (Debian: qemu-user), so nothing is emulated")
    script = Path(golden_hashes.__file__)
    ran = subprocess.run(
        [qemu, "-cpu", processor, sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout) == golden()
