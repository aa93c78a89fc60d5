"""docs/promise.md names tests that exist and cite the promise they measure."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "promise.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (P\d+) \| (?:.*) \| (`.*`) \|$", PAGE, flags=re.MULTILINE))


def test_there_are_twelve_promises():
    assert list(ROWS) == [f"P{number}" for number in range(1, 13)]


@pytest.mark.parametrize("promise", ROWS)
def test_every_promise_is_cited_by_the_tests_that_measure_it(promise):
    for name in re.findall(r"`([^`]+)`", ROWS[promise]):
        text = (TESTS / name).read_text(encoding="utf-8")
        assert re.search(rf"\b{promise}\b|test_{promise.lower()}_", text), f"{name} does not cite {promise}"


def test_every_other_test_file_named_there_exists():
    named = re.findall(r"`([a-z/_]+\.py)`", PAGE)
    assert named
    assert [name for name in named if not (TESTS / name).exists()] == []
