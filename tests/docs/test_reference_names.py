"""Every public name stands in the reference, once, and every error says what it means."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

import holdtrue as ht

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
DIRECTIVE = re.compile(r"^\.\. auto(class|function|exception|data|module):: ([\w.]+)$", re.MULTILINE)
DOCUMENTED = [
    name for page in sorted(REFERENCE.glob("*.md")) for _, name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))
]


def thing(path):
    """Return what a dotted path names."""
    room, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(room), name)
    except AttributeError:
        return importlib.import_module(path)


THINGS = {path: thing(path) for path in DOCUMENTED}
PUBLIC = [
    f"{room}.{name}"
    for room in (
        "holdtrue",
        "holdtrue.estimators",
        "holdtrue.auditing",
        "holdtrue.holdouts",
        "holdtrue.errors",
        "holdtrue.clients",
    )
    for name in importlib.import_module(room).__all__
    if name != "__version__"
]


@pytest.mark.parametrize("path", PUBLIC)
def test_every_public_name_is_documented(path):
    assert any(each is thing(path) for each in THINGS.values()), f"{path} is in no page of docs/reference"


def test_nothing_is_documented_twice():
    assert [path for path, times in Counter(DOCUMENTED).items() if times > 1] == []
    kept = [each for each in THINGS.values() if not isinstance(each, dict)]
    assert len({id(each) for each in kept}) == len(kept)


@pytest.mark.parametrize("path", DOCUMENTED)
def test_everything_in_the_reference_says_what_it_is(path):
    assert (THINGS[path].__doc__ or "").strip()


def test_every_error_stands_in_the_tree():
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    tree = page.partition("```text\n")[2].partition("```")[0]
    drawn = re.findall(r"\b([A-Z]\w+)\b(?! *\))", re.sub(r"\(\w+\)", "", tree))
    assert sorted(drawn) == sorted(ht.errors.__all__)


@pytest.mark.parametrize("room", ["bounds", "accounting"])
def test_every_module_of_bounds_and_accounting_is_in_the_reference(room):
    held = {f"holdtrue.{room}.{each.stem}" for each in Path(ht.__file__).with_name(room).glob("[a-z]*.py")}
    assert held <= set(DOCUMENTED)
