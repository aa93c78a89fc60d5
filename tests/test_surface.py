"""The public surface, the error tree and what an import may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import holdtrue as ht
from holdtrue import errors


def test_all_is_sorted_and_is_what_is_there():
    assert ht.__all__ == sorted(ht.__all__) == dir(ht)
    assert set(ht._HOME_OF) | set(errors.__all__) | {"__version__"} == set(ht.__all__)
    for name in ht.__all__:
        assert getattr(ht, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'ask'"):
        ht.ask  # noqa: B018 - the look-up is the test


def test_type_checkers_see_what_is_loaded_later():
    """The imports that only type checkers read name the same things as the table that loads them."""
    tree = ast.parse(Path(ht.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == {name: f"holdtrue.{home}" for name, home in ht._HOME_OF.items()}


def test_every_error_is_exported_and_says_whether_budget_was_spent():
    leaves = {cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, ht.HoldtrueError)}
    assert {cls.__name__ for cls in leaves} == set(errors.__all__) <= set(ht.__all__)
    branches = {ht.RequestError: 2, ht.RefusedError: 3, ht.ReleaseError: 4, ht.IntegrityError: 5, ht.MissingExtra: 6}
    for cls in leaves - {ht.HoldtrueError}:
        (branch,) = (b for b in branches if issubclass(cls, b))
        assert cls.exit_code == branches[branch]
    assert issubclass(ht.RequestError, ValueError)
    assert issubclass(ht.MissingExtra, ImportError)


def test_the_tree_is_drawn_as_it_is():
    drawn = errors.__doc__
    for name in errors.__all__:
        cls = getattr(errors, name)
        (line,) = (
            (
                text
                for text in drawn.splitlines()
                if f" {name} " in f" {text.strip('│├└─ ')} ".replace("(", " (") and "HTTP" in text
            )
            if cls is not ht.HoldtrueError
            else ("HTTP 500",)
        )
        assert f"HTTP {cls.http_status}" in line


def test_errors_carry_their_facts():
    short = ht.InsufficientSamples("too few", required=10)
    assert short.required == 10
    spent = ht.BudgetExceeded(requested=0.5, left=0.25, unit="epsilon")
    assert (spent.requested, spent.left) == (0.5, 0.25)
    assert str(spent) == "not enough budget: this needs 0.5 epsilon, and 0.25 is left"
    assert ht.ReleaseError("broken", entry=7).entry == 7
    assert str(ht.MissingExtra("plots", purpose="a plot")) == "a plot needs an extra package: pip install 'holdtrue[plots]'"
    long = ht.InvalidParameter("values", "x" * 500, "short")
    assert len(str(long)) < 200


@pytest.mark.parametrize(
    "heavy", ["numpy", "cryptography", "scipy", "numba", "sklearn", "matplotlib", "typer", "rich", "mpmath", "asyncio"]
)
def test_import_is_light(heavy):
    """`import holdtrue` must not bring what is slow to import; its time is measured by `make bench NAME=imports`."""
    code = f"import sys, holdtrue; sys.exit(any(name.split('.')[0] == {heavy!r} for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0  # noqa: S603
