"""`gristmill inspect` and `gristmill index`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from gristmill.cli.common import (
    FAILED,
    FINDINGS,
    WIDTH,
    column_option,
    cut,
    failures_told,
    output_options,
    paths_argument,
)

if TYPE_CHECKING:  # `--help` needs no codecs
    from gristmill.cli.console import Page
    from gristmill.tools.headers import UnreadableShard
    from gristmill.tools.index import IndexReport
    from gristmill.tools.inspect import AudioSample, Inspection

_MOST_LISTED = 20


@click.command()
@paths_argument
@column_option
@click.option(
    "--sample", type=click.IntRange(min=1), default=200, help="Rows whose audio is looked at."
)
@output_options
def inspect(
    paths: tuple[str, ...], column: str | None, sample: int, *, as_json: bool, quiet: bool
) -> None:
    """Tells what is in shards, from their headers and a sample of rows.

    PATHS are shards, directories or patterns. Exit status 1 says that a shard is broken.
    """
    with failures_told("inspect"):
        import gristmill as gm
        from gristmill.cli.console import Console

        console = Console(as_json=as_json, quiet=quiet)
        with console.progress("headers", 0, "shards") as progress:
            found = gm.inspect(
                paths,
                column=column,
                sample=sample,
                on_shards=progress.expect,
                on_shard=progress.advance,
            )
        show_inspection(found, console)
        console.summary(found.to_dict())
        if found.unreadable:
            sys.exit(FINDINGS)


@click.command(short_help="Writes row indexes ahead of time.")
@paths_argument
@click.option(
    "--index-dir",
    show_default="as a data set finds them by itself",
    help='The folder for the indexes, or "beside" for each shard\'s own folder.',
)
@output_options
def index(paths: tuple[str, ...], index_dir: str | None, *, as_json: bool, quiet: bool) -> None:
    """Writes row indexes ahead of time, so that training starts at once.

    Exit status 1 says that a shard is broken.
    """
    with failures_told("index"):
        import gristmill as gm
        from gristmill.cli.console import Console

        console = Console(as_json=as_json, quiet=quiet)
        read = gm.ReadOptions(index_dir=index_dir or "auto")
        with console.progress("index", 0, "shards") as progress:
            report = gm.build_indexes(
                paths, read=read, on_shards=progress.expect, on_shard=progress.advance
            )
        show_index(report, console)
        console.summary(report.to_dict())
        if report.not_written:
            console.warn(f"gristmill index: {not_written(report)}")
            sys.exit(FAILED)
        if report.unreadable:
            sys.exit(FINDINGS)


def not_written(report: IndexReport) -> str:
    """Why some have none."""
    is_beside = report.index_dir == "beside"
    place = "beside the shards" if is_beside else f"in {report.index_dir}"
    why = report.why_not_written or "nothing keeps them from it now; try again"
    return f"{report.not_written} indexes could not be written {place}: {why}"


def show_index(report: IndexReport, console: Page) -> None:
    """Prints which indexes are new."""
    n_there = report.shards - report.written - report.not_written
    console.say(
        f"{report.shards} shards of {report.rows:,} rows: {report.written} indexes are new, "
        f"{n_there} were there"
    )
    where = report.index_dir
    if report.written or n_there:
        is_beside = where == "beside"
        console.say("They are beside the shards." if is_beside else f"They are in {where}")
    show_unreadable(report.unreadable, console)


def show_unreadable(shards: Sequence[UnreadableShard], console: Page) -> None:
    """Lists the shards that cannot be read."""
    if not shards:
        return
    console.say()
    console.say("Broken shards: write them again, or leave them out")
    for shard in shards[:_MOST_LISTED]:
        since = f" from row {shard.from_row:,} on" if shard.from_row else ""
        # The message begins with the path.
        what = shard.message.removeprefix(shard.shard)
        what = what if what != shard.message else f": {what}"
        text = f"{Path(shard.shard).name}{since}{what}"
        console.paragraph(text, "  ", "    ")
    if len(shards) > _MOST_LISTED:
        console.say(f"  and {len(shards) - _MOST_LISTED} more")


def show_inspection(found: Inspection, console: Page) -> None:
    """Prints what is in a data set."""
    from gristmill.cli.console import bytes_text

    rows = [shard.rows for shard in found.shards]
    console.say(
        f"{_count(len(rows), 'shard')}, {_count(found.rows, 'row')}, "
        f"{_count(found.record_batches, 'record batch', 'record batches')}, "
        f"{bytes_text(found.bytes)}"
    )
    if rows:
        _show_shards(found, console)
        console.table("Columns", _columns(found))
        for name, classes in found.class_names.items():
            _show_classes(name, classes, found.class_counts.get(name), console)
    if found.sample is not None:
        _show_sample(found, found.sample, console)
    elif rows:
        console.say()
        console.say("No column is marked as audio in the features; name it with --column.")
    show_unreadable(found.unreadable, console)


def _show_shards(found: Inspection, console: Page) -> None:
    rows = [shard.rows for shard in found.shards]
    formats = sorted({shard.format for shard in found.shards})
    kinds = sorted({shard.compression or "not compressed" for shard in found.shards})
    per_batch = found.rows / max(found.record_batches, 1)
    console.table(
        "Shards",
        [
            ("format", f"Arrow IPC {' and '.join(formats)}, {' and '.join(kinds)}"),
            ("rows in a shard", f"{min(rows):,} to {max(rows):,}"),
            ("rows in a record batch", f"{per_batch:,.1f} on average"),
        ],
    )


def _columns(found: Inspection) -> list[tuple[str, str]]:
    from gristmill.tools.headers import features

    first = found.shards[0]
    known = features(first)
    table: list[tuple[str, str]] = []
    for name, kind in first.columns:
        feature: Any = known.get(name)
        mark: object = cast("dict[str, Any]", feature).get("_type") if _is_dict(feature) else None
        marks = [] if mark in (None, "Value") else [str(mark)]
        if name == found.audio_column and "Audio" not in marks:
            marks.append("audio")
        table.append((name, kind + (f"  ({', '.join(marks)})" if marks else "")))
    return table


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _show_classes(
    name: str, classes: Sequence[str], counts: Sequence[int] | None, console: Page
) -> None:
    console.say()
    console.say(f"Classes of {name}: {len(classes):,}")
    if counts is None:
        console.say(f"  {cut(', '.join(classes), WIDTH - 2)}")
        return
    ranked = sorted(zip(classes, counts, strict=True), key=lambda pair: -pair[1])
    shown = ranked if len(ranked) <= 10 else [*ranked[:5], *ranked[-3:]]
    bars = [(cut(label, 30), count) for label, count in shown]
    console.bars(bars, width=30)
    if len(ranked) > len(shown):
        console.say(f"  (the 5 with most rows and the 3 with fewest, of {len(ranked):,})")


def _show_sample(found: Inspection, sample: AudioSample, console: Page) -> None:
    from gristmill.cli.console import bytes_text, time_text

    rates = {f"{rate:,} Hz": n for rate, n in sample.sample_rates.items()}
    channels = {_count(n, "channel"): rows for n, rows in sample.channels.items()}
    table = [
        ("codecs", _shares(sample.codecs)),
        ("rates", _shares(rates)),
        ("channels", _shares(channels)),
        ("encoded row", f"{bytes_text(sample.row_bytes)} on average"),
    ]
    if sample.refused:
        table.append(("refused", f"{sample.refused} rows; gristmill scan names them"))
    if sample.durations:
        shortest, longest = sample.durations[0], sample.durations[-1]
        table.append(
            ("length", f"{shortest:.1f} to {longest:.1f} s, {sample.mean_seconds:.1f} s on average")
        )
        hours = (found.audio_seconds or 0) / 3600
        table.append(("all recordings", f"about {hours:,.1f} hours"))
    if sample.read_seconds is not None:
        table.append(("reading a row", f"{1e3 * sample.read_seconds:.1f} ms, as it lies now"))
    if sample.decode_seconds:
        rate = 1 / sample.decode_seconds
        whole = found.rows * sample.decode_seconds
        text = f"{1e3 * sample.decode_seconds:.1f} ms, {rate:,.0f} rows/s a thread"
        table.append(("decoding a whole row", text))
        table.append(("decoding them all", f"{time_text(whole)} on one thread"))
    console.table(f"Audio in {found.audio_column!r}, from {sample.rows:,} rows", table)
    if sample.durations:
        console.say()
        console.say("Lengths")
        console.bars([(_span(*bar[:2]), bar[2]) for bar in sample.histogram()])


def _span(low: float, high: float | None) -> str:
    return f"{low:g} s and more" if high is None else f"{low:g} to {high:g} s"


def _shares(counts: Any) -> str:
    total = sum(counts.values())
    text = ""
    for name, count in counts.items():
        more = f"{', ' if text else ''}{name} {count / total:.0%}"
        if len(text) + len(more) > WIDTH - 30:
            return f"{text}, ..."
        text += more
    return text or "-"


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"
