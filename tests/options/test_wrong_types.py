"""Every option of the whole interface is checked where it is given, in one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

import gristmill as gm
from signals import RATE, encode, synthetic

GOOD = encode(synthetic(0.2, RATE), RATE, "wav16")
PATH = str(Path(__file__).parent / "no-shards-here.arrow")
"""Nothing is there: whatever is told of an option, is told before the disk is looked at."""


class Alien:
    """Nothing that any option takes."""

    def __repr__(self) -> str:
        return "<an alien>"


# What each entry of the interface is called with where only one option is wrong.
ENTRIES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ArrowIterDataset": (gm.ArrowIterDataset, {"paths": PATH}),
    "Audio": (gm.Audio, {}),
    "RandomCrop": (gm.RandomCrop, {"seconds": 5}),
    "CenterCrop": (gm.CenterCrop, {"seconds": 5}),
    "StartCrop": (gm.StartCrop, {"seconds": 5}),
    "Windows": (gm.Windows, {"seconds": 5}),
    "EventCrop": (gm.EventCrop, {"seconds": 5}),
    "events_in": (
        gm.events_in,
        {
            "batch": {"crop_start": 0.0, "crop_frames": 8, "start_time": 0.0, "end_time": 1.0},
            "sample_rate": 8,
        },
    ),
    "Shuffle": (gm.Shuffle, {"seed": 1}),
    "ReadOptions": (gm.ReadOptions, {}),
    "Limits": (gm.Limits, {}),
    "decode": (gm.decode, {"data": GOOD}),
    "decode_with_report": (gm.decode_with_report, {"data": GOOD}),
    "probe": (gm.probe, {"data": GOOD}),
    "Scan": (gm.Scan, {"paths": PATH}),
    "scan": (gm.scan, {"paths": PATH}),
    "scan_parts": (gm.scan_parts, {"paths": PATH, "n": 2, "quarantine": f"{PATH}.jsonl"}),
    "index_parts": (gm.index_parts, {"paths": PATH, "n": 2}),
    "merge_parts": (gm.merge_parts, {"results": []}),
    "merge_scans": (gm.merge_scans, {"quarantine": PATH}),
    "read_quarantine": (gm.read_quarantine, {"path": PATH}),
    "QuarantineFile": (gm.QuarantineFile, {"path": PATH}),
    "inspect": (gm.inspect, {"paths": PATH}),
    "build_indexes": (gm.build_indexes, {"paths": PATH}),
    "pack": (gm.pack, {"source": PATH, "out": f"{PATH}.shards"}),
    "bench": (gm.bench, {"paths": PATH}),
    "diagnose": (gm.diagnose, {"paths": PATH}),
    "global_order": (gm.global_order, {"rows": [5, 5]}),
    "shuffle_quality": (gm.shuffle_quality, {"dataset": gm.ArrowIterDataset(PATH)}),
    "ArrowDataSource": (gm.ArrowDataSource, {"paths": PATH}),
    "Balanced": (gm.Balanced, {"column": "species"}),
    "DecodeAudio": (gm.DecodeAudio, {}),
    "Mixture": (gm.Mixture, {"datasets": [gm.ArrowIterDataset(PATH)]}),
    "Split": (gm.Split, {"name": "a", "shares": {"a": 1}}),
    "Weighted": (gm.Weighted, {"weights": [1.0, 2.0]}),
    "ShuffleQuality.of": (
        gm.ShuffleQuality.of,
        {"shard": [0, 0, 1, 1], "row": [0, 1, 0, 1], "batch_rows": 2},
    ),
    "set_slice": (gm.ArrowIterDataset(PATH).set_slice, {"sl": slice(0, None, 2)}),
}
# Results that nobody makes, and exceptions.
MADE_FOR_YOU = {
    name
    for name in gm.__all__
    if isinstance(found := getattr(gm, name), type)
    and name not in ENTRIES
    and (issubclass(found, Exception) or found.__doc__)
}
ANY_OBJECT = {("ShuffleQuality.of", "labels")}
"""Labels may be of any type that can be sorted: only their number is checked."""
TABLE = [
    (name, option)
    for name, (entry, _) in ENTRIES.items()
    for option in inspect.signature(entry).parameters
    if (name, option) not in ANY_OBJECT
]


def wrong(name: str, option: str, value: object) -> str:
    entry, others = ENTRIES[name]
    with pytest.raises((ValueError, TypeError)) as caught:
        entry(**{**others, option: value})
    told = str(caught.value)
    assert "\n" not in told, told
    assert not any(leaked in told for leaked in ("PyO3", "argument '", "attribute")), told
    return told


def test_the_table_has_the_whole_interface() -> None:
    functions = {name for name in gm.__all__ if name not in MADE_FOR_YOU and name != "__version__"}
    assert functions <= set(ENTRIES) | {"verdict", "stats"}, functions - set(ENTRIES)


@pytest.mark.parametrize(("name", "option"), TABLE)
def test_what_no_option_takes(name: str, option: str) -> None:
    told = wrong(name, option, Alien())
    assert "<an alien>" in told or "Alien" in told, told
    called = "a recording" if option == "data" else option
    assert called in told, told


class Unsized:
    """Says that it can be gone through, as an array of NumPy without any axis does."""

    def __iter__(self) -> Any:
        raise TypeError("iteration over a 0-d array")

    def __repr__(self) -> str:
        return "array(3)"


@pytest.mark.parametrize("odd", ["\ud800", "a\0b"], ids=["no UTF-8", "NUL"])
@pytest.mark.parametrize(
    ("name", "option", "wrap"),
    [
        ("ArrowIterDataset", "paths", None),
        ("ArrowIterDataset", "paths", "list"),
        ("ArrowIterDataset", "exclude", None),
        ("ArrowIterDataset", "quarantine", None),
        ("ReadOptions", "index_dir", None),
        ("QuarantineFile", "path", None),
        ("read_quarantine", "path", None),
        ("merge_scans", "quarantine", None),
        ("inspect", "paths", None),
        ("build_indexes", "paths", None),
    ],
)
def test_paths_that_no_file_can_have(name: str, option: str, wrap: str | None, odd: str) -> None:
    told = wrong(name, option, [odd] if wrap else odd)
    assert repr(odd)[1:-1] in told
    assert not any(leaked in told for leaked in ("codec", "embedded"))


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("ArrowIterDataset", "columns", ["\ud800"]),
        ("ArrowIterDataset", "ragged", {"\ud800": "pad"}),
        ("ArrowIterDataset", "fill_value", {"\ud800": 0}),
        ("Audio", "column", "\ud800"),
        ("inspect", "column", "\ud800"),
    ],
)
def test_columns_that_no_schema_can_have(name: str, option: str, value: object) -> None:
    assert "codec" not in wrong(name, option, value)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("ArrowIterDataset", "paths"),
        ("ArrowIterDataset", "columns"),
        ("ArrowIterDataset", "exclude"),
        ("global_order", "rows"),
    ],
)
@pytest.mark.parametrize("value", [np.array(3), Unsized()], ids=["NumPy", "any"])
def test_what_only_seems_to_be_a_list(name: str, option: str, value: object) -> None:
    told = wrong(name, option, value)
    assert option in told
    assert "array(3)" in told
    assert "0-d" not in told


@pytest.mark.parametrize("wrap", [iter, lambda dataset: dataset], ids=["iterator", "data set"])
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("ArrowIterDataset", "paths"),
        ("ArrowIterDataset", "columns"),
        ("ArrowIterDataset", "exclude"),
        ("ArrowDataSource", "paths"),
        ("Mixture", "weights"),
        ("scan", "paths"),
    ],
)
def test_a_data_set_is_no_list(name: str, option: str, wrap: Any) -> None:
    """Nothing of it is read: it may have no end."""
    told = wrong(name, option, wrap(gm.ArrowIterDataset(PATH, epochs=None)))
    assert option in told
    assert "ArrowIterDataset" in told


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("ArrowIterDataset", "paths", {"a.arrow", "b.arrow"}),
        ("ArrowDataSource", "paths", frozenset({"a.arrow"})),
        ("scan", "paths", {"a.arrow", "b.arrow"}),
        ("ArrowIterDataset", "multi_hot", {"label": {"wren", "crow"}}),
        ("Mixture", "datasets", {gm.ArrowIterDataset("a"), gm.ArrowIterDataset("b")}),
        ("Mixture", "weights", {0.7, 0.3}),
        ("global_order", "rows", {10, 20}),
        ("pack", "class_columns", {"species", "site"}),
    ],
)
def test_sets_have_no_order(name: str, option: str, value: object) -> None:
    assert f"{option} is a set" in wrong(name, option, value)


@pytest.mark.parametrize("value", [None, Alien(), 2**64])
def test_what_no_column_has_gets_no_weight(value: object) -> None:
    with pytest.raises(ValueError, match="weights has"):
        gm.Weighted({value: 2.0}, by="species")


@pytest.mark.parametrize("value", [None, 5, "row", ["row"], [None]])
def test_what_is_no_bad_row_is_not_written(tmp_path: Path, value: Any) -> None:
    refused = pytest.raises(ValueError, match=r"rows is a list of gm\.BadRow, not")
    with gm.QuarantineFile(tmp_path / "bad.jsonl") as file, refused:
        file.append(value)
    assert gm.read_quarantine(tmp_path / "bad.jsonl") == []


def test_labels_of_several_lengths() -> None:
    told = wrong("ShuffleQuality.of", "labels", [[1], [2, 3], [1], [1]])
    assert "one value a row" in told


NUMBERS = [
    ("ArrowIterDataset", "batch_size"),
    ("ArrowIterDataset", "epochs"),
    ("Audio", "sample_rate"),
    ("Shuffle", "seed"),
    ("Shuffle", "window"),
    ("Shuffle", "streams"),
    ("RandomCrop", "seed"),
    ("ReadOptions", "num_threads"),
    ("ReadOptions", "num_requests"),
    ("ReadOptions", "prefetch_batches"),
    ("ReadOptions", "retries"),
    ("ReadOptions", "memory_budget"),
    ("Limits", "max_bytes"),
    ("Limits", "max_sample_rate"),
    ("Limits", "max_channels"),
    ("Limits", "max_frames_per_byte"),
    ("decode", "sample_rate"),
    ("decode_with_report", "sample_rate"),
    ("bench", "batch_size"),
    ("bench", "sample_rate"),
    ("diagnose", "batch_size"),
    ("inspect", "sample"),
    ("global_order", "start"),
    ("global_order", "stop"),
    ("global_order", "epochs"),
    ("shuffle_quality", "epoch"),
    ("ShuffleQuality.of", "batch_rows"),
]


@pytest.mark.parametrize(("name", "option"), NUMBERS)
@pytest.mark.parametrize("value", [True, np.True_, 1.5, 64.0, "32k", "64", b"64", [64], -1, 2**80])
def test_what_is_no_integer(name: str, option: str, value: object) -> None:
    if option == "memory_budget" and isinstance(value, str):
        value += " bytes"
    told = wrong(name, option, value)
    assert option in told
    assert repr(value) in told or str(value) in told, told


REALS = [
    ("RandomCrop", "seconds"),
    ("Audio", "max_missing"),
    ("ReadOptions", "log_every_seconds"),
    ("Limits", "max_seconds"),
    ("Limits", "max_decode_seconds"),
    ("decode", "start"),
    ("decode", "seconds"),
    ("bench", "seconds"),
    ("bench", "crop_seconds"),
    ("diagnose", "step_seconds"),
]


@pytest.mark.parametrize(("name", "option"), REALS)
@pytest.mark.parametrize("value", [True, "5", "5s", [5], float("nan"), -1.0, np.array([1.0])])
def test_what_is_no_number(name: str, option: str, value: object) -> None:
    assert option in wrong(name, option, value)


FLAGS = [
    ("ArrowIterDataset", "drop_remainder"),
    ("ArrowIterDataset", "allow_changed"),
    ("ArrowIterDataset", "with_row_id"),
    ("Audio", "strict"),
    ("Shuffle", "reshuffle_each_epoch"),
    ("ReadOptions", "page_cache"),
    ("scan", "fast"),
    ("scan", "restart"),
    ("decode", "strict"),
    ("global_order", "of_this_host"),
]


@pytest.mark.parametrize(("name", "option"), FLAGS)
@pytest.mark.parametrize("value", [1, 0, "yes", "False", None, []])
def test_what_is_no_flag(name: str, option: str, value: object) -> None:
    kinds = 'True, False or "pedantic"' if option == "strict" else "True or False"
    assert f"{option} is {kinds}" in wrong(name, option, value)


@pytest.mark.parametrize(
    ("name", "option", "value", "advice"),
    [
        ("Audio", "crop", 5, r"write crop=gm.RandomCrop(seconds=5)"),
        ("Audio", "sample_rate", "32k", "write sample_rate=32_000"),
        ("Audio", "column", 3, 'write gm.Audio("audio")'),
        ("Audio", "limits", {"max_seconds": 5}, "gm.Limits("),
        ("ArrowIterDataset", "read", {"num_threads": 8}, "read=gm.ReadOptions(num_threads=8)"),
        ("ArrowIterDataset", "shard_options", (0, 2), "grain.sharding.ShardOptions(0, 2)"),
        ("ArrowIterDataset", "shuffle", 3, "gm.Shuffle(seed=3)"),
        ("ArrowIterDataset", "shuffle", True, "gm.Shuffle(seed=42)"),
        ("ArrowIterDataset", "columns", "audio", "columns=['audio']"),
        ("ArrowIterDataset", "columns", [1], 'columns=["audio"]'),
        ("ArrowIterDataset", "paths", 5, "shards/*.arrow"),
        ("ArrowIterDataset", "paths", [Path("a"), 5], "shards/*.arrow"),
        ("ArrowIterDataset", "paths", b"a.arrow", "shards/*.arrow"),
        ("ArrowIterDataset", "exclude", 5, "exclude='bad.jsonl'"),
        ("ArrowIterDataset", "exclude", (0, 5), "exclude=[(0, 5)]"),
        ("ArrowIterDataset", "max_bad_rows", 1.5, "0.01"),
        ("ArrowIterDataset", "max_bad_rows", "1%", "0.01"),
        ("ArrowIterDataset", "fill_value", "0", "fill_value=-1"),
        ("ArrowIterDataset", "fill_value", {0: 1}, "fill_value="),
        ("ArrowIterDataset", "ragged", {1: "pad"}, "ragged="),
        ("ArrowIterDataset", "quarantine", 5, "quarantine='folder/file'"),
        ("ReadOptions", "memory_budget", "much", "2GiB"),
        ("ReadOptions", "index_dir", 5, "index_dir="),
        ("ReadOptions", "cache_dir", 5, "cache_dir="),
        ("ReadOptions", "cache_size", "much", "80%"),
        ("decode", "data", "x.ogg", "read_bytes()"),
        ("decode", "data", Path("x.ogg"), "read_bytes()"),
        ("probe", "data", "x.ogg", "read_bytes()"),
        ("decode", "limits", {}, "gm.Limits("),
        ("decode", "channels", 0, "from 1 to 1024"),
        ("decode", "channels", True, "'mono'"),
        ("scan", "part", "1/2", "(i, n)"),
        ("scan", "part", (0, 2), "(i, n)"),
        ("scan", "part", (1.0, 2), "(i, n)"),
        ("Shuffle", "seed", None, "gm.Shuffle(seed=42)"),
        ("global_order", "rows", [1.5], "global_order([1000, 1000]"),
        ("shuffle_quality", "dataset", PATH, "shuffle_quality(dataset)"),
    ],
)
def test_what_to_write_instead(name: str, option: str, value: object, advice: str) -> None:
    assert advice in wrong(name, option, value)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32])
def test_integers_of_numpy(numbered: list[Path], kind: type[np.integer[Any]]) -> None:
    audio = gm.Audio(sample_rate=np.int32(32_000), channels=kind(1), crop=gm.StartCrop(kind(1)))
    read = gm.ReadOptions(num_threads=kind(1), memory_budget=np.int64(1 << 26), retries=kind(0))
    shuffle = gm.Shuffle(kind(3), window=kind(4), streams=kind(2))
    assert (audio, shuffle) == (
        gm.Audio(sample_rate=32_000, channels=1, crop=gm.StartCrop(1)),
        gm.Shuffle(3, window=4, streams=2),
    )
    assert "int" not in repr((audio, read, shuffle)).replace("int16", "")
    dataset = gm.ArrowIterDataset(
        numbered,
        audio=audio,
        read=read,
        shuffle=shuffle,
        batch_size=kind(4),
        epochs=kind(2),
        exclude=[(kind(0), kind(1))],
        shard_options=grain.sharding.ShardOptions(kind(0), kind(1)),
    )
    dataset.set_slice(slice(kind(0), None, kind(2)))
    it = iter(dataset)
    assert next(it)["audio"].shape == (4, 1, 32_000)
    assert all(type(value) in (int, str) for value in it.get_state().values())
    assert len(gm.global_order([5], kind(0), kind(3), kind(1)).row) == 3
    assert gm.decode(GOOD, start=np.float32(0.1), seconds=np.float64(0.1)).shape == (3200,)


def test_odd_numbers_that_are_fine() -> None:
    assert gm.RandomCrop(np.float32(1.5)).seconds == 1.5
    assert gm.ReadOptions(memory_budget="1.5 GiB").memory_budget_bytes == 3 << 29
    with pytest.raises(ValueError, match="seconds"):
        gm.RandomCrop(Fraction(1, 2))
    mapping: Mapping[str, int] = {"count": np.int8(3)}
    gm.ArrowIterDataset(PATH, fill_value=mapping)
