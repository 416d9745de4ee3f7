"""S3 as moto serves it: objects that another client has written, by a server that is not ours."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cached
import gristmill as gm
import parquet_files
import shards
from gristmill.paths import resolve
from gristmill.storage import checked_storage_options
from moto_s3 import ADMIN, MotoServer, moto_server
from rounds import rounds
from signals import encode, synthetic
from test_remote import assert_equal

N_MANY = rounds(10_000, 2_500)
REGION = "us-east-1"
POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}

pytestmark = pytest.mark.usefixtures("no_credentials")


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_server("--many", str(N_MANY)) as server:
        yield server


@pytest.fixture(scope="module")
def users(moto: MotoServer) -> dict[str, tuple[str, str]]:
    """The keys and secrets of a reader, and of one who may do nothing."""
    iam = moto.client("iam")
    made: dict[str, tuple[str, str]] = {}
    for name in ("reader", "stranger"):
        iam.create_user(UserName=name)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        made[name] = (key["AccessKeyId"], key["SecretAccessKey"])
    iam.put_user_policy(UserName="reader", PolicyName="p", PolicyDocument=json.dumps(POLICY))
    return made


@pytest.fixture
def bucket(moto: MotoServer, request: pytest.FixtureRequest) -> str:
    """An empty bucket of this test."""
    name = f"b{zlib.crc32(request.node.nodeid.encode())}"
    moto.client("s3").create_bucket(Bucket=name, ACL="public-read")
    return name


def options(moto: MotoServer, key: str = ADMIN[0], secret: str = ADMIN[1]) -> dict[str, Any]:
    return {
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
        "aws_endpoint_url": moto.url,
        "aws_region": REGION,
        "allow_http": True,
    }


def put(moto: MotoServer, bucket: str, key: str, body: bytes) -> None:
    moto.client("s3").put_object(Bucket=bucket, Key=key, Body=body, ACL="public-read")


def shard(folder: Path, *counts: int) -> bytes:
    """A shard with these counts, by which its rows are told."""
    rows = [shards.row(count + 3, bytes([count % 256]) * 9000) for count in counts]
    return shards.write(folder / "shard", rows).read_bytes()


def counts(paths: Any, given: dict[str, Any], **options: Any) -> list[int]:
    read = gm.ReadOptions(index_dir=None, retries=0, num_threads=2)
    options = {"audio": None, "read": read, "storage_options": given, **options}
    return [int(row["count"]) for row in gm.ArrowIterDataset(paths, **options)]


@pytest.mark.parametrize("form", ["stream", "file", "datasets-4.6", "small-pages-index"])
def test_rows_and_crops_are_those_of_local_files(
    moto: MotoServer, bucket: str, tmp_path: Path, form: str
) -> None:
    paths: list[Path] = []
    for k in range(3):
        made = [encode(synthetic(0.5, 16_000, 1, 9 * k + i), 16_000, "flac16") for i in range(6)]
        path = tmp_path / f"s-{k}.arrow"
        if form in ("stream", "file"):
            shards.write_audio(path, made, form=form)
        else:
            table = pa.ipc.open_stream(shards.write_audio(path, made)).read_all()
            path = parquet_files.write(
                path.with_suffix(".parquet"), table, **parquet_files.OPTIONS[form]
            )
        os.utime(path, (path.stat().st_mtime - 60,) * 2)
        put(moto, bucket, f"train/{path.name}", path.read_bytes())
        paths.append(path)

    def read(source: Any, **given: Any) -> list[Any]:
        ds = gm.ArrowIterDataset(
            source,
            audio=gm.Audio("audio", sample_rate=8_000, crop=gm.RandomCrop(seconds=0.2)),
            shuffle=gm.Shuffle(3),
            epochs=2,
            batch_size=4,
            with_row_id=True,
            read=gm.ReadOptions(index_dir=tmp_path / "index", num_threads=2, **given),
            storage_options=options(moto),
        )
        return list(ds)

    expected = read(paths)
    # The second time with sidecars, then into a cache, then from there.
    near = {"cache_dir": tmp_path / "near"}
    for given in ({}, {}, near, near):
        for a, b in zip(read(f"s3://{bucket}/train", **given), expected, strict=True):
            assert_equal(a, b)


def test_files_folders_and_patterns(moto: MotoServer, bucket: str, tmp_path: Path) -> None:
    for k in range(3):
        put(moto, bucket, f"data/train-{k}.arrow", shard(tmp_path, k))
    put(moto, bucket, "data/more/valid.arrow", shard(tmp_path, 9))
    # As consoles make folders: objects of their own.
    for key in ("data/", "data/more/", "empty/", "other/", "other/v1.0/", "other/v1.0/new/"):
        put(moto, bucket, key, b"")
    put(moto, bucket, "data/readme.md", b"")
    put(moto, bucket, "other/v1.0/x", shard(tmp_path, 8))
    # Google Cloud Storage is asked by the XML interface of S3, which this server has.
    of_google = {
        "google_base_url": moto.url,
        "google_skip_signature": "true",
        "allow_http": True,
    }
    for root, given in ((f"s3://{bucket}", options(moto)), (f"gs://{bucket}", of_google)):
        assert counts(f"{root}/data/train-1.arrow", given) == [1]
        assert counts(f"{root}/data", given) == counts(f"{root}/data/", given) == [0, 1, 2]
        assert counts(f"{root}/data/train-[02].arrow", given) == [0, 2]
        assert counts(f"{root}/*/*/*.arrow", given) == [9]
        assert counts(f"{root}/other/*/*", given) == [8]
        assert counts(f"{root}/other/v1.0/*", given) == [8]
        assert counts([f"{root}/data/more", f"{root}/data/train-0.arrow"], given) == [9, 0]
        for folder in ("empty", "empty/", "other", "other/v1.0"):
            with pytest.raises(FileNotFoundError, match=r"No \.arrow or \.parquet shards"):
                counts(f"{root}/{folder}", given)
        with pytest.raises(FileNotFoundError, match="No shards match this pattern"):
            counts(f"{root}/other/*", given)


def test_keys_that_are_no_paths(moto: MotoServer, bucket: str, tmp_path: Path) -> None:
    for key in ("a/x.arrow", "a//y.arrow", "b/x.arrow", "c/../x.arrow"):
        put(moto, bucket, key, shard(tmp_path, 1))
    assert counts(f"s3://{bucket}/a/x.arrow", options(moto)) == [1]
    assert counts(f"s3://{bucket}/b", options(moto)) == [1]
    for path in ("a", "a/*", "*/*", "c"):
        with pytest.raises(OSError, match="name the shards, or a folder without"):
            counts(f"s3://{bucket}/{path}", options(moto))


def test_listings_of_many_pages(moto: MotoServer, tmp_path: Path) -> None:
    # Of the first page, of the sixth and of the last.
    for k, name in enumerate(("00000a", f"{N_MANY // 2:05}a", f"{N_MANY - 1:05}a")):
        put(moto, "many", f"shards/{name}.arrow", shard(tmp_path, k))
    # Of a folder, and of all that is below one.
    given = options(moto)
    assert counts("s3://many/*/*a.arrow", given) == [0, 1, 2]
    found = resolve(["s3://many/shards/*"], checked_storage_options(given))
    assert len(found) == N_MANY + 3
    assert found == sorted(found)
    assert found[0] == "s3://many/shards/00000.bin"


ODD_KEYS = [
    " a b~/c  d.arrow",
    "100%/50%25 x.arrow",
    "a+b/c+d.arrow",
    "#1/x#y.arrow",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}/\N{BIRD} \u0416.arrow",
    "a&b=c/d;e,f.arrow",
    "a:b@c/$(d)!'~.arrow",
    'quo"te/back\\slash^`{x}|<y>.arrow',
]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_of_any_letters(
    moto: MotoServer, bucket: str, users: dict[str, tuple[str, str]], tmp_path: Path, key: str
) -> None:
    put(moto, bucket, key, shard(tmp_path, 5))
    folder = key.split("/", maxsplit=1)[0]
    given = options(moto, *users["reader"])
    with moto.checking():  # that the signature is of the same key as the server sees
        for path in (key, folder, f"{folder}/*.arrow", "*/*.arrow"):
            assert counts(f"s3://{bucket}/{path}", given) == [5], path


def test_credentials_are_checked_and_not_shown(
    moto: MotoServer, bucket: str, users: dict[str, tuple[str, str]], tmp_path: Path
) -> None:
    put(moto, bucket, "d/x.arrow", shard(tmp_path, 1))
    key, secret = users["reader"]
    with moto.checking():
        for path in ("d/x.arrow", "d", "d/*"):
            assert counts(f"s3://{bucket}/{path}", options(moto, key, secret)) == [1]
            for wrong, code in (
                ((key, "x" * 40), "SignatureDoesNotMatch"),
                (("AKIANOBODY", secret), "InvalidAccessKeyId"),
                (users["stranger"], "AccessDenied"),
            ):
                with pytest.raises(PermissionError, match="give credentials") as error:
                    counts(f"s3://{bucket}/{path}", options(moto, *wrong))
                assert code in str(error.value)
                assert wrong[1] not in str(error.value)


def test_session_tokens(moto: MotoServer, bucket: str, tmp_path: Path) -> None:
    put(moto, bucket, "d/x.arrow", shard(tmp_path, 1))
    iam = moto.client("iam")
    role = iam.create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(POLICY))["Role"]
    iam.put_role_policy(RoleName="r", PolicyName="p", PolicyDocument=json.dumps(POLICY))
    sts = moto.client("sts")
    first, other = (
        sts.assume_role(RoleArn=role["Arn"], RoleSessionName=f"s{k}")["Credentials"]
        for k in range(2)
    )
    given = options(moto, first["AccessKeyId"], first["SecretAccessKey"])
    with moto.checking():
        for path in ("d/x.arrow", "d"):
            url = f"s3://{bucket}/{path}"
            assert counts(url, {**given, "aws_session_token": first["SessionToken"]}) == [1]
            with pytest.raises(PermissionError, match="session token") as error:
                counts(url, {**given, "aws_session_token": other["SessionToken"]})
            assert "InvalidToken" in str(error.value)
            assert other["SessionToken"] not in str(error.value)
            with pytest.raises(PermissionError, match="InvalidAccessKeyId"):
                counts(url, given)


@pytest.mark.parametrize("is_versioned", [False, True])
def test_an_object_that_is_overwritten_is_refused(
    moto: MotoServer, bucket: str, tmp_path: Path, is_versioned: bool
) -> None:
    if is_versioned:
        moto.client("s3").put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
        )
    put(moto, bucket, "x.arrow", shard(tmp_path, *range(30)))
    read = gm.ReadOptions(
        index_dir=None, retries=0, num_threads=1, num_requests=1, cache_dir=tmp_path / "near"
    )
    ds = gm.ArrowIterDataset(
        f"s3://{bucket}/x.arrow", audio=None, read=read, storage_options=options(moto)
    )
    source = gm.ArrowDataSource(
        f"s3://{bucket}/x.arrow",
        audio=None,
        read=gm.ReadOptions(index_dir=None, retries=0),
        storage_options=options(moto),
    )
    assert int(source[0]["count"]) == 0
    # As long as it was, in the same second.
    put(moto, bucket, "x.arrow", shard(tmp_path, *range(100, 130)))
    with pytest.raises(gm.CorruptShardError, match="replaced or changed"):
        source[20]
    assert [int(row["count"]) for row in ds] == [*range(100, 130)]
    # Of the old one nothing is taken from the cache.
    put(moto, bucket, "x.arrow", shard(tmp_path, *range(200, 230)))
    assert [int(row["count"]) for row in ds] == [*range(200, 230)]
    if is_versioned:
        # Behind a mark that it is deleted.
        moto.client("s3").delete_object(Bucket=bucket, Key="x.arrow")
        with pytest.raises(FileNotFoundError):
            list(ds)


def test_objects_of_several_parts(moto: MotoServer, bucket: str, tmp_path: Path) -> None:
    path = cached.write_shard(tmp_path / "large.arrow", 1, n_rows=180)
    data, client = path.read_bytes(), moto.client("s3")
    name: dict[str, Any] = {"Bucket": bucket, "Key": "large.arrow"}
    upload = client.create_multipart_upload(**name)["UploadId"]
    parts = [
        {
            "PartNumber": k + 1,
            "ETag": client.upload_part(
                **name, UploadId=upload, PartNumber=k + 1, Body=data[k * 5_500_000 :][:5_500_000]
            )["ETag"],
        }
        for k in range(-(-len(data) // 5_500_000))
    ]
    assert len(parts) > 1
    client.complete_multipart_upload(**name, UploadId=upload, MultipartUpload={"Parts": parts})
    ds = gm.ArrowIterDataset(
        f"s3://{bucket}/large.arrow", audio=None, storage_options=options(moto)
    )
    n_rows = 0
    for row in ds:
        cached.check(row)
        n_rows += 1
    assert n_rows == 180


def test_what_is_not_there(moto: MotoServer, bucket: str) -> None:
    for root in (f"s3://{bucket}", "s3://no-such-bucket"):
        for path in ("x.arrow", "none/*.arrow", "none/", "none"):
            with pytest.raises(FileNotFoundError) as error:
                counts(f"{root}/{path}", options(moto))
            assert str(error.value.filename).startswith(root)
            if root.endswith("such-bucket"):
                assert "NoSuchBucket" in str(error.value)
