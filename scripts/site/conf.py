"""The site's configuration, for Sphinx."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

# As the command does: the reference needs neither, and Grain imports both.
sys.modules.setdefault("jax", None)  # type: ignore[arg-type]

import gristmill  # noqa: E402 - after JAX was refused

project = "Gristmill"
author = "The Gristmill authors"
copyright = "the Gristmill authors"  # noqa: A001 - Sphinx's name for it
version = release = gristmill.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "index"
html_theme = "furo"
html_title = f"Gristmill {version}"
html_static_path = ["static"]
html_css_files = ["phone.css"]
html_theme_options = {
    "source_repository": "https://github.com/gristmill-project/gristmill/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_show_sourcelink = False
html_copy_source = False

# Links to headings are those of GitHub, so that they work there and in the wheel as well.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
suppress_warnings = ["myst.header"]

smartquotes = False
pygments_style = "friendly"
highlight_language = "text"
copybutton_exclude = ".linenos, .gp, .go"

# Docstrings mark code with single backticks. What is a name becomes a link; the rest stays code.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r"(?s).*"),
    # Types of others, and aliases of ours that annotations spell out.
    (
        "py:.*",
        r"(numpy|np|grain|collections|datasets|pyarrow|jax|os|obstore|typing|click|json)\b.*",
    ),
    ("py:class", r".*"),
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False

for _name in gristmill.__all__:
    _thing = getattr(gristmill, _name)
    if inspect.isclass(_thing) or inspect.isfunction(_thing):
        # A reader imports it from here, wherever it is defined.
        _thing.__module__ = "gristmill"

_LINK = re.compile(r"^- \[([^\]]+)\]\(([\w./-]+\.md)\)", re.MULTILINE)
_PAGE = re.compile(r"`docs/([\w/-]+)\.md`")


def _add_navigation(_app: Any, page: str, source: list[str]) -> None:
    """Makes navigation of the entry page's lists: a group for each heading."""
    if page != root_doc:
        return
    for section in re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        if links := _LINK.findall(section):
            tree = "\n".join(f"{text} <{link}>" for text, link in links)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{tree}\n```\n"


def _link_pages(
    _app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]
) -> None:
    """Docstrings name pages as they are called in the wheel."""
    lines[:] = [_PAGE.sub(r":doc:`/\1`", line) for line in lines]


def _sign_class(
    _app: Any, what: str, _name: str, thing: Any, _options: Any, given: str | None, _returns: Any
) -> tuple[str, None] | None:
    """A class's options, which its metaclass hides behind `*args`."""
    if what != "class" or not given or issubclass(thing, BaseException):
        return None
    return f"({', '.join(_parameters(inspect.signature(thing)))})", None


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    stars = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not stars:
            stars = True
            yield "*"
        text = name
        if isinstance(parameter.annotation, str):
            text += f": {parameter.annotation.replace('_paths.', '').replace('_exclude.', '')}"
        if parameter.default is not parameter.empty:
            default = repr(parameter.default)
            # A default of a data class is made anew for each; the docstring says what it is.
            text += " = ..." if default.startswith("<") else f" = {default}"
        yield text


def setup(app: Any) -> None:
    """Connects the above."""
    app.connect("source-read", _add_navigation)
    app.connect("autodoc-process-docstring", _link_pages, priority=100)
    app.connect("autodoc-process-signature", _sign_class)
