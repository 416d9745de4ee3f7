"""All that the doctor measures, for `conclude`."""

from __future__ import annotations

from dataclasses import dataclass

from gristmill.tools.doctor.loops import DecodeTrial, ReadTrial
from gristmill.tools.doctor.machine import Machine
from gristmill.tools.doctor.store import StoreTrials


@dataclass(frozen=True)
class Measured:
    """All that was measured.

    Attributes:
        machine: CPUs and memory.
        row_bytes: Mean bytes of an encoded row.
        crop_bytes: Bytes of a decoded crop.
        dataset_bytes: Of all shards.
        reads: By readers in threads, and in processes.
        decodes: In threads of one process, from memory.
        workers: Processes of one thread each that read and decode, as Grain's workers do.
        pipeline_rows_per_second: Of one process with native threads, on the same shards.
        spare_share: The part of the rows' bytes that lies around their crops, and that audio
            indexes would spare; 0 to 1.
        store: Of shards behind URLs, whose reads are in threads alone; `None` of local ones.
    """

    machine: Machine
    row_bytes: float
    crop_bytes: int
    dataset_bytes: int
    reads: tuple[ReadTrial, ...]
    decodes: tuple[DecodeTrial, ...]
    workers: tuple[DecodeTrial, ...]
    pipeline_rows_per_second: float
    spare_share: float = 0.0
    store: StoreTrials | None = None

    @property
    def by_threads(self) -> dict[int, float]:
        """Bytes a second by the number of readers in one process."""
        return {t.threads: t.bytes_per_second for t in self.reads if t.processes == 1}

    @property
    def by_processes(self) -> dict[int, float]:
        """Bytes a second by the number of processes with a reader each."""
        return {t.processes: t.bytes_per_second for t in self.reads if t.threads == 1}

    @property
    def storage_rows_per_second(self) -> float:
        """The most rows that threads of one process read."""
        return max(self.by_threads.values()) / max(self.row_bytes, 1.0)

    @property
    def decode_rows_per_second(self) -> float:
        """The most crops that all threads together decoded."""
        return max(trial.rows_per_second for trial in self.decodes)

    @property
    def thread_rows_per_second(self) -> float:
        """Crops that one thread decoded."""
        return next(trial.rows_per_second for trial in self.decodes if trial.threads == 1)

    @property
    def cpu_rows_per_second(self) -> float:
        """Crops that each CPU decoded when all of them did."""
        return self.decode_rows_per_second / self.machine.usable_cpus

    @property
    def cold_share(self) -> float | None:
        """The part of the reads that did not come from the page cache."""
        known = [trial for trial in self.reads if trial.cold_share is not None]
        n_reads = sum(trial.reads for trial in known)
        cold = sum((trial.cold_share or 0.0) * trial.reads for trial in known)
        return cold / n_reads if n_reads else None
