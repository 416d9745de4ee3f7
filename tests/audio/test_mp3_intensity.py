"""Intensity stereo of MPEG-2 and MPEG-2.5: every position pans, as FFmpeg plays it.

Encoders that are at hand write none, so the streams are put together bit by bit.
"""

from __future__ import annotations

import numpy as np
import pytest

import gristmill as gm
from ogg_files import decode_av

FRAME_LEN = 192  # bytes of 64 kbit/s at 24 kHz
FRAME_BITS = 8 * FRAME_LEN
N_FRAMES = 12


class Bits:
    """Numbers of some bits each, one behind the other."""

    def __init__(self) -> None:
        self.text = ""

    def put(self, value: int, width: int) -> None:
        self.text += f"{value:0{width}b}" if width else ""

    def padded(self, n_bits: int) -> bytes:
        assert len(self.text) <= n_bits
        return int(self.text.ljust(n_bits, "0"), 2).to_bytes(n_bits // 8, "big")


def frame(
    slen: tuple[int, int, int],
    positions: list[int],
    *,
    is_mid_side: bool,
    scale: int,
    is_short: bool,
    n_right: int,
    rng: np.random.Generator,
) -> bytes:
    """A frame of joint stereo: noise on the left, positions on the right, noise below them."""
    sides: list[tuple[Bits, int, int]] = []
    lengths = [12, 12, 12] if is_short else [7, 7, 7]
    for n_pairs, code in ((100, 0), (n_right, (slen[0] * 36 + slen[1] * 6 + slen[2]) * 2 + scale)):
        data = Bits()
        if code > 1:
            numbers = iter(positions)
            for n, width in zip(lengths, slen, strict=True):
                for _ in range(n):
                    data.put(next(numbers) & ((1 << width) - 1), width)
        for _ in range(n_pairs):  # both values are 1, with their signs: table 1
            data.put(int(rng.integers(4)), 5)
        sides.append((data, n_pairs, code))
    head = Bits()
    head.put(0xFFF3, 16)  # MPEG-2 layer III without a checksum
    head.put(0x84, 8)  # 64 kbit/s, 24 kHz
    head.put(0b01, 2)
    head.put((int(is_mid_side) << 1) | 1, 2)
    head.put(0, 4)
    head.put(0, 10)  # no reservoir, private bits
    for data, n_pairs, code in sides:
        head.put(len(data.text), 12)
        head.put(n_pairs, 9)
        head.put(185, 8)
        head.put(code, 9)
        head.put(int(is_short), 1)
        if is_short:
            head.put(0b10_0, 3)
            head.put(1, 5)
            head.put(1, 5)
            head.put(0, 9)
        else:
            head.put((1 << 10) | (1 << 5) | 1, 15)
            head.put(7, 4)
            head.put(7, 3)
        head.put(0, 2)
    for data, _, _ in sides:
        head.text += data.text
    return head.padded(FRAME_BITS)


def stream(**how: object) -> bytes:
    rng = np.random.default_rng(7)
    return b"".join(frame(**how, rng=rng) for _ in range(N_FRAMES))  # pyright: ignore[reportArgumentType]


CASES = [
    ((1, 1, 1), "ones"),
    ((1, 2, 3), "highest"),
    ((2, 2, 2), "count"),
    ((3, 3, 2), "count"),
    ((4, 3, 1), "count"),
    ((4, 4, 4), "highest"),
    ((0, 1, 2), "highest"),
]


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("n_right", [0, 30])
@pytest.mark.parametrize("is_mid_side", [False, True])
@pytest.mark.parametrize("scale", [0, 1])
@pytest.mark.parametrize(("slen", "kind"), CASES)
def test_every_position_pans(
    slen: tuple[int, int, int],
    kind: str,
    scale: int,
    is_mid_side: bool,  # noqa: FBT001 # a parameter of pytest
    n_right: int,
    is_short: bool,  # noqa: FBT001 # a parameter of pytest
) -> None:
    positions = {
        "ones": [1] * 36,
        "highest": [15] * 36,
        "count": [i % 16 for i in range(36)],
    }[kind]
    data = stream(
        slen=slen,
        positions=positions,
        is_mid_side=is_mid_side,
        scale=scale,
        is_short=is_short,
        n_right=n_right,
    )
    ours = gm.decode(data, channels="keep")
    theirs = decode_av(data, "mp3float")
    assert np.abs(theirs).max() > 1e-3
    n = min(ours.shape[1], theirs.shape[1])
    assert n >= (N_FRAMES - 2) * 576
    np.testing.assert_allclose(ours[:, -n:], theirs[:, -n:], rtol=0, atol=2e-5)
