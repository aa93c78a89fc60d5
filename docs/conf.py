"""Sphinx configuration. What is built needs no network: no fonts, scripts or pictures from elsewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

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
# Items of the theory's table, and where each stands.
_ITEM = re.compile(r"^\| ([A-Z]\d[0-9a-z.]*) \| \[.*?\]\((.*?)\.md#(.*?)\) \|", re.MULTILINE)
_CODE = re.compile(r"\b([A-Z]\d+(?:\.\d+)?b?)\b")
_UNLINKED = (nodes.literal, nodes.reference, nodes.title, nodes.math, nodes.math_block, nodes.FixedTextElement, nodes.raw)


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


def _link_codes(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link the code of a theorem (T5, E13) to its section, and that of a promise (P3) to its page, wherever text has one."""
    table = Path(app.srcdir) / "theory" / "index.md"
    items = _ITEM.findall(table.read_text(encoding="utf-8")) if table.exists() else []
    places = {item: (f"theory/{page}", anchor) for item, page, anchor in items}
    if items:
        places |= {f"P{number}": ("promise", "") for number in range(1, 13)}
    for text in list(doctree.findall(nodes.Text)):
        if any(_is_left_alone(node) for node in _ancestors(text)):
            continue
        sections = {name for node in _ancestors(text) if isinstance(node, nodes.section) for name in node["ids"]}
        parts: list[nodes.Node] = []
        for number, part in enumerate(_CODE.split(text.astext())):
            whole = part if part in places else part.partition(".")[0]  # U3.2 is told in the section of U3
            page, anchor = places.get(whole, ("", "")) if number % 2 else ("", "")
            if page in ("", docname if not anchor else "") or anchor in sections:
                parts.append(nodes.Text(part))
                continue
            uri = "" if page == docname else app.builder.get_relative_uri(docname, page)
            parts.append(nodes.reference("", part, internal=True, refuri=f"{uri}#{anchor}" if anchor else uri))
        if len(parts) > 1:
            text.parent.replace(text, parts)


def _ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def _is_left_alone(node: nodes.Node) -> bool:
    name = node.__class__.__name__
    return isinstance(node, _UNLINKED) or (name.startswith(("desc_", "compact_")) and name != "desc_content")


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("doctree-resolved", _link_codes)
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("autodoc-process-signature", _shorten_numbers)
