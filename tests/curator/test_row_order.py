"""One row moves as many votes as are paid for, in whatever order rows come (E4, E10)."""

import math

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from holdtrue.curator import Curator
from holdtrue.ensembles.parts import PartRule
from holdtrue.errors import InvalidParameter, NotCertified, UnknownColumn
from holdtrue.planning.asking import open_plan
from holdtrue.queries.features import hash_keys
from holdtrue.verbs.predicting import rule_of
from holdtrue.verbs.training import ModelFacts

PARTS, BLOCK = 20, 40
ROWS = PARTS * BLOCK


def _sorted_tables(seats):
    """Return two neighbours, each sorted by x: one person's record is another one, and all between move up by one.

    Parts by position are tied in their votes on one side and agree on the other. ``seats`` are public numbers of people.
    """
    place = np.arange(ROWS)
    part, block = place % PARTS, place // PARTS
    x, y = place + 1.0, part % 2 == 0
    y = np.where((block < BLOCK // 2 - 1) | (block > BLOCK // 2), y, block % 2 == 0)
    other_x, other_y = x.copy(), y.copy()
    other_x[0], other_y[0] = x[ROWS // 2] + 0.5, False
    for some_x, some_y in ((x, y), (other_x, other_y)):
        order = np.argsort(some_x, kind="stable")
        yield {"x": some_x[order], "y": some_y[order], "seat": seats[order]}


def _votes(table, **cut):
    with Curator(table, epsilon=8.0, delta=1e-6) as curator:
        model = curator.train("m", DummyClassifier(strategy="most_frequent"), target="y", features=["x"], parts=PARTS, **cut)
        return model, model.measure(np.array([[3.0]]))[0]


def _loss(model, before, after):
    """Return the exact privacy loss of one prediction that is charged as epsilon 1."""
    rate = float(rule_of(model.asked, plan=_plan(), epsilon=1).rate)
    chances = [1 / (1 + math.exp(-rate * float(votes[1] - votes[0]))) for votes in (before, after)]
    return max(abs(math.log(chances[0] / chances[1])), abs(math.log((1 - chances[0]) / (1 - chances[1]))))


def test_e4_one_record_of_a_sorted_file_moves_one_vote_with_a_key():
    model, first = _votes(next(_sorted_tables(np.arange(ROWS))), key="seat")
    for seats in (np.arange(ROWS), np.random.default_rng(1).permutation(ROWS)):
        (model, before), (_, after) = (_votes(table, key="seat") for table in _sorted_tables(seats))
        assert np.abs(after - before).max() <= 1
        assert _loss(model, before, after) <= 1 + 1e-12
    assert model.asked.cut == PartRule("key", "seat")
    assert first.sum() == PARTS


def test_e4_one_record_of_a_sorted_file_moves_two_votes_without_a_key_and_both_are_paid_for():
    (model, before), (_, after) = (_votes(table) for table in _sorted_tables(np.arange(ROWS)))
    assert np.abs(after - before).max() <= 2
    assert _loss(model, before, after) <= 1 + 1e-12
    assert float(rule_of(model.asked, plan=_plan(), epsilon=1).rate) == 0.25


def test_parts_by_position_of_a_sorted_file_are_caught():
    """The control: a false ``order="fixed"`` lets one record move ten votes, for a loss nine times what is charged."""
    (model, before), (_, after) = (_votes(table, order="fixed") for table in _sorted_tables(np.arange(ROWS)))
    assert (before.tolist(), after.tolist()) == ([10, 10], [20, 0])
    assert _loss(model, before, after) > 9
    assert "assuming an order of rows that no value decides" in repr(model)


def test_shuffling_positions_by_a_secret_does_not_help():
    """A position is the rank of a value, and stays so under any permutation: the same parts change."""
    shuffle = np.random.default_rng(7).permutation(ROWS)
    held = []
    for table in _sorted_tables(np.arange(ROWS)):
        parts = [set(table["x"][shuffle][part::PARTS].tolist()) for part in range(PARTS)]
        held.append(parts)
    assert sum(one != two for one, two in zip(*held, strict=True)) == PARTS


def _plan():
    return open_plan(rows=ROWS, epsilon=8.0, delta=1e-6)


@pytest.mark.parametrize("method", ["soft-majority", "agnostic", "noisy-max"])
def test_every_rule_is_priced_for_the_votes_that_a_row_moves(method):
    """The same claim for one vote and for two, and less said of each vote where a row moves two."""
    plan = _plan()
    rules = {
        cut.votes: rule_of(ModelFacts("m", "", 50, (False, True), None, cut), plan=plan, epsilon=1, method=method)
        for cut in (PartRule("key", "id"), PartRule("content"))
    }
    assert rules[1].event == rules[2].event
    assert repr(rules[1]) != repr(rules[2])
    numbers = [
        rule_of(ModelFacts("m", "", 50, None, (0.0, 1.0), cut), plan=plan, epsilon=None, mu=1).deviation
        for cut in (PartRule("key", "id"), PartRule("content"))
    ]
    assert numbers[1] == pytest.approx(2 * numbers[0])


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(5)
    age = random.uniform(0, 100, 2000)
    names = [f"p{number}" for number in random.permutation(2000)]
    return pa.table(
        {
            "id": np.arange(2000),
            "name": names,
            "age": age,
            "sick": age + random.normal(0, 20, 2000) > 50,
            "bmi": random.normal(27, 5, 2000),
        }
    )


def _trained(data, **cut):
    with Curator(data, epsilon=8.0, delta=1e-6) as curator:
        tree, features = DecisionTreeClassifier(max_depth=3), ["age", "bmi"]
        model = curator.train("m", tree, target="sick", features=features, parts=30, **cut)
        points = [{"age": age, "bmi": 27.0} for age in np.linspace(0, 100, 41).tolist()]
        return model.measure(model.read(points)).tolist()


@pytest.mark.parametrize("cut", [{"key": "id"}, {"key": "name"}, {}], ids=["number", "text", "content"])
def test_every_engine_cuts_alike_in_every_order_of_rows(people, tmp_path, cut):
    shuffled = people.take(np.random.default_rng(9).permutation(2000))
    pq.write_table(shuffled, tmp_path / "people.parquet")
    expected = _trained(people, **cut)
    assert len({tuple(votes) for votes in expected}) > 5
    relation = duckdb.connect().from_arrow(people).order("age")
    for data in (shuffled, tmp_path / "people.parquet", relation):
        assert _trained(data, **cut) == expected


def test_a_relation_has_no_order_of_its_own(people):
    """Its plan decides the order, which is public; that it is refused for does not depend on a row."""
    for relation in (duckdb.connect().from_arrow(people), duckdb.connect().from_arrow(people).order("age")):
        with Curator(relation, epsilon=8.0, delta=1e-6) as curator:
            with pytest.raises(NotCertified, match="give key="):
                curator.train("m", LogisticRegression(), target="sick", features=["age"], parts=20, order="fixed")
            assert "one row moves one vote" in repr(
                curator.train("m", LogisticRegression(), target="sick", features=["age"], parts=20, key="id")
            )


def test_rows_without_a_key_and_keys_that_come_twice_stop_nothing(people):
    """No refusal depends on a row: a missing key is a key like any other."""
    names = people.column("name").to_pylist()
    names[3], names[4], names[5] = None, None, names[6]
    data = people.set_column(1, "name", pa.array(names))
    assert sum(_trained(data, key="name")[0]) == 30


@pytest.mark.parametrize(
    ("cut", "error"),
    [
        ({"key": "age"}, InvalidParameter),
        ({"key": "sick"}, InvalidParameter),
        ({"key": "nobody"}, UnknownColumn),
        ({"key": "id", "order": "fixed"}, InvalidParameter),
        ({"order": "sorted"}, InvalidParameter),
        ({"key": "id", "features": ["id", "age"]}, InvalidParameter),
    ],
)
def test_what_is_no_key_is_refused(people, cut, error):
    with Curator(people, epsilon=8.0, delta=1e-6) as curator, pytest.raises(error):
        curator.train("m", LogisticRegression(), **{"target": "sick", "parts": 20} | cut)


def test_a_key_is_no_feature_unless_it_is_named(people):
    with Curator(people, epsilon=8.0, delta=1e-6) as curator:
        assert curator.train("m", LogisticRegression(), target="sick", parts=20, key="id").columns == ("age", "bmi")
        assert "id" in curator.train("n", LogisticRegression(), target="sick", parts=20).columns


def test_the_response_says_how_rows_were_cut(people):
    with Curator(people, epsilon=8.0, delta=1e-6) as curator:
        for cut, words in (
            ({}, "two votes, and both are paid for"),
            ({"key": "id"}, "the public key 'id'"),
            ({"order": "fixed"}, "assuming an order of rows that no value decides"),
        ):
            curator.train("m", LogisticRegression(), target="sick", features=["age"], parts=20, replace=True, **cut)
            assert words in curator.predict("m", {"age": 3.0}, epsilon=0.1).certificate.theorem


def test_another_way_to_cut_is_another_model(people):
    """A point asked of one is not answered from the other's labels."""
    with Curator(people, epsilon=8.0, delta=1e-6) as curator:
        digests = {
            curator.train(
                "m", LogisticRegression(), target="sick", features=["age"], parts=20, replace=True, **cut
            ).asked.digest
            for cut in ({}, {"key": "id"}, {"key": "name"}, {"order": "fixed"})
        }
    assert len(digests) == 4


def test_keys_are_hashed_by_a_fixed_public_function():
    """So that a model is trained alike under every ledger and in every worker."""
    assert hash_keys(np.array([0, 1]), rows=2).tolist() == hash_keys(np.array(["0", "1"]), rows=2).tolist()
    assert hash_keys(np.array(["patient 7"]), rows=1).tolist() == [3309107281754686693]
