"""Where errors and verdicts are explained: the entries of `docs/troubleshooting.md`.

An error gets its pointer as a note, which a traceback shows below the message. So messages stay
one sentence, and programs that compare them see no change.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

PAGE = "https://github.com/gristmill-project/gristmill/blob/main/docs/troubleshooting.md"
"""The page on the web. The wheel contains it too; `gristmill help NAME` prints an entry."""

MESSAGES = {
    "no-shards": "No shards match this pattern",
    "no-credentials": "there are no credentials",
    "in-memory": "is in memory only, and gristmill reads files",
    "streaming": "streams its rows, and gristmill reads files",
    "still-being-written": "still being written",
    "written-again": "was written again",
    "not-arrow": "not an Arrow IPC file or stream",
    "no-such-column": "there is no such column",
    "unequal-lengths": "where the batch's first row has",
    "memory-limit": "more than the memory budget",
    "max-bad-rows": "cannot be used, and max_bad_rows",
    "unknown-format": "the bytes are no known audio format",
    "unsupported-codec": "is not supported; exclude the row",
    "truncated": "frames could be decoded where the headers promise",
    "null-audio": "the audio is null",
    "other-data-set": "the state belongs to another data set",
    "not-in-step": "the hosts were not in step",
    "other-scan": "belongs to another scan",
    "scan-running": "another scan writes to",
    "missing-part": "is missing; run it with --part",
    "needs-pyarrow": "needs pyarrow: pip install",
    "bug": "a bug in gristmill",
}
"""The words of a message that lead to each entry. Of several entries, the first is right."""

_Error = TypeVar("_Error", bound=BaseException)


def explain(error: _Error) -> _Error:
    """The same error, with a note where its message is explained, if it is."""
    text = str(error)
    for name, words in MESSAGES.items():
        if words in text:
            error.add_note(pointer(name))
            break
    return error


def pointer(name: str) -> str:
    """The line that leads to an entry."""
    return f"Help: gristmill help {name}, or {PAGE}#{name}"


def is_pointer(note: str) -> bool:
    """Whether it is such a line. Grain adds notes of its own."""
    return note.startswith("Help: gristmill help ")


def entries() -> dict[str, str]:
    """The text of each entry of the page in the wheel, by its name."""
    page = Path(__file__).with_name("docs") / "troubleshooting.md"
    parts = re.split(r'^<a id="([\w-]+)"></a>\n+', page.read_text("utf-8"), flags=re.MULTILINE)
    # What follows an entry's last paragraph may be the next chapter's heading.
    texts = (re.split(r"^## ", part, flags=re.MULTILINE)[0].strip() for part in parts[2::2])
    return dict(zip(parts[1::2], texts, strict=True))
