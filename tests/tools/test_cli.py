"""Each command as a user sees it: exit codes, 80 columns, no colours in pipes, JSON, sentences."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import scan_material
import shards
from gristmill.cli import main

GRISTMILL = Path(sys.executable).with_name("gristmill")
MEASURING = {"doctor": ["--seconds", "1"], "bench": ["--seconds", "0.5", "--batch-size", "4"]}
COMMANDS = ("inspect", "scan", "index", "doctor", "bench")


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    scan_material.write(folder)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_output_in_a_pipe(command: str, damaged: Path) -> None:
    arguments = [command, damaged, *MEASURING.get(command, [])]
    text = run(*arguments, "--quiet")
    assert text.exit_code == (1 if command == "scan" else 0), text.stderr
    assert not text.stderr
    assert text.stdout.isascii()
    assert "\x1b" not in text.stdout
    for line in text.stdout.splitlines():
        # Names of folders are as long as they are.
        assert len(line) <= 80 or str(damaged) in line or "index" in line, line
    assert text.stdout.strip()
    as_json = run(*arguments, "--json")
    assert as_json.exit_code == text.exit_code
    assert isinstance(json.loads(as_json.stdout), dict)
    # Progress goes to stderr, as lines.
    assert "headers: " in as_json.stderr or command not in ("inspect", "scan")
    assert "\r" not in as_json.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_done_is_a_sentence(command: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    plain = shards.write(
        tmp_path / "plain.arrow",
        [shards.row(0, None)],
        of=shards.schema({"label": shards.FIELDS["label"]}),
    )
    cases: list[tuple[Path, str]] = [
        (tmp_path / "absent.arrow", "No such file or directory"),
        (tmp_path / "absent*.arrow", "No shards match this pattern"),
        (empty, "No .arrow or .parquet shards in this directory"),
    ]
    if command not in ("inspect", "index"):
        cases.append((plain, "no column is marked as audio"))
    if os.geteuid() != 0:
        closed = tmp_path / "closed.arrow"
        closed.touch(0)
        cases.append((closed, "Permission denied"))
    for path, message in cases:
        done = run(command, path, "--quiet")
        assert done.exit_code == 3, (path, done.output)
        assert done.stderr.startswith(f"gristmill {command}: ")
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        # A second line leads to the explanation, if there is one.
        assert done.stderr.count("\n") == (2 if "No shards match" in message else 1)
        assert not done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["scan"],
        ["scan", "--merge", "x.arrow", "-o", "bad.jsonl"],
        ["scan", "--merge"],
        ["scan", "x.arrow", "--part", "1/2"],
        ["scan", "x.arrow", "--part", "3/2", "-o", "bad.jsonl"],
        ["scan", "x.arrow", "--part", "half", "-o", "bad.jsonl"],
        ["scan", "x.arrow", "--num-threads", "0"],
        ["inspect"],
        ["inspect", "x.arrow", "--sample", "0"],
        ["doctor", "x.arrow", "--step-seconds", "0"],
        ["bench", "x.arrow", "--crop-seconds", "-1"],
        ["index", "x.arrow", "--unheard-of"],
        ["index", "x.arrow", "--column", "audio"],
        ["index", "x.arrow", "--cache-dir", "cache"],
        ["bench", "x.arrow", "--crop-seconds", "nan"],
        ["bench", "x.arrow", "--batch-size", "3000000000"],
        ["doctor", "x.arrow", "--step-seconds", "nan"],
        ["doctor", "x.arrow", "--seconds", "inf"],
        ["pack", "x", "-o", "out", "--shard-size", "10XB"],
        ["scan", "--merge", "-o", "bad.jsonl", "--restart"],
        ["unheard-of"],
    ],
)
def test_bad_usage_is_status_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert "Usage: " in done.output
    assert "Error: " in done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_the_terminal(command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    assert all(len(line) <= 80 for line in done.output.splitlines())
    for option in ("--json", "--quiet"):
        assert option in done.output


def test_no_command_waits_for_jax() -> None:
    """Grain would import it, and Orbax, which takes more than a second."""
    command = [sys.executable, "-X", "importtime", GRISTMILL, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "grain" in imported
    # What is refused is listed too, what it consists of is not.
    assert not imported & {"jax._src", "orbax.checkpoint.args"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_documentation(command: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    for parameter in main.commands[command].params:
        options = [name for name in parameter.opts if name.startswith("--")]
        assert all(f"`{name}" in page for name in options), options


def test_broken_shards_are_findings(damaged: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.arrow").write_bytes(b"\0" * 100)
    for command in ("inspect", "index", "scan"):
        done = run(command, tmp_path, damaged / "train-0.arrow", "--quiet")
        assert done.exit_code == 1, done.output
        assert "  broken.arrow (byte 0): " in done.stdout
        assert all(len(line) <= 80 for line in done.stdout.splitlines())
    for command in ("doctor", "bench"):
        done = run(command, tmp_path, "--quiet")
        assert done.exit_code == 3
        assert "gristmill inspect says what is wrong" in done.stderr
        done = run(command, tmp_path, damaged / "train-0.arrow", "--quiet", "--seconds", "1")
        assert done.exit_code == 1, done.output
        assert "  broken.arrow (byte 0): " in done.stdout


def test_nothing_is_counted_where_nothing_was_done(tmp_path: Path) -> None:
    for command in COMMANDS:
        done = run(command, tmp_path / "absent.arrow")
        assert done.exit_code == 3
        assert done.stderr.startswith(f"gristmill {command}: "), done.stderr
        assert done.stderr.count("\n") == 1


def test_indexes_that_cannot_be_written_are_a_failure(damaged: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a-file"
    folder.write_text("no folder")
    done = run("index", damaged, "--index-dir", folder, "--quiet")
    assert done.exit_code == 3
    assert "4 shards of 57 rows: 0 indexes are new, 0 were there" in done.stdout
    assert "4 indexes could not be written" in done.stderr
    assert str(folder) in done.stderr
    folder.unlink()
    again = [run("index", damaged, "--index-dir", folder, "--json") for _ in range(2)]
    assert [done.exit_code for done in again] == [0, 0]
    first, second = (json.loads(done.stdout) for done in again)
    assert (first["written"], first["not_written"]) == (4, 0)
    assert (second["written"], second["not_written"]) == (0, 0)


def test_a_shard_from_the_future_has_no_index(damaged: Path, tmp_path: Path) -> None:
    shard = tmp_path / "a.arrow"
    shard.write_bytes((damaged / "train-0.arrow").read_bytes())
    os.utime(shard, (2**33, 2**33))
    done = run("index", shard, "--index-dir", tmp_path / "own", "--quiet")
    assert done.exit_code == 3
    assert f"by its time {shard} was changed just now, or will be" in done.stderr


def test_a_full_disk_is_a_sentence_that_names_the_file(damaged: Path) -> None:
    for arguments in (["inspect", damaged], ["index", damaged], ["scan", damaged, "--json"]):
        with Path("/dev/full").open("w") as full:
            done = started(*arguments, "--quiet", stdout=full, stderr=subprocess.PIPE)
            _, stderr = done.communicate(timeout=60)
        command = arguments[0]
        assert done.returncode == 3
        assert stderr == f"gristmill {command}: standard output: No space left on device\n"
    done = run("scan", damaged, "-o", "/dev/full", "--quiet")
    assert done.exit_code == 3
    assert done.stderr.startswith("gristmill scan: /dev/full: ")
    with Path("/dev/full").open("w") as full:
        done = started("--help", stdout=full, stderr=subprocess.PIPE)
        _, stderr = done.communicate(timeout=60)
    assert (done.returncode, stderr) == (3, "gristmill: No space left on device\n")


def test_a_reader_that_has_seen_enough_is_no_failure(damaged: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = started("inspect", damaged, "--quiet", stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, stderr = done.communicate(timeout=60)
    assert (done.returncode, stderr) == (141, "")


def test_without_streams(damaged: Path) -> None:
    script = 'exec "$0" inspect "$1" >&- 2>&-'
    done = subprocess.run(["sh", "-c", script, GRISTMILL, damaged], timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>&1 >&-"])
def test_without_one_of_the_streams(damaged: Path, redirection: str) -> None:
    def done(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", f'exec "$0" "$@" {redirection}', GRISTMILL, *map(str, arguments)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=100, check=False)

    refused = done("scan", damaged / "nowhere.arrow")
    assert (refused.returncode, "Traceback" in refused.stdout) == (3, False)
    whole = done("inspect", damaged, "--json")
    assert whole.returncode == 0
    if redirection != "2>&1 >&-":
        assert json.loads(whole.stdout)["rows"] > 0


def test_measuring_what_cannot_be_measured(damaged: Path, tmp_path: Path) -> None:
    for command in ("doctor", "bench"):
        too_long = run(command, damaged, "--crop-seconds", "1e9")
        assert too_long.exit_code == 2
        too_low = run(command, damaged, "--sample-rate", "32")
        assert too_low.exit_code == 2
        assert "is not in the range" in too_low.stderr


def test_bench_counts_what_it_could_decode(damaged: Path) -> None:
    done = run("bench", damaged, "--json", *MEASURING["bench"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert 0 < found["rows"] < found["batches"] * found["batch_size"]
    assert found["bad_rows"] > 0
    assert "bad row" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["index", "--audio"], ["bench", *MEASURING["bench"], "--sample-rate", "16000"]]
)
def test_bad_rows_are_no_warnings(arguments: list[str], damaged: Path) -> None:
    # In a process of its own: pytest has handlers of its own.
    command = [str(GRISTMILL), *arguments, str(damaged), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_no_result_tells_is_a_line(damaged: Path, tmp_path: Path) -> None:
    (tmp_path / "link\x1b.arrow").symlink_to("nowhere")
    (tmp_path / "a.arrow").symlink_to(damaged / "train-0.arrow")
    cache = damaged / "train-0.arrow"
    done = run("scan", tmp_path, "--quiet", "--fast", "--cache-dir", cache)
    left_out, not_kept = done.stderr.splitlines()
    assert r"/link\x1b.arrow is a link to nothing and is left out" in left_out
    assert not_kept.startswith(f'gristmill: nothing more is written to cache_dir="{cache}": ')


def test_ctrl_c_while_it_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "gristmill"
    package.mkdir()
    (package / "__init__.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    script = "import sys, _gristmill_cli; sys.path.insert(0, sys.argv[1]); _gristmill_cli.main()"
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "gristmill: stopped\n")


def test_names_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    name = "a\x1b[31m\n\u202e\u3000\N{BIRD}.wav"
    shards.write(tmp_path / "a.arrow", [shards.row(0, b"garbage", name)])
    page = run("scan", tmp_path, "--quiet").stdout
    assert r"unknown_format  a\x1b[31m\n\u202e" + "\u3000\N{BIRD}.wav" in page
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / name).write_bytes(b"garbage")
    shards.write(tmp_path / "source" / "b.wav", [])
    packed = run("pack", tmp_path / "source", "-o", tmp_path / "\x1bout", "--quiet", "--keep-bad")
    assert r"  a\x1b[31m\n\u202e" in packed.stdout
    assert "\x1b" not in page + packed.stdout
    shards.write(tmp_path / "\x1b]0;name\a.arrow", [])
    refused = run("scan", tmp_path / "\x1b*.arrow", "--column", "\x1b[31m").stderr
    assert r"/\x1b]0;name\x07.arrow has no column" in refused
    assert "\x1b" not in refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("garbage", "is no quarantine file"),
        ('{"gristmill_quarantine": 1}\ngarbage\n', "line 2: not a row"),
        (
            '{"gristmill_quarantine": 1}\n{"shard": "train-0.arrow", "rows": 7, "row": 1}\n',
            "belongs to another data set: it says that 'train-0.arrow' has 7 rows",
        ),
    ],
)
def test_a_scan_adds_to_no_other_file(
    damaged: Path, tmp_path: Path, content: str, message: str
) -> None:
    out = tmp_path / "bad.jsonl"
    out.write_text(content)
    done = run("scan", damaged, "-o", out, "--quiet")
    assert done.exit_code == 3
    assert message in done.stderr
    assert out.read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]


def test_parts_and_merge(damaged: Path, tmp_path: Path) -> None:
    out = tmp_path / "bad.jsonl"
    missing = run("scan", "--merge", "-o", out)
    assert missing.exit_code == 3
    assert "There are no parts" in missing.stderr
    codes = [run("scan", damaged, "-o", out, "--part", f"{k}/4").exit_code for k in range(1, 5)]
    # Whatever they found: a job that waits for them may start.
    assert codes == [0] * 4
    merged = run("scan", "--merge", "-o", out, "--json")
    assert merged.exit_code == 1
    whole = json.loads(run("scan", damaged, "--json").stdout)
    for name in ("rows", "damaged", "undecodable", "marked", "reasons", "findings"):
        assert json.loads(merged.stdout)[name] == whole[name]


def test_sound_data_is_status_0(same_rate: list[Path]) -> None:
    done = run("scan", *same_rate, "--quiet")
    assert done.exit_code == 0
    assert "25 rows of 5 shards" in done.stdout
    assert "Bad rows" not in done.stdout
    assert run("scan", *same_rate, "--quiet", "--fast").exit_code == 0


def started(*arguments: object, **streams: Any) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen([str(GRISTMILL), *map(str, arguments)], text=True, **streams)


def on_terminal(*arguments: object) -> str:
    """What a terminal of 80 columns shows."""
    main_end, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(
        [str(GRISTMILL), *map(str, arguments)], stdout=other, stderr=other, env=environment
    )
    os.close(other)
    shown = b""
    while True:
        try:
            part = os.read(main_end, 4096)
        except OSError:  # Linux says that the other end was closed in this way
            break
        if not part:
            break
        shown += part
    os.close(main_end)
    process.wait(timeout=60)
    return shown.decode()


def test_a_terminal_gets_bars(damaged: Path) -> None:
    shown = on_terminal("inspect", damaged)
    assert "headers: 100%" in shown
    assert shown.count("\N{FULL BLOCK}") >= 40
    for line in shown.replace("\r", "\n").splitlines():
        assert len(line) <= 80 or str(damaged) in line, line


@pytest.mark.parametrize("command", sorted(main.commands))
def test_options_are_called_as_in_python(command: str) -> None:
    """One thing has one name, with dashes."""
    names = {
        name
        for option in main.commands[command].params
        if isinstance(option, click.Option)
        for name in option.opts
    }
    assert not names & {"--threads", "--requests", "--crop", "--step-time"}
    assert {name for name in names if not name.startswith("--")} <= {"-o"}


def test_scan_and_index_keep_indexes_in_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    scan_material.write(tmp_path / "shards")
    for shard in (tmp_path / "shards").iterdir():
        os.utime(shard, (1e9, 1e9))  # one that has just changed gets no index
    where = ["--index-dir", tmp_path / "indexes", "--quiet"]
    assert run("scan", tmp_path / "shards", *where).exit_code == 1
    assert list((tmp_path / "indexes").iterdir())
    done = run("index", tmp_path / "shards", *where)
    assert "0 indexes are new" in done.stdout
