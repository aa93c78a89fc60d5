"""The lecture pages meet every slip of their source, check each claim with code, and end with exercises."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
FOLDER = DOCS / "lectures"
_SPEC = importlib.util.spec_from_file_location("claims", DOCS / "claims.py")
claims = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(claims)
SLIPS = {
    "1-stability-and-noise": range(6, 10),
    "2-exponential-mechanism": range(1, 6),
    "3-private-learning": range(24, 30),
    "4-answers-that-hold": range(30, 34),
    "5-private-prediction": range(10, 24),
}


def test_there_are_five_pages_in_teaching_order():
    listed = re.findall(r"^(\d-[a-z-]+)$", (FOLDER / "index.md").read_text(), re.MULTILINE)
    assert listed == list(SLIPS) == sorted(path.stem for path in FOLDER.glob("[0-9]-*.md"))


def test_every_slip_is_met_once():
    assert sorted(number for numbers in SLIPS.values() for number in numbers) == list(range(1, 34))


@pytest.mark.parametrize("page", SLIPS)
def test_a_page_meets_the_slips_of_its_source(page):
    named = {
        int(number) for number in re.findall(r"\[erratum (\d+)\]\(\.\./errata\.md#", (FOLDER / f"{page}.md").read_text())
    }
    assert named == set(SLIPS[page])


@pytest.mark.parametrize("page", SLIPS)
def test_every_section_of_a_page_is_checked_by_code(page):
    *sections, exercises = re.split(r"^## ", (FOLDER / f"{page}.md").read_text(), flags=re.MULTILINE)[1:]
    for section in sections:
        blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        assert any("assert " in block or "pytest.raises" in block for block in blocks), section.splitlines()[0]
    assert exercises.startswith("Exercises\n")
    assert 3 <= len(re.findall(r"^\d\. ", exercises, re.MULTILINE)) <= 5


@pytest.mark.parametrize("lecture", claims.read_index(), ids=lambda lecture: lecture["page"])
def test_every_claim_of_a_source_is_checked_or_has_a_reason(lecture):
    assert list(claims.find_missing(lecture)) == []
    assert list(claims.find_unlisted(lecture)) == []


def test_a_claim_without_a_check_and_one_that_is_not_listed_are_noticed():
    lecture = next(iter(claims.read_index()))
    first = next(claim for claim in lecture["claims"] if claim["item"] == "Definition 0.1")
    rest = [claim for claim in lecture["claims"] if claim != first]
    assert list(claims.find_missing(lecture | {"claims": [first | {"section": "Exercises"}]}))
    assert list(claims.find_missing(lecture | {"claims": [first | {"words": "nowhere said"}]}))
    assert list(claims.find_unlisted(lecture | {"claims": rest})) == [
        "Lecture 12: section 'Definition 0.1: total-variation stability'",
        "Lecture 12: Definition 0.1",
    ]
