"""Commands over URLs: `--storage-option`, the cache, and `doctor` of a store by itself."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import gristmill as gm
import shards
from gristmill.cli import main
from gristmill.tools.doctor.conclude import Limit, conclude
from gristmill.tools.doctor.store import StoreTrials
from range_server import Fault, serving
from signals import RATE, encode, synthetic
from store_server import StoreServer, storing
from test_doctor import measured, read_run, text

SECRET = "s3cr3t0123456789s3cr3t0123456789"
N_ROWS = 12

pytestmark = pytest.mark.usefixtures("no_credentials")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreServer]:
    """Two shards of recordings of a second, in `data`; on the Hub they want a token."""
    folder = tmp_path / "stored" / "data"
    folder.mkdir(parents=True)
    rows = [encode(synthetic(1.0, RATE, seed=k), RATE, "wav16") for k in range(N_ROWS)]
    for k in range(2):
        path = shards.write_audio(folder / f"train-{k}.arrow", rows[k::2])
        os.utime(path, (time.time() - 60, time.time() - 60))
    with storing(folder.parent) as server:
        server.token = SECRET
        yield server


HUB = "hf://datasets/owner/name/data"


def run(*args: object) -> Result:
    done = CliRunner().invoke(main, [str(arg) for arg in args])
    assert SECRET not in done.output
    return done


def of_hub(server: StoreServer) -> list[str]:
    return [f"--storage-option=endpoint={server.url}", f"--storage-option=token={SECRET}"]


MEASURING = {
    "doctor": ["--seconds", "1", "--batch-size", "4", "--crop-seconds", "0.2"],
    "bench": ["--seconds", "0.3", "--batch-size", "4", "--crop-seconds", "0.2"],
    "index": ["--audio"],
}
COMMANDS = ("inspect", "scan", "index", "bench", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_storage_options(server: StoreServer, command: str) -> None:
    arguments = [command, HUB, *MEASURING.get(command, []), "--json"]
    refused = run(*arguments, f"--storage-option=endpoint={server.url}")
    assert refused.exit_code == 3
    assert "give a token" in refused.stderr
    done = run(*arguments, *of_hub(server))
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert SECRET not in done.stdout
    if command in ("scan", "index", "doctor"):
        assert found["rows"] == N_ROWS
    if command == "index":
        assert found["audio"]["known"] == N_ROWS
    assert f"Bearer {SECRET}" in str(server.headers)


def test_functions_take_them_too(server: StoreServer) -> None:
    options = {"endpoint": server.url, "token": SECRET}
    read = gm.ReadOptions(index_dir=None)
    assert sum(s.rows for s in gm.inspect(HUB, storage_options=options, read=read).shards) == N_ROWS
    assert gm.scan(HUB, storage_options=options, read=read).rows == N_ROWS
    assert gm.build_indexes(HUB, storage_options=options).rows == N_ROWS
    dataset = gm.ArrowIterDataset(HUB, storage_options=options, shuffle=gm.Shuffle(1))
    assert gm.shuffle_quality(dataset, label="label", batch_rows=4).n_rows == N_ROWS


def test_a_key_alone_takes_its_value_from_the_environment(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    monkeypatch.setenv("endpoint", server.url)
    done = run("inspect", HUB, "--storage-option", "token", "--storage-option", "endpoint")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("token", "number 2 of them is KEY alone, and no environment variable"),
        (SECRET, "number 2 of them is KEY alone, and no environment variable"),
        (f"={SECRET}", "number 2 of them is not like KEY=VALUE"),
        (f"to-ken={SECRET}", "number 2 of them is not like KEY=VALUE"),
        (f"timeout={SECRET}", "a time such as '30s'"),
        (f"allow_http={SECRET}", "is true or false"),
        (f"tokn={SECRET}", "'tokn', which does not apply to hf"),
    ],
)
def test_what_is_refused_shows_no_value(option: str, said: str) -> None:
    done = run("inspect", HUB, "--storage-option", "proxy_url=", "--storage-option", option)
    assert done.exit_code in (2, 3)
    assert said in " ".join(done.stderr.split())


def test_bench_keeps_what_it_reads(server: StoreServer, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    arguments = ["bench", HUB, *MEASURING["bench"], *of_hub(server), "--cache-dir", cache]
    assert run(*arguments, "--cache-size", "1GB").exit_code == 0
    assert any(cache.rglob("*"))
    again = json.loads(run(*arguments, "--json").stdout)
    assert again["stats"]["caches"]["range_hits"] > 0


@pytest.mark.parametrize("command", ["bench", "scan", "index"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cache-size", "1GB"], "cache_dir"),
        (["--cache-dir", "cache", "--cache-size", "many"], "cache_size"),
        (["--cache-dir", "s3://bucket/cache"], "not a URL"),
    ],
)
def test_a_cache_that_cannot_be_is_bad_usage(command: str, options: list[str], said: str) -> None:
    done = run(command, "shards", *options)
    assert (done.exit_code, said in done.stderr) == (2, True)


def test_a_token_of_the_users_files_goes_to_its_own_store_alone(
    server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    with serving(server.folder) as other:
        url = f"{other.url}/data/train-1.arrow"
        ds = gm.ArrowIterDataset([f"{HUB}/train-0.arrow", url], audio=None)
        assert len(list(ds)) == N_ROWS
        assert other.n
        assert SECRET not in str(other.headers)
    with storing(server.folder) as bucket:
        options = {
            "aws_endpoint_url": bucket.url,
            "allow_http": True,
            "aws_access_key_id": "a",
            "aws_secret_access_key": "b",
        }
        paths = [f"{HUB}/train-0.arrow", "s3://bucket/data/train-1.arrow"]
        assert len(list(gm.ArrowIterDataset(paths, audio=None, storage_options=options))) == N_ROWS
        assert bucket.n
        assert SECRET not in str(bucket.headers)


def test_doctor_measures_the_store(server: StoreServer) -> None:
    options = {"endpoint": server.url, "token": SECRET}
    diagnosis = gm.diagnose(HUB, batch_size=4, crop_seconds=0.2, seconds=1, storage_options=options)
    page = str(diagnosis)
    assert all(len(line) <= 80 for line in page.splitlines())
    for said in ("4 KiB", "4 MiB", "in flight", "answers a small request after"):
        assert said in page
    for said in ("page cache", "file system", "local copy", "Worker processes", SECRET):
        assert said not in page
    found = json.loads(json.dumps(diagnosis.to_dict()))
    reads = found["measured"]["reads"]
    assert [trial["threads"] for trial in reads] == [1, 8, 32, 128]
    assert all(trial["reads"] > 0 for trial in reads)
    store = found["measured"]["store"]
    assert store["small"]["bytes"] == 4096 * store["small"]["reads"]
    assert store["one"]["bytes"] > store["one"]["reads"] * 4096


def test_doctor_says_that_a_store_throttles(server: StoreServer) -> None:
    """It refuses what comes while four requests are under way; retries get through in the end."""
    under_way = 0
    answer = server.answer

    def busy(to: object) -> None:
        nonlocal under_way
        with server.lock:
            under_way += 1
            is_refused = under_way > 4
        try:
            if is_refused:
                server.send(to, b"", status=503)  # type: ignore[arg-type]
            else:
                time.sleep(0.002)
                answer(to)  # type: ignore[arg-type]
        finally:
            with server.lock:
                under_way -= 1

    server.answer = busy  # type: ignore[method-assign]
    url = f"{server.url}/b/data/train-0.arrow"
    found = gm.diagnose(url, batch_size=4, crop_seconds=0.2, seconds=0.5)
    assert found.measured.reads[-1].throttled > 0
    assert "The store throttles: it answered" in str(found).replace("\n", " ")
    assert "num_requests=" in found.conclusion.settings


def test_doctor_gives_up_on_what_does_not_pass(server: StoreServer) -> None:
    url = f"{server.url}/b/data/train-0.arrow"
    seen = 0

    def refuse(path: str) -> Fault | None:
        return Fault(status=403) if seen else None

    def on_step(what: str, number: int, total: int) -> None:
        nonlocal seen
        seen = number == 3

    server.always = refuse
    with pytest.raises(PermissionError, match="refuses access"):
        gm.diagnose(url, seconds=0.5, crop_seconds=0.2, on_step=on_step)
    local = server.folder / "data" / "train-0.arrow"
    done = run("doctor", local, url)
    assert (done.exit_code, "each kind by itself" in done.stderr) == (3, True)


def test_what_follows_for_a_store() -> None:
    """Figures of stores that are known, in MB/s by requests in flight."""
    trials = StoreTrials(small=read_run(1, 1, 0.2), one=read_run(1, 1, 40.0))

    def of_store(by_requests: dict[int, float], throttled: dict[int, int]) -> gm.Conclusion:
        reads = (
            replace(read_run(1, n, rate), throttled=throttled.get(n, 0))
            for n, rate in by_requests.items()
        )
        figures = replace(measured(), reads=tuple(reads), workers=(), store=trials)
        return conclude(figures, 64, 0.1)

    calm = of_store({1: 5, 8: 40, 32: 160, 128: 500}, {})
    assert "small request after 10.0 ms; one connection gets 40.0 MB/s, 128 requests" in text(calm)
    assert "500.0 MB/s together, and more would get more" in text(calm)
    assert (calm.limit, calm.read.num_requests) == (Limit.STEP, None)
    assert "A cache would not help" in text(calm)
    slow = of_store({1: 5, 8: 40, 32: 100, 128: 100}, {})
    assert (slow.limit, slow.local_copy_helps) == (Limit.STORAGE, True)
    assert "A cache on a local disk (cache_dir=, 130 GB for all of it) would pay" in text(slow)
    assert "more would" not in text(slow)
    capped = of_store({1: 5, 8: 10, 32: 20, 128: 39}, {})
    assert "39.0 MB/s together. " in text(capped)
    throttled = of_store({1: 5, 8: 40, 32: 100, 128: 90}, {32: 1, 128: 300})
    assert throttled.read.num_requests == 32
    assert "answered 25% of the requests with 429 or 503 while 128 were in" in text(throttled)
    for found in (calm, slow, throttled):
        assert "page cache" not in text(found)
        assert "file system" not in text(found)


def test_what_is_found_shows_no_password_and_no_query(tmp_path: Path) -> None:
    rows = [encode(synthetic(0.2, RATE, seed=0), RATE, "wav16"), None, b"no audio at all"]
    folder = tmp_path / "served"
    folder.mkdir()
    shards.write_audio(folder / "train.arrow", rows)
    file = tmp_path / "bad.jsonl"
    with serving(folder) as server:
        url = f"{server.url}/train.arrow?signature={SECRET}".replace("://", f"://me:{SECRET}@")
        report = gm.scan(url, quarantine=file)
        found = gm.inspect(url)
        for part in (1, 2):
            gm.scan(url, quarantine=tmp_path / "parts.jsonl", part=(part, 2))
        left = len(list(gm.ArrowIterDataset(url, audio=None, exclude=file)))
        named = [(finding.row.shard, finding.row.row) for finding in report.findings]
        left_too = len(list(gm.ArrowIterDataset(url, audio=None, exclude=named)))
    assert [finding.row.row for finding in report.findings] == [1, 2]
    assert left == left_too == 1
    merged = [gm.merge_scans(tmp_path / "parts.jsonl") for _ in range(2)]
    assert len(gm.read_quarantine(tmp_path / "parts.jsonl")) == 2
    for result in (report, found, *merged):
        assert SECRET not in f"{result} {result!r} {json.dumps(result.to_dict())}"
    for kept in tmp_path.glob("*.jsonl*"):
        assert SECRET not in kept.read_text(encoding="utf-8"), kept
    assert "  train.arrow row 1  " in str(report)
