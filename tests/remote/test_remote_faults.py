"""Servers that are busy, wrong, slow or hostile: right rows, or an error that says what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain
import pytest

import gristmill as gm
import shards
from range_server import Fault, RangeServer, serving

ROWS = 12
NO_RANGES = Fault(ranges=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    folder = tmp_path / "served"
    folder.mkdir()
    rows = [shards.row(i, bytes([i]) * 200_000) for i in range(ROWS)]
    shards.write(folder / "x.arrow", rows, batch_rows=4)
    with serving(folder) as server:
        yield server


def dataset(url: str, retries: int = 0, **options: Any) -> gm.ArrowIterDataset:
    read = gm.ReadOptions(retries=retries, index_dir=None, num_threads=2)
    return gm.ArrowIterDataset(url, audio=None, read=read, **options)


def check_rows(url: str, retries: int = 0) -> None:
    rows = list(dataset(url, retries))
    assert [row["audio"]["bytes"] for row in rows] == [bytes([i]) * 200_000 for i in range(ROWS)]


def failure(url: str, kind: type[BaseException] = OSError, retries: int = 0) -> Any:
    with pytest.raises(kind) as error:
        list(dataset(url, retries))
    return error.value


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=503),
        Fault(status=500),
        Fault(status=429, headers={"Retry-After": "0"}),
        Fault(keep=0),
        Fault(keep=1),
        Fault(keep=0, is_reset=True),
        Fault(keep=1, is_reset=True),
        Fault(body=b"", headers={"Content-Length": "0"}),
        Fault(headers={"Content-Range": "bytes 1-2/3"}),
        Fault(headers={"Content-Range": "bytes */3"}),
        Fault(headers={"Content-Range": None}),
        Fault(headers={"Content-Range": f"bytes 0-{2**70}/{2**71}"}),
    ],
    ids=str,
)
def test_faults_that_pass_leave_no_trace(server: RangeServer, fault: Fault) -> None:
    for when in (0, 1, 5):
        server.faults = [Fault()] * when + [fault]
        check_rows(f"{server.url}/x.arrow", retries=1)
        assert not server.faults
    server.always = lambda path: fault
    failure(f"{server.url}/x.arrow", retries=1)


@pytest.mark.parametrize(("status", "is_counted"), [(429, True), (503, True), (500, False)])
def test_requests_that_a_store_has_too_many_of_are_counted(
    server: RangeServer, status: int, is_counted: bool
) -> None:
    refused = Fault(status=status, headers={"Retry-After": "0"})
    server.faults = [Fault(), refused, Fault(), refused, refused]
    it = iter(dataset(f"{server.url}/x.arrow", retries=3))
    list(it)
    stats = it.stats()
    assert stats.storage.throttled == stats.shards[0].throttled == (3 if is_counted else 0)
    assert stats.storage.requests == server.n - 1


def test_an_outage_is_told_from_slow_columns(server: RangeServer) -> None:
    read = gm.ReadOptions(retries=100, index_dir=None, num_threads=2, num_requests=2)
    columns = ["audio", "label"]
    it = iter(
        gm.ArrowIterDataset(
            f"{server.url}/x.arrow", audio=None, columns=columns, read=read, epochs=None
        )
    )
    next(it)
    server.always = lambda path: Fault(status=500)
    over = threading.Timer(3.0, setattr, (server, "always", lambda path: None))
    over.start()
    for _ in range(5 * ROWS):
        next(it)
    over.join()
    verdict, stats = it.verdict(), it.stats()
    it.close()
    assert verdict.case is gm.Case.FAILING_STORAGE, f"{verdict}\n{stats}"
    assert " requests to x.arrow, and waited " in verdict.text
    assert stats.storage.retries == stats.shards[0].retries > 2
    assert stats.reader_waits.retries_seconds > 2.0
    assert stats.stages.plan.busy_seconds < stats.reader_waits.retries_seconds
    assert "retries: " in str(stats)


def test_a_storm_of_refusals_passes(server: RangeServer) -> None:
    refused: Counter[str | None] = Counter()

    def storm(path: str) -> Fault | None:
        asked = server.requests[-1][2]
        refused[asked] += 1
        return Fault(status=503, headers={"Retry-After": "0"}) if refused[asked] < 3 else None

    server.always = storm
    check_rows(f"{server.url}/x.arrow", retries=2)
    assert set(refused.values()) == {3}


def test_credentials_that_expire_meanwhile(server: RangeServer) -> None:
    server.faults = [Fault()] * 5 + [Fault(status=401)]
    assert "give credentials" in str(failure(f"{server.url}/x.arrow", PermissionError, retries=5))
    assert not server.faults


def test_a_short_body_is_taken_up_where_it_ended(server: RangeServer) -> None:
    # 64 KiB and more of each answer is progress, whatever the retries.
    server.always = lambda path: Fault(keep=70_000)
    check_rows(f"{server.url}/x.arrow")
    spans = [span for _, _, span in server.requests if span and span != "bytes=0-0"]
    firsts = [int(span[6:].split("-")[0]) for span in spans]
    lasts = [int(span[6:].split("-")[1]) for span in spans]
    assert any(b == a + 70_000 for a in firsts for b in firsts)
    assert len(set(lasts)) < len(lasts)


def test_servers_are_left_alone_for_as_long_as_they_ask(server: RangeServer) -> None:
    asked: list[float] = []

    def busy(path: str) -> Fault:
        asked.append(time.monotonic())
        return Fault(status=503, headers={"Retry-After": "1"})

    server.always = busy
    error = failure(f"{server.url}/x.arrow", retries=1)
    assert "503 Service Unavailable" in str(error)
    assert len(asked) == 2
    assert asked[1] - asked[0] >= 1


def test_a_shard_that_changes_is_refused(server: RangeServer) -> None:
    file = server.folder / "x.arrow"
    it = iter(dataset(f"{server.url}/x.arrow", batch_size=1))
    next(it)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(gm.CorruptShardError, match="replaced or changed"):
        list(it)
    it = iter(dataset(f"{server.url}/x.arrow", batch_size=1))
    next(it)
    file.write_bytes(data[:10])
    with pytest.raises(gm.CorruptShardError, match="replaced or changed"):
        list(it)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (Fault(status=401), PermissionError, "give credentials"),
        (Fault(status=403), PermissionError, "refuses access"),
        (Fault(status=404), FileNotFoundError, "no such file"),
        (Fault(status=410), FileNotFoundError, "no such file"),
        (Fault(status=418), OSError, "answered 418"),
        (Fault(status=302), OSError, "answered 302"),
        (NO_RANGES, OSError, "whole files only"),
        (Fault(headers={"Content-Encoding": "gzip"}), OSError, "compresses"),
    ],
    ids=str,
)
def test_what_does_not_pass_is_not_repeated(
    server: RangeServer, fault: Fault, kind: type[OSError], said: str
) -> None:
    server.always = lambda path: fault
    error = failure(f"{server.url}/x.arrow", kind, retries=5)
    assert said in str(error)
    assert error.filename == f"{server.url}/x.arrow"
    assert server.n == 1


def test_redirects_are_followed_but_not_for_ever(server: RangeServer) -> None:
    there = f"{server.url}/x.arrow"
    server.always = lambda path: (
        Fault(status=302, headers={"Location": there}) if path == "/here" else None
    )
    check_rows(f"{server.url}/here")
    server.always = lambda path: Fault(status=302, headers={"Location": there})
    before = server.n
    assert "redirects are not followed" in str(failure(there, retries=5))
    assert server.n - before < 20


def test_credentials_do_not_go_along_to_another_host(server: RangeServer) -> None:
    with serving(server.folder) as other:
        there = f"{other.url}/x.arrow"
        server.always = lambda path: Fault(status=302, headers={"Location": there})
        check_rows(server.url.replace("http://", "http://me:pass@") + "/x.arrow")
        assert all("authorization" in headers for headers in server.headers)
        assert not any("authorization" in headers for headers in other.headers)


@pytest.mark.parametrize("password", ["a/s3cret", "a#s3cret", "a?s3cret", "s3cret/b@c"])
def test_a_password_that_is_not_escaped_is_not_shown(password: str) -> None:
    with pytest.raises(ValueError, match="%2F for /") as error:
        dataset(f"http://me:{password}@127.0.0.1:1/x.arrow")
    assert "s3cret" not in str(error.value)


def test_an_empty_shard_is_refused_as_a_local_one(server: RangeServer) -> None:
    (server.folder / "empty.arrow").write_bytes(b"")
    for fault in (None, NO_RANGES):
        server.always = lambda path, fault=fault: fault
        error = failure(f"{server.url}/empty.arrow", gm.CorruptShardError)
        assert "the file is empty" in str(error)


def test_small_answers_and_letters_of_headers_are_as_good(server: RangeServer) -> None:
    url = f"{server.url}/x.arrow"
    server.always = lambda path: Fault(headers={"Content-Encoding": "Identity"})
    check_rows(url)
    server.always = lambda path: Fault(headers={"Content-Encoding": ""})
    check_rows(url)
    n_bytes = (server.folder / "x.arrow").stat().st_size

    def small(path: str) -> Fault:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", server.requests[-1][2] or "")
        assert match is not None
        first, last = int(match[1]), min(int(match[2]), int(match[1]) + 49_999, n_bytes - 1)
        data = (server.folder / "x.arrow").read_bytes()[first : last + 1]
        return Fault(body=data, headers={"Content-Range": f"Bytes {first}-{last}/{n_bytes}"})

    # One request at a time, since each fault is of the last one.
    server.always = small
    read = gm.ReadOptions(retries=0, index_dir=None, num_threads=1, num_requests=1)
    rows = list(gm.ArrowIterDataset(url, audio=None, read=read))
    assert [row["audio"]["bytes"] for row in rows] == [bytes([i]) * 200_000 for i in range(ROWS)]


def test_a_length_that_lies_allocates_nothing(server: RangeServer) -> None:
    lie = {"Content-Range": f"bytes 0-0/{2**62}"}
    server.faults = [Fault(headers=lie)]
    failure(f"{server.url}/x.arrow", gm.GristmillError)
    server.always = lambda path: Fault(headers=lie)
    failure(f"{server.url}/x.arrow")


def test_an_endless_body_is_cut_off(server: RangeServer) -> None:
    # More than the range that was asked for: what is beyond it is left.
    def endless(path: str) -> Fault:
        asked = server.requests[-1][2]
        assert asked is not None
        first, last = map(int, asked[6:].split("-"))
        data = (server.folder / "x.arrow").read_bytes()[first : last + 1]
        return Fault(
            body=data + bytes(1_000_000), headers={"Content-Length": str(2**50)}, keep=2_000_000
        )

    server.always = endless
    check_rows(f"{server.url}/x.arrow")


@pytest.mark.parametrize("pace", [0.0, 0.02])
@pytest.mark.parametrize("head", [b"HTTP/1.1 206 Partial Content\r\n", b""])
def test_an_endless_head_is_given_up(head: bytes, pace: float) -> None:
    # All at once, and by single bytes, each of which comes in time.
    accepted: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted.append(listener.accept()[0])
                threading.Thread(target=answer, args=(accepted[-1],), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(head)
            while True:
                connection.sendall(b"x" if pace else b"x: " + b"y" * 1000 + b"\r\n")
                time.sleep(pace)

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x.arrow"
        ds = dataset(url, retries=1, storage_options={"timeout": "500ms"})
        with pytest.raises(OSError, match=r"took too long|broke") as error:
            list(ds)
        listener.shutdown(socket.SHUT_RDWR)
    assert error.value.filename == url
    assert len(accepted) <= 2
    for connection in accepted:
        connection.close()


def test_a_body_of_single_bytes_is_given_up(server: RangeServer) -> None:
    server.always = lambda path: Fault(pace=0.02)
    ds = dataset(f"{server.url}/x.arrow", retries=1, storage_options={"timeout": "500ms"})
    with pytest.raises(TimeoutError, match="took too long"):
        list(ds)
    # Twice, and before that twice at most for the first byte alone.
    assert server.n <= 4


def test_hosts_that_are_not_there(server: RangeServer) -> None:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        error = failure(f"http://127.0.0.1:{port}/x.arrow")
    assert error.errno == errno.ECONNREFUSED
    assert "cannot connect" in str(error)
    error = failure("http://nowhere.invalid/x.arrow")
    assert "no such host" in str(error)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_a_certificate_of_nobody_is_refused_without_retries(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    paths = ["-keyout", str(key), "-out", str(certificate)]
    run = [*command.split(), "-subj", "/CN=localhost", *paths]
    subprocess.run(run, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with contextlib.suppress(OSError):
                        context.wrap_socket(connection, server_side=True).close()

        threading.Thread(target=serve, daemon=True).start()
        url = f"https://localhost:{listener.getsockname()[1]}/x.arrow"
        error = failure(url, retries=100)
        listener.shutdown(socket.SHUT_RDWR)
    assert "no secure connection" in str(error)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://", "no URL of a shard"),
        ("https:///x.arrow", "no URL of a shard"),
        ("https://host:port/x.arrow", "no URL of a shard"),
        ("https://[::1/x.arrow", "no URL of a shard"),
        ("https://host/x.arrow#1", "%23 for #"),
        ("HTTPS://host/x.arrow", "small letters"),
        ("ftp://me:secret@host/x.arrow?secret", "not ftp://"),
        ("https://host/folder/", "one by one"),
        ("https://host/*.arrow", "one by one"),
        ("https://me:secret@host/*.arrow?secret", "one by one"),
        ("HTTPS://me:secret@host/x.arrow", "HTTPS://***@host/x.arrow: write https://"),
        ("Https://host/x.arrow?sig=secret", "small letters"),
        ("Https://me:a?secret@host/x.arrow", "small letters"),
        ("S3://AK:sec/secret@b/x.arrow", "write s3:// in small letters"),
        (" https://me:secret@host/x.arrow", "gristmill reads"),
        ("https:///me:secret@host/x.arrow", "no URL of a shard"),
        ("https:/me:secret@host/x.arrow", "give URLs as text"),
        ("https://me:secret@host/a\0b.arrow", r"control character '\x00'"),
        ("file://me:secret@host/x.arrow", "three slashes"),
        ("file://me:secret@[::1/x.arrow", "three slashes"),
        ("http:me:secret@host/x.arrow", "write http://host/"),
        ("https:\\\\me:secret@host/x.arrow", "write https://host/"),
        ("https://host/x.ar\trow", "write %09"),
        ("https://host/a\\x.arrow", "write %5C"),
        ("https://host/x.arrow ", "and %20"),
    ],
)
def test_what_is_no_url_of_a_shard_says_what_to_type(url: str, said: str) -> None:
    with pytest.raises(ValueError) as error:
        next(iter(dataset(url)))
    assert said in str(error.value)
    assert "secret" not in str(error.value)


def test_a_password_with_a_slash_after_digits_is_not_shown() -> None:
    error = failure("http://localhost:1/s3cret@127.0.0.1/x.arrow")
    assert "http://***@127.0.0.1/x.arrow" in str(error)
    assert "s3cret" not in str(error)


def test_a_url_that_pathlib_made_a_path_says_so() -> None:
    with pytest.raises(ValueError, match="give URLs as text"):
        gm.ArrowIterDataset(Path("s3://bucket/x.arrow"))


def test_an_order_that_is_closed_waits_for_nobody(server: RangeServer) -> None:
    server.always = lambda path: Fault(status=503, headers={"Retry-After": "100"})
    it = iter(dataset(f"{server.url}/x.arrow", retries=100))
    it.start_prefetch()
    while not server.n:
        time.sleep(0.01)
    # Two minutes of waiting would be beyond this test's own limit.
    it.close()
    assert server.n == 1


def test_tools_take_urls(server: RangeServer, tmp_path: Path) -> None:
    url = f"{server.url}/x.arrow"
    read = gm.ReadOptions(index_dir=tmp_path / "index", retries=0)
    os.utime(server.folder / "x.arrow", (time.time() - 60, time.time() - 60))
    from gristmill.tools.headers import read_headers
    from gristmill.tools.index import build_indexes

    assert build_indexes(url, read=read).written == 1
    (header,), broken = read_headers(url, read)
    assert (header.path, header.rows, header.requests, broken) == (url, ROWS, 0, [])
    beside = gm.ReadOptions(index_dir="beside", retries=0)
    report = build_indexes(url, read=beside)
    assert report.not_written == 1
    assert "--index-dir" in report.why_not_written


WAITING = gm.ReadOptions(retries=100, index_dir=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda url: gm.ArrowDataSource(url, audio=None, read=WAITING)[0],
        lambda url: len(gm.ArrowDataSource(url, audio=None, read=WAITING)),
        lambda url: grain.experimental.get_element_spec(dataset(url, retries=100)),
        lambda url: dataset(url, retries=100).class_names("label"),
        lambda url: gm.build_indexes(url, read=gm.ReadOptions(retries=100)),
        lambda url: next(iter(dataset(url, retries=100))),
    ],
    ids=["row", "len", "element spec", "class names", "headers", "next"],
)
def test_ctrl_c_ends_the_opening_of_shards(server: RangeServer, call: Any) -> None:
    """Each request is answered with 503: the retries would take a quarter of an hour."""
    server.always = lambda path: Fault(status=503)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call(f"{server.url}/x.arrow")
    finally:
        timer.cancel()
