"""Prepares the folder that Sphinx builds the site from.

The pages in `docs` are plain Markdown, which the wheel ships and which reads well without a site.
Here they get what only a site has: a page for each example, the API reference, the command line's
options, and the changelog.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import api
import options

ROOT = Path(__file__).resolve().parents[2]

_ONLY_ON_THE_SITE = re.compile(r"^<!-- site: (.*) -->$", re.MULTILINE)
_SCRIPT = re.compile(r"\]\((?:\.\./)+((?:benches|examples|scripts|tests)/[\w/]+\.py)\)")
_ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
_TREE = "https://github.com/gristmill-project/gristmill/blob/main"


def stage(target: Path) -> None:
    """Writes all pages of the site to `target`, which is emptied first."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target)
    examples = sorted((ROOT / "examples").glob("*.py"))
    for page in target.rglob("*.md"):
        page.write_text(for_site(page.read_text("utf-8"), page.relative_to(target)), "utf-8")
    decisions = sorted(path.name for path in (target / "decisions").glob("*.md"))
    _write(target / "decisions" / "index.md", _index("Decisions", _DECISIONS, decisions))
    for example in examples:
        text = f"# {example.name}\n\n```python\n{example.read_text('utf-8')}```\n"
        _write(target / "examples" / f"{example.stem}.md", text)
    names = [f"{example.stem}.md" for example in examples]
    _write(target / "examples" / "index.md", _index("Examples", _EXAMPLES, names))
    for name, text in api.pages().items():
        _write(target / "api" / name, text)
    _write(target / "options.md", options.page())
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    _write(target / "changelog.md", changes)


_DECISIONS = "Choices that could have gone another way, each with its reasons and its figures."
_EXAMPLES = "Each runs as it stands, on shards that it makes, and is run by the tests."


def for_site(text: str, page: Path) -> str:
    """A page with the links that the site has."""
    text = _ONLY_ON_THE_SITE.sub(r"\1", text)
    text = _ANCHOR.sub(r"(\1)=", text)
    text = re.sub(r"\]\(decisions/\)", "](decisions/index.md)", text)
    up = "../" * (len(page.parts) - 1)

    def linked(match: re.Match[str]) -> str:
        path = match[1]
        if path.startswith("examples/"):
            return f"]({up}{path.removesuffix('.py')}.md)"
        return f"]({_TREE}/{path})"

    text = re.sub(r"\]\((?:\.\./)*examples/\)", f"]({up}examples/index.md)", text)
    return _SCRIPT.sub(linked, text)


def _index(title: str, about: str, pages: list[str]) -> str:
    listed = "\n".join(pages)
    return f"# {title}\n\n{about}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
