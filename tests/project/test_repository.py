"""What is tested is the installed wheel, and the checks of `make lint` check."""

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_installed_wheel_is_tested():
    import gristmill

    assert Path(gristmill.__file__).is_relative_to(sys.prefix)


def test_one_version():
    import gristmill

    (workspace,) = re.findall(
        r"\[workspace\.package\]\nversion = \"(.*)\"", (ROOT / "Cargo.toml").read_text()
    )
    assert gristmill.__version__ == workspace


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ('"""One.\n\nTwo."""\n\n# why\nx = 1  # one\n', 1),
        ('def f():\n    """Doc."""\n    return """a\n\n    b"""\n', 4),
    ],
)
def test_python_lines_of_code(text, lines):
    assert script("check_length").python_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("//! Doc.\n\n/// Doc.\nfn f() {} // why\n", 1),
        ("/* a\nb */ fn f() {\n}\n", 2),
        ("/* a */\nlet x = 1 /* b */;\n", 1),
    ],
)
def test_rust_lines_of_code(text, lines):
    assert script("check_length").rust_lines(text) == lines


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("GPL-3.0-only OR (BSD-3-Clause AND MIT)", True),
    ],
)
def test_licence_expressions(expression, allowed):
    pytest.importorskip("packaging")
    check = script("check_licences").is_allowed
    assert check(expression, {"MIT", "BSD-3-Clause"}) is allowed


@pytest.mark.gate
def test_the_wheel_runs_where_its_tag_says():
    """On every glibc from the one of its tag on."""
    import gristmill._core

    files = importlib.metadata.files("gristmill")
    (wheel,) = [file for file in files if file.name == "WHEEL"]
    (tag,) = re.findall(r"^Tag: cp311-abi3-(.*)$", wheel.read_text(), re.MULTILINE)
    (promised,) = re.findall(r"manylinux_2_(\d+)_", tag)
    library = Path(gristmill._core.__file__).read_bytes()
    needed = re.findall(rb"GLIBC_2\.(\d+)", library)
    assert max(map(int, needed)) <= int(promised)
    # The system's unwinder and no other: a linker's own breaks the exit of daemon threads.
    assert b"libgcc_s.so.1\0" in library


def test_the_wheel_has_the_documentation():
    import gristmill

    package = Path(gristmill.__file__).parent
    docs = package / "docs"
    cited = set()
    for module in Path(gristmill.__file__).parent.rglob("*.py*"):
        if module.suffix in {".py", ".pyi"}:
            cited |= set(re.findall(r"docs/([\w/-]+\.md)", module.read_text()))
    assert cited
    assert [page for page in cited if not (docs / page).is_file()] == []
    # Pages and examples are links in `python/gristmill`: a new one takes a new link.
    pages = sorted(path for path in (ROOT / "docs").rglob("*") if path.is_file())
    pages += sorted((ROOT / "examples").glob("*.py"))
    shipped = [package / page.relative_to(ROOT) for page in pages]
    assert [page.name for page in shipped if not page.is_file()] == []
    assert [page.read_bytes() for page in shipped] == [page.read_bytes() for page in pages]
    assert list(_dead_links(docs)) == []


def _dead_links(docs):
    """The links of the shipped pages that lead to no file beside them."""
    for page in docs.rglob("*.md"):
        # Comments have links of the site alone.
        text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)", text):
            if "://" not in target and not (page.parent / target).exists():
                yield page.name, target


def test_project_urls_are_those_of_the_repository():
    (repository,) = re.findall(
        r'^repository = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE
    )
    urls = importlib.metadata.metadata("gristmill").get_all("Project-URL")
    assert {url.split(", ")[0] for url in urls} >= {"Repository", "Documentation", "Changelog"}
    assert all(url.split(", ")[1].startswith(repository) for url in urls)


def test_the_command_line_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "gristmill", "--help"], capture_output=True, text=True, check=True
    )
    assert "Usage: gristmill [OPTIONS]" in done.stdout
    docs = done.stdout.partition("The documentation is in")[2]
    assert (Path("".join(docs.split())) / "guide.md").is_file()


def test_import_without_jax_says_nothing():
    code = "import sys; sys.modules['jax'] = None; import gristmill"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    # Grain by itself does: what is silenced is there.
    code = "import sys; sys.modules['jax'] = None; import grain"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "jax profiler" in done.stderr


def test_workflows_run_verbs_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    commands = [
        command
        for file in files
        for command in re.findall(r"- run: (.*)", file.read_text(encoding="utf-8"))
    ]
    assert len(commands) > 8
    assert {command.split()[0] for command in commands} == {"make"}
    assert {command.split()[1] for command in commands} <= verbs


@pytest.mark.gate
def test_workflow_files_are_valid():
    pytest.importorskip("check_jsonschema")
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    command += ["vendor.github-workflows", *map(str, files)]
    subprocess.run(command, check=True, capture_output=True)
