"""The notebooks of examples/ run from the first cell to the last, are committed without outputs, and have no private paths.

Cells run as in a kernel: in order, in one namespace, and the last expression of a cell is shown as a notebook shows it.
"""

import ast
import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read_cells(path):
    """Return the cells of a notebook of format 4.5, checked for what every reader of notebooks needs."""
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert document["metadata"]["kernelspec"]["name"] == "python3"
    cells = document["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    return cells


def show(value):
    """Show a value as a notebook does: as HTML where it has any, otherwise by its repr."""
    as_html = getattr(value, "_repr_html_", None)
    return as_html() if as_html is not None else repr(value)


def run_cell(source, names):
    """Run a cell and return what is shown of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - our own notebooks
    return None if last is None else show(eval(compile(ast.Expression(last.value), "cell", "eval"), names))  # noqa: S307 - likewise


def test_there_is_a_notebook_for_each_of_five_users():
    assert [path.stem for path in NOTEBOOKS] == ["analyst", "custodian", "eval-set", "statistician", "teacher"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_committed_clean(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, shown = {}, []
    for cell in read_cells(path):
        source = "".join(cell["source"])
        assert not re.search(r"/(?:home|work|root|tmp|Users)/", source)
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            shown.append(run_cell(source, names))
    assert len(shown) >= 4
    assert any(shown) or capsys.readouterr().out  # a notebook that shows nothing teaches nothing
    assert all(not text or " object at 0x" not in text for text in shown)  # what is shown is meant for people


def test_a_cell_that_fails_is_noticed():
    with pytest.raises(ZeroDivisionError):
        run_cell("x = 1\nx / 0", {})
    assert run_cell("x = 2\nx + 1", {}) == "3"
