"""Atoms: whatever a row holds, some atom has the values that all queries have on it."""

import numpy as np
import pytest

from holdtrue.queries.atoms import AtomPartition
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.evaluator import Values, evaluate
from holdtrue.queries.parser import parse

CARD = Card(
    (
        Column("n", "integer"),
        Column("x", "real"),
        Column("y", "real"),
        Column("b", "boolean"),
        Column("t", "text"),
        Column("d", "date"),
    ),
    10,
)
TEXTS = [
    "n > 3",
    "n <= 3 AND b",
    "n IN (1, 4, 5)",
    "NOT (n IN (1, 4))",
    "x >= 0.5",
    "x < 0.5 OR NOT b",
    "x IS NULL",
    "x < y",
    "x = y",
    "t = 'a'",
    "t IN ('a', 'c') AND n <> 2",
    "t LIKE 'a%'",
    "t NOT LIKE '%b'",
    "t < 'b'",
    "NOT (b AND n > 3)",
    "CASE WHEN n > 3 THEN 0.25 WHEN b THEN 1 ELSE 0 END",
    "CASE WHEN b THEN x ELSE 0 END",
    "x",
    "d > DATE '2020-01-01'",
    "TRUE",
]


def make_rows(number, seed):
    source = np.random.default_rng(seed)

    def holes():
        return source.random(number) < 0.8

    words = np.array(["a", "ab", "b", "c", "ca", ""], dtype=object)
    return {
        "n": Values(source.integers(0, 7, number), holes()),
        "x": Values(source.integers(-1, 3, number) / 2, holes()),
        "y": Values(source.integers(-1, 3, number) / 2, holes()),
        "b": Values(source.random(number) < 0.5, holes()),
        "t": Values(words[source.integers(0, 6, number)], holes()),
        "d": Values(source.integers(18000, 18500, number), holes()),
    }


def test_every_row_has_an_atom_on_which_all_queries_have_its_values():
    queries = [parse(text, CARD) for text in TEXTS]
    source = np.random.default_rng(3)
    rows = make_rows(300, 4)
    values = np.array([evaluate(query, rows, 20) / 2**20 for query in queries])
    for _ in range(40):
        chosen = source.choice(len(queries), 4, replace=False)
        partition = AtomPartition()
        assert partition.add([queries[place].tree for place in chosen], most=1 << 14)
        atoms = np.array([partition.evaluate(queries[place].tree) for place in chosen])
        assert atoms.shape[1] == partition.size
        for row in values[chosen].T:
            # A number that is no constant is a coin: it is 0 on one atom and 1 on another, and the row between them.
            known = np.array(
                [value if value in (0, 1) or place == 15 else np.nan for value, place in zip(row, chosen, strict=True)]
            )
            fits = (np.isnan(known)[:, None] | (np.abs(atoms - known[:, None]) < 1e-6)).all(axis=0)
            assert fits.any(), [TEXTS[place] for place in chosen]


def test_missing_values_are_an_atom_of_their_own_where_a_query_tells_them_apart():
    partition = AtomPartition()
    yes, no = parse("b", CARD), parse("NOT b", CARD)
    assert partition.add([yes.tree], most=8)
    assert partition.size == 2  # false and missing are one
    assert partition.add([no.tree], most=8)
    found = {tuple(atom) for atom in np.array([partition.evaluate(each.tree) for each in (yes, no)]).T.tolist()}
    assert found == {(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)}


def test_a_column_without_missing_values_has_no_atom_for_them():
    partition = AtomPartition({"b", "n"})
    queries = [parse(text, CARD) for text in ("b", "NOT b", "n < 3", "n >= 3")]
    assert partition.add([each.tree for each in queries], most=4)
    assert partition.size == 4
    values = [partition.evaluate(each.tree) for each in queries]
    np.testing.assert_array_equal(values[0] + values[1], 1)
    np.testing.assert_array_equal(values[2] + values[3], 1)


def test_no_atom_holds_a_number_between_two_neighbouring_integers():
    partition = AtomPartition()
    queries = [parse(text, CARD) for text in ("n > 3", "n > 4", "n = 4")]
    assert partition.add([each.tree for each in queries], most=8)
    found = {tuple(atom) for atom in np.array([partition.evaluate(each.tree) for each in queries]).T.tolist()}
    assert found == {(0.0, 0.0, 0.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0)}


def test_what_does_not_fit_changes_nothing():
    partition = AtomPartition()
    first = parse("n > 3", CARD).tree
    assert partition.add([first], most=4)
    before = partition.evaluate(first)
    assert not partition.add([parse(f"n = {at}", CARD).tree for at in range(9)] + [parse("b", CARD).tree], most=4)
    assert partition.size == 2
    np.testing.assert_array_equal(partition.evaluate(first), before)


@pytest.mark.parametrize(("text", "values"), [("TRUE", {1.0}), ("0.5", {0.5}), ("2.0", {1.0})])
def test_constants_have_one_atom(text, values):
    partition = AtomPartition()
    tree = parse(text, CARD).tree
    assert partition.add([tree], most=1)
    assert set(partition.evaluate(tree).tolist()) == values
