"""What `test_transfer.py` runs in a process with four devices, all of it in one.

`python on_devices.py FOLDER` prints, as JSON, what each function here gave, or how it failed.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import grain
import jax
import numpy as np

import gristmill as gm

MESH = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
OVER = jax.sharding.NamedSharding(MESH, jax.sharding.PartitionSpec("data"))
AUDIO = gm.Audio(sample_rate=32_000, crop=gm.StartCrop(0.01), dtype="int16")
FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()


def dataset(columns: tuple[str, ...] = ("audio", "count"), **options: Any) -> gm.ArrowIterDataset:
    options = {"batch_size": 8, "epochs": 2, "shuffle": gm.Shuffle(1), **options}
    return gm.ArrowIterDataset(FOLDER, columns=list(columns), audio=AUDIO, **options)


def counts(batches: Any) -> list[list[int]]:
    return [np.asarray(batch["count"]).tolist() for batch in batches]


def values_and_shardings() -> None:
    expected = list(dataset())
    for batch, of in zip(gm.jax.to_device(dataset(), OVER), expected, strict=True):
        assert batch.keys() == of.keys()
        assert batch["audio"].sharding == OVER
        assert batch["audio"].dtype == np.int16
        jax.tree.map(np.testing.assert_array_equal, batch, of)
    device = jax.devices()[2]
    batch = next(iter(gm.jax.to_device(dataset(), device)))
    assert batch["audio"].devices() == {device}
    assert next(iter(gm.jax.to_device(dataset())))["audio"].devices() == {jax.devices()[0]}


def states(put: Callable[..., Any] = gm.jax.to_device) -> None:
    """Each is that of the next batch, however many are on their way; twice over, too."""
    expected = counts(dataset())
    ahead = put(dataset(), OVER, cpu_buffer_size=3, device_buffer_size=3)
    it = iter(ahead)
    saved = []
    for rows in expected:
        saved.append(json.loads(json.dumps(it.get_state())))
        assert np.asarray(next(it)["count"]).tolist() == rows
    for k in (0, 1, 4, len(expected) - 1):
        with closing(iter(ahead)) as again:
            again.set_state(saved[k])
            assert again.get_state() == saved[k]
            assert np.asarray(next(again)["count"]).tolist() == expected[k]
            later = again.get_state()
        with closing(iter(ahead)) as again:
            next(again)
            again.set_state(later)
            assert counts(again) == expected[k + 1 :]
    # A state of the one is a state of the other: look-ahead may be changed between runs.
    plain = iter(dataset())
    plain.set_state(saved[4])
    assert counts(plain) == expected[4:]


def states_of_grains() -> None:
    states(grain.experimental.device_put)


def an_exception_in_the_loop() -> None:
    before = set(threading.enumerate())
    for put in (gm.jax.to_device, grain.experimental.device_put):
        try:
            with closing(iter(put(dataset(epochs=None), OVER))) as batches:
                for batch in batches:
                    batch["no such column"]
        except KeyError:
            pass
    assert set(threading.enumerate()) <= before, threading.enumerate()


def an_error_of_the_data() -> str:
    missing = gm.ArrowIterDataset(FOLDER / "no.arrow", batch_size=8)
    return _raises(lambda: next(iter(gm.jax.to_device(missing, OVER))), FileNotFoundError)


def a_batch_that_cannot_be_divided() -> str:
    return _raises(lambda: next(iter(gm.jax.to_device(dataset(batch_size=6), OVER))))


def a_short_last_batch() -> str:
    ahead = gm.jax.to_device(dataset(epochs=1, batch_size=12), OVER)
    assert [len(batch["count"]) for batch in ahead] == [12, 12, 12, 4]  # of 4, which can be
    ahead = gm.jax.to_device(dataset(epochs=1, batch_size=16, rows=np.arange(38)), OVER)
    return _raises(lambda: list(ahead))


def a_padded_last_batch() -> None:
    ahead = gm.jax.to_device(dataset(epochs=1, batch_size=12, remainder="pad"), OVER)
    batches = list(ahead)
    assert {batch["audio"].shape for batch in batches} == {(12, 320)}
    assert sum(int(batch["valid"].sum()) for batch in batches) == 40


def single_rows() -> str:
    return _raises(lambda: next(iter(gm.jax.to_device(dataset(batch_size=None), OVER))))


def what_stays_on_the_host() -> None:
    names = ("audio", "count", "name", "tags", "when", "place", "good", "box")
    expected = next(iter(dataset(names)))
    batch = next(iter(gm.jax.to_device(dataset(names), OVER)))
    on_device = {k for k, v in batch.items() if isinstance(v, jax.Array)}
    assert on_device == {"audio", "count", "good", "box"}
    assert all(isinstance(v, jax.Array) for v in batch["place"].values())
    assert all(isinstance(batch[k], np.ndarray) for k in ("name", "tags", "when"))
    for name in ("name", "when", "count", "box"):
        np.testing.assert_array_equal(batch[name], expected[name])
    assert [list(tags) for tags in batch["tags"]] == [list(tags) for tags in expected["tags"]]
    padded = next(iter(gm.jax.to_device(dataset(("audio", "tags"), ragged="pad"), OVER)))
    assert isinstance(padded["tags"], jax.Array)
    # Into a compiled step go the columns that it uses; JAX names the others.
    told = _raises(lambda: jax.jit(lambda b: b["count"])(batch), TypeError)
    assert "name" in told or "object" in told, told


def statistics() -> None:
    it = iter(gm.jax.to_device(dataset(), OVER))
    next(it)
    (stats,) = gm.stats(it)
    assert stats.rows >= 8
    assert "Too early to say" in str(gm.verdict(it))


def wrong_options() -> list[str]:
    return [
        _raises(lambda: gm.jax.to_device(iter(dataset()), OVER)),
        _raises(lambda: gm.jax.to_device(dataset(), "gpu")),
        _raises(lambda: gm.jax.to_device(dataset(), OVER, cpu_buffer_size=0)),
    ]


def a_front_end_over_devices() -> None:
    """Spectrograms of sharded audio are sharded, and the same."""
    audio = np.random.default_rng(0).standard_normal((8, 8_000), np.float32)
    explicit = jax.NamedSharding(jax.make_mesh((4,), ("data",)), jax.P("data"))
    for preset, pcen in (("perch", None), ("librosa", gm.jax.PCEN())):
        log_mel = jax.jit(gm.jax.LogMel(preset, sample_rate=32_000, pcen=pcen))
        expected = log_mel(audio)
        for over in (OVER, explicit):
            found = log_mel(jax.device_put(audio, over))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert found.sharding.spec[0] == "data"


def _raises(call: Callable[[], Any], kind: type[Exception] = ValueError) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")


SCENES: tuple[Callable[[], Any], ...] = (
    values_and_shardings,
    states,
    states_of_grains,
    an_exception_in_the_loop,
    an_error_of_the_data,
    a_batch_that_cannot_be_divided,
    a_short_last_batch,
    a_padded_last_batch,
    single_rows,
    what_stays_on_the_host,
    statistics,
    wrong_options,
    a_front_end_over_devices,
)

if __name__ == "__main__":
    outcomes: dict[str, Any] = {}
    for scene in SCENES:
        try:
            outcomes[scene.__name__] = {"gave": scene()}
        except Exception:  # noqa: BLE001 # it is the test's to raise
            outcomes[scene.__name__] = {"failed": traceback.format_exc()}
    sys.stdout.write(json.dumps(outcomes))
