"""Files to which whole lines are appended."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import BinaryIO, Self


def open_regular(path: str) -> BinaryIO:
    """Opens a file for reading, without blocking on a pipe.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is a pipe, a device or a folder.
    """
    # Opening a named pipe would wait for a writer.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError(f"{path} is no regular file; give the path of a file on a disk")
    return os.fdopen(fd, "rb")


class LineFile:
    """An open file whose last line stays whole, also on a full disk.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is a pipe.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o666)
        if stat.S_ISFIFO(os.fstat(self._fd).st_mode):
            self.close()
            raise ValueError(f"{path} is a pipe; give the path of a file on a disk")

    def close(self) -> None:
        """Closes the file. Safe to call again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self, how: int) -> None:
        """Locks the file by `flock`, where the file system has locks.

        Raises:
            BlockingIOError: Another process has it, and `how` says not to wait.
        """
        try:
            fcntl.flock(self._fd, how)
        except OSError as error:
            # Without locks (some network file systems) appending is still whole lines.
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):
                raise

    def _add(self, lines: bytes, end: int) -> None:
        """Appends at byte `end`, where the last whole line ends: all of the lines or nothing.

        Raises:
            OSError: It could not be written, and names the file.
        """
        try:
            written = os.write(self._fd, lines) if lines else 0
        except OSError as error:
            error.filename = self._path
            raise
        if written < len(lines):
            # The next line must not follow half a line.
            os.ftruncate(self._fd, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
