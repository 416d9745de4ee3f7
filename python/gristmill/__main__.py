"""`python -m gristmill`: the command line."""

from gristmill.cli import main

if __name__ == "__main__":
    main(prog_name="gristmill")
