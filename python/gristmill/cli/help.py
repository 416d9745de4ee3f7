"""`gristmill help`."""

from __future__ import annotations

import difflib

import click

from gristmill.cli.common import with_console
from gristmill.cli.console import Console
from gristmill.tools.page import Page
from gristmill.troubleshooting import PAGE, entries


@click.command("help", short_help="Explains an error, a verdict or a command.")
@click.argument("name", required=False)
@with_console
@click.pass_context
def help_(context: click.Context, console: Console, name: str | None) -> None:
    """Explains an error or a verdict by its NAME, which the message gives, or a command.

    Without NAME, lists the names.
    """
    page, known = Page(), entries()
    group = context.parent and context.parent.command
    command = group.get_command(context, name) if isinstance(group, click.Group) and name else None
    if command is not None:
        text = command.get_help(click.Context(command, parent=context.parent, info_name=name))
    elif name is None:
        titles = {key: text.partition("\n")[0].lstrip("# ") for key, text in known.items()}
        width = max(map(len, titles))
        text = "\n".join(f"{key:<{width}}  {title}" for key, title in titles.items())
    elif name in known:
        text = f"{known[name].lstrip('# ')}\n\n{PAGE}#{name}"
    else:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else "; gristmill help lists the names"
        raise click.UsageError(f"there is no help on {name!r}{hint}")
    for line in text.splitlines():
        page.say(line)
    console.show(page, {"name": name, "text": text})
