"""`gm.jax.LogMel` beside librosa on CPUs, in one process: 64 crops of 5 s at 32 kHz.

Windows of 640 samples each 320, an FFT of 1,024, 128 bands. librosa takes the whole batch in one
call, which is faster than row by row.
"""

from __future__ import annotations

import time
from typing import Any

import material
import numpy as np
import pytest

import gristmill as gm

FASTER = 5.0
RATE = 32_000
OPTIONS = {"n_fft": 1_024, "hop_length": 320, "win_length": 640, "n_mels": 128}


def batch(rows: int, seconds: float) -> np.ndarray:
    return np.stack([material.field_like(seconds, RATE, 1, k)[:, 0] for k in range(rows)])


def librosas(audio: np.ndarray) -> np.ndarray:
    librosa = pytest.importorskip("librosa")
    energies = librosa.feature.melspectrogram(y=audio, sr=RATE, **OPTIONS)
    return librosa.power_to_db(energies, top_db=None).swapaxes(1, 2)


@pytest.mark.parametrize("job", ["librosa", "gristmill", "perch"])
def test_log_mel(turns: Any, size: Any, job: str) -> None:
    jax = pytest.importorskip("jax")
    audio = batch(*size((64, 5.0), (64, 5.0), (2, 0.5)))
    jobs = {
        "librosa": librosas,
        "gristmill": jax.jit(gm.jax.LogMel("librosa", sample_rate=RATE, top_db=None, **OPTIONS)),
        "perch": jax.jit(gm.jax.LogMel("perch")),
    }

    def prepare(name: str) -> Any:
        found = np.asarray(jobs[name](audio))
        if name == "gristmill":
            np.testing.assert_allclose(found, librosas(audio), rtol=0, atol=1e-3)
        assert np.isfinite(found).all()

        def run(_: int) -> float:
            began = time.perf_counter()
            jax.block_until_ready(jobs[name](audio))
            return (time.perf_counter() - began) / len(audio)

        return run

    # The mark is for the same result; Perch's front end has no counterpart in librosa.
    marks = {"at_most": 1 / FASTER} if job == "gristmill" else {}
    turns(prepare, rounds=size(15, 7, 1), than="librosa", **marks)
