"""The page of the command line's options, from the parser itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from gristmill.cli import main

_ABOUT = """# Command-line options

Every command, argument and option, generated from the parser. [The command line](command-line.md)
shows each command with its output.
"""


def page() -> str:
    """The page, in Markdown."""
    parts = [_ABOUT, _completion()]
    for name, command in main.commands.items():
        parts += [f"## gristmill {name}\n", _usage(name, command), _help(command)]
        parts.append("\n".join(_options(command)))
    return "\n".join(parts)


def _usage(name: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=name, parent=click.Context(main, info_name="gristmill")
    )
    pieces = " ".join(command.collect_usage_pieces(context))
    return f"```sh\n{context.command_path} {pieces}\n```\n"


def _help(command: click.Command) -> str:
    # `\b` keeps click from wrapping the paragraph after it.
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    return f"{_escaped(text)}\n"


def _options(command: click.Command) -> Iterator[str]:
    context = click.Context(command, show_default=True)
    rows = [
        record
        for param in command.params
        if isinstance(param, click.Option) and (record := param.get_help_record(context))
    ]
    if rows:
        yield "| option | |"
        yield "|---|---|"
    for names, text in rows:
        # One bar would end the cell.
        yield f"| `{names}` | {_escaped(text)} |".replace("\b", "")
    yield ""


def _escaped(text: str) -> str:
    for character in "\\`*_<>|[]":
        text = text.replace(character, f"\\{character}")
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", text)


def _completion() -> str:
    return """## Completion

```sh
eval "$(_GRISTMILL_COMPLETE=bash_source gristmill)"    # in ~/.bashrc
eval "$(_GRISTMILL_COMPLETE=zsh_source gristmill)"     # in ~/.zshrc
_GRISTMILL_COMPLETE=fish_source gristmill | source     # in ~/.config/fish/config.fish
```
"""
