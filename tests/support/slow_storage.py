"""A read-only FUSE file system with latency, bandwidth caps and faults on request.

It shows one folder as remote storage would: every request takes `latency` seconds; what it reads
is sent at `bandwidth` bytes a second, shared by all requests in the order in which they came, and
at no more than `stream_bandwidth` for each open file. Nothing is kept by the kernel between mounts,
and with `direct` nothing in between.

As a program it serves until its standard input ends, and takes commands from there, one JSON object
a line: `{"fail": 5, "times": 3}` answers the next three reads with errno 5, `{"short": 3}` returns
one byte less than asked for, three times, `{"hold": true}` answers no read until `{"hold": false}`,
`{"trace": true}` prints the last requests, each as `[asked, answered, what, path, offset, bytes]`
by the monotonic clock, and any other `[reads, bytes]`. `SlowStorage` starts it and sends them.

The protocol is that of Linux's `include/uapi/linux/fuse.h`, version 7.31.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import errno
import heapq
import itertools
import json
import os
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

FORGET, READ, RELEASE, FLUSH, INIT = 2, 15, 18, 25, 26
RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 29, 36, 38, 42
ROOT = 1
HEADER = struct.Struct("<IIQQIIIHH")
REPLY = struct.Struct("<IiQ")
ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
ASYNC_READ, PARALLEL_LOOKUPS, MAX_PAGES = 1 << 0, 1 << 18, 1 << 22
FOPEN_DIRECT_IO = 1 << 0
LONGEST_REQUEST = 1 << 20  # as an NFS rsize
NAMES = {1: "lookup", 3: "getattr", 14: "open", READ: "read", 27: "opendir", 28: "readdir"}
TRACED = 100_000
DETACH = 2


def why_not() -> str | None:
    """Why no such file system can be mounted here; `None` where one can."""
    if not Path("/dev/fuse").exists():
        return "there is no /dev/fuse"
    if os.geteuid() != 0:
        return "mounting takes root"
    return None


class SlowStorage:
    """A folder behind a mount with latency and caps; a context manager that gives the mount's path.

    Args:
        folder: What is shown.
        latency: Seconds that each request takes.
        bandwidth: Bytes a second in total; 0 for no cap.
        stream_bandwidth: Bytes a second for each open file; 0 for no cap.
        only: Files without this in their path are answered at once.
        direct: Whether the kernel keeps nothing that was read. Such files cannot be mapped.
        at: Where it is mounted: a path that does not exist yet. `None` takes a temporary one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        latency: float = 0.0,
        bandwidth: float = 0.0,
        stream_bandwidth: float = 0.0,
        only: str = "",
        direct: bool = False,
        at: Path | None = None,
    ) -> None:
        self._at = at
        self._options = (latency, bandwidth, stream_bandwidth, int(direct), only)
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Path:
        if self._at is None:
            self._mount = tempfile.mkdtemp(prefix="slow-storage-")
        else:
            self._at.mkdir()
            self._mount = str(self._at)
        arguments = [self._folder, self._mount, *self._options]
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._ask() != "mounted":
            self.__exit__()
            raise OSError(f"{self._mount} could not be mounted")
        return Path(self._mount)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
            unmount(self._mount)  # of a server that was killed
            Path(self._mount).rmdir()

    def send(self, **command: Any) -> Any:
        """Sends a command and waits until it holds; its answer."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._ask()

    def kill(self) -> None:
        """Ends the server without unmounting: every request fails from now on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _ask(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None


class Server:
    """Answers the kernel's requests, each at its time."""

    def __init__(self, folder: str, options: argparse.Namespace) -> None:
        self._paths = {ROOT: folder}
        self._nodes = {folder: ROOT}
        self._files: dict[int, int] = {}
        self._handles = itertools.count(1)
        self._latency, self._bandwidth = options.latency, options.bandwidth
        self._per_stream = options.stream_bandwidth
        self._only, self._open_flags = options.only, FOPEN_DIRECT_IO * options.direct
        self._free = 0.0
        self._stream_free: dict[int, float] = {}
        self._due: list[tuple[float, int, int, bytes]] = []
        self._order = itertools.count()
        self._wake = threading.Condition()
        self.faults: list[int | None] = []  # an errno, or None for a short read, each for one read
        self.held = False
        self.reads = self.n_bytes = 0
        self.trace: collections.deque[list[Any]] = collections.deque(maxlen=TRACED)
        self._device = os.open("/dev/fuse", os.O_RDWR)

    def mount(self, point: str) -> None:
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        flags = 1 | 2 | 4  # read-only, no set-uid, no devices
        if libc.mount(b"slow", point.encode(), b"fuse.slow", flags, options.encode()) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def serve(self) -> None:
        threading.Thread(target=self._answer, daemon=True).start()
        buffer = bytearray(LONGEST_REQUEST + 4096)
        while True:
            try:
                n = os.readv(self._device, [buffer])
            except OSError as e:
                if e.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                return  # unmounted
            _, opcode, unique, node, *_ = HEADER.unpack_from(buffer)
            self._request(opcode, unique, node, bytes(buffer[HEADER.size : n]))

    def _request(self, opcode: int, unique: int, node: int, body: bytes) -> None:
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        if opcode == READ:
            self._read(unique, node, body)
            return
        path = self._paths.get(node, "") + (f"/{os.fsdecode(body[:-1])}" if opcode == 1 else "")
        is_slow = opcode not in (INIT, DESTROY, FLUSH, RELEASE, RELEASEDIR) and self._only in path
        delay = self._latency if is_slow else 0.0
        due = time.monotonic() + delay
        self.trace.append([due - delay, due, NAMES.get(opcode, f"{opcode}"), path, 0, 0])
        try:
            self._later(due, unique, 0, self._metadata(opcode, node, body))
        except OSError as e:
            self._later(due, unique, e.errno or errno.EIO, b"")

    def _read(self, unique: int, node: int, body: bytes) -> None:
        handle, offset, size = struct.unpack_from("<QQI", body)
        now = time.monotonic()
        self.reads += 1
        if self.faults:
            fault = self.faults.pop(0)
            if fault is not None:
                self._later(now + self._latency, unique, fault, b"")
                return
            size -= 1
        data = os.pread(self._files[handle], size, offset)
        self.n_bytes += len(data)
        if self._only not in self._paths.get(node, ""):
            self._later(now, unique, 0, data)
            return
        # A request waits for its turn on the wire, not for the latency of the one before.
        done = now
        if self._bandwidth:
            self._free = max(self._free, now) + len(data) / self._bandwidth
            done = self._free
        if self._per_stream:
            free = max(self._stream_free.get(handle, 0.0), now) + len(data) / self._per_stream
            self._stream_free[handle] = free
            done = max(done, free)
        done += self._latency
        self.trace.append([now, done, "read", self._paths.get(node, ""), offset, len(data)])
        self._later(done, unique, 0, data)

    def _metadata(self, opcode: int, node: int, body: bytes) -> bytes:
        path = self._paths.get(node, "")
        match opcode:
            case 26:  # INIT
                major, _, ahead = struct.unpack_from("<III", body)
                return struct.pack(
                    "<IIIIHHIIHHII24x",
                    major,
                    31,
                    ahead,
                    ASYNC_READ | PARALLEL_LOOKUPS | MAX_PAGES,
                    64,
                    48,
                    LONGEST_REQUEST,
                    1,
                    LONGEST_REQUEST // 4096,
                    0,
                    0,
                    0,
                )
            case 1:  # LOOKUP
                child = f"{path}/{os.fsdecode(body[:-1])}"
                attributes = self._attributes(child)
                entry = struct.pack("<QQQQII", self._node(child), 0, 60, 60, 0, 0)
                return entry + attributes
            case 3:  # GETATTR
                return struct.pack("<QII", 1, 0, 0) + self._attributes(path)
            case 14:  # OPEN
                handle = next(self._handles)
                self._files[handle] = os.open(path, os.O_RDONLY)
                return struct.pack("<QII", handle, self._open_flags, 0)
            case 27:  # OPENDIR
                return struct.pack("<QII", 0, 0, 0)
            case 28:  # READDIR
                return self._entries(path, *struct.unpack_from("<QQI", body)[1:])
            case 18:  # RELEASE
                os.close(self._files.pop(*struct.unpack_from("<Q", body)))
                return b""
            case 17:  # STATFS
                return struct.pack("<QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
            case 25 | 29 | 34 | 38:  # FLUSH, RELEASEDIR, ACCESS, DESTROY
                return b""
            case _:
                raise OSError(errno.ENOSYS, "not implemented")

    def _node(self, path: str) -> int:
        node = self._nodes.setdefault(path, len(self._nodes) + 1)
        self._paths[node] = path
        return node

    def _attributes(self, path: str) -> bytes:
        s = Path(path).stat()
        times = [s.st_atime_ns, s.st_mtime_ns, s.st_ctime_ns]
        return ATTR.pack(
            s.st_ino,
            s.st_size,
            s.st_blocks,
            *(t // 10**9 for t in times),
            *(t % 10**9 for t in times),
            s.st_mode,
            s.st_nlink,
            s.st_uid,
            s.st_gid,
            0,
            4096,
            0,
        )

    def _entries(self, path: str, start: int, size: int) -> bytes:
        out = b""
        for k, name in enumerate(sorted(p.name for p in Path(path).iterdir())[start:], start + 1):
            raw = os.fsencode(name)
            kind = stat.S_IFMT(Path(path, name).stat().st_mode) >> 12
            entry = struct.pack("<QQII", k, k, len(raw), kind) + raw
            entry += b"\0" * (-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out

    def _later(self, due: float, unique: int, code: int, data: bytes) -> None:
        reply = REPLY.pack(REPLY.size + len(data), -code, unique)
        with self._wake:
            heapq.heappush(self._due, (due, next(self._order), unique, reply + data))
            self._wake.notify()

    def _answer(self) -> None:
        while True:
            with self._wake:
                while self.held or not self._due or self._due[0][0] > time.monotonic():
                    left = self._due[0][0] - time.monotonic() if self._due else None
                    self._wake.wait(None if self.held else left)
                reply = heapq.heappop(self._due)[3]
            with contextlib.suppress(OSError):  # the request may have been given up
                os.write(self._device, reply)

    def command(self, command: dict[str, Any]) -> Any:
        """Does what one line of the standard input says."""
        with self._wake:
            self.faults += [command["fail"]] * command.get("times", 1) if "fail" in command else []
            self.faults += [None] * command.get("short", 0)
            self.held = command.get("hold", self.held)
            self._wake.notify()
        return list(self.trace) if command.get("trace") else [self.reads, self.n_bytes]


def serve(server: Server, point: str) -> None:
    """Serves; a fault of the server's own ends it, so that nobody waits for it."""
    try:
        server.serve()
    except BaseException:  # noqa: BLE001  # whatever it is, nobody is served any more
        traceback.print_exc()
        unmount(point)
        os._exit(1)


def unmount(point: str) -> None:
    """Takes the mount away, whoever uses it."""
    ctypes.CDLL(None).umount2(point.encode(), DETACH)


def tell(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("mount")
    for name in ("latency", "bandwidth", "stream_bandwidth"):
        parser.add_argument(name, type=float)
    parser.add_argument("direct", type=int)
    parser.add_argument("only")
    options = parser.parse_args()
    server = Server(options.folder, options)
    server.mount(options.mount)
    threading.Thread(target=serve, args=(server, options.mount), daemon=True).start()
    try:
        tell("mounted")
        for line in sys.stdin:
            tell(server.command(json.loads(line)))
    finally:
        unmount(options.mount)


if __name__ == "__main__":
    main()
