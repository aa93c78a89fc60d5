"""What is too heavy to emit: the bound that spares the weighing never lets a heavy tree through."""

import pytest

from holdtrue.queries.canonical import HEAVIEST, render, too_heavy, weigh
from holdtrue.queries.checking import check_tree
from holdtrue.queries.parser import read
from queries.generating import CARD, random_query_text

REPEATING = {
    "divisions": lambda depth: "i / (" * depth + "i" + ")" * depth,
    "conversions": lambda depth: "CAST(0.5 * " * depth + "i" + " AS INTEGER)" * depth,
    "conditions": lambda depth: "CASE WHEN x < " * depth + "y" + " THEN y END" * depth,
    "functions": lambda depth: "NULLIF(i, COALESCE(x, " * depth + "i" + "))" * depth,
}


def _checked(text):
    tree = check_tree(read(text), CARD)
    return tree, render(tree)


def test_nodes_and_depth_bound_the_weight(rng):
    for _ in range(1500):
        tree, piece = _checked(random_query_text(rng, depth=int(rng.integers(5))))
        assert weigh(tree) <= piece.nodes << piece.depth


@pytest.mark.parametrize("nested", REPEATING.values(), ids=REPEATING)
def test_the_heavy_are_found_whatever_repeats(nested):
    found = []
    for depth in range(1, 14):
        tree, piece = _checked(nested(depth))
        assert weigh(tree) <= piece.nodes << piece.depth
        found.append(too_heavy(tree, piece))
        assert found[-1] == (weigh(tree) > HEAVIEST)
    assert found[0] is False
    assert found[-1] is True
