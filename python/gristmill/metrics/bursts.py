"""Sentences about single rows that are taken in bursts, with pauses between them."""

from __future__ import annotations

import math

from gristmill import _core
from gristmill.metrics.measures import WINDOW_ROWS, decoders_taken, figures_of
from gristmill.metrics.stats import Stats
from gristmill.metrics.text import seconds_text
from gristmill.metrics.verdict import Advice, Case, Verdict


def in_bursts(stats: Stats, burst: int, look_ahead_share: float) -> Verdict:
    """The verdict where the loop takes more rows in a burst than the readahead has room for.

    Grain's shuffle window is one cause: it takes as many rows as it holds, gives them all away,
    and only then takes the next.
    """
    settings = stats.settings
    n, pause = settings.prefetch_batches, stats.pauses.seconds / stats.pauses.count
    to = math.ceil(burst / _core.single_rows_of_a_batch(settings.num_threads))
    runs = (
        f"takes about {burst:,} rows at once and then none for {seconds_text(pause)}, but "
        f"prefetch_batches={n} allows few rows ahead; the decode threads idle "
        f"{1 - decoders_taken(stats):.0%} of the time"
    )
    figures = figures_of(
        stats,
        look_ahead_wait_share=look_ahead_share,
        prefetch_batches=n,
        run_rows=burst,
        pauses=stats.pauses.count,
        pause_seconds=pause,
    )
    ahead = Advice("prefetch_batches", n, to, "the next rows are made during the pause")
    if burst < WINDOW_ROWS:
        text = (
            f"Bottleneck: the readahead. What batches or shuffles behind this iterator {runs}. "
            f"Try prefetch_batches={to}, or batch_size here."
        )
        batch = Advice("batch_size", None, burst, "native threads join batches ahead of time")
        return Verdict(Case.LOOK_AHEAD, text, figures, (ahead, batch))
    text = (
        f"Bottleneck: a shuffle window. It {runs}. Leave the window out and shuffle here: "
        f"shuffle=gm.Shuffle(seed). Or try prefetch_batches={to}, with enough memory_budget."
    )
    why = "all rows are shuffled before they are read, and no window has to be filled"
    shuffle = Advice("shuffle", None, "gm.Shuffle(seed)", why)
    return Verdict(Case.SHUFFLE_WINDOW, text, figures, (shuffle, ahead))
