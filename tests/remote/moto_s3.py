"""moto's S3 server as a process of its own: `python tests/remote/moto_s3.py` prints its port.

It ends with its standard input. With `--many N` there is a bucket `many` with as many small
objects, which by requests would take a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ADMIN = ("AKIAADMIN", "moto takes any secret until it is told to check")
"""A user and password."""


@dataclass(frozen=True)
class MotoServer:
    """A server at `url`, which asks nobody for credentials until it is told to."""

    url: str

    def client(self, service: str) -> Any:
        """Another client than ours, for what tests prepare."""
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=ADMIN[0],
            aws_secret_access_key=ADMIN[1],
        )

    @contextlib.contextmanager
    def checking(self) -> Iterator[None]:
        """Checks signatures and permissions meanwhile."""
        self._check_from("0")
        try:
            yield
        finally:
            self._check_from("inf")

    def _check_from(self, n_requests: str) -> None:
        url, headers = f"{self.url}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        request = urllib.request.Request(url, n_requests.encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200


@contextlib.contextmanager
def moto_server(*options: str) -> Iterator[MotoServer]:
    """A server, for as long as this lasts."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MOTO_"))}
    with subprocess.Popen(
        [sys.executable, __file__, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            assert port, "moto has not started"
            yield MotoServer(f"http://127.0.0.1:{port}")
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--many", type=int, default=0, help="objects of the bucket `many`")
    n_many = parser.parse_args().many

    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import s3_backends
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, *args: Any, **kwargs: Any) -> None:
            pass

    if n_many:
        backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        backend.create_bucket("many", "us-east-1")
        for k in range(n_many):
            backend.put_object("many", f"shards/{k:05}.bin", b"x")
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main()
