"""What is built from the pages asks no other host for anything: no fonts, scripts, styles or pictures.

It draws formulas with its own font, links the codes of theorems, and keeps the list of sections beside the text.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.browsing import browsing

DOCS = Path(__file__).parents[2] / "docs"
FETCHED = re.compile(r"<(?:script|link|img|iframe|video|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'> ]+)")
STYLED = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"') ]+)")
PAGE = "# Page\n\n{}\n\n$$\\alpha\\le\\frac12\\Big(\\sqrt{{k}}\\Big)$$\n\nand $x_1,\\dots,x_k$.\n"


TABLE = "# Theory\n\n| item | what |\n|---|---|\n| T5 | [transfer](transfer.md#t5) |\n"
CODES = "Text of T5, of promise P3, of S3 (no item), of $T5$.\n\n## Beside `T5`\n\n```python\nT5 = 1\n```\n\n## More\n"


def build(folder, text, **more):
    """Build one page by the documentation's own configuration; return what pages and styles would fetch elsewhere."""
    (folder / "in" / "theory").mkdir(parents=True)
    shutil.copy(DOCS / "conf.py", folder / "in")
    for name, page in more.items():
        (folder / "in" / f"{name.replace('__', '/')}.md").write_text(page, encoding="utf-8")
    shutil.copytree(DOCS / "_static", folder / "in" / "_static")
    (folder / "in" / "index.md").write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "-b", "html", "in", "out"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - Sphinx
    assert done.returncode == 0, done.stderr
    built = {
        path: path.read_text(encoding="utf-8") for kind in ("html", "css") for path in (folder / "out").rglob(f"*.{kind}")
    }
    return built[folder / "out" / "index.html"], [
        url for text in built.values() for url in FETCHED.findall(text) + STYLED.findall(text)
    ]


def test_nothing_that_is_built_comes_from_another_host(tmp_path):
    page, fetched = build(tmp_path, PAGE.format("A page."))
    assert fetched == []
    assert page.count("<math") == 2  # drawn by the browser itself
    assert "<mfrac>" in page
    assert "MathJax" not in page


def test_a_picture_from_another_host_would_be_found(tmp_path):
    _, fetched = build(tmp_path, PAGE.format("![](https://example.org/picture.png)"))
    assert "https://example.org/picture.png" in fetched


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_no_page_shows_anything_from_another_host(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"!\[[^\]]*\]\((?:https?:)?//|\{(?:image|figure)\} (?:https?:)?//", text)
    assert not FETCHED.search(text)


def test_codes_of_theorems_and_promises_are_links_and_formulas_have_their_own_font(tmp_path):
    others = "```{toctree}\n:hidden:\ntheory/index\ntheory/transfer\npromise\n```\n"
    page, fetched = build(
        tmp_path,
        PAGE.format(CODES) + others,
        theory__index=TABLE,
        theory__transfer="# Transfer\n\n(t5)=\n## T5: gap\n\nT5 itself.\n",
        promise="# Promise\n\nP3 here.\n",
    )
    assert fetched == []
    article = page[page.index("<article") : page.index("</article")]
    assert re.findall(r'href="([^"]*)">([A-Z]\d)</a>', article) == [
        ("theory/transfer.html#t5", "T5"),
        ("promise.html", "P3"),
    ]
    itself = (tmp_path / "out" / "theory" / "transfer.html").read_text(encoding="utf-8")
    assert "<p>T5 itself.</p>" in itself  # no link from a section to itself
    with browsing() as browser:
        shown = browser.new_page(viewport={"width": 1280, "height": 800})
        shown.goto((tmp_path / "out" / "index.html").as_uri())
        fonts = "document.fonts.ready.then(() => [...document.fonts].map((font) => [font.family, font.status]))"
        assert shown.evaluate(fonts) == [["STIX Two Math", "loaded"]]
        beside = shown.locator(".toc-drawer").bounding_box()
        assert shown.locator("article").bounding_box()["width"] > 640
        assert beside["x"] + beside["width"] <= 1280  # "On this page" is seen on a laptop
        assert shown.evaluate("document.documentElement.scrollWidth") <= 1280
        shown.goto((tmp_path / "out" / "search.html").as_uri() + "?q=transfer")
        shown.wait_for_selector("#search-results li a:has-text('Transfer')")


def test_on_a_phone_code_in_tables_is_whole_and_a_formula_does_not_touch_its_number(tmp_path):
    long = r"\mathbb E\Big[\mathbf 1_E\Big((v-u)-(e^\varepsilon-1)\,u(1-v)\Big)\Big]\ \le\ \delta.\tag{1}"
    table = (
        "| a | b | c | d |\n|---|---|---|---|\n| what is wanted | `watch(threshold=0.1, alarms=5)` | its price | where |\n"
    )
    build(tmp_path, f"# Page\n\n$${long}$$\n\n{table}")
    with browsing() as browser:
        shown = browser.new_page(viewport={"width": 390, "height": 800})
        shown.goto((tmp_path / "out" / "index.html").as_uri())
        formula, number = (shown.locator(f"div.math {part}").first.bounding_box() for part in ("math", ".eqno"))
        assert formula["x"] + formula["width"] <= number["x"]
        assert shown.evaluate("document.querySelector('td code').getClientRects().length") <= 2
        assert shown.evaluate("document.documentElement.scrollWidth") <= 390
