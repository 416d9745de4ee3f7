"""Numbers that the header of a file states: read, and written as something else."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """`width` bytes, `skip` bytes behind the end of a mark, which may come several times."""

    mark: bytes
    skip: int
    width: int
    order: str = "big"
    which: int = 0

    def place(self, data: bytes) -> int:
        found = [match.end() for match in re.finditer(re.escape(self.mark), data)]
        return found[self.which] + self.skip

    def read(self, data: bytes) -> tuple[int, int]:
        """The number, and the highest that there is room for."""
        at = self.place(data)
        number = int.from_bytes(data[at : at + self.width], self.order)
        return number, (1 << 8 * self.width) - 1

    def write(self, data: bytes, number: float) -> bytes:
        """The file with another number."""
        at = self.place(data)
        field = int(number).to_bytes(self.width, self.order)
        return data[:at] + field + data[at + self.width :]

    def doubled(self, data: bytes) -> bytes:
        return self.write(data, 2 * self.read(data)[0])


@dataclass(frozen=True)
class Line:
    """A number in a line of SPHERE's header of 1024 bytes; without a name, the header's size."""

    name: bytes

    def read(self, data: bytes) -> tuple[int, int]:
        if not self.name:
            return int(data[8:16]), 9_999_999
        return int(data.split(self.name + b" -i ")[1].split()[0]), 2**63 - 1

    def write(self, data: bytes, number: float) -> bytes:
        if not self.name:
            return data[:8] + b"%7d\n" % number + data[16:]
        line = self.name + b" -i %d" % number
        head = re.sub(self.name + rb" -i \d+", line, data[:1024], count=1)
        return head[:1024].ljust(1024, b"\0") + data[1024:]

    def doubled(self, data: bytes) -> bytes:
        return self.write(data, 2 * self.read(data)[0])
