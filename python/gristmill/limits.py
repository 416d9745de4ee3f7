"""What a recording may ask for before it is refused."""

from __future__ import annotations

from dataclasses import dataclass

from gristmill import checks


@dataclass(frozen=True)
class Limits:
    """What a recording may ask for before `LimitError` refuses it. Nothing is decoded by then.

    Args:
        max_bytes: Bytes of the encoded recording. A data set does not read longer ones.
        max_sample_rate: Its rate in Hz, at most 768,000.
        max_channels: Its channels, at most 8.
        max_seconds: Its length in seconds, at most 30 days.
        max_frames_per_byte: Frames that its headers promise, for each byte that is there. Sound
            has 1 to 30 of them, digital silence in FLAC or Opus up to 300. Recordings of at most
            16,777,216 frames are exempt.
        max_decoded_bytes: Bytes that the wanted part takes as float32, whatever the dtype: its
            samples, and where the rate changes those that they are resampled from. The default is
            6.2 hours of stereo at 48 kHz, or 3.7 hours resampled to 32 kHz. In a data set the
            memory budget is a limit as well. Probing and scanning keep no samples.
        max_decode_seconds: Time that decoding one recording may take, looked at between packets.
            `None` is any: a limit makes what comes out depend on how fast and how busy a machine
            is, so there is none unless it is asked for.
    """

    max_bytes: int = 1 << 30
    max_sample_rate: int = 768_000
    max_channels: int = 8
    max_seconds: float = 86_400.0
    max_frames_per_byte: int = 1_000
    max_decoded_bytes: int = 8 << 30
    max_decode_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, most in (
            ("max_bytes", 2**64 - 1),
            ("max_sample_rate", 768_000),
            ("max_channels", 8),
            ("max_frames_per_byte", 2**64 - 1),
            ("max_decoded_bytes", 2**64 - 1),
        ):
            value = checks.integer(name, getattr(self, name), 1, most, write=f"{name}={most}")
            object.__setattr__(self, name, value)
        for name, most, example in (
            ("max_seconds", 2_592_000, 3600),
            ("max_decode_seconds", 1e9, 60),
        ):
            value = checks.number(
                name,
                getattr(self, name),
                0,
                most,
                above=True,
                write=f"{name}={example}",
                none=name == "max_decode_seconds",
            )
            object.__setattr__(self, name, value)
