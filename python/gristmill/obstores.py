"""Stores of the package `obstore` as `storage_options=`. Nothing imports it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol, cast


class Store(Protocol):
    """A store of `obstore`: `S3Store`, `GCSStore`, `AzureStore` or `HTTPStore`."""

    @property
    def client_options(self) -> Any:
        """Of its connections; `None` where nothing was said."""


_SCHEMES = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "az", "HTTPStore": "https"}
_BUCKETS = ("bucket", "container_name")
"""Keys that name the bucket, which URLs name here."""
_OF_REQUESTS = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "proxy_url",
    "timeout",
)
_REFUSED = ("default_headers", "proxy_ca_certificate", "proxy_excludes", "root_certificate")
"""Without these the store may not be reached; what is left out beside them is of speed alone."""
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def is_store(given: object) -> bool:
    """Whether it is an object of `obstore`, or of a class that is made of one."""
    return any(base.__module__.partition(".")[0] == "obstore" for base in type(given).__mro__)


def taken_apart(store: Store) -> tuple[str, dict[str, str | bool | float]]:
    """The URL that all of a store lies below, and its options; none that the environment has.

    Raises:
        ValueError: It cannot be reached without Python, or not at all.
    """
    names = [base.__name__ for base in type(store).__mro__]
    name = next((name for name in names if name in _SCHEMES), None)
    if name is None:
        raise ValueError(
            f"storage_options is a {names[0]} of obstore, which is no store behind a URL: give an "
            f"{', '.join(_SCHEMES)}, or paths alone"
        )
    if getattr(store, "credential_provider", None) is not None:
        raise ValueError(
            f"the {names[0]} has a credential_provider, which is Python code that reading "
            "threads cannot call: give a store that has the credentials themselves, or a "
            'mapping, as in storage_options={"aws_access_key_id": "...", '
            '"aws_secret_access_key": "...", "aws_session_token": "..."}'
        )
    options: dict[str, str | bool | float] = {}
    bucket = ""
    for key, value in _items(getattr(store, "config", None)):
        if key in _BUCKETS:
            bucket = value
        else:
            options[key] = value
    for key, value in _items(store.client_options):
        if key in _REFUSED:
            raise ValueError(
                f"the {names[0]} has client_options with {key!r}, which gristmill cannot do; "
                f"it takes {', '.join(_OF_REQUESTS)}, and $SSL_CERT_FILE for certificates"
            )
        if key in _OF_REQUESTS:
            options[key] = _seconds(value) if key.endswith("timeout") else value
    if name == "HTTPStore":
        return str(cast("Any", store).url).rstrip("/"), options
    prefix = str(getattr(store, "prefix", None) or "").strip("/")
    return "/".join(filter(None, (f"{_SCHEMES[name]}://{bucket}", prefix))), options


def _items(config: object) -> list[tuple[str, Any]]:
    """Keys in small letters, and values."""
    if not isinstance(config, Mapping):
        return []
    found = cast("Mapping[object, Any]", config)
    return [(str(key).lower(), value) for key, value in found.items() if value is not None]


def _seconds(time: str) -> float | str:
    """`1m 30s`, as `obstore` writes times; as it is where it is another."""
    parts = re.findall(r"(\d+)([a-z]+)", time)
    if not parts or any(unit not in _UNITS for _, unit in parts):
        return time
    return sum(int(number) * _UNITS[unit] for number, unit in parts)
