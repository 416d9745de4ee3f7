"""The recordings that `bench_audio.py` decodes, made once into a folder.

`python benches/audio_files.py FOLDER` writes those of 4 s that the native benches decode.
"""

from __future__ import annotations

import dataclasses
import io
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
from material import encode, once

CODECS = ("wav", "flac", "vorbis", "opus", "mp3", "aac", "alac")
# What soundfile writes; PyAV writes the others.
SOUNDFILE = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "vorbis": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
PYAV = {
    "opus": ("ogg", "libopus", "flt", 96_000),
    "aac": ("mp4", "aac", "fltp", 128_000),
    "alac": ("mp4", "alac", "s16p", None),
}


@dataclasses.dataclass(frozen=True)
class Recording:
    """One file: a codec, what was recorded, and for how long."""

    codec: str
    channels: int
    seconds: int

    @property
    def rate(self) -> int:
        """32 kHz for mono and 44.1 kHz for stereo; Opus knows 48 kHz only."""
        if self.codec == "opus":
            return 48_000
        return 32_000 if self.channels == 1 else 44_100

    @property
    def name(self) -> str:
        layout = "mono" if self.channels == 1 else "stereo"
        return f"{self.codec} {self.rate / 1000:g} kHz {layout} {self.seconds} s"

    def read(self, folder: Path) -> bytes:
        """The file's bytes; it is made if it is not there yet."""
        path = folder / f"audio-{self.codec}-{self.channels}-{self.seconds}"
        return once(path, lambda part: part.write_bytes(self.made())).read_bytes()

    def made(self) -> bytes:
        frames = spoken_outside(self.seconds, self.rate, self.channels, self.seconds)
        if self.codec in SOUNDFILE:
            return encode(frames, self.rate, *SOUNDFILE[self.codec])
        return encode_pyav(frames, self.rate, *PYAV[self.codec])


def spoken_outside(seconds: float, rate: int, channels: int, seed: int) -> np.ndarray:
    """Voice-like syllables, birds and wind, as (frames, channels): nothing is white noise.

    The channels hear the same at other levels, and each its own wind, 50 dB below full scale.
    """
    rng = np.random.default_rng(seed)
    n = round(seconds * rate)
    t = np.arange(n) / rate
    pitch = np.cumsum(130 + 30 * np.sin(2 * np.pi * 0.7 * t) + 8 * np.sin(2 * np.pi * 5 * t)) / rate
    syllables = np.clip(np.sin(2 * np.pi * 3.1 * t) * np.sin(2 * np.pi * 0.23 * t), 0, None)
    voice = np.zeros(n)
    for harmonic in range(1, 24):
        formant = 1 / (1 + ((harmonic * 130 - 600) / 500) ** 2) + 0.3 / harmonic
        voice += formant * np.sin(2 * np.pi * harmonic * pitch + harmonic)
    song = np.sin(2 * np.pi * np.cumsum(4_000 + 1_500 * np.sin(2 * np.pi * 6 * t)) / rate)
    calls = song * np.clip(np.sin(2 * np.pi * 0.4 * t) - 0.6, 0, None)
    out = np.empty((n, channels), np.float32)
    for channel in range(channels):
        wind = np.convolve(rng.standard_normal(n + 63), np.hanning(66)[1:-1] / 32, "valid")
        hiss = np.convolve(rng.standard_normal(n + 2), [0.25, 0.5, 0.25], "valid")
        level = 0.1 - 0.03 * channel
        out[:, channel] = (
            level * voice * syllables + 0.2 * calls + 0.02 * wind[:n] + 0.001 * hiss[:n]
        )
    return np.clip(out, -0.9, 0.9)


def encode_pyav(
    frames: np.ndarray, rate: int, container: str, codec: str, form: str, bit_rate: int | None
) -> bytes:
    import av

    layout = "mono" if frames.shape[1] == 1 else "stereo"
    if form.startswith("s16"):
        frames = np.round(frames * 2.0**15).astype(np.int16)
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate, layout=layout)
        stream.format = form
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        if codec == "aac":
            # The substituted noise depends on what was decoded before.
            stream.options = {"aac_pns": "0"}
        stream.codec_context.open()
        size = stream.codec_context.frame_size or 4_096
        for start in range(0, len(frames), size):
            block = frames[start : start + size]
            planes = block.T if form.endswith("p") else block.reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(planes), form, layout)
            frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return out.getvalue()


def main(folder: Path) -> None:
    names = {1: "mono", 2: "stereo"}
    for codec in CODECS[1:]:
        for channels in (1, 2) if codec == "vorbis" else (2,) if codec in ("mp3", "aac") else (1,):
            made = Recording(codec, channels, 4).made()
            (folder / f"{codec}-{names[channels]}").write_bytes(made)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
