"""Holds the Python packages that Gristmill pulls in to the licences that deny.toml allows.

Reads what is installed: run it in the environment that `make wheel` has filled.
"""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("", "demo", "pack")
# Free-text names that package metadata uses for SPDX identifiers.
SPDX = {
    "apache license version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "mit license": "MIT",
    "mit": "MIT",
}


def closure(root: str) -> list[str]:
    """Names every installed package that `root` and its extras need, itself left out."""
    seen: set[str] = set()
    queue = [(root, EXTRAS)]
    while queue:
        name, extras = queue.pop()
        try:
            requirements = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # needed on another platform or Python only
        seen.add(name)
        for text in requirements:
            requirement = Requirement(text)
            marker = requirement.marker
            wanted = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
            key = canonicalize_name(requirement.name)
            if wanted and key not in seen:
                queue.append((key, ("", *requirement.extras)))
    return sorted(seen - {root})


def licence(name: str) -> str:
    """The SPDX expression of an installed package, or the best that its metadata says."""
    metadata = distribution(name).metadata
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers: list[str] = metadata.get_all("Classifier") or []
    approved = "License :: OSI Approved :: "
    named = [c.removeprefix(approved) for c in classifiers if c.startswith(approved)]
    # Some packages paste the whole licence into this field: its first words are its title.
    free_text = " ".join((metadata.get("License") or "").split())
    for text in (free_text, *named):
        title = re.sub(r"[(),]", "", text).lower().removeprefix("the ")
        for known, spdx in SPDX.items():
            if title == known or (len(title) > 80 and title.startswith(known)):
                return spdx
    return free_text[:60] or "unknown"


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Evaluates AND and OR; an AND binds tighter, as in SPDX."""
    flat = expression.replace("(", " ").replace(")", " ")
    return any(
        all(part.strip() in allowed for part in re.split(r"\s+AND\s+", alternative))
        for alternative in re.split(r"\s+OR\s+", flat)
    )


def main() -> int:
    """Checks every package and names those that are not on the list."""
    allowed = set(tomllib.loads(Path("deny.toml").read_text(encoding="utf-8"))["licenses"]["allow"])
    found = {name: licence(name) for name in closure("gristmill")}
    bad = {name: text for name, text in found.items() if not is_allowed(text, allowed)}
    for name, text in bad.items():
        print(f"{name}: licence {text!r} is not in deny.toml's list", file=sys.stderr)
    print(f"licences: {len(found)} Python packages checked")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
