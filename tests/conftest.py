"""Shards that the tests share: small, made once a run, never changed."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest

import rounds  # noqa: F401  (its Hypothesis profiles are for all tests)
import shards
from once import once
from signals import RATE, encode, field, synthetic


def pytest_configure() -> None:
    # A shell without job control starts what runs in the background with Ctrl-C ignored, and so it
    # would be in every program that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    # Workers send reports as UTF-8, and tests of odd paths print names that are not.
    report = yield
    report.sections = [
        (title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections
    ]
    return report


@pytest.fixture(scope="session", autouse=True)
def sidecars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps sidecars out of the user's cache folder, in worker processes too."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRISTMILL_CACHE", str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs that tests start share what JAX compiles."""
    folder = once(tmp_path_factory, "jax", lambda _: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(folder))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        yield


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the environment nor the files of whoever runs the tests tell of stores."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "HF_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def same_rate(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """25 recordings of 32 kHz in every encoding, 0.05 to 1.7 s, in five shards.

    Stream and file, one of one row, one without rows.
    """

    def make(folder: Path) -> None:
        kinds = ["wav16", "flac16", "vorbis", "mp3", "wav24", "flac24", "wavf32", "mp3vbr", "wavu8"]
        rng = np.random.default_rng(7)
        made = [
            encode(
                synthetic(rng.uniform(0.6, 1.7), RATE, 1 + i % 2, i), RATE, kinds[i % len(kinds)]
            )
            for i in range(24)
        ]
        made.append(encode(synthetic(0.05, RATE, 1, 99), RATE, "wav16"))
        shards.write_audio(folder / "a-0.arrow", made[:8])
        shards.write_audio(folder / "b-1.arrow", [])
        shards.write_audio(folder / "c-2.arrow", made[8:9], form="file")
        shards.write_audio(folder / "d-3.arrow", made[9:19], form="file", batch_rows=4)
        shards.write_audio(folder / "e-4.arrow", made[19:], batch_rows=100)

    return sorted(once(tmp_path_factory, "same-rate", make).iterdir())


@pytest.fixture(scope="session")
def mixed_rates(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """12 recordings of 22.05 to 48 kHz, in two shards; each codec in each of the rates."""

    def make(folder: Path) -> None:
        made = [
            encode(synthetic(1 + i / 10, rate, 1 + i % 2, i), rate, kind)
            for i, (kind, rate) in enumerate(
                (kind, rate)
                for rate in (22_050, 44_100, 48_000)
                for kind in ("wav16", "flac16", "vorbis", "mp3")
            )
        ]
        shards.write_audio(folder / "low.arrow", made[:5])
        shards.write_audio(folder / "high.arrow", made[5:])

    folder = once(tmp_path_factory, "mixed-rates", make)
    return [folder / "low.arrow", folder / "high.arrow"]


@pytest.fixture(scope="session")
def field_shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Field recordings of 32 and 44.1 kHz, each in every codec; skips where they are absent."""
    folder = tmp_path_factory.mktemp("field")
    paths = []
    for name in ("birds_10s.wav", "aru_1.wav", "short_no_metadata.wav", "great_plains_toad.wav"):
        frames, rate = field(name, seconds=6)
        made = [encode(frames, rate, kind) for kind in ("wav16", "flac16", "vorbis", "mp3")]
        paths.append(shards.write_audio(folder / f"{Path(name).stem}.arrow", made, batch_rows=2))
    return paths


@pytest.fixture(scope="session")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """40 rows of 20 ms in four shards of 11, 0, 9 and 20 rows: for order and state."""
    folder = tmp_path_factory.mktemp("numbered")
    paths, made = [], 0
    for i, n in enumerate((11, 0, 9, 20)):
        # A row's audio is a constant that tells its number.
        recordings = [
            encode(np.full((640, 1), (made + k) / 64, np.float32), RATE, "wav16") for k in range(n)
        ]
        rows = [shards.row(made + k, data) for k, data in enumerate(recordings)]
        paths.append(shards.write(folder / f"part-{i}.arrow", rows, batch_rows=4))
        made += n
    return paths


@pytest.fixture(scope="session")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 recordings of 10 min of noise: a batch of them takes a thread many seconds."""

    def make(folder: Path) -> None:
        noise = np.random.default_rng(0).uniform(-0.5, 0.5, (600 * 22_050, 1)).astype(np.float32)
        data = encode(noise, 22_050, "mp3")
        shards.write_audio(folder / "slow.arrow", [data] * 40, batch_rows=4)

    return once(tmp_path_factory, "slow", make) / "slow.arrow"
