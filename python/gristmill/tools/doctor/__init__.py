"""Measuring a machine and its storage before training: `gristmill doctor` and `gristmill bench`.

`loops` are the loops that are timed, `lab` runs them in threads and in processes, `machine` is what
the machine allows, `conclude` says what follows, and `run` and `bench` put it together.
"""

from gristmill.tools.bench import BenchReport, bench
from gristmill.tools.doctor.conclude import Conclusion
from gristmill.tools.doctor.loops import DecodeRun, ReadRun
from gristmill.tools.doctor.machine import Machine
from gristmill.tools.doctor.run import Diagnosis, diagnose

__all__ = [
    "BenchReport",
    "Conclusion",
    "DecodeRun",
    "Diagnosis",
    "Machine",
    "ReadRun",
    "bench",
    "diagnose",
]
