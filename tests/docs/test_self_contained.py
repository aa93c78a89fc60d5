"""What is built from the pages asks no other host for anything: no fonts, scripts, styles or pictures."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FETCHED = re.compile(r"<(?:script|link|img|iframe|video|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'> ]+)")
STYLED = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"') ]+)")
PAGE = "# Page\n\n{}\n\n$$\\alpha\\le\\frac12\\Big(\\sqrt{{k}}\\Big)$$\n\nand $x_1,\\dots,x_k$.\n"


def build(folder, text):
    """Build one page by the documentation's own configuration; return what pages and styles would fetch elsewhere."""
    (folder / "in").mkdir()
    shutil.copy(DOCS / "conf.py", folder / "in")
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
