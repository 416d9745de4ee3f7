"""Shards behind URLs: the same rows, crops, states and sidecars as from a folder."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import grain
import numpy as np
import pyarrow as pa
import pytest
from absl import flags

import gristmill as gm
import shards
from range_server import Fault, RangeServer, serving

AUDIO = gm.Audio(sample_rate=16_000, crop=gm.RandomCrop(seconds=0.3))


def urls(server: RangeServer, paths: list[Path]) -> list[str]:
    return [f"{server.url}/{path.name}" for path in paths]


@pytest.fixture
def server(same_rate: list[Path], tmp_path: Path) -> Iterator[RangeServer]:
    """The shards of all encodings, written a minute ago, and sidecars of this test alone."""
    folder = tmp_path / "served"
    folder.mkdir()
    for path in same_rate:
        copy = folder / path.name
        copy.write_bytes(path.read_bytes())
        os.utime(copy, (time.time() - 60, time.time() - 60))
    with serving(folder) as server:
        yield server


@pytest.fixture
def read(tmp_path: Path) -> gm.ReadOptions:
    return gm.ReadOptions(index_dir=tmp_path / "sidecars", num_threads=2, retries=0)


def assert_equal(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for name in a:
            assert_equal(a[name], b[name])
    elif isinstance(a, np.ndarray) and a.dtype == object:
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("window", [None, 6])
def test_rows_crops_and_states_are_those_of_local_files(
    server: RangeServer, same_rate: list[Path], read: gm.ReadOptions, window: int | None
) -> None:
    options: dict[str, Any] = {
        "audio": AUDIO,
        "shuffle": gm.Shuffle(7, window=window, streams=2 if window else 16),
        "batch_size": 4,
        "epochs": 2,
        "with_row_id": True,
        "with_crop": True,
        "read": read,
    }
    local = iter(gm.ArrowIterDataset(same_rate, **options))
    remote = iter(gm.ArrowIterDataset(urls(server, same_rate), **options))
    for step, expected in enumerate(local):
        assert_equal(next(remote), expected)
        assert remote.get_state() == local.get_state()
        if step == 4:
            # A state of one is taken up by the other.
            state = local.get_state()
            remote = iter(gm.ArrowIterDataset(urls(server, same_rate), **options))
            remote.set_state(state)
    with pytest.raises(StopIteration):
        next(remote)
    remote.close()


def test_parquet_is_read_as_from_a_file(tmp_path: Path, read: gm.ReadOptions) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    rows = [shards.row(i, bytes([i]) * (i * 1000)) for i in range(30)]
    table = pa.Table.from_pylist(rows, schema=shards.schema())
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=7)
    with serving(tmp_path) as server:
        local, remote = (
            list(gm.ArrowIterDataset(source, audio=None, read=read, shuffle=gm.Shuffle(1)))
            for source in (path, f"{server.url}/t.parquet")
        )
    for a, b in zip(local, remote, strict=True):
        assert_equal(a, b)


def test_random_access_reads_the_same_rows(
    server: RangeServer, same_rate: list[Path], read: gm.ReadOptions
) -> None:
    local = gm.ArrowDataSource(same_rate, audio=AUDIO, read=read)
    remote = gm.ArrowDataSource(urls(server, same_rate), audio=AUDIO, read=read)
    assert len(local) == len(remote)
    for k in (0, 24, 7):
        assert_equal(local[k], remote[k])


def test_statistics_count_what_the_server_counts(
    server: RangeServer, same_rate: list[Path], read: gm.ReadOptions
) -> None:
    ds = gm.ArrowIterDataset(urls(server, same_rate), audio=None, batch_size=5, read=read)
    it = iter(ds)
    for _ in range(5):
        next(it)
    assert it._pipeline is not None
    reads = it._pipeline.reads()
    # Looking for a shard, by its first byte, counts as little as opening a file.
    looked = sum(asked == "bytes=0-0" for _, _, asked in server.requests)
    assert looked == len(same_rate)
    assert reads.requests == server.n - looked
    asked = [asked for _, _, asked in server.requests if asked != "bytes=0-0"]
    spans = [list(map(int, span.removeprefix("bytes=").split("-"))) for span in asked if span]
    assert reads.bytes == sum(last - first + 1 for first, last in spans)


@pytest.mark.parametrize(("between", "n_requests"), [(60_000, 1), (600_000, 2)])
def test_columns_that_lie_close_together_are_one_request(
    server: RangeServer, read: gm.ReadOptions, between: int, n_requests: int
) -> None:
    n = 50
    fields = {"first": pa.int64(), "skipped": pa.binary(), "last": pa.int64()}
    rows = [{"first": k, "skipped": bytes(between // n), "last": n - k} for k in range(n)]
    path = server.folder / "wide.arrow"
    shards.write(path, rows, batch_rows=n, of=shards.schema(fields))
    os.utime(path, (time.time() - 60, time.time() - 60))
    ds = gm.ArrowIterDataset(
        f"{server.url}/wide.arrow", columns=["first", "last"], audio=None, batch_size=n, read=read
    )
    ds.rows_per_epoch()
    before = server.n
    (batch,) = ds
    np.testing.assert_array_equal(batch["first"] + batch["last"], [n] * n)
    looks = 1  # whether the shard is the one of the sidecar
    assert server.n - before - looks == n_requests


def test_a_second_opening_reads_no_headers(
    server: RangeServer, same_rate: list[Path], read: gm.ReadOptions
) -> None:
    def opened(query: str = "") -> int:
        before = server.n
        paths = [url + query for url in urls(server, same_rate)]
        assert gm.ArrowIterDataset(paths, audio=None, read=read).rows_per_epoch() == 25
        return server.n - before

    n = len(same_rate)
    assert opened() > 2 * n
    assert opened() == n
    # A signature changes from day to day.
    assert opened("?X-Amz-Signature=abc") == n
    other = server.folder / same_rate[0].name
    other.write_bytes((server.folder / same_rate[2].name).read_bytes())
    os.utime(other, (time.time() - 60, time.time() - 60))
    assert n < server.n  # the sidecar of a shard that is another one is not used
    before = server.n
    rows = gm.ArrowIterDataset(urls(server, same_rate), audio=None, read=read).rows_per_epoch()
    assert rows == 25 - 8 + 1
    assert server.n - before > n


class ByQuery(RangeServer):
    """Serves `/get?id=NAME`, and tells times alone, as many a program of ten lines does."""

    def file(self, path: str) -> Path | None:
        return super().file(f"/{parse_qs(urlsplit(path).query)['id'][0]}.arrow")


def test_shards_that_their_query_alone_tells_apart_are_not_mixed_up(tmp_path: Path) -> None:
    written = time.time() - 100
    for name, batches in (("0", [[1, 2, 3, 4], [5, 6]]), ("1", [[11, 12], [13, 14, 15, 16]])):
        schema = pa.schema([("label", pa.int64())])
        with pa.ipc.new_stream(str(tmp_path / f"{name}.arrow"), schema) as writer:
            for batch in batches:
                writer.write_batch(pa.record_batch([pa.array(batch)], schema=schema))
        os.utime(tmp_path / f"{name}.arrow", (written, written))
    read = gm.ReadOptions(index_dir=tmp_path / "sidecars", cache_dir=tmp_path / "cache")
    server = ByQuery(tmp_path)
    server.always = lambda path: Fault(headers={"ETag": None})
    try:
        for name, first in (("0", 1), ("1", 11), ("0", 1)):
            url = f"{server.url}/get?id={name}"
            ds = gm.ArrowIterDataset(url, audio=None, columns=["label"], read=read)
            assert [int(row["label"]) for row in ds] == list(range(first, first + 6))
            kept = gm.ArrowIterDataset(
                url, audio=None, columns=["label"], read=read, filters=[("label", ">", 4)]
            )
            assert [int(row["label"]) for row in kept] == [
                label for label in range(first, first + 6) if label > 4
            ]
    finally:
        server.close()


def test_names_with_spaces_percent_and_unicode(server: RangeServer, read: gm.ReadOptions) -> None:
    source = server.folder / "a-0.arrow"
    name = "caf\N{LATIN SMALL LETTER E WITH ACUTE} 100% #1?.arrow"
    (server.folder / name).write_bytes(source.read_bytes())
    from urllib.parse import quote

    expected = list(gm.ArrowIterDataset(source, audio=None, read=read))
    typed = f"{server.url}/caf\N{LATIN SMALL LETTER E WITH ACUTE} 100%25 %231%3F.arrow"
    for url in (f"{server.url}/{quote(name)}", typed):
        for a, b in zip(gm.ArrowIterDataset(url, audio=None, read=read), expected, strict=True):
            assert_equal(a, b)


def test_secrets_are_sent_and_never_shown(
    server: RangeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = server.url.removeprefix("http://")
    url = f"http://me:p4ssw0rd@{host}/a-0.arrow?sig=s3cret"
    read = gm.ReadOptions(index_dir=tmp_path / "sidecars", log_every_seconds=0.01, retries=0)
    ds = gm.ArrowIterDataset(url, audio=None, read=read, with_row_id=True)
    it = iter(ds)
    next(it)
    assert server.requests[-1][1] == "/a-0.arrow?sig=s3cret"
    assert server.headers[-1]["authorization"].startswith("Basic ")
    shown = [str(ds), repr(ds), repr(it), str(it.stats()), str(it.verdict()), str(it.get_state())]
    it.close()
    missing = url.replace("a-0", "none")
    with pytest.raises(FileNotFoundError) as error:
        next(iter(gm.ArrowIterDataset(missing, audio=None, read=read)))
    shown += [str(error.value), repr(error.value), str(error.value.filename), caplog.text]
    shown += [str(path) for path in tmp_path.rglob("*")]
    shown += [str(path.read_bytes()) for path in (tmp_path / "sidecars").iterdir()]
    for text in shown:
        assert "s3cret" not in text
        assert "p4ssw0rd" not in text


def test_a_pickled_data_set_goes_to_workers(
    server: RangeServer, same_rate: list[Path], read: gm.ReadOptions
) -> None:
    ds = gm.ArrowIterDataset(urls(server, same_rate), audio=AUDIO, with_row_id=True, read=read)
    expected = list(ds)
    for a, b in zip(pickle.loads(pickle.dumps(ds)), expected, strict=True):
        assert_equal(a, b)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # Grain's workers read them
    options = grain.MultiprocessingOptions(num_workers=2)
    rows = list(ds.mp_prefetch(options))
    assert sorted((int(r["shard"]), int(r["row"])) for r in rows) == [
        (int(r["shard"]), int(r["row"])) for r in expected
    ]


def test_a_forked_child_has_connections_of_its_own(
    server: RangeServer, same_rate: list[Path], read: gm.ReadOptions
) -> None:
    ds = gm.ArrowIterDataset(urls(server, same_rate), audio=None, read=read)
    it = iter(ds)
    first = next(it)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child = iter(ds)
            assert_equal(next(child), first)
            child.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(list(it)) == 24


def test_no_thread_serves_connections_before_a_url_is_read(
    server: RangeServer, same_rate: list[Path]
) -> None:
    code = """
        import sys, pathlib, gristmill as gm
        names = lambda: {(t / "comm").read_text().strip()
                         for t in pathlib.Path("/proc/self/task").iterdir()}
        local, url = sys.argv[1:]
        ds = gm.ArrowIterDataset(url, audio=None)
        next(iter(gm.ArrowIterDataset(local, audio=None)))
        assert "gristmill-net" not in names(), names()
        next(iter(ds))
        assert "gristmill-net" in names(), names()
    """
    run = [sys.executable, "-c", textwrap.dedent(code), str(same_rate[0])]
    subprocess.run([*run, urls(server, same_rate)[0]], check=True, timeout=60)


def test_closing_interrupts_a_request(
    server: RangeServer, same_rate: list[Path], read: gm.ReadOptions
) -> None:
    from range_server import Fault

    server.always = lambda path: Fault(delay=20)
    it = iter(gm.ArrowIterDataset(urls(server, same_rate), audio=None, read=read))
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            next(it)
        except ValueError as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not server.n:
        time.sleep(0.01)
    it.close()
    thread.join(15)
    assert not thread.is_alive()
    assert failed
