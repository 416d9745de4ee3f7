"""The pages that commands print, for `print` of what the functions give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gristmill.cli.console import Page
from gristmill.cli.doctor import show_bench, show_diagnosis
from gristmill.cli.inspect import not_written, show_index, show_inspection
from gristmill.cli.scan import show_scan


def _page(show: Callable[..., None], *shown: Any) -> str:
    page = Page()
    show(*shown, page)
    return str(page)


def inspection(found: Any) -> str:
    """Of `gm.inspect`."""
    return _page(show_inspection, found)


def index(report: Any) -> str:
    """Of `gm.build_indexes`."""
    page = _page(show_index, report)
    return f"{page}\n{not_written(report)}" if report.not_written else page


def scan(report: Any) -> str:
    """Of `gm.scan`, without a word on files: a report does not know of any."""
    return _page(show_scan, report, "")


def bench(report: Any) -> str:
    """Of `gm.bench`."""
    return _page(show_bench, report)


def diagnosis(found: Any) -> str:
    """Of `gm.diagnose`."""
    return _page(show_diagnosis, found)
