"""Windows: every one of every recording, equal to a slice of the whole, in a reproducible order."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from rounds import rounds
from signals import RATE, encode, synthetic

import oracle

Window = tuple[int, int, int, int]  # shard, row, number, count

# By shard: seconds, rate and kind of each recording.
MADE = [
    [(0.31, 32_000, "wav16"), (1.0, 32_000, "flac16"), (0.5, 44_100, "vorbis")],
    [],
    [
        (0.05, 22_050, "wav24"),
        (1.26, 44_100, "mp3"),
        (0.75, 48_000, "flac24"),
        (0.2, RATE, "mp3vbr"),
    ],
    [(0.5, 32_000, "wav16")],
]


@pytest.fixture(scope="module")
def recordings() -> list[list[bytes]]:
    return [
        [
            encode(synthetic(seconds, rate, 1 + k % 2, 10 * s + k), rate, kind)
            for k, (seconds, rate, kind) in enumerate(made)
        ]
        for s, made in enumerate(MADE)
    ]


@pytest.fixture(scope="module")
def paths(recordings: list[list[bytes]], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("windows")
    written = [
        shards.write_audio(folder / f"part-{s}.arrow", made, batch_rows=2)
        for s, made in enumerate(recordings)
    ]
    for path in written:
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return written


def dataset(paths: Any, crop: gm.Windows, **options: Any) -> gm.ArrowIterDataset:
    audio = {"sample_rate": RATE, **options.pop("audio", {})}
    return gm.ArrowIterDataset(
        paths,
        columns=["count"],
        audio=gm.Audio("audio", crop=crop, **audio),
        with_row_id=True,
        with_crop=True,
        **options,
    )


def windows_of(element: dict[str, Any]) -> list[Window]:
    names = ("shard", "row", "window", "n_windows")
    return list(zip(*(np.atleast_1d(element[name]).tolist() for name in names), strict=True))


def listed(ds: Any) -> list[Window]:
    return [window for element in ds for window in windows_of(element)]


def window_starts(total: int, length: int, hop: int, tail: str) -> list[int]:
    """The first frames of a recording's windows, one after another."""
    if tail == "drop":
        return [start for start in range(0, total, hop) if start + length <= total]
    starts = [0]
    while starts[-1] + length < total and starts[-1] + hop < total:
        starts.append(starts[-1] + hop)
    if tail == "back":
        starts[-1] = max(min(starts[-1], total - length), 0)
    return starts


CASES = [
    (0.25, None, "pad"),
    (0.25, None, "drop"),
    (0.25, None, "back"),
    (0.25, 0.1, "pad"),
    (0.25, 0.1, "back"),
    (0.1, 0.3, "pad"),
    (2.0, 0.4, "pad"),
    (0.1, 0.1, "drop"),
]


@pytest.mark.parametrize(("seconds", "hop", "tail"), CASES)
@pytest.mark.parametrize("rate", [None, RATE, 24_000])
def test_windows_are_slices_of_the_whole(
    paths: list[Path],
    recordings: list[list[bytes]],
    seconds: float,
    hop: float | None,
    tail: Any,
    rate: int | None,
) -> None:
    ds = dataset(paths, gm.Windows(seconds, hop, tail), audio={"sample_rate": rate})
    elements = iter(ds)
    expected = 0
    for shard, made in enumerate(recordings):
        for row, data in enumerate(made):
            whole = gm.decode(data, sample_rate=rate)
            rate_hz = rate or soundfile.info(io.BytesIO(data)).samplerate
            length = math.floor(seconds * rate_hz + 0.5)
            step = length if hop is None else math.floor(hop * rate_hz + 0.5)
            starts = window_starts(len(whole), length, step, tail)
            for number, start in enumerate(starts):
                element = next(elements)
                assert windows_of(element) == [(shard, row, number, len(starts))]
                assert element["crop_start"] == start / rate_hz
                part = whole[start : start + length]
                assert element["crop_frames"] == len(part)
                assert element["audio"].shape == (length,)
                assert element["audio"][: len(part)].tobytes() == part.tobytes()
                assert not element["audio"][len(part) :].any()
            expected += len(starts)
    assert next(elements, None) is None
    assert ds.rows_per_epoch() == expected


def test_what_follows_the_end(paths: list[Path], recordings: list[list[bytes]]) -> None:
    """As in other crops: the recording again, or nothing."""
    whole = gm.decode(recordings[0][0], sample_rate=RATE)
    crop = gm.Windows(0.25)
    for pad, expected in (
        ("repeat", np.resize(whole[8_000:], 8_000)),
        (None, whole[8_000:]),
    ):
        second = list(dataset(paths, crop, audio={"pad": pad}))[1]
        assert second["audio"].tobytes() == expected.tobytes()
        assert second["crop_frames"] == len(whole) - 8_000


def reference(paths: list[Path], epoch: int, shuffle: gm.Shuffle | None, n: int) -> list[Window]:
    """The order of windows of `n` frames, in plain Python."""
    counts, rows = [], []
    for s, path in enumerate(paths):
        table = oracle.read_table(path)
        lengths = [len(oracle.decode(audio["bytes"], RATE)) for audio in table["audio"].to_pylist()]
        per_row = [len(window_starts(total, n, n, "pad")) for total in lengths]
        rows += [(s, r, k, of) for r, of in enumerate(per_row) for k in range(of)]
        counts.append(sum(per_row))
    if shuffle is None:
        return rows
    if shuffle.window is None:
        return [rows[i] for i in oracle.permutation(len(rows), shuffle.seed, epoch)]
    order = oracle.windowed(counts, shuffle.seed, epoch, shuffle.window, shuffle.streams)
    return [rows[i] for i in order]


@pytest.mark.parametrize(
    "shuffle", [None, gm.Shuffle(7), gm.Shuffle(7, window=6, streams=2)], ids=str
)
def test_the_order_is_the_reference(paths: list[Path], shuffle: gm.Shuffle | None) -> None:
    epochs = rounds(3, 2)
    ds = dataset(paths, gm.Windows(0.1), shuffle=shuffle, epochs=epochs)
    expected = [w for epoch in range(epochs) for w in reference(paths, epoch, shuffle, RATE // 10)]
    assert listed(ds) == expected
    order = gm.global_order(ds)
    assert list(zip(order.shard, order.row, strict=True)) == [w[:2] for w in expected]


@pytest.mark.parametrize("shuffle", [None, gm.Shuffle(3)], ids=str)
@pytest.mark.parametrize("batch_size", [None, 5])
def test_restored_at_every_position(
    paths: list[Path], shuffle: gm.Shuffle | None, batch_size: int | None
) -> None:
    ds = dataset(paths, gm.Windows(0.25), shuffle=shuffle, epochs=2, batch_size=batch_size)
    whole = [windows_of(e) for e in ds]
    it = iter(ds)
    for done in range(len(whole) + 1):
        state = json.dumps(it.get_state())
        assert len(state) < 500
        other = iter(ds)
        other.set_state(json.loads(state))
        assert [windows_of(e) for e in other] == whole[done:]
        next(it, None)


@pytest.mark.parametrize(
    "n_hosts", [1, 3, 8, *(pytest.param(n, marks=pytest.mark.gate) for n in (2, 4))]
)
def test_hosts_share_the_windows(paths: list[Path], n_hosts: int) -> None:
    crop = gm.Windows(0.1)

    def hosts(n: int) -> list[Any]:
        sharding = [grain.sharding.ShardOptions(k, n) for k in range(n)]
        options: dict[str, Any] = {"shuffle": gm.Shuffle(3), "epochs": 2}
        return [iter(dataset(paths, crop, shard_options=s, **options)) for s in sharding]

    def stream(them: list[Any]) -> list[Any]:
        """What all hosts together deliver at each step."""
        steps = itertools.zip_longest(*(listed(it) for it in them))
        return [sorted(window for window in step if window is not None) for step in steps]

    def steps(windows: list[Window], n: int) -> list[Any]:
        return [sorted(windows[k : k + n]) for k in range(0, len(windows), n)]

    whole = [w for epoch in range(2) for w in reference(paths, epoch, gm.Shuffle(3), RATE // 10)]
    assert stream(hosts(n_hosts)) == steps(whole, n_hosts)
    # The rest on other numbers of hosts.
    them = hosts(n_hosts)
    for it in them:
        next(it)
    state = them[0].get_state()
    assert stream(them) == steps(whole[n_hosts:], n_hosts)
    for n_others in (1, 3, 8):
        others = hosts(n_others)
        for it in others:
            it.set_state(state)
        assert stream(others) == steps(whole[n_hosts:], n_others)


def test_a_state_knows_its_windows(paths: list[Path]) -> None:
    it = iter(dataset(paths, gm.Windows(0.25)))
    next(it)
    state = it.get_state()
    for crop in (gm.Windows(0.2), gm.Windows(0.25, tail="back"), gm.Windows(0.25, hop=0.2)):
        other = iter(dataset(paths, crop))
        other.set_state(state)
        with pytest.raises(ValueError, match="other parts of the rows"):
            next(other)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """One second of FLAC whose middle is broken, one that is whole, noise, and a null."""
    data = encode(synthetic(1, RATE, 1, 1), RATE, "flac16")
    middle = len(data) // 2
    broken = data[:middle] + bytes(40) + data[middle + 40 :]
    return shards.write_audio(tmp_path / "damaged.arrow", [broken, data, b"noise", None])


@pytest.mark.parametrize("on_error", ["mask", "skip", "substitute"])
def test_each_window_follows_on_error(damaged: Path, on_error: Any) -> None:
    ds = dataset([damaged], gm.Windows(0.1), on_error=on_error, batch_size=11)
    assert ds.rows_per_epoch() == 10 + 10 + 1 + 1
    it = iter(ds)
    elements = list(it)
    windows = [w for e in elements for w in windows_of(e)]
    bad = {(row.row, row.reason) for row in it.bad_rows()}
    assert {(2, "unknown_format"), (3, "null")} <= bad
    whole = [w for w in windows if w[1] == 1]
    assert {w[2] for w in whole} == set(range(10))
    if on_error == "mask":
        assert [w[1:] for w in windows[-2:]] == [(2, 0, 1), (3, 0, 1)]
        valid = np.concatenate([e["valid"] for e in elements])
        # The windows at both ends of the broken recording are whole.
        assert valid[0]
        assert valid[9]
        assert not valid[:10].all()
        assert not valid[20:].any()
        frames = np.concatenate([e["crop_frames"] for e in elements])
        assert (frames[valid] == 3_200).all()
        assert not frames[~valid].any()
    if on_error == "skip":
        assert len(windows) < 20
        assert not {w for w in windows if w[1] > 1}
    if on_error == "substitute":
        assert len(windows) == 22
        assert not {w for w in windows if w[1] > 1}
    with pytest.raises(gm.DecodeError):
        list(dataset([damaged], gm.Windows(0.1)))


def test_excluded_rows_have_no_windows(paths: list[Path]) -> None:
    crop = gm.Windows(0.25)
    gone = [(0, 1), (3, 0)]
    expected = [w for w in listed(dataset(paths, crop)) if w[:2] not in gone]
    assert listed(dataset(paths, crop, exclude=gone)) == expected


def test_no_window_is_an_error(paths: list[Path]) -> None:
    ds = dataset(paths, gm.Windows(5, tail="drop"))
    with pytest.raises(ValueError, match=r"leaves no window: the longest recording has 1\.2\d"):
        next(iter(ds))
    with pytest.raises(ValueError, match="leaves no window"):
        ds.rows_per_epoch()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: gm.Windows(0), r"Windows\(seconds\) is a number above 0"),
        (lambda: gm.Windows(5, hop=-1), r"Windows\(hop\) is a number above 0"),
        (lambda: gm.Windows(5, hop=float("nan")), r"Windows\(hop\)"),
        (lambda: gm.Windows(5, tail="cut"), "tail is one of 'pad', 'drop', 'back', not 'cut'"),
        (lambda: gm.Audio(crop=5), "crop is a crop or None, not 5: write"),
    ],
)
def test_wrong_options(make: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make()


@settings(max_examples=rounds(30), deadline=None)
@given(
    lengths=st.lists(st.integers(1, 3_000), min_size=1, max_size=6),
    window=st.integers(1, 2_000),
    hop=st.integers(50, 2_500),
    tail=st.sampled_from(["pad", "drop", "back"]),
    seed=st.none() | st.integers(0, 2**64 - 1),
)
def test_any_windows(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    window: int,
    hop: int,
    tail: Any,
    seed: int | None,
) -> None:
    rate = 8_000
    starts = [window_starts(n, window, hop, tail) for n in lengths]
    if not any(starts):
        return
    made = [np.arange(n, dtype=np.float32)[:, None] / 4_096 for n in lengths]
    path = tmp_path_factory.mktemp("any") / "any.arrow"
    shards.write_audio(path, [encode(frames, rate, "wavf32") for frames in made])
    ds = dataset(
        [path],
        gm.Windows(window / rate, hop / rate, tail),
        audio={"sample_rate": None},
        shuffle=None if seed is None else gm.Shuffle(seed),
        batch_size=None,
    )
    found = {windows_of(e)[0][1:3]: e for e in ds}
    assert sorted(found) == [(r, k) for r, of in enumerate(starts) for k in range(len(of))]
    assert ds.rows_per_epoch() == len(found)
    for (row, number), element in found.items():
        start = starts[row][number]
        part = made[row][start : start + window, 0]
        assert element["audio"].tobytes() == np.pad(part, (0, window - len(part))).tobytes()
        assert element["crop_start"] == start / rate
        assert element["crop_frames"] == len(part)
