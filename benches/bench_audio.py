"""Each codec beside its peers, on one thread: `python benches/bench_audio.py [--quick]`.

Whole files and crops of 5 s at random places, from the bytes in memory to float32 at the file's own
rate and channels, and crops of 44.1 kHz Vorbis at 32 kHz. Peers take turns within a round; ratios
are taken within a round, and their median counts. Time is that of the process on the processor, so
that what else the machine does counts for little.
"""

from __future__ import annotations

import argparse
import io
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import audio_peers
import numpy as np
import report
from audio_files import CODECS, Recording

import gristmill as gm

SECONDS = 5
WHOLE_MARKS = dict.fromkeys(CODECS, 0.95) | {"vorbis": 1.0, "flac": 1.0}
CROP_MARKS = {"wav": 3.0, "flac": 1.5, "vorbis": 1.5, "mp3": 1.5, "aac": 1.5}
RESAMPLED_MARK = 2.0
GROWTH_MARK = 1.3
# The largest difference of samples that decoders of one codec have. miniaudio decodes Vorbis and
# MP3 with a precision of its own; FFmpeg decodes Opus in another way than libopus.
TOLERANCE = {"wav": 0, "flac": 0, "alac": 0, "vorbis": 2e-4, "mp3": 2e-4, "aac": 2e-5, "opus": 2e-2}
LOSSLESS_ROUNDING = 2.0**-15  # peers that scale by 32767


def check(
    of: Recording, data: bytes, peers: dict[str, audio_peers.Any]
) -> tuple[list[str], list[str]]:
    """Holds the peers' results to ours: who has this codec, and whose crops are the same."""
    n, start = SECONDS * of.rate, of.rate * of.seconds // 3 + 77
    whole = peers["Gristmill"].whole(data, of)
    crop = peers["Gristmill"].crop(data, of, start, n)
    assert crop.shape == (of.channels, n)
    assert crop.dtype == np.float32
    if of.codec != "opus":
        assert crop.tobytes() == whole[:, start : start + n].tobytes()
    bound = max(TOLERANCE[of.codec], LOSSLESS_ROUNDING)
    present, exact = ["Gristmill"], ["Gristmill"]
    for name, peer in peers.items():
        if name == "Gristmill" or of.codec in getattr(peer, "refuses", ()):
            continue
        theirs = peer.whole(data, of)
        n_both = min(theirs.shape[1], whole.shape[1])
        # Decoders without a rule for the encoder's delay begin earlier.
        late = best_shift(theirs, whole[:, : n_both - 4_096])
        shared = theirs[:, late : late + n_both - 4_096]
        difference = np.abs(shared - whole[:, : shared.shape[1]]).max()
        assert difference <= bound, f"{of.name}: {name} differs by {difference}"
        present.append(name)
        part = peer.crop(data, of, start, n)
        # Packets of SPDL begin before the crop, and peers keep the delay that they do not trim.
        late = best_shift(part, crop[:, : n - 8_192])
        shared = part[:, late : late + n - 8_192]
        difference = np.abs(shared - crop[:, : shared.shape[1]]).max()
        if difference > bound:
            print(f"{of.name}: the crop of {name} differs by {difference:.2g} and is not timed")
            continue
        exact.append(name)
    return present, exact


def best_shift(theirs: np.ndarray, ours: np.ndarray) -> int:
    """How many frames of theirs come before ours: up to 8 192."""
    probe = ours[0, :4_096].astype(np.float64)
    errors = [
        np.abs(theirs[0, k : k + len(probe) : 7] - probe[::7]).mean()
        for k in range(min(8_192, theirs.shape[1] - len(probe)))
    ]
    return int(np.argmin(errors))


def turns(jobs: dict[str, Callable[[int], object]], n_rounds: int) -> dict[str, list[float]]:
    """Milliseconds of processor time of each job and round; the first round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for k in range(n_rounds + 1):
        for name, job in jobs.items():
            begin = time.process_time()
            job(k)
            if k > 0:
                times[name].append(1e3 * (time.process_time() - begin))
    return times


def ratios(times: dict[str, list[float]]) -> dict[str, list[float]]:
    """How many times as long each peer took as Gristmill, round by round."""
    ours = times["Gristmill"]
    return {
        name: [t / g for t, g in zip(of, ours, strict=True)]
        for name, of in times.items()
        if name != "Gristmill"
    }


def spread(values: list[float]) -> str:
    middle = statistics.median(values)
    return f"{middle:.2f} ({min(values):.2f}-{max(values):.2f})"


class Results:
    """Rows of the table and verdicts on the marks."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.verdicts: list[str] = []

    def add(self, label: str, times: dict[str, list[float]], mark: float | None) -> None:
        of = ratios(times)
        best = min(of, key=lambda name: statistics.median(of[name]))
        row = [label, f"{statistics.median(times['Gristmill']):.2f}"]
        row += [spread(of[name]) if name in of else "-" for name in audio_peers.PEERS]
        self.rows.append(row)
        print("  ".join(row), flush=True)
        if mark is not None:
            middle = statistics.median(of[best])
            self.verdicts.append(report.verdict(f"{label}, {best}", middle, mark))


def crop_job(
    peer: audio_peers.Any, data: bytes, of: Recording, starts: np.ndarray
) -> Callable[[int], object]:
    def job(k: int) -> None:
        for start in starts[k]:
            peer.crop(data, of, int(start), SECONDS * of.rate)

    return job


def resampled(
    of: Recording, data: bytes, n_rounds: int, starts: np.ndarray
) -> dict[str, list[float]]:
    """Crops at 32 kHz mono: Gristmill, and what one writes with soundfile and soxr."""
    import soundfile
    import soxr

    n = SECONDS * 32_000

    def ours(start: int) -> np.ndarray:
        at = start / of.rate
        return gm.decode(data, sample_rate=32_000, channels="mono", start=at, seconds=SECONDS)

    def theirs(start: int) -> np.ndarray:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            file.seek(start)
            frames = file.read(SECONDS * of.rate, dtype="float32", always_2d=True)
        return soxr.resample(frames.mean(axis=1), of.rate, 32_000, "HQ")

    start = of.rate * 441 // 100  # a frame of both rates
    a, b = ours(start), theirs(start)[:n]
    # Without context the ends differ.
    assert np.abs(a[1_000:-1_000] - b[1_000:-1_000]).max() < 1e-3

    def job(one: Callable[[int], object]) -> Callable[[int], object]:
        return lambda k: [one(int(s)) for s in starts[k]]

    return turns({"Gristmill": job(ours), "soundfile": job(theirs)}, n_rounds)


def run(folder: Path, *, quick: bool, codecs: tuple[str, ...]) -> None:
    peers = audio_peers.present()
    missing = [name for name in audio_peers.PEERS if name not in peers]
    n_rounds, n_crops = (3, 3) if quick else (9, 12)
    lengths = (60,) if quick else (60, 600)
    results = Results()
    cost: dict[tuple[str, int, int], float] = {}
    for codec, channels, seconds in itertools.product(codecs, (1, 2), lengths):
        of = Recording(codec, channels, seconds)
        data = of.read(folder)
        present, exact = check(of, data, peers)
        rng = np.random.default_rng([channels, seconds])
        starts = rng.integers(0, (of.seconds - SECONDS) * of.rate, (n_rounds + 1, n_crops))
        rounds = max(3, n_rounds // 2) if seconds > 60 else n_rounds
        # The default argument binds this round's peer.
        wholes = {
            name: lambda _, peer=peers[name], data=data, of=of: peer.whole(data, of)
            for name in present
        }
        results.add(f"{of.name}, whole", turns(wholes, rounds), WHOLE_MARKS[codec])
        crops = {name: crop_job(peers[name], data, of, starts) for name in exact}
        times = {
            name: [t / n_crops for t in values] for name, values in turns(crops, n_rounds).items()
        }
        results.add(f"{of.name}, crop", times, CROP_MARKS.get(codec))
        cost[codec, channels, seconds] = statistics.median(times["Gristmill"])
        if codec == "vorbis" and channels == 2:
            times = resampled(of, data, n_rounds, starts)
            times = {name: [t / n_crops for t in values] for name, values in times.items()}
            results.add(f"{of.name}, crop to 32 kHz mono", times, RESAMPLED_MARK)
    for (codec, channels, seconds), long in cost.items():
        if seconds == 600:
            growth = cost[codec, channels, 60] / long
            layout = "mono" if channels == 1 else "stereo"
            label = f"{codec} {layout}, crop of 60 s over crop of 600 s"
            results.verdicts.append(report.verdict(label, growth, 1 / GROWTH_MARK))
    print(f"\n{report.conditions()}\n")
    head = ["", "Gristmill ms", *(f"{name} / it" for name in audio_peers.PEERS)]
    print(report.table(head, results.rows), "\n")
    print("\n".join(results.verdicts))
    if missing:
        print(f"Not here: {', '.join(missing)}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="files of 60 s, few rounds")
    parser.add_argument("--data", type=Path, help="where the files are made and kept")
    parser.add_argument("--codec", nargs="+", choices=CODECS, default=CODECS)
    options = parser.parse_args()
    folder = options.data or Path(tempfile.gettempdir()) / "gristmill-bench"
    audio_peers.with_ffmpeg_of_pyav(folder)
    run(folder, quick=options.quick, codecs=tuple(options.codec))


if __name__ == "__main__":
    main()
