"""What bad rows cost: `python benches/bench_bad_rows.py [--rounds N]`.

Crops of 2 s from Ogg Vorbis recordings of 10 s, shuffled, in batches of 32; of the rows none, one
in a hundred, or one in ten is cut in half or no recording at all. The shares take turns. What is
measured is CPU time, of which other programs change little, and ratios are of medians.
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


def rate(path: Path, policy: str, n_bad: int) -> float:
    """Rows of the stream in a second of CPU time, of all threads."""
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
    return N_ROWS / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    logging.getLogger("gristmill").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        paths = make(Path(folder))
        rates: dict[tuple[str, float], list[float]] = {}
        for _ in range(rounds):
            for policy in POLICIES:
                for share, path in paths.items():
                    found = rate(path, policy, round(share * N_ROWS))
                    rates.setdefault((policy, share), []).append(found)
    lines = []
    for policy in POLICIES:
        medians = [statistics.median(rates[policy, share]) for share in SHARES]
        ratios = [f"{m / medians[0]:.3f}" for m in medians[1:]]
        lines.append([policy, report.spread(rates[policy, 0.0]), *ratios])
    print(report.conditions())
    print(report.table(["on_error", "rows per CPU second, none bad", "1 % bad", "10 % bad"], lines))
    for policy in POLICIES:
        one = statistics.median(rates[policy, 0.01]) / statistics.median(rates[policy, 0.0])
        print(report.verdict(f"{policy}, 1 % bad against none", one, MARK))


if __name__ == "__main__":
    main()
