"""Where the command `gristmill` begins.

Grain imports JAX and Orbax where they are installed, which takes a second. No command uses them but
`demo`, which trains unless it is `--tiny`. They can only be left out before `gristmill` is
imported, hence this package.
"""

import sys


def main() -> None:
    """Runs the command line."""
    if sys.argv[1:2] != ["demo"] or "--tiny" in sys.argv:
        # An import of what is `None` here fails as if it were not installed.
        for name in ("jax", "orbax"):
            sys.modules.setdefault(name, None)  # pyright: ignore[reportArgumentType]
    try:
        from gristmill.cli import main as run

        run(prog_name="gristmill")
    except KeyboardInterrupt:
        # As `gristmill.cli.common` ends a command, which may not be imported yet.
        sys.stderr.write("gristmill: stopped\n")
        sys.exit(130)
