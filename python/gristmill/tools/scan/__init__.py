"""Looking every row of a data set over: `gristmill scan`.

`run` goes over the rows, `workers` decode them, `log` is the file that a stopped scan goes on from,
`merge` joins the parts of a job array, and `model` is what comes out.
"""

from gristmill.tools.scan.merge import merge_scans
from gristmill.tools.scan.report import Finding, ScanReport
from gristmill.tools.scan.run import Scan, scan

__all__ = ["Finding", "Scan", "ScanReport", "merge_scans", "scan"]
