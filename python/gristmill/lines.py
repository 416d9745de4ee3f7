"""Files that whole lines are added to, and nothing else."""

from __future__ import annotations

import errno
import os
from typing import Self


class LineFile:
    """An open file whose last line is whole, whatever becomes of the disk.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o666)

    def close(self) -> None:
        """Closes the file. Safe to call again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, lines: bytes, end: int) -> None:
        """Writes behind byte `end`, which is the end of what is whole: all of it or nothing.

        Raises:
            OSError: It could not be written, and names the file.
        """
        try:
            written = os.write(self._fd, lines) if lines else 0
        except OSError as error:
            error.filename = self._path
            raise
        if written < len(lines):
            # What comes next must not stand behind half a line.
            os.ftruncate(self._fd, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
