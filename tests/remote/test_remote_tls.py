"""Servers over TLS whose certificate nobody has signed."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gristmill as gm
import shards
from range_server import Fault, RangeServer, serving

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One of `localhost`, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    names += " -addext basicConstraints=critical,CA:FALSE"
    run = [*command.split(), *names.split(), "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run(run, check=True, capture_output=True, timeout=60)
    return paths


@pytest.fixture
def server(certificate: tuple[Path, Path], tmp_path: Path) -> Iterator[RangeServer]:
    shards.write(tmp_path / "x.arrow", [shards.row(i, bytes(9000)) for i in range(5)])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with serving(tmp_path, context) as server:
        yield server


def n_rows(url: str, **given: Any) -> int:
    read = gm.ReadOptions(index_dir=None, retries=0)
    return len(list(gm.ArrowIterDataset(url, audio=None, read=read, storage_options=given)))


def test_any_certificate_is_taken_where_that_is_said(server: RangeServer) -> None:
    url = f"{server.url}/x.arrow"
    with pytest.raises(OSError, match=r"no secure connection.*\$SSL_CERT_FILE"):
        n_rows(url)
    assert n_rows(url, allow_invalid_certificates=True) == 5


def test_a_certificate_that_the_environment_names(
    server: RangeServer, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    # Certificates are read once a process.
    code = (
        "import sys, gristmill as gm; "
        "print(len(list(gm.ArrowIterDataset(sys.argv[1], audio=None))))"
    )
    run = [sys.executable, "-c", code, f"{server.url}/x.arrow"]
    assert subprocess.run(run, check=True, capture_output=True, timeout=100).stdout == b"5\n"


def test_no_redirect_leads_from_tls_to_none(server: RangeServer) -> None:
    given = {"allow_invalid_certificates": True, "token": "t0ken"}
    with serving(server.folder) as other:
        server.always = lambda path: Fault(status=302, headers={"Location": f"{other.url}/x.arrow"})
        with pytest.raises(OSError, match="from https:// to http://") as error:
            n_rows(f"{server.url}/x.arrow", **given)
        assert "t0ken" not in str(error.value)
        assert other.n == 0
        # The other way round it may.
        other.always = lambda path: Fault(status=302, headers={"Location": f"{server.url}/x.arrow"})
        server.always = lambda path: None
        assert n_rows(f"{other.url}/x.arrow", **given) == 5
        assert "t0ken" not in str(server.headers[-1])
