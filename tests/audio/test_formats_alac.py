"""ALAC beyond what test_formats_mp4.py has: every kind of packet, compared with FFmpeg."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

import gristmill as gm
from av_files import av, quantized, read, write
from signals import synthetic
from test_crops import assert_crops_are_slices

BITS = {16: "s16p", 24: "s32p"}
FRAME_LEN = 4_096


def alac(frames: np.ndarray, rate: int, bits: int = 16, **options: str) -> bytes:
    """An M4A file."""
    arguments = {"sample_format": BITS[bits], "bit_rate": None, "options": options}
    return write(frames, rate, "ipod", "alac", **arguments)


def assert_comes_back(frames: np.ndarray, rate: int, bits: int = 16, **options: str) -> None:
    """Holds a file of these frames to them and to what FFmpeg decodes."""
    frames = quantized(frames, bits)
    data = alac(frames, rate, bits, **options)
    info = gm.probe(data)
    assert (info.codec, info.sample_rate) == ("alac", rate)
    assert (info.frames, info.channels) == frames.shape
    ours = gm.decode(data, channels="keep")
    assert ours.tobytes() == np.ascontiguousarray(frames.T).tobytes()
    assert ours.tobytes() == read(data).tobytes()


def square(n: int, channels: int) -> np.ndarray:
    wave = np.where(np.arange(n) // 37 % 2, 0.999, -1.0)
    return np.repeat(wave[:, None], channels, axis=1)


def noise(n: int, channels: int) -> np.ndarray:
    """Full scale, which no prediction makes shorter."""
    return np.random.default_rng(1).uniform(-1, 0.9999, (n, channels))


def sparse(n: int, channels: int) -> np.ndarray:
    """Silence with clicks, full scale among them: runs of zeros of all lengths."""
    rng = np.random.default_rng(2)
    at = np.cumsum(rng.geometric(0.01, n))
    frames = np.zeros((n, channels))
    frames[at[at < n]] = rng.choice([2.0**-15, -(2.0**-15), 0.3, -1.0], (np.sum(at < n), channels))
    return frames


SIGNALS = {
    "silence": lambda n, channels: np.zeros((n, channels)),
    "sparse": sparse,
    "noise": noise,
    "square": square,
    "signal": lambda n, channels: synthetic(n / 44_100, 44_100, channels, seed=8)[:n],
    "one side": lambda n, channels: noise(n, channels) * (np.arange(channels) == 0),
}


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("channels", [1, 2])
def test_signals_of_all_kinds(name: str, bits: int, channels: int) -> None:
    frames = SIGNALS[name](3 * FRAME_LEN + 101, channels)
    assert_comes_back(frames, 44_100, bits)


@pytest.mark.parametrize("channels", range(1, 9))
@pytest.mark.parametrize("bits", BITS)
def test_every_count_of_channels(channels: int, bits: int) -> None:
    assert_comes_back(synthetic(0.3, 48_000, channels, seed=9), 48_000, bits)


@pytest.mark.parametrize("n", [1, 2, 5, 9, 31, 33, FRAME_LEN - 1, FRAME_LEN, FRAME_LEN + 1])
@pytest.mark.parametrize("channels", [1, 2])
def test_short_recordings(n: int, channels: int) -> None:
    frames = synthetic(1, 16_000, channels, seed=10)[3_000 : 3_000 + n]
    assert_comes_back(frames, 16_000)


@pytest.mark.parametrize("rate", [8_000, 11_025, 96_000, 192_000])
def test_rates(rate: int) -> None:
    assert_comes_back(synthetic(0.2, rate, 2, seed=11), rate, 24)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 30])
def test_predictors_of_every_order(order: int) -> None:
    frames = synthetic(0.5, 22_050, 2, seed=12)
    orders = {"min_prediction_order": str(order), "max_prediction_order": str(order)}
    assert_comes_back(frames, 22_050, **orders)


def test_crops_of_six_channels_are_slices() -> None:
    data = alac(synthetic(1.5, 48_000, 6, seed=13), 48_000, 24)
    assert_crops_are_slices(data, 48_000, None, "keep", np.random.default_rng(14), 100)


class Bits:
    """A packet, written bit by bit."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def put(self, value: int, n: int) -> None:
        if n:
            self.parts.append(format(value & (1 << n) - 1, f"0{n}b"))

    def number(self, value: int, k: int, n_bits: int) -> None:
        """In the code with parameter `k`, or as it is."""
        ones, rest = divmod(value, (1 << k) - 1)
        if ones > 8:
            self.put(0x1FF, 9)
            self.put(value, n_bits)
            return
        self.put((1 << ones + 1) - 2, ones + 1)
        self.put(rest + 1 if rest else 0, k if rest else k - 1)

    def differences(self, numbers: list[int], pace: int, n_bits: int) -> None:
        mean, i, was_zero = 10, 0, 0
        while i < len(numbers):
            folded = 2 * numbers[i] if numbers[i] >= 0 else -2 * numbers[i] - 1
            self.number(folded - was_zero, min(((mean >> 9) + 3).bit_length() - 1, 14), n_bits)
            mean = 0xFFFF if folded > 0xFFFF else mean + folded * pace - (mean * pace >> 9)
            i, was_zero = i + 1, 0
            if mean < 128 and i < len(numbers):
                end = next((j for j in range(i, len(numbers)) if numbers[j]), len(numbers))
                self.number(end - i, 8 - mean.bit_length() + (mean + 16 >> 6), 16)
                i, was_zero, mean = end, 1, 0

    def packet(self) -> bytes:
        self.put(7, 3)
        bits = "".join(self.parts)
        bits += "0" * (-len(bits) % 8)
        return int(bits, 2).to_bytes(len(bits) // 8, "big")


def random_packet(rng: np.random.Generator, channels: int, *, order: int, mode: int) -> bytes:
    """A packet of any parameters and differences."""
    bits = Bits()
    bits.put(channels - 1, 3)
    bits.put(0, 16 + 1 + 2 + 1)
    bits.put(int(rng.integers(4)) if channels == 2 else 0, 8)
    bits.put(int(rng.integers(9)) if channels == 2 else 0, 8)
    paces = rng.integers(1, 8, channels)
    for pace in paces:
        bits.put(mode, 4)
        bits.put(int(rng.integers(1, 16)), 4)
        bits.put(int(pace), 3)
        bits.put(order, 5)
        for tap in rng.integers(-32_768, 32_768, order):
            bits.put(int(tap), 16)
    for pace in paces:
        scale = 2.0 ** rng.integers(0, 15)
        numbers = np.round(rng.normal(0, scale, FRAME_LEN)).clip(-32_768, 32_767).astype(int)
        numbers[rng.random(FRAME_LEN) < rng.choice([0, 0.3, 0.98])] = 0
        bits.differences(numbers.tolist(), 10 * int(pace), 15 + channels)
    return bits.packet()


def with_packets(channels: int, packets: list[bytes]) -> tuple[bytes, np.ndarray]:
    """An M4A file of these packets, and what FFmpeg decodes them to, as (channels, frames)."""
    n = FRAME_LEN * len(packets)
    other = alac(synthetic(1, 44_100, channels, seed=15)[:n], 44_100)  # packets of several sizes
    with av.open(io.BytesIO(other)) as file:
        cookie = file.streams.audio[0].codec_context.extradata
    decoder = av.CodecContext.create("alac", "r")
    decoder.extradata = cookie
    frames = [f for data in packets for f in decoder.decode(av.Packet(data))]
    frames += decoder.decode(None)
    assert [frame.samples for frame in frames] == [FRAME_LEN] * len(packets)
    samples = np.concatenate([frame.to_ndarray() for frame in frames], axis=1)
    # The tables stand behind the packets, whose sizes and place are all that changes.
    moov = other.index(b"moov") - 4
    mdat = other.index(b"mdat") - 4
    tables = bytearray(other[moov:])
    at = tables.index(b"stsz") + 4
    assert struct.unpack_from(">III", tables, at) == (0, 0, len(packets))
    struct.pack_into(f">{len(packets)}I", tables, at + 12, *map(len, packets))
    at = tables.index(b"stco") + 4
    assert struct.unpack_from(">II", tables, at) == (0, 1)
    struct.pack_into(">I", tables, at + 8, mdat + 8)
    body = b"".join(packets)
    made = other[:mdat] + struct.pack(">I4s", 8 + len(body), b"mdat") + body + bytes(tables)
    return made, samples.astype(np.float32) / 2**15


@pytest.mark.parametrize("mode", [0, 15])
@pytest.mark.parametrize("order", [0, 1, 4, 5, 6, 8, 11, 30, 31])
@pytest.mark.parametrize("channels", [1, 2])
def test_packets_that_no_encoder_writes(channels: int, order: int, mode: int) -> None:
    """First differences, predictors run twice, taps that wrap: FFmpeg is the judge."""
    rng = np.random.default_rng(1_000 * channels + 40 * order + mode)
    packets = [random_packet(rng, channels, order=order, mode=mode) for _ in range(4)]
    data, theirs = with_packets(channels, packets)
    ours = gm.decode(data, channels="keep")
    assert ours.shape == theirs.shape
    assert np.array_equal(ours, theirs)
