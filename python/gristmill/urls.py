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

_BEGIN = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*")
"""Of what was meant for a URL, well or not."""


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


def hidden(path: str) -> str:
    """What was meant for a URL and is none, for messages: without what may be secret in it.

    Where the user, the password and the query end is not sure: rather too much is hidden.
    """
    begin = _BEGIN.match(path)
    if begin is None:
        return path
    place, mark, query = path[begin.end() :].partition("?")
    if "@" in query:
        place, mark = "***", ""
    elif "@" in place:
        place = f"***@{place.rsplit('@', 1)[1]}"
    return shown_path(begin[0] + place + (mark and "?***"))


def refuse_malformed(path: str) -> None:
    """Refuses URLs that have lost a slash or two, which would be local paths.

    Raises:
        ValueError: It begins as a URL.
    """
    if is_shortened(path):
        raise ValueError(
            f"{hidden(path)}: give URLs as text; a pathlib.Path takes a slash away from them"
        )
    if begin := re.match(rf"\s*({'|'.join(SERVERS)}):", path, re.IGNORECASE):
        scheme = begin[1].lower()
        raise ValueError(
            f"{hidden(path)}: write {scheme}://host/..., or ./ before the name of a file"
        )


def check(path: str) -> str:
    """A URL that may be read.

    Raises:
        ValueError: Nothing reads its scheme, or it is malformed.
    """
    shown = hidden(path)
    if not is_url(path):
        scheme = shown.split("://", 1)[0]
        if scheme.lower() in SCHEMES:
            raise ValueError(f"{shown}: write {scheme.lower()}:// in small letters")
        raise ValueError(
            f"{shown}: gristmill reads local paths, file://, "
            f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}, and not {scheme}://"
        )
    # Some of what takes URLs apart leaves these out, and would read another file.
    if odd := re.search(r"[\x00-\x1f\x7f]", path):
        raise ValueError(
            f"{shown!r} has the control character {odd[0]!r}: leave it out, or write "
            f"%{ord(odd[0]):02X} in a URL of a server"
        )
    if is_store(path):
        return _check_store(path)
    try:
        parts = urlsplit(path)
        is_sound = bool(parts.hostname) and (parts.port or 1) > 0 and not parts.fragment
    except ValueError:
        is_sound = False
    place = re.split("[?#]", path, maxsplit=1)[0]
    if is_sound and ("\\" in place or path.endswith(" ")):
        raise ValueError(
            f"{shown}: servers take a backslash for / and leave out a space at the end; write %5C "
            "and %20 for them"
        )
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
        names = "/".join(parts[:3]).replace("@", "/").split("/") + parts[3:]
        write = (
            "hf://datasets/owner/name/path, hf://datasets/owner/name@revision/path or "
            "hf://buckets/owner/name/path"
        )
    else:
        names = parts
        is_sound, write = (
            bool(parts[0]),
            f"{scheme}://{'container' if scheme == 'az' else 'bucket'}/path",
        )
    if not is_sound or "@" in parts[0]:
        raise ValueError(f"{hidden(path)} is no URL of a shard: write {write}")
    if "" in parts[1:-1]:
        raise ValueError(
            f"{hidden(path)} has an empty part, and keys with // cannot be read: write {write}, or "
            "copy the shard to a key without"
        )
    if "." in names or ".." in names:
        raise ValueError(f"{hidden(path)}: a store has no folders . and ..; write the path without")
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
