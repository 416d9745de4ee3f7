"""Each codec beside its peers, on one thread.

Whole recordings and crops of 5 s at random places, from the bytes in memory to float32 at the
recording's own rate and channels; crops of 44.1 kHz Vorbis at 32 kHz; and the resampler alone. Time
is that of the process on the processor, so that what else the machine does counts for little.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import audio_peers
import numpy as np
import pytest
from audio_files import CODECS, Recording

WHOLE_MARKS = dict.fromkeys(CODECS, 0.95) | {"vorbis": 1.0, "flac": 1.0}
CROP_MARKS = {"wav": 3.0, "flac": 1.5, "vorbis": 1.5, "mp3": 1.5, "aac": 1.5}
RESAMPLED_MARK = 2.0
RATES = {
    f"{a / 1000:g} to {b / 1000:g} kHz": (a, b)
    for a, b in (
        (44_100, 32_000), (48_000, 32_000), (32_000, 16_000), (22_050, 32_000), (44_100, 48_000),
        (44_099, 32_000),
    )
}  # fmt: skip
SOXR_MARKS = {"44.1 to 32 kHz": 1.5, "48 to 32 kHz": 1.5}
GROWTH_MARK = 1.3
CHANNELS = {"mono": 1, "stereo": 2}

each_recording = pytest.mark.parametrize(
    ("codec", "channels", "seconds"),
    [
        (codec, channels, seconds)
        for codec in CODECS
        for channels in CHANNELS
        for seconds in (60, 600)
    ],
)
each_peer = pytest.mark.parametrize("job", audio_peers.PEERS)


@pytest.fixture(scope="module")
def measure(request: pytest.FixtureRequest, data: Path) -> Iterator[Callable[..., Any]]:
    """Calls a function in a process that all peers share, with PyAV's FFmpeg for SPDL."""
    if request.config.getoption("benchmark_disable"):
        yield lambda function, *arguments: function(*arguments)
        return
    with pytest.MonkeyPatch.context() as patch:
        # The loader reads it when a process begins.
        if path := audio_peers.ffmpeg_of_pyav(data):
            patch.setenv("LD_LIBRARY_PATH", path)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.fixture(scope="module")
def recording(size: Any) -> Callable[[str, str, int], Recording]:
    """The recording of these parameters; those of 600 s are left out where time is short."""

    def find(codec: str, channels: str, seconds: int) -> Recording:
        seconds = size(seconds, 60 if seconds == 60 else 0, 8 if seconds == 60 else 0)
        if not seconds:
            pytest.skip("recordings of 600 s are for full runs")
        return Recording(codec, CHANNELS[channels], seconds)

    return find


def starts(of: Recording, k: int, n: int) -> list[int]:
    """Where the crops of the k-th round begin, from -1 on: the same for all peers."""
    rng = np.random.default_rng([of.channels, of.seconds, k + 1])
    return rng.integers(0, (of.seconds - audio_peers.SECONDS) * of.rate, n).tolist()


@each_recording
@each_peer
def test_whole(
    turns: Any, measure: Any, size: Any, data: Path, recording: Any,
    codec: str, channels: str, seconds: int, job: str,
) -> None:  # fmt: skip
    of = recording(codec, channels, seconds)

    def prepare(name: str) -> Any:
        if reason := measure(audio_peers.why_not, name, of):
            pytest.skip(reason)
        measure(audio_peers.check, name, of, data)
        measure(audio_peers.cpu_of_whole, name, of, data)  # warm
        return lambda _: measure(audio_peers.cpu_of_whole, name, of, data)

    rounds = size(9 if seconds == 60 else 4, 3, 1)
    turns(prepare, rounds=rounds, than="gristmill", at_least=WHOLE_MARKS[codec])


@each_recording
@each_peer
def test_crop(
    turns: Any, measure: Any, size: Any, data: Path, recording: Any,
    codec: str, channels: str, seconds: int, job: str,
) -> None:  # fmt: skip
    of = recording(codec, channels, seconds)

    def prepare(name: str) -> Any:
        reason = measure(audio_peers.why_not, name, of) or measure(
            audio_peers.check, name, of, data
        )
        if reason:
            pytest.skip(reason)
        return crops(measure, name, of, data, size(12, 3, 1), audio_peers.PEERS)

    rounds, mark = size(9, 3, 1), CROP_MARKS.get(codec)
    turns(prepare, rounds=rounds, than="gristmill", at_least=mark)


def crops(measure: Any, name: str, of: Recording, data: Path, n: int, peers: Any) -> Any:
    """A job of `n` crops a round."""
    measure(audio_peers.cpu_of_crops, name, of, data, starts(of, -1, n), peers)  # warm
    return lambda k: measure(audio_peers.cpu_of_crops, name, of, data, starts(of, k, n), peers)


@pytest.mark.parametrize("seconds", [60, 600])
@pytest.mark.parametrize("job", audio_peers.RESAMPLING)
def test_crop_resampled(
    turns: Any, measure: Any, size: Any, data: Path, recording: Any, seconds: int, job: str
) -> None:
    of = recording("vorbis", "stereo", seconds)

    def prepare(name: str) -> Any:
        measure(audio_peers.check_resampling, of, data)
        return crops(measure, name, of, data, size(12, 3, 1), audio_peers.RESAMPLING)

    turns(prepare, rounds=size(9, 3, 1), than="gristmill", at_least=RESAMPLED_MARK)


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("job", audio_peers.RESAMPLERS)
def test_resampling(turns: Any, measure: Any, size: Any, rates: str, job: str) -> None:
    def prepare(name: str) -> Any:
        measure(audio_peers.cpu_of_resampling, name, RATES[rates], 1)  # warm
        return lambda _: measure(audio_peers.cpu_of_resampling, name, RATES[rates], size(40, 20, 1))

    mark = SOXR_MARKS.get(rates) if job == "soxr HQ" else None
    turns(prepare, rounds=size(9, 3, 1), than="hq", at_least=mark)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("job", ["60 s", "600 s"])
def test_crop_of_a_long_recording(
    turns: Any, measure: Any, size: Any, data: Path, recording: Any,
    codec: str, channels: str, job: str,
) -> None:  # fmt: skip
    """What a crop takes hardly depends on how much there is around it."""

    def prepare(name: str) -> Any:
        of = recording(codec, channels, int(name.split(maxsplit=1)[0]))
        return crops(measure, "gristmill", of, data, size(12, 3, 1), audio_peers.PEERS)

    turns(prepare, rounds=size(9, 3, 1), than="60 s", at_most=GROWTH_MARK)
