"""The command line, a module a command."""

from gristmill.cli.commands import main

__all__ = ["main"]
