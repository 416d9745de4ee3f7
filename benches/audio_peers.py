"""Decoding with Gristmill and with what else there is: whole files, and 5 s of them.

Each peer gets the file's bytes and gives planes or frames of float32 at the file's own rate, on one
thread. `None` says that it has no such decoder.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from audio_files import Recording

import gristmill as gm

Planes = np.ndarray  # (channels, frames)


def with_ffmpeg_of_pyav(folder: Path) -> None:
    """Starts this program again, with PyAV's FFmpeg where SPDL looks for one: it brings none.

    The loader reads its path only when a process begins.
    """
    found = importlib.util.find_spec("av")
    libraries = Path(found.origin).parents[1] / "av.libs" if found and found.origin else None
    if libraries is None or not libraries.is_dir() or "GRISTMILL_BENCH_FFMPEG" in os.environ:
        return
    links = folder / "ffmpeg"
    links.mkdir(parents=True, exist_ok=True)
    for library in libraries.iterdir():
        # libavutil-5809ad29.so.60.26.102 is libavutil.so.60 to the others.
        if match := re.fullmatch(r"(lib(?:av|sw)\w+)-\w+(\.so\.\d+)\..*", library.name):
            link = links / "".join(match.groups())
            link.unlink(missing_ok=True)
            link.symlink_to(library)
    paths = [str(links), str(libraries), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
    os.environ["GRISTMILL_BENCH_FFMPEG"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv])


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


PEERS: dict[str, Callable[[], Any]] = {
    "soundfile": SoundFile,
    "PyAV": PyAV,
    "SPDL": Spdl,
    "miniaudio": Miniaudio,
    "torchcodec": TorchCodec,
}


def present() -> dict[str, Any]:
    """Gristmill, and the peers that can be imported here."""
    found: dict[str, Any] = {"Gristmill": Gristmill()}
    for name, make in PEERS.items():
        # Besides a missing module: one whose FFmpeg or torch is missing.
        with contextlib.suppress(ImportError, OSError, RuntimeError):
            found[name] = make()
    return found
