"""A server of ranges with latency and a cap on what it sends, in a process of its own.

It shows the files of one folder at `/bucket/key`, whatever the bucket is called, and so speaks
enough of S3 for programs that only fetch objects. Each request is answered after `latency`
seconds; all answers together leave at `bandwidth` bytes a second, in the order in which they came.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import mmap
import re
import subprocess
import sys
import time
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
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
        self._free_at = 0.0
        self._files: dict[str, tuple[mmap.mmap, str]] = {}

    def file(self, target: str) -> tuple[mmap.mmap, str] | None:
        """The bytes at `/bucket/key`, and what headers say of all its ranges."""
        if target not in self._files:
            path = self.folder.joinpath(*unquote(urlsplit(target).path).split("/")[2:])
            if not path.is_file():
                return None
            with path.open("rb") as f:
                mapped = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
            written = path.stat().st_mtime
            modified = f'ETag: "{written}"\r\nLast-Modified: {formatdate(written, usegmt=True)}'
            self._files[target] = mapped, f"Accept-Ranges: bytes\r\n{modified}\r\n\r\n"
        return self._files[target]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        # It is cancelled at the end: Python 3.11 would print that for each connection.
        ends = ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
        with contextlib.suppress(*ends):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.n_requests += 1
                await asyncio.sleep(self.latency)
                await self.answer(head, writer)
        writer.close()

    async def answer(self, asked: str, writer: asyncio.StreamWriter) -> None:
        method, target, _ = asked.split(" ", 2)
        found = self.file(target)
        if found is None:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        data, of_all = found
        first, end, status = 0, len(data), 200
        if part := RANGE.search(asked):
            first, status = int(part[1]), 206
            end = min(int(part[2]) + 1, end) if part[2] else end
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"Content-Length: {end - first}\r\n"
            f"Content-Range: bytes {first}-{end - 1}/{len(data)}\r\n{of_all}"
        ).encode()
        if method == "HEAD":
            writer.write(head)
            return
        for start in range(first, end, PIECE):
            piece = data[start : min(start + PIECE, end)]
            now = time.perf_counter()
            self._free_at = max(now, self._free_at) + len(piece) / self.bandwidth
            if self._free_at > now + 0.002:  # a shorter sleep takes longer than it says
                await asyncio.sleep(self._free_at - now)
            # Headers go with the first bytes, as servers send them.
            writer.write(head + piece if start == first else piece)
            await writer.drain()
            self.n_bytes += len(piece)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--latency", type=float)
    parser.add_argument("--bandwidth", type=float)
    options = parser.parse_args()
    serving = Serving(options.folder, options.latency, options.bandwidth)
    server = await asyncio.start_server(serving.serve, "127.0.0.1", 0, limit=1 << 16)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(serving.n_requests, serving.n_bytes, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
