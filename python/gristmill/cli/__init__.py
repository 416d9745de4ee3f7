"""The command line: a module for each command, or for two that are alike."""

from gristmill.cli.commands import main

__all__ = ["main"]
