"""No link leads to a missing page, and no page is left out of the table of contents."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
DOC_ROLE = re.compile(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`")


def prose(page):
    """Return a page's text without its code."""
    return re.sub(r"(?<!`)`[^`\n]+`(?!`)", "", FENCED.sub("", page.read_text(encoding="utf-8")))


def links(page):
    return [each for each in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", each)]


def anchors(page):
    """Return the anchors of a page: its headings, as MyST names them, and the targets that it names itself."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = re.findall(r"^\(([\w.-]+)\)=$", text, re.MULTILINE)
    return {*(re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads), *named}


def targets():
    """Return all targets that pages name themselves: a link may leave out their page."""
    return {
        name for page in PAGES for name in re.findall(r"^\(([\w.-]+)\)=$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_leads_to_a_missing_page_or_heading(page):
    for link in links(page):
        target, _, anchor = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{link}: there is no such page"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found) or (not target and anchor in targets()), f"{link}: there is no such heading"
    for name in DOC_ROLE.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        found = DOCS / f"{name.lstrip('/')}.md" if name.startswith("/") else page.parent / f"{name}.md"
        assert found.exists(), f"{{doc}}`{name}`: there is no such page"


def listed(page):
    """Return the pages below one, by its tables of contents."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = [line.strip() for block in blocks for line in block.splitlines() if line.strip() and not line.startswith(":")]
    below = [page.parent / f"{name}.md" for name in names]
    return [*below, *(each for one in below for each in listed(one))]


def test_every_page_is_in_the_table_of_contents_once():
    found = listed(DOCS / "index.md")
    assert sorted(set(found)) == sorted(found)
    assert sorted({*found, DOCS / "index.md"}) == PAGES


def test_the_table_of_contents_has_its_captions():
    captions = re.findall(r"^:caption: (.+)$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert captions == ["Start", "How to", "Explained", "Theory", "Promise", "Reference", "Design"]


def test_the_layers_of_the_design_page_are_those_that_are_checked():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
    checked = [sorted(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    table = (
        (DOCS / "design.md").read_text(encoding="utf-8").partition("| layer | modules | holds |\n")[2].partition("\n\n")[0]
    )
    shown = [sorted(re.findall(r"`(\w+)`", row.split("|")[2])) for row in table.splitlines()[1:]]
    assert shown == checked


def test_a_missing_page_would_be_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n[gone](gone.md), [here](#page), [`no link`](https://example.org)\n")
    with pytest.raises(AssertionError, match="no such page"):
        test_no_link_leads_to_a_missing_page_or_heading(page)
