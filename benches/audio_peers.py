"""Decoding with Gristmill and with what else there is: whole files, and crops of 5 s.

Each peer gets the file's bytes and gives planes or frames of float32 at the file's own rate, on one
thread. `None` says that it has no such decoder.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import io
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from audio_files import Recording
from material import encode

import gristmill as gm

Planes = np.ndarray  # (channels, frames)
SECONDS, RATE = 5, 32_000


def ffmpeg_of_pyav(folder: Path) -> str | None:
    """A value of LD_LIBRARY_PATH for processes to come, in which SPDL finds PyAV's FFmpeg.

    It brings none of its own. `None` where PyAV has none either.
    """
    found = importlib.util.find_spec("av")
    libraries = Path(found.origin).parents[1] / "av.libs" if found and found.origin else None
    if libraries is None or not libraries.is_dir():
        return None
    links = folder / "ffmpeg"
    links.mkdir(parents=True, exist_ok=True)
    for library in libraries.iterdir():
        # libavutil-5809ad29.so.60.26.102 is libavutil.so.60 to the others.
        if match := re.fullmatch(r"(lib(?:av|sw)\w+)-\w+(\.so\.\d+)\..*", library.name):
            link = links / "".join(match.groups())
            link.unlink(missing_ok=True)
            link.symlink_to(library)
    return ":".join(filter(None, [str(links), str(libraries), os.environ.get("LD_LIBRARY_PATH")]))


class Gristmill:
    def whole(self, data: bytes, of: Recording) -> Planes:
        return gm.decode(data, channels="keep")

    def crop(self, data: bytes, of: Recording, start: int, n: int) -> Planes:
        return gm.decode(data, channels="keep", start=start / of.rate, seconds=n / of.rate)


class SoundFile:
    refuses = ("aac", "alac")

    def __init__(self) -> None:
        importlib.import_module("soundfile")

    def whole(self, data: bytes, of: Recording) -> Planes:
        import soundfile

        return soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T

    def crop(self, data: bytes, of: Recording, start: int, n: int) -> Planes:
        import soundfile

        with soundfile.SoundFile(io.BytesIO(data)) as file:
            file.seek(start)
            return file.read(n, dtype="float32", always_2d=True).T


class PyAV:
    def __init__(self) -> None:
        importlib.import_module("av")

    def _blocks(self, data: bytes, of: Recording, start: int, end: int | None) -> Planes:
        import av

        blocks: list[np.ndarray] = []
        with av.open(io.BytesIO(data)) as file:
            stream = file.streams.audio[0]
            stream.codec_context.thread_count = 1
            base = stream.time_base
            # FFmpeg counts the encoder's delay of MP3 as time before the first frame.
            origin = stream.start_time or 0 if of.codec == "mp3" else 0
            if start > 0:
                # What decoders need to converge.
                early = 1.0 if of.codec == "opus" else 0.1
                at = max(0, int((start / of.rate - early) / base)) + origin
                file.seek(at, stream=stream, backward=True, any_frame=False)
            for frame in file.decode(stream):
                first = round((frame.pts - origin) * base * of.rate)
                if first + frame.samples <= start:
                    continue
                block = frame.to_ndarray()
                if not frame.format.is_planar:
                    block = block.reshape(-1, of.channels).T
                skip = max(0, start - first)
                take = None if end is None else end - first
                blocks.append(block[:, skip:take])
                if end is not None and first + frame.samples >= end:
                    break
        whole = np.concatenate(blocks, axis=1)
        if whole.dtype.kind == "i":
            whole = whole.astype(np.float32) * np.float32(2.0 ** (1 - 8 * whole.dtype.itemsize))
        return whole

    def whole(self, data: bytes, of: Recording) -> Planes:
        return self._blocks(data, of, 0, None)

    def crop(self, data: bytes, of: Recording, start: int, n: int) -> Planes:
        return self._blocks(data, of, start, start + n)


class Spdl:
    """Crops of SPDL are whole packets: a little more than what was asked for."""

    def __init__(self) -> None:
        importlib.import_module("spdl.io").decode_config()

    def _load(self, data: bytes, of: Recording, window: tuple[float, float] | None) -> Planes:
        import spdl.io

        config = spdl.io.decode_config(decoder_options={"threads": "1"})
        form = spdl.io.get_audio_filter_desc(sample_fmt="fltp")
        buffer = spdl.io.load_audio(data, window, decode_config=config, filter_desc=form)
        return spdl.io.to_numpy(buffer)

    def whole(self, data: bytes, of: Recording) -> Planes:
        return self._load(data, of, None)

    def crop(self, data: bytes, of: Recording, start: int, n: int) -> Planes:
        return self._load(data, of, (start / of.rate, (start + n) / of.rate))


class Miniaudio:
    refuses = ("opus", "aac", "alac")

    def __init__(self) -> None:
        importlib.import_module("miniaudio")

    def whole(self, data: bytes, of: Recording) -> Planes:
        import miniaudio

        done = miniaudio.decode(data, miniaudio.SampleFormat.FLOAT32, of.channels, of.rate)
        return np.frombuffer(done.samples, np.float32).reshape(-1, of.channels).T

    def crop(self, data: bytes, of: Recording, start: int, n: int) -> Planes:
        import miniaudio

        class Source(miniaudio.StreamableSource):
            def __init__(self) -> None:
                self.at = io.BytesIO(data)

            def read(self, num_bytes: int) -> bytes:
                return self.at.read(num_bytes)

            def seek(self, offset: int, origin: Any) -> bool:
                whence = 1 if origin == miniaudio.SeekOrigin.CURRENT else 0
                self.at.seek(offset, whence)
                return True

        kinds = {"flac": "FLAC", "vorbis": "VORBIS", "mp3": "MP3", "wav": "WAV"}
        kind = getattr(miniaudio.FileFormat, kinds[of.codec])
        blocks = miniaudio.stream_any(
            Source(),
            kind,
            miniaudio.SampleFormat.FLOAT32,
            of.channels,
            of.rate,
            n,
            seek_frame=start,
        )
        parts, left = [], n
        while left > 0:
            part = np.frombuffer(blocks.send(left), np.float32).reshape(-1, of.channels)
            parts.append(part)
            left -= len(part)
        return np.concatenate(parts).T


class TorchCodec:
    def __init__(self) -> None:
        importlib.import_module("torchcodec.decoders")

    def _decoder(self, data: bytes) -> Any:
        from torchcodec.decoders import AudioDecoder

        return AudioDecoder(data)

    def whole(self, data: bytes, of: Recording) -> Planes:
        return self._decoder(data).get_all_samples().data.numpy()

    def crop(self, data: bytes, of: Recording, start: int, n: int) -> Planes:
        decoder = self._decoder(data)
        # Its time axis of MP3 begins with the encoder's delay.
        early = 1_105 / of.rate if of.codec == "mp3" else 0.0
        begin, end = start / of.rate + early, (start + n) / of.rate + early
        return decoder.get_samples_played_in_range(begin, end).data.numpy()


class SoundFileAndSoxr:
    """Crops of 44.1 kHz at 32 kHz mono."""

    def crop(self, data: bytes, of: Recording, start: int, n: int) -> Planes:
        import soxr

        frames = SoundFile().crop(data, of, start, n)
        return soxr.resample(frames.mean(axis=0), of.rate, RATE, "HQ")[None, : RATE * n // of.rate]


class GristmillResampling:
    """The same."""

    def crop(self, data: bytes, of: Recording, start: int, n: int) -> Planes:
        at, seconds = start / of.rate, n / of.rate
        return gm.decode(data, sample_rate=RATE, channels="mono", start=at, seconds=seconds)[None]


PEERS: dict[str, Callable[[], Any]] = {
    "gristmill": Gristmill,
    "soundfile": SoundFile,
    "PyAV": PyAV,
    "SPDL": Spdl,
    "miniaudio": Miniaudio,
    "torchcodec": TorchCodec,
}
RESAMPLING = {"gristmill": GristmillResampling, "soundfile and soxr": SoundFileAndSoxr}
RESAMPLERS = ("hq", "best", "torchaudio", "soxr HQ")
"""Filters of ours by their names, and soxr's."""

# The largest difference of samples that decoders of one codec have. miniaudio decodes Vorbis and
# MP3 with a precision of its own; FFmpeg decodes Opus in another way than libopus.
TOLERANCE = {"wav": 0, "flac": 0, "alac": 0, "vorbis": 2e-4, "mp3": 2e-4, "aac": 2e-5, "opus": 2e-2}
LOSSLESS_ROUNDING = 2.0**-15  # peers that scale by 32767


@functools.lru_cache(maxsize=2)
def encoded(of: Recording, folder: Path) -> bytes:
    """A recording's bytes, the same memory in each round."""
    return of.read(folder)


def why_not(name: str, of: Recording) -> str | None:
    """Why this peer is not here, or has not this codec."""
    try:
        peer = PEERS[name]()
    except (ImportError, OSError, RuntimeError) as error:  # or its FFmpeg, or torch
        reason, _, _ = str(error).partition('"')
        return f"{name}: {reason}"
    if of.codec in getattr(peer, "refuses", ()):
        return f"{name} has no {of.codec}"
    return None


def check(name: str, of: Recording, folder: Path) -> str | None:
    """Holds whole recording and crop to ours; says so where only the crop is another one."""
    data, n, start = encoded(of, folder), SECONDS * of.rate, of.rate * of.seconds // 3 + 77
    whole = Gristmill().whole(data, of)
    crop = Gristmill().crop(data, of, start, n)
    assert crop.shape == (of.channels, n)
    assert crop.dtype == np.float32
    if of.codec != "opus":
        assert crop.tobytes() == whole[:, start : start + n].tobytes()
    peer, bound = PEERS[name](), max(TOLERANCE[of.codec], LOSSLESS_ROUNDING)
    difference = apart(peer.whole(data, of), whole, 4_096)
    assert difference <= bound, f"{name} differs by {difference}"
    # Packets of SPDL begin before the crop, and peers keep the delay that they do not trim.
    difference = apart(peer.crop(data, of, start, n), crop, 8_192)
    return None if difference <= bound else f"the crop of {name} differs by {difference:.2g}"


def apart(theirs: Planes, ours: Planes, margin: int) -> float:
    """The largest difference, where theirs may begin up to 8,192 frames earlier."""
    n = min(theirs.shape[1], ours.shape[1]) - margin
    probe = ours[0, :4_096].astype(np.float64)
    errors = [
        np.abs(theirs[0, k : k + len(probe) : 7] - probe[::7]).mean()
        for k in range(min(8_192, theirs.shape[1] - len(probe)))
    ]
    late = int(np.argmin(errors))
    shared = theirs[:, late : late + n]
    return float(np.abs(shared - ours[:, : shared.shape[1]]).max())


def check_resampling(of: Recording, folder: Path) -> None:
    data, start, n = encoded(of, folder), of.rate * 441 // 100, SECONDS * of.rate  # a frame of both
    a, b = (make().crop(data, of, start, n)[0] for make in RESAMPLING.values())
    # Without context the ends differ.
    assert np.abs(a[1_000:-1_000] - b[1_000:-1_000]).max() < 1e-3


def resampled(name: str, samples: np.ndarray, wav: bytes, rates: tuple[int, int]) -> np.ndarray:
    import soxr

    if name == "soxr HQ":
        return soxr.resample(samples, *rates, "HQ")
    resampler: Any = name
    return gm.decode(wav, sample_rate=rates[1], resampler=resampler)


def cpu_of_resampling(name: str, rates: tuple[int, int], n: int) -> float:
    """CPU seconds for 5 s of mono at another rate, without reading the WAV file that ours need."""
    noise = np.random.default_rng(1).standard_normal(SECONDS * rates[0] + 30, np.float32)
    samples = np.convolve(noise, np.hanning(33)[1:-1] / 64, "valid").astype(np.float32)
    wav = encode(samples[:, None], rates[0], "WAV", "FLOAT")
    ours, theirs = (resampled(who, samples, wav, rates) for who in ("hq", "soxr HQ"))
    inside = slice(1_000, len(theirs) - 1_000)  # at its ends a signal is continued in other ways
    assert np.abs(ours[inside] - theirs[inside]).max() < 1e-3

    def cpu(run: Callable[[], object]) -> float:
        began = time.process_time()
        for _ in range(n):
            run()
        return (time.process_time() - began) / n

    reading = 0.0 if name == "soxr HQ" else cpu(lambda: gm.decode(wav))
    return cpu(lambda: resampled(name, samples, wav, rates)) - reading


def cpu_of_whole(name: str, of: Recording, folder: Path) -> float:
    """CPU seconds of this process for the whole recording."""
    peer, data = PEERS[name](), encoded(of, folder)
    began = time.process_time()
    peer.whole(data, of)
    return time.process_time() - began


def cpu_of_crops(name: str, of: Recording, folder: Path, starts: list[int], peers: Any) -> float:
    """CPU seconds of a crop, on average over these frames to start at."""
    peer, data = peers[name](), encoded(of, folder)
    began = time.process_time()
    for start in starts:
        peer.crop(data, of, start, SECONDS * of.rate)
    return (time.process_time() - began) / len(starts)
