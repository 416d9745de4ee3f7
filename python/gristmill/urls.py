"""Paths that are URLs: which are read, and what of them may be shown."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from gristmill._core import shown_path

__all__ = ["base_name", "check", "is_url", "shown_path"]

SERVERS = ("https", "http")
STORES = ("s3", "gs", "az", "hf")
"""These can be asked which files they have."""
SCHEMES = (*SERVERS, *STORES)
"""Of URLs that are read, beside `file`."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_url(path: str) -> bool:
    """Whether a path is a URL that is read from a server."""
    return path.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def base_name(shard: str) -> str:
    """The last part of a shard's path, of a URL without its query; the shard's name in files."""
    if shard.startswith(tuple(f"{scheme}://" for scheme in SERVERS)):
        shard = re.split("[?#]", shard, maxsplit=1)[0].rstrip("/")
    return shard.rsplit("/", 1)[-1]


def is_shortened(path: str) -> bool:
    """Whether a path was a URL before `pathlib` made it a path."""
    return bool(re.match(rf"({'|'.join(SCHEMES)}):/[^/]", path))


def is_store(path: str) -> bool:
    """Whether a path is a URL of an object store or the Hub, which list what they have."""
    return path.startswith(tuple(f"{scheme}://" for scheme in STORES))


def check(path: str) -> str:
    """A URL that may be read.

    Raises:
        ValueError: Nothing reads its scheme, or it is malformed.
    """
    shown = shown_path(path)
    if not is_url(path):
        scheme = path.split("://", 1)[0]
        if scheme.lower() in SCHEMES:
            raise ValueError(f"{shown}: write {scheme.lower()}:// in small letters")
        hidden = _SCHEME.match(path) and re.sub(r"://[^/]*@", "://***@", path.split("?", 1)[0])
        raise ValueError(
            f"{hidden or path}: gristmill reads local paths, file://, "
            f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}, and not {scheme}://"
        )
    if is_store(path):
        return _check_store(path)
    try:
        parts = urlsplit(path)
        is_sound = bool(parts.hostname) and (parts.port or 1) > 0 and not parts.fragment
    except ValueError:
        is_sound = False
    if not is_sound:
        raise ValueError(
            f"{shown} is no URL of a shard: write 'https://host/folder/name.arrow' or "
            "'https://user:password@host/...', with %23 for # in names, and %2F for /, %3F for ? "
            "and %40 for @ in passwords"
        )
    return path


def _check_store(path: str) -> str:
    scheme, _, rest = path.partition("://")
    parts = rest.split("/")
    if scheme == "hf":
        is_sound = len(parts) >= 3 and parts[0] in ("datasets", "buckets") and all(parts[:3])
        # A bucket has no revisions.
        is_sound = is_sound and not (parts[0] == "buckets" and "@" in parts[2])
        write = (
            "hf://datasets/owner/name/path, hf://datasets/owner/name@revision/path or "
            "hf://buckets/owner/name/path"
        )
    else:
        is_sound, write = (
            bool(parts[0]),
            f"{scheme}://{'container' if scheme == 'az' else 'bucket'}/path",
        )
    if not is_sound or "@" in parts[0] or "" in parts[1:-1]:
        raise ValueError(f"{shown_path(path)} is no URL of a shard: write {write}")
    return path


def refuse_many(path: str) -> None:
    """Refuses what stands for several shards, which no server tells.

    Raises:
        ValueError: It is a folder or a pattern.
    """
    place = path.split("?", 1)[0]
    if place.endswith("/") or "*" in place:
        raise ValueError(
            f"{shown_path(path)}: a server cannot be asked which files it has; give the shards one "
            "by one, as in [f'https://host/train-{k:05}.arrow' for k in range(100)]"
        )
