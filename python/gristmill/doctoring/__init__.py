"""Measuring a machine and its storage before training: `gristmill doctor` and `gristmill bench`.

`loops` are the loops that are timed, `lab` runs them in threads and in processes, `machine` is what
the machine allows, `conclude` says what follows, and `run` and `bench` put it together.
"""

from gristmill.doctoring.bench import BenchReport, bench
from gristmill.doctoring.conclude import Conclusion
from gristmill.doctoring.loops import DecodeRun, ReadRun
from gristmill.doctoring.machine import Machine
from gristmill.doctoring.run import Diagnosis, diagnose

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
