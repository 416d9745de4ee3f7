"""Writes the tables of `docs/formats.md` and of `rust/audio/README.md` from what the tests assert.

python scripts/formats_page.py           # rewrites the pages
python scripts/formats_page.py --check   # fails if that would change one
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("audio", "support")]

import formats_table  # noqa: E402  (beside the tests that assert what it says)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def formats() -> str:
    """What is decoded."""
    head = ("format", "grade", "crop", "not supported")
    return table(head, [(f.name, f.grade, f.crop, f.missing) for f in formats_table.FORMATS])


def cell(strict: str, lenient: str) -> str:
    """A field of the table of damage."""
    if lenient in {"unseen", "marked", "noted"}:
        return f"*{lenient}*" if lenient == "unseen" else lenient
    return f"`{strict}`, {lenient}"


def damage() -> str:
    """What damage does to each format."""
    kinds = formats_table.KINDS
    rows: list[tuple[str, ...]] = []
    for name, row in formats_table.OUTCOMES.items():
        flips = {o.lenient for o in formats_table.FLIPS[name]}
        cells = {kind: cell(o.strict, o.lenient) for kind, o in row.items()}
        cells["20 flipped bytes"] = " or ".join(
            cell("", word).removeprefix("``, ") for word in formats_table.WORDS if word in flips
        )
        rows.append((name, *(cells.get(kind, "-") for kind in kinds)))
    return table(("", *kinds), rows)


def words() -> str:
    """The words of that table."""
    return "".join(f"- *{word}*: {text}.\n" for word, text in formats_table.WORDS.items())


def counters() -> str:
    """The kinds of damage that a report counts."""
    rows = [(f"`{kind}`", text) for kind, text in formats_table.COUNTERS.items()]
    return table(("counter", "what it counts"), rows)


def notes() -> str:
    """The kinds of notes that a report counts."""
    rows = [(f"`{kind}`", text) for kind, text in formats_table.NOTES.items()]
    return table(("note", "what it counts"), rows)


TABLES = {
    "formats": formats,
    "words": words,
    "damage": damage,
    "counters": counters,
    "notes": notes,
}


PAGES = {
    ROOT / "docs" / "formats.md": tuple(TABLES),
    ROOT / "rust" / "audio" / "README.md": ("formats",),
}


def generated(path: Path) -> str:
    """The page with its tables made anew, each between two comments."""
    page = path.read_text(encoding="utf-8")
    for name in PAGES[path]:
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{path} has no place for {name}")
        page = f"{before}{begin}\n{TABLES[name]()}\n{end}{after}"
    return page


def main() -> int:
    """Rewrites the pages, or says whether one would change."""
    pages = {path: generated(path) for path in PAGES}
    if "--check" in sys.argv[1:]:
        return int(any(path.read_text(encoding="utf-8") != page for path, page in pages.items()))
    for path, page in pages.items():
        path.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
