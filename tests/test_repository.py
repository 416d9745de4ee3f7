"""What is tested is the installed wheel, and the checks of `make lint` check."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
