"""Mixtures: which row comes next, that it is what its data set delivers alone, hosts and states."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import grain
import numpy as np
import pytest
from absl import flags
from grain._src.python.testing.experimental import assert_equal_output_after_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

import gristmill as gm
import shards
from rounds import rounds
from signals import RATE, encode, synthetic

import oracle

Row = tuple[int, int, int]  # data set, shard, row
COLUMNS = ["count", "name"]


def part(paths: Any, **options: Any) -> gm.ArrowIterDataset:
    return gm.ArrowIterDataset(paths, **{"columns": COLUMNS, "audio": None, **options})


def three(numbered: list[Path], epochs: Sequence[int | None] = (1, 1, 1)) -> list[Any]:
    """Data sets of 11, 9 and 20 rows, each in an order of its own."""
    return [
        part(numbered[:1], shuffle=gm.Shuffle(3), epochs=epochs[0]),
        part(numbered[1:3], epochs=epochs[1]),
        part(numbered[3:], shuffle=gm.Shuffle(5, window=6, streams=2), epochs=epochs[2]),
    ]


def rows(element: dict[str, Any]) -> list[Row]:
    return list(
        zip(
            *(np.atleast_1d(element[name]).tolist() for name in ("dataset", "shard", "row")),
            strict=True,
        )
    )


def delivered(mixture: Any) -> list[Row]:
    return [row for element in mixture for row in rows(element)]


def alone(numbered: list[Path], n_epochs: int) -> list[list[tuple[int, int]]]:
    """What the data sets of `three` deliver in so many epochs, by the reference."""
    jobs = [
        oracle.Job(numbered[:1], seed=3),
        oracle.Job(numbered[1:3]),
        oracle.Job(numbered[3:], seed=5, window=6, streams=2),
    ]
    return [[row for e in range(n_epochs) for row in oracle.row_ids(job, e)] for job in jobs]


def expected(
    streams: list[list[tuple[int, int]]],
    weights: Sequence[int],
    lengths: Sequence[int],
    stop: str,
) -> list[Row]:
    """The mixture of these streams, of which the first `lengths` rows count, by the reference."""
    turns, found = [0] * len(weights), []
    mixed = [k for k, weight in enumerate(weights) if weight]
    for k in oracle.schedule(weights, 10_000):
        has_run_out = [turns[j] >= lengths[j] for j in mixed]
        if (stop == "first" and turns[k] >= lengths[k]) or (stop == "all" and all(has_run_out)):
            return found
        found.append((k, *streams[k][turns[k]]))
        turns[k] += 1
    raise AssertionError("the streams are too long")


@settings(max_examples=rounds(40), deadline=None)
@given(data=st.data())
def test_the_order_is_that_of_the_reference(numbered: list[Path], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 7), min_size=3, max_size=3).filter(any))
    epochs = data.draw(st.tuples(*[st.integers(1, 3)] * 3))
    stop: Any = data.draw(st.sampled_from(["first", "all"]))
    mixture = gm.Mixture(three(numbered, epochs), weights=weights, stop=stop)
    lengths = [n * e for n, e in zip((11, 9, 20), epochs, strict=True)]
    want = expected(alone(numbered, 150), weights, lengths, stop)
    order = gm.global_order(mixture)
    got = list(zip(order.dataset, order.shard, order.row, strict=True))
    assert got == want
    assert mixture.total_rows() == len(want)
    counts = [0, 0, 0]
    for n, (k, _, _) in enumerate(got, 1):
        counts[k] += 1
        shares = (n * weight / sum(weights) for weight in weights)
        assert all(abs(count - share) < 1 for count, share in zip(counts, shares, strict=True))


@pytest.mark.parametrize("weights", [None, [0.7, 0.2, 0.1], [1, 0, 2], [10**9, 1, 1e-9]])
def test_what_is_delivered_is_the_order(numbered: list[Path], weights: Any) -> None:
    mixture = gm.Mixture(three(numbered), weights=weights, batch_size=4, with_row_id=True)
    order = gm.global_order(mixture)
    assert delivered(mixture) == list(zip(order.dataset, order.shard, order.row, strict=True))


def test_weights_hold_to_the_end_with_stop_all(numbered: list[Path]) -> None:
    mixture = gm.Mixture(three(numbered), weights=[1, 1, 1], stop="all", with_row_id=True)
    got = delivered(mixture)
    counts = [sum(k == number for k, _, _ in got) for number in range(3)]
    assert counts[2] == 20
    assert max(counts) - min(counts) <= 1
    assert mixture.rows_per_epoch() == len(got)


def test_without_end(numbered: list[Path]) -> None:
    parts = three(numbered, (None, 1, None))
    assert gm.Mixture(parts, stop="all").total_rows() is None
    total = gm.Mixture(parts).total_rows()
    assert total is not None
    assert 26 <= total <= 30
    endless = gm.Mixture(three(numbered, (None,) * 3), with_row_id=True)
    assert endless.total_rows() is None
    it = iter(endless)
    got = [rows(next(it))[0] for _ in range(400)]
    it.close()
    order = gm.global_order(endless, stop=400)
    assert got == list(zip(order.dataset, order.shard, order.row, strict=True))
    assert order.epoch.max() > 10


# A data set each of what there is: random crops, draws by weight, a list with repeats, windows,
# event crops.
@pytest.fixture(scope="module")
def various(tmp_path_factory: pytest.TempPathFactory) -> list[gm.ArrowIterDataset]:
    folder = tmp_path_factory.mktemp("various")
    made = [
        encode(synthetic(0.3 + k / 10, RATE, 1, k), RATE, ("wav16", "flac16", "vorbis")[k % 3])
        for k in range(9)
    ]
    paths = [shards.write_audio(folder / f"a-{k}.arrow", made[k::2]) for k in range(2)]
    fields = {**{n: shards.FIELDS[n] for n in ("audio", "count")}, "start": shards.FIELDS["level"]}
    fields["end"] = fields["start"]
    events = [
        {"audio": {"bytes": data, "path": ""}, "count": k, "start": k / 20, "end": k / 20 + 0.1}
        for k, data in enumerate(made[:5])
    ]
    written = shards.write(folder / "events.arrow", events, of=shards.schema(fields))

    def cut(crop: Any) -> dict[str, Any]:
        return {"audio": gm.Audio(sample_rate=16_000, crop=crop), "columns": ["audio", "count"]}

    random = gm.RandomCrop(0.25)
    event = gm.EventCrop("start", "end", seconds=0.25)
    return [
        part(paths, **cut(random), shuffle=gm.Shuffle(1), filters=[("count", ">", -2)], epochs=3),
        part(paths[0], **cut(random), sampling=gm.Weighted([1, 2, 3, 0, 5], seed=4, draws=13)),
        part(paths[1], **cut(gm.CenterCrop(0.25)), rows=[3, 1, 3, 0, 2]),
        part(paths, **cut(gm.Windows(0.25)), shuffle=gm.Shuffle(9, window=5, streams=2)),
        part(written, **cut(event), shuffle=gm.Shuffle(2), exclude=[(0, 1)]),
    ]


def test_each_data_set_delivers_what_it_delivers_alone(various: list[Any]) -> None:
    mixture = gm.Mixture(various, weights=[5, 4, 1, 3, 2], with_row_id=True, with_crop=True)
    streams = [iter(one) for one in various]
    n = 0
    for element in mixture:
        own = next(streams[int(element["dataset"])])
        assert int(element["count"]) == int(own["count"])
        np.testing.assert_array_equal(element["audio"], own["audio"])
        assert "window" not in element
        assert "event" not in element
        n += 1
    assert n == mixture.total_rows()
    assert n > 20


def test_batches_are_the_rows(various: list[Any]) -> None:
    single = list(gm.Mixture(various, weights=[5, 4, 1, 3, 2]))
    mixture = gm.Mixture(various, weights=[5, 4, 1, 3, 2], batch_size=6, remainder="pad")
    audio = np.concatenate([batch["audio"][batch["valid"]] for batch in mixture])
    np.testing.assert_array_equal(audio, np.stack([one["audio"] for one in single]))


@pytest.mark.parametrize("n_hosts", [1, 2, 3, 4, 8])
def test_any_number_of_hosts_has_the_same_stream(numbered: list[Path], n_hosts: int) -> None:
    options: dict[str, Any] = {"weights": [3, 2, 2], "stop": "all", "with_row_id": True}
    whole = delivered(gm.Mixture(three(numbered), **options))
    batch = 24 // n_hosts
    hosts = [
        [
            rows(element)
            for element in gm.Mixture(
                three(numbered),
                batch_size=batch,
                shard_options=grain.sharding.ShardOptions(host, n_hosts),
                **options,
            )
        ]
        for host in range(n_hosts)
    ]
    joined: list[Row] = []
    for step in range(max(map(len, hosts))):
        of_step = [own[step] if step < len(own) else [] for own in hosts]
        joined += [own[i] for i in range(batch) for own in of_step if i < len(own)]
    assert joined == whole


@pytest.mark.parametrize("stop", ["first", "all"])
def test_a_state_restores_at_every_position(various: list[Any], stop: Any) -> None:
    def make(host: int = 0, n_hosts: int = 1) -> gm.Mixture:
        return gm.Mixture(
            various,
            weights=[5, 4, 1, 3, 2],
            stop=stop,
            batch_size=4 // n_hosts,
            shard_options=grain.sharding.ShardOptions(host, n_hosts),
            with_row_id=True,
        )

    whole, states = [], []
    it = iter(make())
    while True:
        states.append(json.dumps(it.get_state()))
        element = next(it, None)
        if element is None:
            break
        whole.append(element)
    assert all(len(state) < 500 for state in states)
    for at, state in enumerate(states):
        it.set_state(json.loads(state))
        rest = list(it)
        assert [rows(a) for a in rest] == [rows(a) for a in whole[at:]]
        for got, want in zip(rest, whole[at:], strict=True):
            np.testing.assert_array_equal(got["audio"], want["audio"])
    # On two hosts, from where one was.
    parts = []
    for host in range(2):
        it = iter(make(host, 2))
        it.set_state(json.loads(states[2]))
        parts.append([row for element in it for row in rows(element)])
    joined = [row for pair in zip(*parts, strict=False) for row in pair]
    want = [row for element in whole[2:] for row in rows(element)]
    assert joined == want[: len(joined)]
    assert len(want) - len(joined) <= 1


def test_it_keeps_its_state_in_pipelines_of_grain(numbered: list[Path]) -> None:
    mixture = gm.Mixture(three(numbered), weights=[3, 1, 2])
    assert_equal_output_after_checkpoint(mixture.map(lambda row: int(row["count"])).batch(2))


def test_workers_share_the_rows(numbered: list[Path]) -> None:
    whole = delivered(gm.Mixture(three(numbered), with_row_id=True))
    parts = []
    for k in range(3):
        mixture = gm.Mixture(three(numbered), with_row_id=True)
        mixture.set_slice(slice(k, None, 3))
        parts.append(delivered(mixture))
        assert parts[k] == whole[k::3]
    assert sum(map(len, parts)) == len(whole)
    with pytest.raises(ValueError, match=r"a mixture's data sets end.*split="):
        gm.Mixture(three(numbered)).set_slice(slice(0, 5))
    with pytest.raises(ValueError, match="sequential_slice=True"):
        gm.Mixture(three(numbered)).set_slice(slice(0, None, 2), sequential_slice=True)


def test_worker_processes_take_it(numbered: list[Path]) -> None:
    mixture = gm.Mixture(three(numbered), weights=[3, 1, 2], with_row_id=True, batch_size=3)
    whole = [rows(element) for element in mixture]
    again = cloudpickle.loads(cloudpickle.dumps(mixture))
    assert [rows(element) for element in again] == whole
    flags.FLAGS.mark_as_parsed()
    options = grain.MultiprocessingOptions(num_workers=1)
    assert [rows(element) for element in mixture.mp_prefetch(options)] == whole


def test_a_state_of_another_mixture_is_refused(numbered: list[Path]) -> None:
    it = iter(gm.Mixture(three(numbered), weights=[1, 1, 1]))
    next(it)
    state = it.get_state()
    for options, what in [
        ({"weights": [2, 1, 1]}, "mixed otherwise"),
        ({"datasets": three(numbered)[::-1]}, "base names"),
        ({"datasets": three(numbered)[:2], "weights": [1, 1]}, "shards"),
    ]:
        other = iter(gm.Mixture(**{"datasets": three(numbered), **options}))
        other.set_state(state)
        with pytest.raises(ValueError, match=what):
            next(other)
    changed = gm.Mixture(three(numbered), weights=[2, 1, 1], allow_changed=True)
    it = iter(changed)
    it.set_state(state)
    assert len(list(it)) == (changed.total_rows() or 0) - 1
    # Only ratios count, and a longer mixture of the same data goes on.
    it = iter(gm.Mixture(three(numbered, (2, 2, 2)), weights=[5, 5, 5], stop="all"))
    it.set_state(state)
    assert next(it) is not None


def test_substitutes_are_of_the_same_data_set(tmp_path: Path) -> None:
    good = encode(synthetic(0.1, RATE, 1, 1), RATE, "wav16")
    paths = [
        shards.write_audio(tmp_path / f"{name}.arrow", [good, None, good, None])
        for name in ("a", "b")
    ]
    audio = gm.Audio(sample_rate=RATE, crop=gm.StartCrop(0.05))
    options: dict[str, Any] = {"audio": audio, "columns": ["audio", "count"]}
    parts = [part(path, **options) for path in paths]
    mixture = gm.Mixture(parts, on_error="substitute", with_row_id=True)
    it = iter(mixture)
    got = [rows(element)[0] for element in it]
    order = gm.global_order(mixture)
    assert [k for k, _, _ in got] == order.dataset.tolist()
    assert all(row in (0, 2) for _, _, row in got)
    assert {(row.shard, row.row) for row in it.bad_rows()} == {
        (str(path), row) for path in paths for row in (1, 3)
    }
    masked = list(gm.Mixture(parts, on_error="mask", batch_size=8))
    assert masked[0]["valid"].sum() == 4


def test_figures_and_verdict_name_the_data_set(various: list[Any]) -> None:
    it = iter(gm.Mixture(various[:2], weights=[3, 1]))
    n = sum(1 for _ in it)
    stats = it.stats()
    first, second = stats.datasets
    assert (first.number, first.shards, second.number, second.shards) == (0, 2, 1, 1)
    assert first.decoded_rows + second.decoded_rows == n
    assert first.decode_busy_seconds > 0
    assert second.bytes > 0
    assert len(stats.to_dict()["shards"]) == 3
    assert "dataset" not in stats.settings.columns
