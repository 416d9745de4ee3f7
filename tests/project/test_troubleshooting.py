"""Errors and verdicts lead to their entry of the page, and every entry is reached or general."""

from __future__ import annotations

import pickle
import re
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner

import gristmill as gm
from gristmill.cli import main
from gristmill.troubleshooting import MESSAGES, PAGE, entries, explain, pointer

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
NO_POINTER = {"consumer", "too-early"}
GENERAL = {"absl-flags", "slow-workers", "other"}


def test_every_heading_has_an_anchor_and_code_that_leads_to_it() -> None:
    anchored = re.findall(r'^<a id="([\w-]+)"></a>\n\n### (.+)$', TEXT, re.MULTILINE)
    assert len(anchored) == len(re.findall(r"^### |<a id", TEXT, re.MULTILINE)) // 2
    names = [name for name, _ in anchored]
    assert len(set(names)) == len(names)
    cases = {case.value for case in gm.Case} - NO_POINTER
    assert set(names) == {*MESSAGES, *cases, *GENERAL}
    assert len(names) == len(MESSAGES) + len(cases) + len(GENERAL)
    # An entry has the words that lead to it as its title.
    titles = dict(anchored)
    assert {name: titles[name] for name in MESSAGES} == {
        name: f'"{words}"' for name, words in MESSAGES.items()
    }


def test_the_installed_page_is_cut_at_its_entries() -> None:
    found = entries()
    assert set(found) == set(re.findall(r'<a id="([\w-]+)">', TEXT))
    assert found["not-in-step"].endswith("Save on every host after the same step.")
    assert all(text.startswith("### ") and "\n## " not in text for text in found.values())


@pytest.mark.parametrize("name", MESSAGES)
def test_an_error_of_our_own_has_a_note_once(name: str) -> None:
    text = f"a.arrow, row 7: {MESSAGES[name]}: more"
    error = pickle.loads(pickle.dumps(gm.DecodeError(text, row=7)))
    assert str(error) == text
    assert error.__notes__ == [pointer(name)]
    assert "".join(traceback.format_exception(error)).endswith(f"{PAGE}#{name}\n")


def test_an_error_without_an_entry_has_no_note() -> None:
    assert not hasattr(gm.SchemaError("something else"), "__notes__")
    assert not hasattr(explain(ValueError("")), "__notes__")


def test_errors_from_python_and_rust_have_notes(numbered: list[Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as absent:
        next(iter(gm.ArrowIterDataset(f"{tmp_path}/absent*.arrow")))
    assert pointer("no-shards") in absent.value.__notes__
    saved, restored = (iter(gm.ArrowIterDataset(numbered[:n])) for n in (1, 2))
    next(saved)
    restored.set_state(saved.get_state())
    with pytest.raises(ValueError, match="belongs to another data set") as other:
        next(restored)
    assert pointer("other-data-set") in other.value.__notes__
    (tmp_path / "page.arrow").write_text("<html>" * 20)
    with pytest.raises(gm.CorruptShardError) as corrupt:
        next(iter(gm.ArrowIterDataset(tmp_path / "page.arrow")))
    assert pointer("not-arrow") in corrupt.value.__notes__


@pytest.mark.parametrize("case", gm.Case)
def test_a_verdict_ends_with_its_pointer(case: gm.Case) -> None:
    verdict = gm.Verdict(case, "A sentence.")
    lines = str(verdict).splitlines()
    more = [] if case.value in NO_POINTER else [pointer(case.value)]
    assert lines == ["A sentence.", *more]


def test_help_prints_an_entry_a_command_or_the_names() -> None:
    listed = CliRunner().invoke(main, ["help"])
    assert {line.split()[0] for line in listed.stdout.splitlines()} == set(entries())
    entry = CliRunner().invoke(main, ["help", "no-shards"])
    assert entry.stdout.startswith('"No shards match this pattern"\n\nNo file')
    assert entry.stdout.endswith(f"{PAGE}#no-shards\n")
    command = CliRunner().invoke(main, ["help", "scan"])
    assert re.match(r"Usage: \w+ scan \[OPTIONS\]", command.stdout)
    wrong = CliRunner().invoke(main, ["help", "no-shard"])
    assert wrong.exit_code == 2
    assert "did you mean no-shards?" in wrong.stderr


def test_a_command_that_fails_ends_with_the_pointer(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["inspect", f"{tmp_path}/absent*.arrow"])
    assert done.exit_code == 3
    assert done.stderr.splitlines()[1:] == [pointer("no-shards")]
