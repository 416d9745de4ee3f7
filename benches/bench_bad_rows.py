"""What bad rows cost: `python benches/bench_bad_rows.py [--rounds N]`.

Crops of 2 s from Ogg Vorbis recordings of 10 s, shuffled, in batches of 32; of the rows none, one
in a hundred, or one in ten is cut in half or no recording at all. What is measured is CPU time, of
which other programs change little. In a round the shares take turns there and back, so that a drift
meets all alike; a round makes one ratio of each share, and told is the median of those, with the
interval in which it lies for 95 % of the samples that could have been drawn instead.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from pathlib import Path

import material
import pyarrow as pa
import report

import gristmill as gm

N_ROWS = 2_000
RATE = 32_000
SHARES = (0.0, 0.01, 0.1)
POLICIES = ("substitute", "mask", "skip")
# A substituted row is read twice and decoded once more at most; the others cost less than a row.
MARK = 0.95


def make(folder: Path) -> dict[float, Path]:
    good = [
        material.encode(material.field_like(10, RATE, 1, seed), RATE, "OGG", "VORBIS")
        for seed in range(20)
    ]
    paths = {}
    for share in SHARES:
        every = round(1 / share) if share else N_ROWS + 1
        rows = []
        for i in range(N_ROWS):
            data = good[i % len(good)]
            if i % every == every - 1:
                data = data[: len(data) // 2] if i // every % 2 else b"no recording"
            rows.append({"bytes": data, "path": f"{i}.ogg"})
        paths[share] = folder / f"share-{share}.arrow"
        table = pa.table({"audio": rows, "label": range(N_ROWS)}, schema=material.SCHEMA)
        with pa.ipc.new_stream(str(paths[share]), table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
    return paths


def cpu_seconds(path: Path, policy: str, n_bad: int) -> float:
    """What the stream takes, of all threads."""
    ds = gm.ArrowIterDataset(
        path,
        columns=["audio", "label"],
        audio=gm.Audio(sample_rate=RATE, crop=gm.RandomCrop(2)),
        shuffle=gm.Shuffle(1),
        batch_size=32,
        on_error=policy,
    )
    it = iter(ds)
    next(it)
    began = time.process_time()
    n_rows = sum(len(batch["label"]) for batch in it)
    took = time.process_time() - began
    assert it.stats().bad_rows == n_bad
    assert n_rows + 32 >= N_ROWS - n_bad * (policy == "skip")
    it.close()
    return took


def compare(paths: dict[float, Path], policy: str) -> dict[float, float]:
    """CPU time of the stream by its share of bad rows: of two runs."""
    took = dict.fromkeys(SHARES, 0.0)
    for share in (*SHARES, *reversed(SHARES)):
        took[share] += cpu_seconds(paths[share], policy, round(share * N_ROWS))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    logging.getLogger("gristmill").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        paths = make(Path(folder))
        runs = [{policy: compare(paths, policy) for policy in POLICIES} for _ in range(rounds)]
    lines, verdicts = [], []
    for policy in POLICIES:
        none = [2 * N_ROWS / run[policy][0.0] for run in runs]
        texts = []
        for share in SHARES[1:]:
            ratios = [run[policy][0.0] / run[policy][share] for run in runs]
            low, high = report.interval([[ratio] for ratio in ratios])
            median = statistics.median(ratios)
            texts.append(f"{median:.3f} ({low:.3f} to {high:.3f})")
            label = f"{policy}, {100 * share:.0f} % bad against none"
            verdicts.append(report.verdict(label, median, MARK))
        lines.append([policy, report.spread(none), *texts])
    print(report.conditions())
    head = ["on_error", "rows per CPU second, none bad", "1 % bad (95 % interval)", "10 % bad"]
    print(report.table(head, lines))
    print(*verdicts, sep="\n")


if __name__ == "__main__":
    main()
