"""Stores and servers that answer without end, or with less than they say: errors, and soon."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

import gristmill as gm
import shards
from range_server import Fault
from store_server import StoreServer, storing
from test_remote_stores import counts

pytestmark = pytest.mark.usefixtures("no_credentials")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreServer]:
    (tmp_path / "data").mkdir()
    for k in range(5):
        shards.write(tmp_path / "data" / f"train-{k}.arrow", [shards.row(10 * k, b"x")])
    with storing(tmp_path) as server:
        yield server


def http_counts(url: str, retries: int = 0) -> list[int]:
    read = gm.ReadOptions(index_dir=None, retries=retries)
    return [int(row["count"]) + 3 for row in gm.ArrowIterDataset(url, audio=None, read=read)]


@pytest.mark.parametrize("pattern", ["data/", "**/*.arrow"])
def test_a_truncated_listing_without_a_token_is_not_complete(
    server: StoreServer, pattern: str
) -> None:
    server.next_pages = lambda n: None
    with pytest.raises(OSError, match="listing is incomplete"):
        counts(f"s3://bucket/{pattern}", server, "s3")


@pytest.mark.parametrize("pattern", ["data/", "**/*.arrow"])
@pytest.mark.parametrize(
    ("token", "said"),
    [("data/train-1.arrow", "was read before"), ("zzz{}", "pages in a row have no names")],
)
def test_listings_without_end_are_given_up(
    server: StoreServer, pattern: str, token: str, said: str
) -> None:
    server.next_pages = token.format
    with pytest.raises(OSError, match=f"does not end.*{said}"):
        counts(f"s3://bucket/{pattern}", server, "s3")
    assert server.n_pages < 200


@pytest.mark.parametrize("what", ["list", "error", "get"])
def test_bodies_without_end_are_given_up(server: StoreServer, what: str) -> None:
    def answer(to: BaseHTTPRequestHandler) -> None:
        to.send_response({"list": 200, "error": 403, "get": 206}[what])
        if what == "get":
            span = re.findall(r"[0-9]+", to.headers["Range"])
            to.send_header("Content-Range", f"bytes {span[0]}-{span[1]}/1000000")
            to.send_header("ETag", '"a"')
            to.send_header("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")
        to.send_header("Transfer-Encoding", "chunked")
        to.end_headers()
        names = b"<Contents><Key>data/a.arrow</Key></Contents>" * 20_000
        while True:
            to.wfile.write(b"%x\r\n" % len(names) + names + b"\r\n")

    server.answer = answer  # type: ignore[method-assign]
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    path = "s3://bucket/data/" + ("" if what == "list" else "train-1.arrow")
    said = {"list": "more than 33554432 bytes", "error": "403 Forbidden", "get": "arrow"}[what]
    with pytest.raises(Exception, match=said) as error:
        counts(path, server, "s3")
    assert isinstance(error.value, (OSError, gm.GristmillError))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB
    assert time.monotonic() - begin < 60


def test_an_object_without_bytes_is_empty_whatever_the_store_says(server: StoreServer) -> None:
    (server.folder / "data" / "empty.arrow").write_bytes(b"")
    body = b"<Error><Code>InvalidRange</Code></Error>"
    for said in (body, b"", b"<Error><ActualObjectSize>0</ActualObjectSize></Error>"):
        fault = Fault(status=416, headers={"Content-Range": None}, body=said)
        server.always = lambda path, fault=fault: fault
        with pytest.raises(gm.CorruptShardError, match="the file is empty"):
            counts("s3://bucket/data/empty.arrow", server, "s3")
        with pytest.raises(gm.CorruptShardError, match="the file is empty"):
            http_counts(f"{server.url}/b/data/empty.arrow")


def test_a_refusal_behind_a_redirect_may_pass(server: StoreServer) -> None:
    refused = Fault(status=403, body=b"<Error><Code>InvalidKey</Code></Error>")
    first = Fault(status=302, headers={"Location": f"{server.url}/b/data/train-1.arrow?sig=1"})
    by_path = {"/first": first}
    server.always = by_path.get
    server.faults = [first, refused]
    assert http_counts(f"{server.url}/first", retries=1) == [10]
    host = server.url.removeprefix("http://").replace("127.0.0.1", "localhost")
    first.headers = {"Location": f"http://{host}/b/data/train-1.arrow?sig=s3cret"}
    server.always = lambda path: by_path.get(path, refused)
    before = server.n
    with pytest.raises(PermissionError, match=rf"{host}, to which .* 403") as error:
        http_counts(f"{server.url}/first", retries=1)
    assert "(InvalidKey)" in str(error.value)
    assert "credentials" not in str(error.value)
    assert "s3cret" not in str(error.value)
    assert server.n - before == 4


def test_a_host_that_a_redirect_leads_to_is_named(server: StoreServer) -> None:
    server.always = lambda path: Fault(status=302, headers={"Location": "http://localhost:1/x"})
    with pytest.raises(OSError, match="cannot connect to localhost:1"):
        http_counts(f"{server.url}/first")


def test_names_of_stores_stay_on_one_line_and_short(server: StoreServer) -> None:
    key = "data//" + "\n\x1b[2J" + "x" * 5_000_000
    listed = f"<Contents><Key>{key}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00.000Z"
    listed = f"<ListBucketResult>{listed}</LastModified></Contents></ListBucketResult>"
    listed = listed.replace("\x1b", "")
    server._list_s3 = lambda to, query: server.send(to, listed.encode())  # type: ignore[method-assign]
    with pytest.raises(OSError, match="key that cannot be read") as error:
        counts("s3://bucket/data/", server, "s3")
    assert len(str(error.value)) < 5_000
    assert "\n" not in str(error.value)
