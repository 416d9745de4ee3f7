"""Buckets of the Hub: the same rows by their URLs, listings, patterns and tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gristmill as gm
import shards
from range_server import Fault
from store_server import StoreServer, storing

BUCKET = "hf://buckets/owner/name"
TOKEN = "hf_s3cr3t0123456789"

pytestmark = pytest.mark.usefixtures("no_credentials")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreServer]:
    folder = tmp_path / "stored"
    for name in ("data/train 50%", "data/train-1", "data/more/valid-0", "data-of-others/train-2"):
        path = folder / f"{name}.arrow"
        path.parent.mkdir(parents=True, exist_ok=True)
        shards.write(path, [shards.row(len(name) + i, b"x" * 9000) for i in range(2)])
        os.utime(path, (time.time() - 60, time.time() - 60))
    with storing(folder) as server:
        server.token = TOKEN
        yield server


def counts(paths: str, server: StoreServer) -> list[int]:
    ds = gm.ArrowIterDataset(
        paths,
        audio=None,
        read=gm.ReadOptions(index_dir=None, retries=0),
        storage_options={"endpoint": server.url, "token": TOKEN},
    )
    return [int(row["count"]) + 3 for row in ds]


def test_files_folders_and_patterns_are_read(server: StoreServer) -> None:
    spaced, plain, below = [14, 15], [12, 13], [17, 18]
    assert counts(f"{BUCKET}/data/train 50%.arrow", server) == spaced
    # `data-of-others` begins so, too.
    assert counts(f"{BUCKET}/data", server) == spaced + plain
    assert counts(f"{BUCKET}/data/", server) == spaced + plain
    assert counts(f"{BUCKET}/data/train-?.arrow", server) == plain
    assert counts(f"{BUCKET}/data/*/*.arrow", server) == below
    assert counts(f"{BUCKET}/*/train-1.arrow", server) == plain


def test_files_may_lie_elsewhere(server: StoreServer) -> None:
    """The Hub redirects to where it keeps files, and the token does not go along."""
    with storing(server.folder) as storage:
        server.hub_redirects_to = storage.url
        assert counts(f"{BUCKET}/data/train-1.arrow", server) == [12, 13]
        assert storage.n
        assert TOKEN not in str(storage.headers)


def test_what_cannot_be_is_refused(server: StoreServer) -> None:
    for path in (f"{BUCKET}@main/data", "hf://buckets/owner"):
        with pytest.raises(ValueError, match="hf://buckets/owner/name/path"):
            counts(path, server)
    with pytest.raises(FileNotFoundError):
        counts(f"{BUCKET}/data/none.arrow", server)
    with pytest.raises(FileNotFoundError, match="No shards match"):
        counts(f"{BUCKET}/data/none-*.arrow", server)
    server.always = lambda path: Fault(headers={"ETag": f'"{server.n}"'})
    with pytest.raises(gm.CorruptShardError, match="replaced or changed"):
        counts(f"{BUCKET}/data/train-1.arrow", server)
    server.token = "another"
    with pytest.raises(PermissionError, match="give a token") as error:
        counts(f"{BUCKET}/data/train-1.arrow", server)
    assert TOKEN not in str(error.value)
