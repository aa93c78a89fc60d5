"""Every item of the theory's table has a section of its own, linked from the table, with code that the tests run."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "theory"
ROWS = re.findall(
    r"^\| ([0-9A-Z][0-9A-Za-z.]*) \| \[.*?\]\((.*?)#(.*?)\) \|", (FOLDER / "index.md").read_text(), re.MULTILINE
)
# An anchor, then the heading that begins with the item's name, then everything up to the next anchor of the page.
SECTION = re.compile(r"^\(([a-z0-9-]+)\)=\n## (\S+): (.*?)(?=^\([a-z0-9-]+\)=\n|\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = {
    (page.name, anchor): (item, text)
    for page in FOLDER.glob("*.md")
    for anchor, item, text in SECTION.findall(page.read_text())
}


def test_there_are_as_many_sections_as_items():
    assert len(ROWS) == len(SECTIONS) == len({anchor for _, anchor in SECTIONS}) >= 84


@pytest.mark.parametrize(("item", "page", "anchor"), ROWS, ids=[row[0] for row in ROWS])
def test_an_item_has_its_section(item, page, anchor):
    name, text = SECTIONS[page, anchor]
    assert name == item
    assert anchor == ("item-0-2" if item == "0.2" else item.lower().replace(".", "-"))
    assert re.search(r"\*\*(Statement|Definitions?|Convention|Setting|Theorem|Mechanism)\b", text)
    assert "```python\n" in text
    assert "assert " in text


@pytest.mark.parametrize("number", range(1, 34))
def test_an_erratum_is_named_where_its_statement_stands(number):
    told = [
        page.name for page in FOLDER.glob("*.md") if re.search(rf"\[erratum {number}\]\(\.\./errata\.md#", page.read_text())
    ]
    assert told
