"""Fails when a source file has grown past what one can read in one sitting.

Counts lines of code: blank lines, comments and Rust doc comments are free. Python docstrings
count as code only in that they are strings: they are left out too.
"""

import io
import subprocess
import sys
import tokenize
from pathlib import Path

LIMIT = 400
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def python_lines(text: str) -> int:
    """Counts the lines on which a token other than a comment or a docstring lies."""
    lines: set[int] = set()
    at_statement = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and at_statement
        if token.type not in _NOT_CODE and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        at_statement = token.type in _NOT_CODE
    return len(lines)


def rust_lines(text: str) -> int:
    """Counts lines that hold more than white space and a `//` or `/* */` comment."""
    count = 0
    in_block = False
    for line in text.splitlines():
        code = line.strip()
        if in_block:
            _, ended, code = code.partition("*/")
            in_block = not ended
        if code.startswith("/*"):
            _, ended, code = code.partition("*/")
            in_block = not ended
        code = code.strip()
        count += bool(code) and not code.startswith("//")
    return count


COUNT = {".py": python_lines, ".pyi": python_lines, ".rs": rust_lines}


def main() -> int:
    """Checks every source file that git knows or would add, and reports on the whole."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = [Path(name) for name in listing.split("\0") if Path(name).suffix in COUNT]
    counts = {
        path: COUNT[path.suffix](path.read_text(encoding="utf-8"))
        for path in paths
        if path.is_file()
    }
    too_long = {path: n for path, n in counts.items() if n > LIMIT}
    for path, n in sorted(too_long.items()):
        print(f"{path}: {n} lines of code; the limit is {LIMIT}: split it", file=sys.stderr)
    median = sorted(counts.values())[len(counts) // 2] if counts else 0
    print(f"file lengths: {len(counts)} files, median {median}, longest {max(counts.values())}")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
