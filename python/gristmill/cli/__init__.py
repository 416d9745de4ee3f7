"""The command line: `gristmill demo` and what it is made of."""

from gristmill.cli.commands import main

__all__ = ["main"]
