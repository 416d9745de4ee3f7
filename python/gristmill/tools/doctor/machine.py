"""CPUs and memory of the machine, and what of them this process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gristmill import _core

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """CPUs and memory.

    Attributes:
        cpus: Of the machine.
        affinity_cpus: Those that this process may run on.
        cpu_quota: CPUs that its control group may use; `None` without a quota.
        usable_cpus: CPUs that this process may use in the end, at least 1.
        memory_bytes: Of the machine.
        available_bytes: Free, or held by caches that give it back.
        memory_limit_bytes: Of its control group; `None` without a limit.
    """

    cpus: int
    affinity_cpus: int
    cpu_quota: float | None
    usable_cpus: int
    memory_bytes: int
    available_bytes: int
    memory_limit_bytes: int | None

    @property
    def usable_bytes(self) -> int:
        """Memory that this process may take: what is available, within its limit."""
        return min(self.available_bytes, self.memory_limit_bytes or self.available_bytes)


def look() -> Machine:
    """This machine, as this process sees it."""
    memory = _memory()
    return Machine(
        cpus=os.cpu_count() or 1,
        affinity_cpus=len(os.sched_getaffinity(0)),
        cpu_quota=_quota(),
        usable_cpus=_core.usable_cpus(),
        memory_bytes=memory.get("MemTotal", 0),
        available_bytes=memory.get("MemAvailable", 0),
        memory_limit_bytes=_memory_limit(),
    )


def _memory() -> dict[str, int]:
    """Bytes by the names of `/proc/meminfo`."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            number, _, unit = rest.strip().partition(" ")
            if unit == "kB" and number.isdecimal():
                found[name] = 1024 * int(number)
    return found


def _group() -> Path:
    """The folder of this process's control group; the root's where it is unknown."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                return _CGROUP / line[3:].strip("/")
    return _CGROUP


def _setting(name: str) -> list[str]:
    """The setting of the nearest control group upwards that has one; version 2 only."""
    folder = _group()
    while True:
        with suppress(OSError):
            words = (folder / name).read_text(encoding="ascii").split()
            if words and words[0] != "max":
                return words
        if folder in (_CGROUP, folder.parent):
            return []
        folder = folder.parent


def _quota() -> float | None:
    words = _setting("cpu.max")
    if len(words) == 2 and all(word.isdecimal() for word in words):
        return int(words[0]) / int(words[1])
    return None


def _memory_limit() -> int | None:
    words = _setting("memory.max")
    return int(words[0]) if words and words[0].isdecimal() else None
