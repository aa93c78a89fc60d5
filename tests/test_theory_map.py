"""The table in docs/theory names functions and tests that exist, and every item once."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in (ROOT / "docs/theory/index.md").read_text().splitlines()
    if re.match(r"\| [0-9A-Z]", line)
]
TESTS = {
    node.name
    for path in (ROOT / "tests").rglob("test_*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
}


def test_every_item_is_there_once():
    items = [row[0] for row in ROWS]
    assert len(items) == len(set(items)) >= 84


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_function_and_tests_of_an_item_exist(row):
    _, _, function, tests = row
    home, name = function.strip("`").rsplit(".", 1)
    assert callable(getattr(importlib.import_module(f"holdtrue.{home}"), name))
    prefix = tests.strip("`")
    assert any(name == prefix or name.startswith(f"{prefix}_") for name in TESTS)
