"""The option `storage_options`: credentials and addresses of object stores, servers and the Hub."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from gristmill import obstores
from gristmill._core import shown_path
from gristmill.checks import shown

_FLAGS = ("allow_http", "allow_invalid_certificates")
_TIMES = ("connect_timeout", "timeout")
_OF_REQUESTS = (*_FLAGS, *_TIMES, "proxy_url")
_OF_SERVERS = {"https": ("token",), "http": ("token",), "hf": ("endpoint", "token")}
_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0}
_WRITE = 'storage_options={"aws_region": "eu-west-1"}'


@dataclass(frozen=True, repr=False)
class StorageOptions:
    """Keys and values as they are sent on; the values are never shown."""

    pairs: tuple[tuple[str, str], ...] = ()
    place: str = ""
    """The URL below which all shards have to lie, of a store of `obstore`."""

    @property
    def shown(self) -> dict[str, str] | None:
        """The keys alone; `None` where nothing was given."""
        return {key: "***" for key, _ in self.pairs} or None

    def __repr__(self) -> str:
        return repr(self.shown)

    def native(self, paths: Iterable[str]) -> list[tuple[str, str]]:
        """As the core takes them, with what the user's files say where nothing else does.

        Raises:
            ValueError: None of the paths takes such an option, or one lies in another store.
        """
        paths = [path for path in paths if "://" in path]
        for path in paths if self.place else ():
            if not f"{path}/".startswith(f"{self.place}/"):
                place = shown_path(self.place)
                raise ValueError(
                    f"{shown_path(path)} is not in {place}, the store of storage_options: give "
                    f"whole URLs, as {place}/name.arrow"
                )
        schemes = {path.split("://", 1)[0] for path in paths}
        known = {key for scheme in schemes for key in _OF_SERVERS.get(scheme, ())}
        given = dict(self.pairs)
        if schemes and schemes <= _OF_SERVERS.keys():
            for key in given:
                if key not in known and key not in _OF_REQUESTS:
                    takes = ", ".join(sorted({*known, *_OF_REQUESTS}))
                    raise ValueError(
                        f"storage_options has {key!r}, which does not apply to "
                        f"{' and '.join(sorted(schemes))}: these take {takes}"
                    )
        found: dict[str, str] = {}
        # What a file of one kind of store says is for no other: keys begin with the scheme.
        if "s3" in schemes:
            found |= {f"s3:{key}": value for key, value in _aws_files(given).items()}
        if "hf" in schemes:
            found |= {f"hf:{key}": value for key, value in _hub_files().items()}
        return list({**found, **given}.items())


NO_OPTIONS = StorageOptions()

Given: TypeAlias = Mapping[str, str | bool | float] | obstores.Store | StorageOptions
"""As polars and delta-rs take them, `{"aws_region": "eu-west-1"}`; or a store of `obstore`."""


def checked_storage_options(given: Any) -> StorageOptions:
    """What was given for `storage_options=`."""
    if given is None:
        return NO_OPTIONS
    if isinstance(given, StorageOptions):
        return given
    place = ""
    if obstores.is_store(given):
        place, given = obstores.taken_apart(given)
    if not isinstance(given, Mapping):
        what = type(given).__name__
        raise ValueError(f"storage_options is a mapping, not a {what}: write {_WRITE}")
    pairs: dict[str, str] = {}
    for key, value in cast("Mapping[object, object]", given).items():
        if not isinstance(key, str) or not isinstance(value, (str, bool, int, float)):
            raise ValueError(
                f"storage_options[{shown(key)}] is text, a number or a bool, and the key is text: "
                f"write {_WRITE}"
            )
        name = key.lower()
        name = {"aws_allow_http": "allow_http"}.get(name, name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        pairs[name] = _normal(name, text)
    return StorageOptions(tuple(pairs.items()), place)


def _normal(key: str, value: str) -> str:
    """A flag as true or false, a time in seconds."""
    if key in _FLAGS:
        if value.lower() not in ("true", "false"):
            raise ValueError(f"storage_options[{key!r}] is true or false")
        return value.lower()
    if key in _TIMES:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|)", value.strip())
        seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
        if not 0 < seconds <= 86_400:
            raise ValueError(f"storage_options[{key!r}] is a time such as '30s', up to a day")
        return repr(seconds)
    return value


def _aws_files(given: Mapping[str, str]) -> dict[str, str]:
    """What the files of the AWS command line say, where neither options nor environment do."""
    from_environment = any(
        os.environ.get(name)
        for name in (
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        )
    )
    is_given = any("access_key_id" in key or "skip_signature" in key for key in given)
    profile = os.environ.get("AWS_PROFILE") or "default"
    keys = _section("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile)
    name = profile if profile == "default" else f"profile {profile}"
    config = _section("AWS_CONFIG_FILE", "config", name)
    found: dict[str, str] = {}
    if not from_environment and not is_given:
        for key in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"):
            if value := keys.get(key) or config.get(key):
                found[key] = value
    has_region = any("region" in key for key in given)
    in_environment = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if (region := keys.get("region") or config.get("region")) and not (
        has_region or in_environment
    ):
        found["aws_region"] = region
    has_endpoint = any("endpoint" in key for key in given)
    in_environment = any(os.environ.get(f"AWS_ENDPOINT{end}") for end in ("", "_URL", "_URL_S3"))
    if (endpoint := config.get("endpoint_url")) and not (has_endpoint or in_environment):
        found["aws_endpoint_url"] = endpoint
    return found


def _section(variable: str, name: str, section: str) -> dict[str, str]:
    """A section of one of the files; empty where there is none."""
    try:
        path = os.environ.get(variable) or Path.home() / ".aws" / name
        parser = configparser.RawConfigParser()
        parser.read(path, encoding="utf-8")
        return dict(parser[section]) if section in parser else {}
    except (OSError, RuntimeError, ValueError, configparser.Error):
        return {}


def _hub_files() -> dict[str, str]:
    """The user's token for the Hub, as `hf auth login` keeps it, and the Hub's address."""
    found: dict[str, str] = {}
    if endpoint := os.environ.get("HF_ENDPOINT"):
        found["endpoint"] = endpoint
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    if not token:
        try:
            home = os.environ.get("HF_HOME") or (
                Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
            )
            path = os.environ.get("HF_TOKEN_PATH") or Path(home) / "token"
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, RuntimeError, ValueError):
            token = ""
    if token:
        found["token"] = token.strip()
    return found
