"""Batches on the device: their transfer, and log-mel spectrograms as other libraries make them.

`import gristmill` does not import this module, and so no JAX; `gm.jax` imports it when it is first
used. `docs/device.md` shows it in a training step.
"""

try:
    import jax as _jax  # noqa: F401 # pyright: ignore[reportUnusedImport] - is it there?
except ImportError as error:
    raise ImportError("gm.jax needs JAX, which is not installed: pip install jax") from error

from gristmill.jax.log_mel import LogMel
from gristmill.jax.pcen import PCEN
from gristmill.jax.transfer import to_device

__all__ = ["PCEN", "LogMel", "to_device"]
