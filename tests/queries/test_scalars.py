"""Interval analysis: what it says is true of the hardest rows, and integer arithmetic that it lets pass never overflows."""

import math

import numpy as np
import pytest

from holdtrue.errors import RequestError
from holdtrue.queries import parse
from holdtrue.queries.evaluator import _TreeEvaluation
from holdtrue.queries.scalars import fits_integer, never_null, range_of
from holdtrue.queries.syntax_tree import Arithmetic, Field, Number, Scalar, list_children
from queries.generating import CARD, adversarial_rows, random_query_text


def _scalars(tree):
    left = [tree]
    while left:
        node = left.pop()
        left.extend(list_children(node))
        if isinstance(node, Scalar) and node.type not in ("text", "boolean"):
            yield node


def test_every_value_lies_in_its_range(rng):
    columns = adversarial_rows(rng)
    seen = 0
    for _ in range(1500):
        try:
            tree = parse(random_query_text(rng, depth=3), CARD).tree
        except RequestError:
            continue
        for node in _scalars(tree):
            with np.errstate(all="ignore"):
                held = _TreeEvaluation(columns, None).find_values(node)
            found = range_of(node)
            values = held.data[held.there]
            seen += len(values)
            assert (values >= found.low).all(), node
            assert (values <= found.high).all(), node
            assert held.there.all() or not never_null(node), node
            if node.type == "integer":
                assert fits_integer(node), node
    assert seen > 100_000


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i + 1", "real"),
        ("i * 1", "integer"),
        ("i * -1", "real"),
        ("-i", "real"),
        ("ABS(i)", "real"),
        ("LENGTH(s) * LENGTH(t)", "real"),
        ("LENGTH(s) + LENGTH(t)", "integer"),
        ("LEAST(GREATEST(i, 0), 120) + 1", "integer"),
        ("LEAST(i, 120) + 1", "integer"),
        ("LEAST(i, j) + 1", "real"),
        ("GREATEST(i, 0) + 1", "real"),
        ("CAST(b AS INTEGER) + CAST(c AS INTEGER)", "integer"),
        ("j + 1", "real"),
        ("9223372036854775807 + 1", "real"),
        ("COALESCE(LENGTH(s), 0) - 5", "integer"),
        ("(d - e) * (d - DATE '2020-01-01') + YEAR(w)", "integer"),
        ("(d - e) / 7", "real"),
    ],
)
def test_arithmetic_is_of_integers_only_where_it_is_proven_to_fit(text, kind):
    assert parse(text, CARD).tree.type == kind


def test_bounds_on_the_card_are_not_believed():
    """Column j has bounds on the card; a row may break them, so j + 1 is computed where it cannot overflow."""
    assert CARD.column("j").bounds == (0, 120)
    assert range_of(Field("j", "integer")).high == 2**63 - 1


def test_where_nan_can_come_from():
    real, one = Field("x", "real"), Number(1.0)
    assert range_of(real).nan
    assert not range_of(one).nan
    whole = parse("i + 0.5", CARD).tree
    assert not range_of(whole).nan
    assert not range_of(parse("(i + 0.5) * (j + 0.5)", CARD).tree).nan
    huge = Arithmetic("*", Number(1e308), Number(10.0))
    assert range_of(huge).low == math.inf
    assert range_of(Arithmetic("-", huge, huge)).nan
    assert range_of(Arithmetic("*", huge, Number(0.0))).nan
    assert range_of(Arithmetic("/", huge, huge)).nan
    assert not range_of(Arithmetic("/", one, huge)).nan
