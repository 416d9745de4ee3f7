"""What a verdict says of rows that cannot be used, and of shards with many of them."""

from __future__ import annotations

from typing import Any

import pytest

from gristmill.metrics import decide
from gristmill.metrics.stats import ShardStats
from verdict_figures import LATENCY, SOUND, rows, shard, stats, to


@pytest.mark.parametrize(
    ("shards", "blamed"),
    [
        # As many as in the others, and many in all of them: no shard is to blame.
        ((rows("a", 1000, 400), rows("b", 1000, 420)), None),
        ((rows("a", 1000, 100), rows("b", 1000, 350)), None),
        ((rows("a", 1000, 100), rows("b", 1000, 500)), "b"),
        # Few rows that happen to be bad, and just enough of them.
        ((*SOUND, rows("s", 4, 4)), None),
        ((*SOUND, rows("s", 5, 5)), "s"),
        ((*SOUND, rows("s", 100, 11)), None),
        ((*SOUND, rows("s", 100, 12)), "s"),
        # Some bad files are no damage, however surely there are more of them than usual.
        ((*SOUND, rows("s", 100_000, 4000)), None),
        ((*SOUND, rows("s", 100_000, 6000)), "s"),
        # The worst of two, and a shard that nothing can be compared with.
        ((*SOUND, rows("s", 100, 60), rows("t", 100, 90)), "t"),
        ((rows("s", 1000, 900),), None),
        ((rows("s", 1000, 900), rows("unread", 0, 0)), None),
        (SOUND, None),
    ],
    ids=str,
)
def test_a_shard_is_blamed_for_bad_rows_when_it_stands_out(
    shards: tuple[ShardStats, ...], blamed: str | None
) -> None:
    found = decide(stats(decoding=0.9, shards=shards))
    assert found.case == "decode"
    assert found.figures.get("shard") == blamed
    assert ("exclude" in {advice.option for advice in found.advice}) == (blamed is not None)
    assert ("Besides, one shard is damaged: " in found.text) == (blamed is not None)


def test_a_damaged_shard_is_told_with_its_figures_and_what_to_do() -> None:
    found = decide(stats(decoding=0.9, shards=(*SOUND, rows("/data/s.arrow", 246, 123, 10.0))))
    assert found.text == (
        "One shard is damaged: 50% of the rows of s.arrow cannot be used (123 of 246 so far; "
        "0.2% in the other shards), and they take 50% of the decode threads' time. Find them all "
        'with "gristmill scan /data/s.arrow --quarantine bad.jsonl" and exclude them with '
        'exclude="bad.jsonl", or write the shard again.'
    )
    assert found.figures["shard"] == "/data/s.arrow"
    assert found.figures["bad_work_share"] == pytest.approx(0.5)
    assert to(found, "exclude") == "bad.jsonl"
    assert "/data/s.arrow" in found.advice[0].why
    # A slow shard stays the one that the figures of reading are about.
    both = (*SOUND, rows("bad.arrow", 246, 123), shard("slow.arrow", 20))
    slow = decide(stats(reading=0.9, storage=LATENCY, shards=both))
    assert slow.case == "slow-shard"
    assert slow.figures["shard"] == "slow.arrow"
    assert "bad.arrow" in slow.text


@pytest.mark.parametrize("figures", [{"waiting": 0.0}, {"decoding": 0.9}, {"reading": 0.9}])
def test_a_large_share_of_bad_rows_comes_first(figures: dict[str, Any]) -> None:
    alike = tuple(rows(f"{k}.arrow", 100, 11) for k in range(5))
    found = decide(stats(**figures, shards=alike))
    assert found.text.startswith("11% of the rows cannot be used (55 of 500 so far): see bad_")
    assert found.case is decide(stats(**figures)).case
    assert found.figures["all_bad_share"] == pytest.approx(0.11)
    few = tuple(rows(f"{k}.arrow", 100, 10) for k in range(5))
    assert decide(stats(**figures, shards=few)).text == decide(stats(**figures)).text
