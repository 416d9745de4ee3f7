"""Stores of `obstore` as `storage_options=`."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from obstore.store import (
    AzureStore,
    GCSStore,
    HTTPStore,
    LocalStore,
    MemoryStore,
    S3Store,
    from_url,
)

import gristmill as gm
import shards
from gristmill.obstores import taken_apart
from store_server import StoreServer, storing

SECRET = "s3cr3t0123456789s3cr3t0123456789"
ACCOUNT_KEY = "czNjcjN0czNjcjN0czNjcjN0czNjcjN0"
PLAIN: Any = {"allow_http": True}

pytestmark = pytest.mark.usefixtures("no_credentials")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreServer]:
    folder = tmp_path / "stored"
    (folder / "data").mkdir(parents=True)
    path = shards.write(folder / "data" / "train-1.arrow", [shards.row(3, b"x" * 9000)])
    os.utime(path, (time.time() - 60, time.time() - 60))
    with storing(folder) as server:
        yield server


def s3(server: StoreServer, **more: Any) -> S3Store:
    return S3Store(
        "bucket",
        endpoint=server.url,
        access_key_id="AKOBSTORE",
        secret_access_key=SECRET,
        region="eu-west-1",
        client_options={**PLAIN, "timeout": dt.timedelta(seconds=90), "http1_only": True},
        **more,
    )


def counts(paths: Any, store: Any) -> list[int]:
    ds = gm.ArrowIterDataset(
        paths,
        audio=None,
        read=gm.ReadOptions(index_dir=None, retries=0),
        storage_options=store,
    )
    assert SECRET not in repr(ds)
    return [int(row["count"]) + 3 for row in pickle.loads(pickle.dumps(ds))]


def test_stores_are_read_from(server: StoreServer) -> None:
    azure: Any = {"azure_storage_endpoint": server.url}
    stores: dict[str, Any] = {
        "s3://bucket": s3(server),
        "az://bucket": AzureStore(
            "bucket", account_name="me", account_key=ACCOUNT_KEY, config=azure, client_options=PLAIN
        ),
        f"{server.url}/bucket": HTTPStore.from_url(f"{server.url}/bucket", client_options=PLAIN),
    }
    for place, store in stores.items():
        assert counts(f"{place}/data/train-1.arrow", store) == [3], place
        if not place.startswith("http"):
            assert counts(f"{place}/data/*.arrow", store) == [3], place
    sent = [str({k.lower(): v for k, v in headers.items()}) for headers in server.headers]
    assert any("Credential=AKOBSTORE/" in text and "/eu-west-1/s3/" in text for text in sent)


def test_it_is_what_a_mapping_would_be(server: StoreServer) -> None:
    place, options = taken_apart(s3(server, prefix="data/"))
    assert place == "s3://bucket/data"
    assert options == {
        "endpoint": server.url,
        "access_key_id": "AKOBSTORE",
        "secret_access_key": SECRET,
        "region": "eu-west-1",
        "allow_http": "true",
        "timeout": 90.0,
    }
    azure = AzureStore("c", account_name="me", account_key=ACCOUNT_KEY, prefix="p")
    assert taken_apart(azure) == ("az://c/p", {"account_name": "me", "account_key": ACCOUNT_KEY})
    google = GCSStore("b", skip_signature=True)
    assert taken_apart(google) == ("gs://b", {"skip_signature": "true"})
    assert taken_apart(from_url("https://h/x/")) == ("https://h/x", {})
    source = gm.ArrowDataSource(
        "s3://bucket/data/train-1.arrow", audio=None, storage_options=s3(server)
    )
    assert len(source) == 1


def test_paths_are_those_of_the_store(server: StoreServer) -> None:
    for path in ("s3://other/x.arrow", "s3://bucket2/x.arrow", "gs://bucket/x.arrow"):
        with pytest.raises(ValueError, match="is not in s3://bucket, the store"):
            counts(path, s3(server))
    inner = s3(server, prefix="data")
    assert counts("s3://bucket/data/train-1.arrow", inner) == [3]
    assert counts("s3://bucket/data", inner) == [3]
    with pytest.raises(ValueError, match="is not in s3://bucket/data, the store"):
        counts("s3://bucket/train-1.arrow", inner)


def test_what_cannot_be_taken_over_is_refused(tmp_path: Path) -> None:
    def credentials() -> Any:
        return {"access_key_id": "x", "secret_access_key": SECRET, "expires_at": None}

    path = "s3://b/x.arrow"
    stores: list[tuple[Any, str]] = [
        (S3Store("b", region="x", credential_provider=credentials), "has a credential_provider"),
        (LocalStore(tmp_path), "is a LocalStore of obstore"),
        (MemoryStore(), "is a MemoryStore of obstore"),
        (
            S3Store("b", skip_signature=True, client_options={"default_headers": {"x": SECRET}}),
            "client_options with 'default_headers'",
        ),
    ]
    for store, said in stores:
        with pytest.raises(ValueError, match=said) as error:
            gm.ArrowIterDataset(path, audio=None, storage_options=store)
        assert SECRET not in str(error.value)


def test_obstore_is_not_imported() -> None:
    code = "import sys, gristmill; sys.exit('obstore' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
