"""Sphinx configuration. What is built needs no network: no fonts, scripts or pictures from elsewhere."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

import holdtrue

project = "Holdtrue"
author = "The Holdtrue authors"
copyright = "The Holdtrue authors"
release = holdtrue.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Holdtrue"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["holdtrue.css"]
html_math_renderer = "mathml"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
exclude_patterns = ["_build"]
nitpicky = False

_LITERAL = re.compile(r"(``.*?``)")
_NUMBER = re.compile(r"int \| float \| ~?(?:fractions\.)?Fraction \| ~?(?:decimal\.)?Decimal")
_ARRAY = re.compile(r"[~\w.]*ndarray\[[~\w.]*tuple\[[~\w.]*Any, \.\.\.\], [~\w.]*dtype\[([~\w.]+)\]\]")
_TAG = re.compile(r"\\tag\{(.*?)\}")
# Spellings of TeX that Docutils does not know, and what it knows in their place.
_SPELLINGS = (
    (re.compile(r"\\[td]frac\b|\\[td]frac(?=\d)"), r"\\frac"),
    (re.compile(r"\\dots\b"), r"\\ldots"),
    (re.compile(r"\\([bB]igg?)(?=\(|\[|\\\{|\\lVert|\\lvert|\\lceil|\\lfloor)"), r"\\\1l"),
    (re.compile(r"\\([bB]igg?)(?=\)|\]|\\\}|\\rVert|\\rvert|\\rceil|\\rfloor)"), r"\\\1r"),
    (re.compile(r"\\([bB]igg?)(?=[|/])"), ""),
    (re.compile(r"\\(frac)\s*([0-9A-Za-z])(?=\{)"), r"\\\1{\2}"),
    (re.compile(r"\\(frac)\s*([0-9A-Za-z])\s*(\\[A-Za-z]+|[0-9A-Za-z])"), r"\\\1{\2}{\3}"),
)


def _mathml(translator: HTML5Translator, node: nodes.Element, *, block: bool) -> None:
    """Write a formula as MathML, which browsers draw themselves; MathJax would come from another host."""
    text = node.astext()
    tags, known = _TAG.findall(text), _TAG.sub("", text)
    for spelling, better in _SPELLINGS:
        known = spelling.sub(better, known)
    try:
        shown = tex2mathml(known, as_block=block)
    except (MathError, SyntaxError) as error:
        logging.getLogger(__name__).warning("formula not understood: %s (%s)", text, error, location=node)
        shown = f"<code>{translator.encode(text)}</code>"
    side = "".join(f'<span class="eqno">({translator.encode(tag)})</span>' for tag in tags)
    translator.body.append(f'<div class="math">{side}{shown}</div>' if block else shown)
    raise nodes.SkipNode


def _inline(translator: HTML5Translator, node: nodes.Element) -> None:
    _mathml(translator, node, block=False)


def _block(translator: HTML5Translator, node: nodes.Element) -> None:
    _mathml(translator, node, block=True)


def _escape_bars(_app: Sphinx, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Take the bars of an absolute value for what they are, and not for reStructuredText's substitutions."""
    lines[:] = [
        "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in _LITERAL.split(line))
        for line in lines
    ]


def _shorten_numbers(
    _app: Sphinx, _what: str, _name: str, _thing: object, _options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Show a number as a float, though integers, fractions and decimals are taken as well, and an array without its rank."""
    return _shortened(signature), _shortened(returned)


def _shortened(text: str | None) -> str | None:
    return text and _ARRAY.sub(r"ndarray[\1]", _NUMBER.sub("float", text))


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("autodoc-process-signature", _shorten_numbers)
