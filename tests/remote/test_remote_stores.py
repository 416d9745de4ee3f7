"""Object stores and the Hub: the same rows by their URLs, listings, patterns, credentials."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
import shards
from range_server import Fault, serving
from store_server import StoreServer, storing

SECRET = "s3cr3t0123456789s3cr3t0123456789"
ACCOUNT_KEY = "czNjcjN0czNjcjN0czNjcjN0czNjcjN0"

pytestmark = pytest.mark.usefixtures("no_credentials")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreServer]:
    folder = tmp_path / "stored"
    (folder / "data" / "more").mkdir(parents=True)
    (folder / "docs").mkdir()
    for k in range(5):
        rows = [shards.row(10 * k + i, bytes([k]) * 9000) for i in range(3)]
        path = shards.write(folder / "data" / f"train-{k}.arrow", rows)
        os.utime(path, (time.time() - 60, time.time() - 60))
    shards.write(folder / "data" / "more" / "valid 50%.arrow", [shards.row(99, b"x")])
    (folder / "data" / "readme.md").write_text("")
    (folder / "data" / ".train-hidden.arrow").write_text("")
    with storing(folder) as server:
        yield server


def options(server: StoreServer, scheme: str) -> dict[str, Any]:
    return {
        "s3": {
            "aws_access_key_id": "AKIAX",
            "aws_secret_access_key": SECRET,
            "aws_endpoint_url": server.url,
            "AWS_REGION": "eu-west-1",
            "allow_http": True,
        },
        "gs": {"google_base_url": server.url, "allow_http": "true", "skip_signature": "true"},
        "az": {
            "account_name": "me",
            "account_key": ACCOUNT_KEY,
            "azure_storage_endpoint": server.url,
            "allow_http": True,
        },
        "hf": {"endpoint": server.url, "token": SECRET},
    }[scheme]


def place(scheme: str) -> str:
    return "hf://datasets/owner/name" if scheme == "hf" else f"{scheme}://bucket"


SCHEMES = ("s3", "gs", "az", "hf")


def counts(paths: Any, server: StoreServer, scheme: str, **given: Any) -> list[int]:
    kept, retries = given.pop("index_dir", None), given.pop("retries", 0)
    read = gm.ReadOptions(index_dir=kept, retries=retries)
    ds = gm.ArrowIterDataset(
        paths,
        audio=None,
        read=read,
        storage_options={**options(server, scheme), **given},
    )
    return [int(row["count"]) + 3 for row in ds]


TRAIN = [10 * k + i for k in range(5) for i in range(3)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_files_folders_and_patterns_are_read(server: StoreServer, scheme: str) -> None:
    root = place(scheme)
    assert counts(f"{root}/data/train-1.arrow", server, scheme) == [10, 11, 12]
    assert counts(f"{root}/data/more/valid 50%.arrow", server, scheme) == [99]
    assert (server.folder / "data" / ".train-hidden.arrow").exists()  # which no shard is
    assert counts(f"{root}/data/", server, scheme) == TRAIN
    assert counts(f"{root}/data", server, scheme) == TRAIN
    assert counts(f"{root}/data/*.arrow", server, scheme) == TRAIN
    assert counts(f"{root}/*/train-[13].arrow", server, scheme) == [10, 11, 12, 30, 31, 32]
    assert counts(f"{root}/*/*/*", server, scheme) == [99]
    assert counts(f"{root}/data/**/*.arrow", server, scheme) == [99, *TRAIN]
    assert counts(f"{root}/**/data/**/**/more/*.arrow", server, scheme) == [99]
    assert counts(f"{root}/**/train-[13].arrow", server, scheme) == [10, 11, 12, 30, 31, 32]
    assert counts(f"{root}/data/mo*/**", server, scheme) == [99]
    mixed = [server.folder / "data" / "train-0.arrow", f"{root}/data/train-4.arrow"]
    assert counts(mixed, server, scheme) == [0, 1, 2, 40, 41, 42]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_listing_begins_anew_after_faults_that_pass(server: StoreServer, scheme: str) -> None:
    pattern = f"{place(scheme)}/data/train-*.arrow"
    server.fail_listings = 2
    assert counts(pattern, server, scheme, retries=2) == TRAIN
    assert server.fail_listings == 0
    server.fail_listings = 2
    with pytest.raises(OSError, match="503"):
        counts(pattern, server, scheme, retries=1)


def test_ctrl_c_ends_the_wait_before_a_listing_begins_anew(server: StoreServer) -> None:
    server.fail_listings = 1_000
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        counts("s3://bucket/data/", server, "s3", retries=1_000)
    timer.join()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_not_there_says_so(server: StoreServer, scheme: str) -> None:
    root = place(scheme)
    for path, said in {
        "data/none.arrow": "no such file",
        "data/none-*.arrow": "No shards match",
        "none/": r"No \.arrow or \.parquet shards",
        "docs": "no such file",
    }.items():
        with pytest.raises(FileNotFoundError, match=said) as error:
            counts(f"{root}/{path}", server, scheme)
        assert str(error.value.filename).startswith(root)
    with pytest.raises(FileNotFoundError, match=r"but the folder data; name the one that has them"):
        counts(f"{root}/", server, scheme)
    (server.folder / "docs" / "a.md").write_text("")
    with pytest.raises(FileNotFoundError, match=r"No \.arrow or \.parquet shards"):
        counts(f"{root}/docs", server, scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_refusals_say_what_to_give_and_nothing_secret(server: StoreServer, scheme: str) -> None:
    for status in (401, 403):
        server.always = lambda path, status=status: Fault(status=status)
        with pytest.raises(PermissionError, match="give") as error:
            counts(f"{place(scheme)}/data/train-1.arrow", server, scheme)
        assert SECRET not in str(error.value)
        assert ACCOUNT_KEY not in str(error.value)
    server.always = lambda path: Fault(status=503, headers={"Retry-After": "0"})
    with pytest.raises(OSError, match="503"):
        counts(f"{place(scheme)}/data/train-1.arrow", server, scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_short_bodies_changes_and_missing_ranges(server: StoreServer, scheme: str) -> None:
    path = f"{place(scheme)}/data/train-1.arrow"
    server.faults = [Fault(), Fault(keep=3)]
    with pytest.raises(OSError, match=r"early|broke"):
        counts(path, server, scheme)
    server.always = lambda path: Fault(ranges=False)
    with pytest.raises(OSError, match="whole files only"):
        counts(path, server, scheme)
    server.always = lambda path: Fault(headers={"ETag": f'"{server.n}"'})
    with pytest.raises(gm.CorruptShardError, match="replaced or changed"):
        counts(path, server, scheme)
    server.always = lambda path: None
    (server.folder / "data" / "empty.arrow").write_bytes(b"")
    with pytest.raises(gm.CorruptShardError, match="the file is empty"):
        counts(f"{place(scheme)}/data/empty.arrow", server, scheme)


@pytest.mark.parametrize("scheme", ["s3", "az"])
@pytest.mark.parametrize(
    "answered",
    [
        "bytes 1-2/3",
        "bytes 0-1/3",
        "bytes */3",
        "bytes 0-0/0",
        "bytes -1-0/9",
        f"bytes 0-{2**64 - 1}/{2**64 - 1}",
        f"bytes 0-{2**70}/{2**71}",
        "everything",
        None,
    ],
)
def test_wrong_ranges(server: StoreServer, scheme: str, answered: str | None) -> None:
    path = f"{place(scheme)}/data/train-1.arrow"
    fault = Fault(headers={"Content-Range": answered})
    for when in (0, 2):
        server.faults = [Fault()] * when + [fault]
        assert counts(path, server, scheme, retries=1) == [10, 11, 12]
    server.always = lambda path: fault
    with pytest.raises(OSError, match=r"the (store|server) (was asked|answered)"):
        counts(path, server, scheme, retries=1)


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("<Code>ExpiredToken</Code>", PermissionError, "session token has expired"),
        ("<Code>InvalidToken</Code>", PermissionError, "give credentials"),
        ("<Code>RequestTimeout</Code>", OSError, r"400 Bad Request.*\(RequestTimeout\)"),
        ("<Code>AuthorizationHeaderMalformed</Code>", OSError, "AuthorizationHeaderMalformed"),
        (
            "<Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region>",
            OSError,
            '"aws_region": "eu-west-3"',
        ),
        ("<Code>Expired\nToken</Code>", OSError, "400 Bad Request"),
        ("<Code>", OSError, "400 Bad Request"),
    ],
)
def test_refusals_whose_code_says_more(
    server: StoreServer, code: str, kind: type[OSError], said: str
) -> None:
    fault = Fault(status=400, body=f"<Error>{code}<Token>{SECRET}</Token></Error>".encode())
    server.always = lambda path: fault
    for when in (0, 3):
        server.faults = [Fault()] * when
        with pytest.raises(kind, match=said) as error:
            counts("s3://bucket/data/train-1.arrow", server, "s3")
        assert isinstance(error.value, PermissionError) == (kind is PermissionError)
        assert SECRET not in str(error.value)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_sidecars_are_used(server: StoreServer, scheme: str, tmp_path: Path) -> None:
    path, sidecars = f"{place(scheme)}/data/train-1.arrow", tmp_path / "sidecars"
    ds = gm.ArrowIterDataset(
        path,
        audio=None,
        read=gm.ReadOptions(index_dir=sidecars, retries=0),
        storage_options=options(server, scheme),
    )
    assert ds.rows_per_epoch() == 3
    before = server.n
    assert ds.rows_per_epoch() == 3
    assert server.n == before + 1
    for file in sidecars.iterdir():
        assert SECRET.encode() not in file.read_bytes()


def test_values_of_options_are_never_shown(server: StoreServer) -> None:
    ds = gm.ArrowIterDataset(
        "s3://bucket/data/train-1.arrow", audio=None, storage_options=options(server, "s3")
    )
    assert SECRET not in repr(ds)
    assert "'aws_secret_access_key': '***'" in repr(ds)
    source = gm.ArrowDataSource(
        "s3://bucket/data/train-1.arrow", audio=None, storage_options=options(server, "s3")
    )
    assert SECRET not in repr(source)
    assert len(pickle.loads(pickle.dumps(source))) == 3
    assert int(source[2]["count"]) == 9


def test_a_data_set_saved_by_datasets_is_its_own_shards(server: StoreServer) -> None:
    folder = server.folder / "data"
    files = [{"filename": "train-3.arrow"}, {"filename": "train-1.arrow"}]
    (folder / "state.json").write_text(json.dumps({"_data_files": files}))
    assert counts("s3://bucket/data", server, "s3") == [30, 31, 32, 10, 11, 12]
    (server.folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    with pytest.raises(ValueError, match="several splits"):
        counts("s3://bucket/", server, "s3")


def test_credentials_come_from_the_users_files(
    server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home" / ".aws"
    folder.mkdir(parents=True)
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = x\n"
        "[lab]\naws_access_key_id = AKLAB\naws_secret_access_key = x\n"
    )
    (folder / "config").write_text("[profile lab]\nregion = eu-north-1\n")
    given = {"endpoint_url": server.url, "allow_http": True}
    path = "s3://bucket/data/train-1.arrow"

    def authorization() -> str:
        list(gm.ArrowIterDataset(path, audio=None, storage_options=given))
        sent = {name.lower(): value for name, value in server.headers[-1].items()}
        return sent["authorization"]

    assert "Credential=AKDEFAULT/" in authorization()
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert "Credential=AKLAB/" in authorization()
    assert "/eu-north-1/s3/" in authorization()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert "Credential=AKENV/" in authorization()
    assert "/us-east-2/s3/" in authorization()
    with (folder / "config").open("a") as config:
        config.write(f"endpoint_url = {server.url}\n")
    given = {}
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert "Credential=AKENV/" in authorization()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(ConnectionRefusedError, match=r"cannot connect to 127\.0\.0\.1"):
        authorization()


def test_the_users_files_are_for_no_other_kind_of_store(
    server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home" / ".aws"
    folder.mkdir(parents=True)
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = x\n"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("GOOGLE_BASE_URL", server.url)
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    paths = [f"{scheme}://bucket/data/train-1.arrow" for scheme in ("s3", "gs")]
    given = {"allow_http": True}
    assert len(list(gm.ArrowIterDataset(paths, audio=None, storage_options=given))) == 6
    sent = ["AKDEFAULT" in str(headers) for headers in server.headers]
    assert any(sent), "S3 gets them"
    assert not all(sent), "Google does not"


def test_the_hubs_token_is_found_and_goes_to_the_hub_alone(
    server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    server.token = "hf_abc"
    path = "hf://datasets/owner/name/data/train-1.arrow"

    def read() -> int:
        return len(list(gm.ArrowIterDataset(path, audio=None, read=gm.ReadOptions(retries=0))))

    with pytest.raises(PermissionError, match="HF_TOKEN"):
        read()
    file = tmp_path / "home" / ".cache" / "huggingface" / "token"
    file.parent.mkdir(parents=True)
    file.write_text("hf_abc\n")
    assert read() == 3
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(PermissionError, match="HF_TOKEN"):
        read()
    monkeypatch.setenv("HF_TOKEN", "hf_abc")
    with storing(server.folder) as storage:
        server.hub_redirects_to = storage.url
        assert read() == 3
        assert storage.n
        for headers in storage.headers:
            assert "hf_abc" not in str(headers)


def test_tokens_and_time_outs_of_servers(server: StoreServer) -> None:
    url = f"{server.url}/b/data/train-1.arrow"
    read = gm.ReadOptions(retries=0, index_dir=None)
    given: dict[str, Any] = {"token": "abc", "timeout": "300ms"}
    ds = gm.ArrowIterDataset(url, audio=None, read=read, storage_options=given)
    assert len(list(ds)) == 3
    sent = {name.lower(): value for name, value in server.headers[-1].items()}
    assert sent["authorization"] == "Bearer abc"
    server.always = lambda path: Fault(delay=5)
    with pytest.raises(TimeoutError, match="took too long"):
        list(ds)


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("s3://b/x.arrow", {"aws_regoin": "x"}, "no option of s3://: these are aws_access_key_id"),
        ("s3://b/x.arrow", {"aws_endpoint_url": "127.0.0.1:9000"}, "write it as https://"),
        ("s3://b/x.arrow", {"aws_endpoint_url_s3": "minio"}, "write it as https://"),
        ("gs://b/x.arrow", {"google_base_url": "127.0.0.1"}, "write it as https://"),
        ("az://c/x.arrow", {"endpoint": "x:1", "account_name": "a"}, "write it as https://"),
        ("az://c/x.arrow", {"skip_signature": "true"}, "options are account_name"),
        ("https://h/x.arrow", {"aws_region": "x"}, "does not apply to https"),
        ("hf://datasets/a/b/x.arrow", {"tokn": "x"}, "does not apply to hf"),
        ("s3://b/x.arrow", {"timeout": "soon"}, "a time such as"),
        ("s3://b/x.arrow", {"timeout": 0}, "a time such as"),
        ("s3://b/x.arrow", {"allow_http": "maybe"}, "true or false"),
        ("s3://b/x.arrow", {"aws_region": None}, "is text, a number or a bool"),
        ("s3://b/x.arrow", ["aws_region"], "is a mapping"),
        ("s3://", None, "write s3://bucket/path"),
        ("s3://b*/x.arrow", None, "a pattern cannot stand for the bucket"),
        ("az://*/x.arrow", None, "a pattern cannot stand for the bucket or container"),
        ("hf://datasets/o/n*/x.arrow", None, "a pattern cannot stand for the data set"),
        ("s3://b//x.arrow", None, "keys with // cannot be read: write s3://bucket/path, or copy"),
        ("gs://b/a//b/x.arrow", None, "keys with // cannot be read"),
        ("az:///x", None, "write az://container/path"),
        ("hf://owner/name/x.arrow", None, "write hf://datasets/owner/name"),
        ("hf://datasets/owner", None, "write hf://datasets/owner/name"),
        ("hf://datasets/o/n/a/../x.arrow", None, "no folders . and .."),
        ("hf://datasets/o/n/./x.arrow", None, "no folders . and .."),
        ("hf://datasets/o/n@../x.arrow", None, "no folders . and .."),
        ("hf://datasets/o/../x.arrow", None, "no folders . and .."),
        ("hf://datasets/o/n/x.ar\trow", None, "control character"),
        ("s3://b/../x.arrow", None, "no folders . and .."),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(path: str, given: Any, said: str) -> None:
    with pytest.raises((ValueError, OSError)) as error:
        next(iter(gm.ArrowIterDataset(path, audio=None, storage_options=given)))
    assert said in str(error.value)


def test_credentials_that_the_environment_has_now_are_used(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    for key in ("AKIAOLD", "AKIANEW", "AKIAOLD"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"secret of {key}")
        monkeypatch.setenv("AWS_SESSION_TOKEN", f"token-of-{key}")
        read = gm.ReadOptions(index_dir=None, retries=0)
        for path in ("s3://bucket/data/train-1.arrow", "s3://bucket/data"):
            n = server.n
            next(iter(gm.ArrowIterDataset(path, audio=None, read=read)))
            tokens = {headers["x-amz-security-token"] for headers in server.headers[n:]}
            assert tokens == {f"token-of-{key}"}


def test_a_proxy_that_the_environment_has_now_is_used(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(url: str) -> None:
        options = gm.ReadOptions(index_dir=None, retries=0)
        next(iter(gm.ArrowIterDataset(url, audio=None, read=options)))

    with serving(server.folder) as origin, serving(server.folder) as proxy:
        url = f"{origin.url}/data/train-1.arrow"
        read(url)
        assert (origin.n > 0, proxy.n) == (True, 0)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        read(url)
        assert proxy.n > 0


def test_http_to_an_object_store_has_to_be_allowed(server: StoreServer) -> None:
    given = {**options(server, "s3"), "allow_http": False}
    ds = gm.ArrowIterDataset("s3://b/data/train-1.arrow", audio=None, storage_options=given)
    with pytest.raises(OSError, match="allow_http"):
        next(iter(ds))
    assert server.n == 0


def test_a_bucket_elsewhere_says_where(server: StoreServer) -> None:
    server.always = lambda path: Fault(status=301, headers={"x-amz-bucket-region": "eu-west-3"})
    with pytest.raises(OSError, match='"aws_region": "eu-west-3"'):
        counts("s3://bucket/data/train-1.arrow", server, "s3")


def test_a_listing_that_leads_elsewhere_is_not_followed(server: StoreServer) -> None:
    with serving(server.folder) as other:
        server._list_hub = lambda to, path, query: server.send(  # type: ignore[method-assign]
            to, b"[]", headers={"Link": f'<{other.url}/x>; rel="next"'}
        )
        with pytest.raises(OSError, match="no list of files"):
            counts("hf://datasets/owner/name/data/", server, "hf")
        assert other.n == 0
