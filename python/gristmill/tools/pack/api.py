"""`gm.pack`: the options, before anything that needs pyarrow is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill import checks
from gristmill.options import MAX_THREADS, Limits, check_limits
from gristmill.tools.pack.report import PackReport

if TYPE_CHECKING:
    from gristmill.tools.pack.run import OnFiles


def pack(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    shard_size: int | str = "500MB",
    keep_bad: bool = False,
    fast: bool = False,
    class_columns: Sequence[str] = (),
    follow_links: bool = False,
    overwrite: bool = False,
    convert: bool = False,
    limits: Limits | None = None,
    num_threads: int | None = None,
    on_files: OnFiles | None = None,
) -> PackReport:
    """Converts recordings in folders or tars into Arrow shards, as `datasets` would write them.

    The source is a folder of recordings, whose subfolders are classes or which has `metadata.csv`,
    `.jsonl` or `.parquet`, as the `audiofolder` of `datasets` takes them; or WebDataset tars, or a
    folder of such tars. `docs/packing.md` has the rules. The result is read by
    `ArrowIterDataset(out)` and by `datasets.load_from_disk(out)`.

    Recordings are sorted by their paths, or in the order of the metadata; the shards' bytes depend
    on the source and the options alone. A run that was stopped, or killed, continues when it is
    started again in the same way; one that is complete has nothing left to do.

    Args:
        source: The folder; or a tar, several of them, or a pattern that they match. `~` is the home
            folder.
        out: The folder for the shards, made if need be.
        shard_size: Bytes of audio in a shard, at most, unless one recording is longer: an int, or
            a string such as `"500MB"`.
        keep_bad: Whether recordings that are broken become rows all the same.
        fast: Whether only headers and checksums are checked, as in `gm.scan`. Nothing is decoded.
        class_columns: Columns of strings in the metadata that become classes.
        follow_links: Whether to follow links that lead out of the source, and links to folders.
        overwrite: Removes what an earlier `pack` has written there.
        convert: Whether recordings that Gristmill cannot decode, such as HE-AAC, AC-3, WMA or AMR,
            become FLAC through PyAV, under their own paths. The source may then be Arrow shards.
        limits: What a recording may ask for; `None` is `Limits()`.
        num_threads: Threads that read and decode; `None` is as many as this process may use.
        on_files: Is called after each recording with the numbers of recordings done, in all, and
            bad.

    Raises:
        FileNotFoundError: There is no such source, or no recording in it.
        OSError: A file cannot be read, or nothing more can be written: no part of a shard is left.
        SchemaError: The metadata contradict themselves, or have no column `file_name`.
        ValueError: An option is out of range, or the folder contains something else.
        ModuleNotFoundError: pyarrow is missing, or PyAV for `convert`.
    """
    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError("pack writes with pyarrow: pip install pyarrow", name="pyarrow")
    if checks.flag("convert", convert) and find_spec("av") is None:
        raise ModuleNotFoundError("convert decodes with PyAV: pip install av", name="av")
    from gristmill.tools.pack.plan import PackOptions
    from gristmill.tools.pack.run import run

    checked = check_limits(limits)
    write = "class_columns=['species']"
    options = PackOptions(
        shard_size=checks.byte_count("shard_size", shard_size, write="shard_size='500MB'"),
        keep_bad=checks.flag("keep_bad", keep_bad),
        fast=checks.flag("fast", fast),
        class_columns=checks.names(
            "class_columns", checks.in_order("class_columns", class_columns), write=write
        ),
        follow_links=checks.flag("follow_links", follow_links),
        limits=tuple(vars(checked).items()),
        convert=convert,
    )
    return run(
        [_path("source", one) for one in _sources(source)],
        _path("out", out, is_folder=True),
        options,
        checked,
        num_threads=checks.integer(
            "num_threads", num_threads, 1, MAX_THREADS, write="num_threads=8", none=True
        ),
        overwrite=checks.flag("overwrite", overwrite),
        on_files=checks.function("on_files", on_files),
    )


def _sources(source: Any) -> tuple[Any, ...]:
    """The paths, of one or of several."""
    given = checks.items([source] if isinstance(source, (str, bytes, os.PathLike)) else source)
    if not given:
        raise checks.wrong("source", "a folder or a list of tars", source, "source='recordings/'")
    return given


def _path(name: str, path: Any, *, is_folder: bool = False) -> str:
    return str(Path(checks.file_path(name, path, is_folder=is_folder)).expanduser())
