"""Without `strict`, a crop of AAC with broken packets is the slice of the whole."""

from __future__ import annotations

import io

import numpy as np
import pytest

import gristmill as gm
from damaged_files import made
from ogg_files import av

RATE = 32_000
FRAME = 1_024
FILES = ["AAC in ADTS", "AAC in MP4", "AAC in fragments", "AAC in Matroska"]
# The broken packets of 128: one, the first, the last, two, three of which one is whole between.
FAULTS = [(40,), (0,), (-1,), (40, 41), (40, 42), (39, 41, 42, 43)]


def broken(data: bytes, faults: tuple[int, ...]) -> bytes:
    """The file with packets whose bits make no sense."""
    with av.open(io.BytesIO(data)) as file:
        packets = [(p.pos, bytes(p)) for p in file.demux(audio=0) if p.size]
    out = bytearray(data)
    for i in faults:
        place, packet = packets[i]
        at = data.index(packet, place)
        # In ADTS the header of the packet stays.
        head = 7 if packet.startswith(b"\xff\xf1") else 0
        out[at + head : at + len(packet)] = b"\xff" * (len(packet) - head)
    return bytes(out)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("faults", FAULTS)
def test_crops_around_a_fault_are_slices(name: str, faults: tuple[int, ...]) -> None:
    data = broken(made(name), faults)
    with pytest.raises(gm.DecodeError) as caught:
        gm.decode(data)
    assert caught.value.reason == "corrupt_packets"
    whole, report = gm.decode_with_report(data)
    assert report.damage["corrupt_packets"] == len(faults)
    assert len(whole) == len(gm.decode(made(name)))
    n_packets = len(whole) // FRAME
    for fault in faults:
        first = max(fault % (n_packets + 1) - 4, 0)
        for packet in range(first, min(first + 9, n_packets - 1)):
            for offset in (0, 1, 511):
                start = packet * FRAME + offset
                crop = gm.decode(data, start=start / RATE, seconds=1_500 / RATE, strict=False)
                expected = whole[start : start + 1_500]
                np.testing.assert_array_equal(crop[: len(expected)], expected, str(start))
