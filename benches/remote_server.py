"""A server of ranges with latency and a cap on what it sends, in a process of its own.

It shows the files of one folder at `/bucket/key`, whatever the bucket is called, and so speaks
enough of S3 for programs that only fetch objects. Each request is answered after `latency`
seconds; all answers together leave at `bandwidth` bytes a second, in the order in which they came.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import re
import subprocess
import sys
import time
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import unquote, urlsplit

PIECE = 128 << 10
"""Bytes that are sent at a time: answers share the bandwidth as packets would."""
RANGE = re.compile(r"\r\nrange: *bytes=(\d+)-(\d*)", re.IGNORECASE)


class RemoteServer:
    """Serves a folder at `url` while the context lasts."""

    def __init__(self, folder: Path, *, latency: float, bandwidth: float) -> None:
        self._command = [
            sys.executable, __file__, str(folder),
            "--latency", str(latency), "--bandwidth", str(bandwidth),
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(self._command, text=True, **pipes)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.communicate()

    def urls(self, paths: list[Path]) -> list[str]:
        """Where files of the folder are."""
        return [f"{self.url}/data/{path.name}" for path in paths]

    def sent(self) -> tuple[int, int]:
        """Requests so far, and bytes of files that were sent."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        n_requests, n_bytes = process.stdout.readline().split()
        return int(n_requests), int(n_bytes)


class Serving:
    """The server's side."""

    def __init__(self, folder: Path, latency: float, bandwidth: float) -> None:
        self.folder, self.latency, self.bandwidth = folder, latency, bandwidth
        self.n_requests = self.n_bytes = 0
        self.free_at = 0.0
        self._files: dict[str, tuple[memoryview, str]] = {}

    def file(self, target: str) -> tuple[memoryview, str] | None:
        """The bytes at `/bucket/key`, and what headers say of all its ranges."""
        if target not in self._files:
            path = self.folder.joinpath(*unquote(urlsplit(target).path).split("/")[2:])
            if not path.is_file():
                return None
            with path.open("rb") as f:
                mapped = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
            written = path.stat().st_mtime
            modified = f'ETag: "{written}"\r\nLast-Modified: {formatdate(written, usegmt=True)}'
            headers = f"Accept-Ranges: bytes\r\n{modified}\r\n\r\n"
            self._files[target] = memoryview(mapped), headers
        return self._files[target]


class Connection(asyncio.Protocol):
    """One connection.

    Its callbacks take less of the cores than coroutines would: where the cores are the limit, the
    client gets what the server leaves.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving, self._loop = serving, asyncio.get_running_loop()
        self._asked = self._head = b""
        self._left = memoryview(b"")
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._asked += data
        head, end, rest = self._asked.partition(b"\r\n\r\n")
        if end:  # the next request comes when this one is answered
            self._asked = rest
            self._serving.n_requests += 1
            self._loop.call_later(self._serving.latency, self._answer, head.decode("latin-1"))

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._left:
            self._reserve()

    def _answer(self, asked: str) -> None:
        method, target, _ = asked.split(" ", 2)
        found = self._serving.file(target)
        if found is None:
            self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        data, of_all = found
        first, end, status = 0, len(data), 200
        if part := RANGE.search(asked):
            first, status = int(part[1]), 206
            end = min(int(part[2]) + 1, end) if part[2] else end
        self._head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"Content-Length: {end - first}\r\n"
            f"Content-Range: bytes {first}-{end - 1}/{len(data)}\r\n{of_all}"
        ).encode()
        self._left = data[first : first if method == "HEAD" else end]
        self._reserve()

    def _reserve(self) -> None:
        """Waits for the next piece's share of the bandwidth, and sends it."""
        now, serving = time.perf_counter(), self._serving
        n = min(len(self._left), PIECE)
        serving.free_at = max(now, serving.free_at) + n / serving.bandwidth
        wait = serving.free_at - now
        if wait > 0.002:  # a shorter sleep takes longer than it says
            self._loop.call_later(wait, self._send)
        else:
            self._send()

    def _send(self) -> None:
        if self._transport.is_closing():
            return
        piece, self._left = self._left[:PIECE], self._left[PIECE:]
        # Headers go with the first bytes, as servers send them.
        self._transport.writelines([self._head, piece])
        self._head = b""
        self._serving.n_bytes += len(piece)
        if self._left and not self._is_full:
            self._reserve()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--latency", type=float)
    parser.add_argument("--bandwidth", type=float)
    options = parser.parse_args()
    serving = Serving(options.folder, options.latency, options.bandwidth)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(serving), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(serving.n_requests, serving.n_bytes, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
