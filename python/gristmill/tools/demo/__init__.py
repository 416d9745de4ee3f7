"""A whole training run in a minute: `gristmill demo`.

`sound` draws recordings, `encode` turns them into files, `data` writes those to shards, `model` is
a small classifier in JAX, and `training` trains it, stops and resumes. Only `run` and `report` can
be imported without JAX, pyarrow and soundfile.
"""

from gristmill.tools.demo.report import DemoReport, DemoTraining
from gristmill.tools.demo.run import demo

__all__ = ["DemoReport", "DemoTraining", "demo"]
