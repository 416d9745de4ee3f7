"""A server of ranges on loopback that counts its requests, and fails as it is told to.

It has the files of one folder. What goes wrong is a list of faults, each for one request, in their
order; a request for which there is none is answered as it should be.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class Fault:
    """What is done to one answer.

    Attributes:
        status: It is this one, without a body.
        headers: They take the place of those that there would be; `None` leaves one out.
        keep: Bytes of the body that are sent before the connection is closed.
        ranges: Whether the range is heeded.
        delay: Seconds before the answer.
        pace: Seconds between two bytes of the body.
        body: Sent in place of the range.
        is_reset: Whether the connection is reset at the end, rather than closed.
    """

    status: int | None = None
    headers: dict[str, str | None] = field(default_factory=dict)
    keep: int | None = None
    ranges: bool = True
    delay: float = 0.0
    pace: float = 0.0
    body: bytes | None = None
    is_reset: bool = False


class RangeServer:
    """Serves `folder` at `url` until it is closed; with a certificate, over TLS."""

    def __init__(self, folder: Path, tls: ssl.SSLContext | None = None) -> None:
        self.folder = folder
        self.faults: list[Fault] = []
        """Of the next requests."""
        self.always: Callable[[str], Fault | None] = lambda path: None
        """The fault of a path for which no other is left."""
        self.requests: list[tuple[str, str, str | None]] = []
        """Those so far: method, path with its query, and the header `Range`."""
        self.headers: list[dict[str, str]] = []
        """Theirs."""
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                with contextlib.suppress(ConnectionError):
                    server.answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
            self.url = f"https://localhost:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def n(self) -> int:
        """Requests so far."""
        return len(self.requests)

    def file(self, path: str) -> Path | None:
        """The file at a path."""
        file = self.folder / unquote(urlsplit(path).path).lstrip("/")
        return file if file.is_file() else None

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        asked = to.headers.get("Range")
        with self.lock:
            self.requests.append((to.command, to.path, asked))
            self.headers.append(dict(to.headers))
            fault = self.faults.pop(0) if self.faults else self.always(to.path)
        fault = fault or Fault()
        time.sleep(fault.delay)
        file = self.file(to.path)
        status = fault.status or (404 if file is None else 206 if asked and fault.ranges else 200)
        data = b"" if file is None or status >= 300 else file.read_bytes()
        headers: dict[str, str | None] = {}
        if file is not None:
            headers["ETag"] = f'"{hashlib.sha1(file.read_bytes()).hexdigest()}"'
            headers["Last-Modified"] = formatdate(file.stat().st_mtime, usegmt=True)
        if status == 206:
            assert asked is not None
            match = re.fullmatch(r"bytes=(\d+)-(\d+)", asked)
            assert match is not None
            first, last = int(match[1]), min(int(match[2]), len(data) - 1)
            if first >= len(data):
                status, headers["Content-Range"] = 416, f"bytes */{len(data)}"
                data = b""
            else:
                headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
                data = data[first : last + 1]
        if fault.body is not None:
            data = fault.body
        headers["Content-Length"] = str(len(data))
        if fault.keep is not None:
            headers["Connection"] = "close"
        headers |= fault.headers
        to.send_response(status)
        for name, value in headers.items():
            if value is not None:
                to.send_header(name, value)
        to.end_headers()
        sent = data if fault.keep is None else data[: fault.keep]
        if fault.pace:
            for k in range(len(sent)):
                to.wfile.write(sent[k : k + 1])
                time.sleep(fault.pace)
        else:
            to.wfile.write(sent)
        to.close_connection = fault.keep is not None
        if fault.is_reset:
            linger = struct.pack("ii", 1, 0)  # what is not sent yet is dropped
            to.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            os.close(to.connection.detach())


@contextlib.contextmanager
def serving(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[RangeServer]:
    """A server of this folder."""
    server = RangeServer(folder, tls)
    try:
        yield server
    finally:
        server.close()
