"""Which part of the order one host, and one worker of it, delivers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gristmill.checks import integer

Slice = tuple[int | None, int | None, int | None, bool]


@dataclass(frozen=True)
class Partition:
    """Hosts take alternate rows of the stream of all epochs, and so do the workers of a host.

    Attributes:
        host: Number of this host.
        hosts: Number of hosts.
        is_even: Whether all hosts deliver equally many rows.
        slices: `(start, stop, step, sequential)` of each epoch's positions, one after the other.
        offset: First of this host's rows that is for this worker.
        stride: Distance of this worker's rows among those of its host.
    """

    host: int = 0
    hosts: int = 1
    is_even: bool = False
    slices: tuple[Slice, ...] = ()
    offset: int = 0
    stride: int = 1

    def narrow(self, sl: slice, sequential: bool) -> Partition:
        """The part of this partition that `sl` takes.

        `slice(k, None, n)` with k below n is one of n workers: it takes every n-th row of the
        stream of all epochs, so that the workers' union is in order across the ends of epochs. Any
        other slice is one of each epoch's rows.
        """
        most, write = 2**62, "set_slice(slice(0, None, 2))"
        first, stop, by = (
            integer(f"the slice's {name}", value, -most, most, write=write, none=True)
            for name, value in (("start", sl.start), ("stop", sl.stop), ("step", sl.step))
        )
        if by == 0:
            raise ValueError(f"the slice's step is not 0: write {write}")
        start = 0 if first is None else first
        step = 1 if by is None else by
        if stop is None and 0 <= start < step and not sequential:
            offset, stride = self.offset + self.stride * start, self.stride * step
            return replace(self, offset=offset, stride=stride)
        before = self.slices
        if self.stride > 1:
            before = (*before, (self.offset, None, self.stride, False))
        slices = (*before, (first, stop, by, sequential))
        return replace(self, slices=slices, offset=0, stride=1)

    @property
    def stream_offset(self) -> int:
        """The first row of the stream that is delivered here."""
        return self.host + self.hosts * self.offset

    @property
    def stream_stride(self) -> int:
        """Distance in the stream of the rows that are delivered here."""
        return self.hosts * self.stride

    def n_before(self, index: int) -> int:
        """How many of the stream's first `index` rows are delivered here."""
        return -(-max(index - self.stream_offset, 0) // self.stream_stride)
