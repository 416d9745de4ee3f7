"""Feeds JAX from Arrow shards of audio, at the speed of the codec.

Docstrings refer to pages such as `docs/formats.md`, which are in the folder `docs` of this package.
"""

import lazy_loader

from gristmill._core import __version__ as __version__

# Most names need Grain, which imports JAX and Orbax: seconds that `gristmill --help` does without.
# The names and their modules are those of `__init__.pyi`.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(  # pyright: ignore[reportUnknownVariableType]
    __name__, __file__
)
