"""The `repr` of what is made of paths and options: as it would be typed, without defaults."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from gristmill.options import ReadOptions
from gristmill.urls import shown_path

_LONGEST_PATHS = 200


def call_text(kind: type, source: str, named: Mapping[str, Any], rest: str = "") -> str:
    """The call that makes it: what is read, then what differs from the defaults of `kind`.

    Of the options in `named`, those that `kind` takes, in its order.
    """
    signature = inspect.signature(kind).parameters
    # Defaults are left out, in the options' own values too.
    defaults = {
        name: option.default
        for name, option in signature.items()
        if name in named and name not in ("paths", "exclude")
    }
    if "read" in defaults:
        defaults["read"] = ReadOptions()
    given = [source]
    given += [
        f"{name}={short(named[name])}"
        for name, default in defaults.items()
        if named[name] != default
    ]
    if excluded := named.get("exclude"):
        given.append(f"exclude=[{len(excluded)} given]")
    if rest:
        given.append(rest)
    return f"{kind.__name__}({', '.join(given)})"


def paths_text(paths: Sequence[str]) -> str:
    """The paths, of many only the first."""
    if are_shown(paths):
        return _all_paths(paths)
    return f"[{shown_path(paths[0])!r}, ... {len(paths)} paths]"


def are_shown(paths: Sequence[str]) -> bool:
    """Whether `paths_text` has all of the paths."""
    return len(_all_paths(paths)) <= _LONGEST_PATHS


def _all_paths(paths: Sequence[str]) -> str:
    shown = [shown_path(path) for path in paths]
    return repr(shown[0] if len(shown) == 1 else shown)


def short(value: Any) -> str:
    """The `repr`, of a data class without the fields that have their defaults."""
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    parts: list[str] = []
    for part in fields(value):
        found = getattr(value, part.name)
        default = part.default if part.default_factory is MISSING else part.default_factory()
        if default is MISSING or found != default:
            parts.append(f"{part.name}={short(found)}")
    return f"{type(value).__name__}({', '.join(parts)})"
