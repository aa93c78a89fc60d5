"""What a newcomer meets first: prices in questions, allowances, own units, constants, tables of answers, and why so wide."""

import math
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import holdtrue as ht
from holdtrue.auditing.ledger import audit_ledger
from holdtrue.codec import decode, encode
from holdtrue.curator.budget import Budget, Preview
from holdtrue.records import Listing

ROWS = 4_000
OPEN = {"queries": 300, "epsilon": 1.0, "delta": 1e-6, "iid": True, "bounds": {"age": (0, 120), "score": (0, 1)}}


def people():
    random = np.random.default_rng(3)
    return {
        "age": random.integers(18, 90, ROWS),
        "score": random.random(ROWS),
        "visits": random.integers(0, 2, ROWS),
        "smoker": random.random(ROWS) < 0.2,
    }


@pytest.fixture
def curator():
    with ht.Curator(people(), **OPEN) as opened:
        yield opened


def test_a_number_that_leaves_0_to_1_by_its_bounds_is_refused_with_the_way_out(curator):
    for query, way_out in [("age", "mean(age)"), ("age / 100", "LEAST(1, GREATEST(0, age / 100))"), ("5", "is neither")]:
        for refuse in (curator.ask, curator.preview, lambda text: curator.ask(text, by="smoker")):
            with pytest.raises(ht.UnsupportedQuery, match="0 to 1") as refused:
                refuse(query)
            assert way_out in str(refused.value)
    with pytest.raises(ht.UnsupportedQuery, match="mean"):
        curator.select(["age", "score"])
    with pytest.raises(ht.UnsupportedQuery, match="mean"):
        curator.watch(threshold=0.5).ask("age")
    assert (curator.budget.spent, curator.history) == (0, [])
    # What stays within [0, 1], or has no declared bounds, is answered, and its preview says that it is clamped.
    for query in ("score", "age / 120", "LEAST(1, GREATEST(0, age / 100))", "visits"):
        assert "count as 0" in (curator.preview(query).note or "")
        assert 0 <= curator.ask(query).value <= 1
    assert curator.preview("smoker").note is None


def test_a_word_that_is_no_public_label_is_named_in_the_preview_with_those_that_are():
    rows = {"region": ["north", "south", "east", "west"] * 500, "stage": [1, 2] * 1000, "town": ["a", "b"] * 1000}
    labels = {"region": ["north", "south", "east"], "stage": [1, 2, 3]}
    with ht.Curator(rows, queries=100, iid=True, labels=labels) as curator:
        for query, told in [
            ("region = 'nrth'", "'nrth': no public label of region, whose labels are 'north', 'south', 'east'"),
            ("NOT (stage = 7 OR region IN ('north', 'west', 'x'))", "'west', 'x': no public label of region"),
            ("stage <> 7 AND region = 'east'", "7: no public label of stage, whose labels are 1, 2, 3"),
            ("CASE WHEN region = 'No' THEN 1 ELSE 0 END", "above 1 as 1; 'No': no public label of region"),
        ]:
            assert told in (curator.preview(query).note or "")
            assert told in str(curator.preview(query))
        for query in ("region = 'north'", "region IN ('south', 'east')", "town = 'z'", "region > 'm'", "region LIKE 'n%'"):
            assert curator.preview(query).note is None
        assert curator.budget.spent == 0
        assert "west" not in (curator.preview("region = 'nrth'").note or "")  # a label of rows only is never told
    codes = {"code": [f"c{each}" for each in range(50)]}
    with ht.Curator(rows | {"code": ["c0"] * 2000}, queries=9, iid=True, labels=codes) as many:
        assert (many.preview("code = 'd'").note or "").endswith("'c19' and 30 more")


def test_words_in_rows_that_units_own_are_compared_with_the_labels_of_their_table():
    people = pd.DataFrame({"id": range(600)})
    visits = pd.DataFrame({"id": [each % 600 for each in range(900)], "kind": ["acute", "planned", "acute"] * 300})
    labels = {"visits.kind": ["acute", "planned"]}
    with ht.Curator(people, unit="id", tables={"visits": visits}, queries=50, iid=True, labels=labels) as curator:
        note = curator.preview("visits.COUNT(kind = 'acte') > 0").note
        assert note == "'acte': no public label of kind, whose labels are 'acute', 'planned'"


def test_a_mean_takes_the_bounds_of_the_card(curator):
    found = curator.mean("age")
    assert found.bounds == (0, 120)
    assert curator.mean("age", low=0, high=120).repeated
    assert curator.sum("age").repeated
    with pytest.raises(ht.InvalidParameter, match="give low and high, public ends of visits"):
        curator.mean("visits")


def test_a_question_that_reads_no_column_costs_nothing_and_is_exact(tmp_path):
    with ht.Curator(people(), ledger=tmp_path / "people.ledger", **OPEN) as curator:
        assert str(curator.preview("1 = 1")) == "TRUE\n  width  none: exact\n  cost   nothing: it reads no column"
        true, half, smokers, false = curator.ask(["1 = 1", "0.5", "smoker", "age > 3 AND 1 = 2"])
        assert [(each.value, each.interval.width, each.certificate.cost) for each in (true, half, false)] == [
            (1.0, 0.0, smokers.certificate.cost),  # one charge for the four, which is that of the one that reads rows
            (0.5, 0.0, smokers.certificate.cost),
            (0.0, 0.0, smokers.certificate.cost),
        ]
        assert curator.budget.asks == 299
        assert smokers.interval.width > 0
        alone = curator.ask("2 = 2 OR smoker", key="once")
        assert (alone.value, alone.repeated, curator.budget.asks) == (1.0, True, 299)
        assert curator.ask("2 = 2 OR smoker", key="once").value == 1.0
        free = curator.ask("0.25", key="another")
        assert (free.value, free.certificate.cost, free.repeated, curator.budget.asks) == (0.25, 0, False, 299)
    assert audit_ledger(tmp_path / "people.ledger")
    with ht.Curator(people(), **OPEN | {"side": "low"}) as one_sided:  # nothing is deduced on a plan for one end
        assert one_sided.ask("1 = 1").certificate.cost > 0


def test_an_analyst_sees_the_own_allowance_and_a_refusal_names_it(curator):
    assert curator.budget_for("ann").allowance is None
    curator.grant("ann", asks=2)
    curator.ask("age > 30", analyst="ann")
    own = curator.preview("age > 50", analyst="ann")
    assert (own.allowance.asks, own.allowance.spent, own.allowance.left, own.fits) == (2, 1.0, 1, True)
    assert "1 of the 2 questions that ann may ask are left" in str(own)
    with pytest.raises(ht.BudgetExceeded, match="has 1 left, and this costs 2 questions; the dataset has 299 left"):
        curator.ask(["age > 40", "age > 50"], analyst="ann")
    curator.ask("age > 50", analyst="ann")
    with pytest.raises(ht.BudgetExceeded) as refused:
        curator.ask("age > 60", analyst="ann")
    assert str(refused.value) == "your allowance of 2 questions is used up; the dataset has 298 left; ask the owner"
    assert not curator.preview("age > 60", analyst="ann").fits
    assert curator.preview("age > 50", analyst="ann").fits  # asked before
    assert curator.budget_for("ann").allowance.left == 0
    assert (curator.budget.allowance, curator.budget.asks) == (None, 298)
    with pytest.raises(ht.BudgetExceeded, match=r"as much as [\d,]+ questions, and 100 are left in reserve"):
        curator.select(["smoker", "age > 3"], epsilon=5)


def test_budgets_and_previews_cross_a_boundary_with_their_allowance(curator):
    curator.grant("ann", asks=2)
    for found, kind in ((curator.budget_for("ann"), Budget), (curator.preview("smoker", analyst="ann"), Preview)):
        assert decode(encode(found), kind) == found
    assert b"allowance" not in encode(curator.budget).encode()


def test_answers_history_budget_and_certificates_are_tables(curator):
    answers = curator.ask(["smoker", "age > 50"])
    assert answers == list(answers)
    frame = answers.to_frame()
    assert (list(frame["question"]), len(frame)) == (["smoker", "age > 50"], 2)
    assert frame["low"].iloc[0] == answers[0].interval.low
    lines = curator.history.to_frame()
    assert (list(lines["verb"]), list(lines["request"])) == (["ask"], ["smoker; age > 50"])
    assert str(answers).splitlines()[0].split() == ["question", "value", "low", "high", "holds", "for", "cost", "repeated"]
    assert all(len(line) <= 80 for line in str(answers).splitlines())
    shown = [answers, curator.history, curator.budget, curator.preview("smoker"), answers[0].certificate]
    assert all(each._repr_html_().startswith("<table>") for each in shown)
    hostile = curator.preview("age > 1 OR age < 1")
    assert "&lt;= 0" in hostile._repr_html_()
    assert "<script" not in Listing(answers, names=["<script>", "x"])._repr_html_()
    assert isinstance(curator.budget.to_frame(), pd.DataFrame)
    assert isinstance(curator.preview("smoker").to_frame(), pd.DataFrame)
    assert (str(Listing()), Listing()._repr_html_()) == ("nothing yet", "<p>nothing yet</p>")


def test_what_is_printed_fits_eighty_columns():
    people = {"age": np.arange(1000) % 100}
    long = " OR ".join(f"age BETWEEN {low} AND {low + 3}" for low in range(0, 60, 10))
    with ht.Curator(people, queries=50, epsilon=1.0, delta=1e-6, iid=True) as curator:
        answers = curator.ask(["age > 5", long])
        shown = [answers, curator.history, curator.budget, curator.preview("age > 7"), answers[0].certificate]
    made = ht.plan(rows=40_000, queries=500, epsilon=1.0, delta=1e-6)
    shown += [made, made.compare(), ht.Curator(people, epsilon=1.0, delta=1e-6, iid=True).plan]
    shown += [
        ht.plan_holdout(cases=5000, looks=200, yes=10),
        ht.plan_learning(size=1000, alpha=0.05, beta=0.05, epsilon=0.5),
    ]
    for each in shown:
        assert max(map(len, str(each).splitlines())) <= 80, type(each)
    assert set(str(answers).split()) >= set(long.split())


def test_an_answer_says_why_it_is_as_wide_as_it_is(curator):
    answer = curator.ask("age > 50")
    told = answer.explain(curator.plan)
    wide = max(answer.value - answer.interval.low, answer.interval.high - answer.value)
    near = answer.sample_interval.high - answer.value
    assert f"within {wide:.3g} of the population" in told
    assert f"{near / wide:.0%} of that is noise" in told
    assert "300 planned questions" in told
    assert "Narrower with fewer questions or more rows" in answer.explain()
    assert math.isclose(near, curator.plan.sample_alpha, rel_tol=1e-6)
    assert curator.table("smoker").explain(curator.plan).startswith("within")
    assert curator.ask("1 = 1").explain().startswith("exact")
    with ht.Curator(people(), **OPEN | {"iid": False}) as sampled:
        assert "not declared independent" in sampled.ask("age > 50").explain()


def test_a_plan_says_the_width_with_and_without_independent_draws(curator):
    assert f"{curator.plan.sample_alpha:.4g} of these rows, whether or not" in str(curator.plan)
    alone = ht.plan(rows=ROWS, queries=300, epsilon=1.0, delta=1e-6, reserve=0.25, iid=False)
    assert f"{curator.plan.alpha:.4g} of the population if rows were declared" in str(alone)


def test_another_model_of_the_same_name_is_refused_unless_it_is_to_be_replaced(curator):
    given = {"target": "smoker", "features": ["age"], "parts": 20}
    curator.train("one", DecisionTreeClassifier(max_depth=1), **given)
    curator.train("one", DecisionTreeClassifier(max_depth=1), **given)  # just as it was
    with pytest.raises(ht.RefusedError, match="or replace it"):
        curator.train("one", DecisionTreeClassifier(max_depth=2), **given)
    assert "max_depth=1" in curator.model("one").asked.kind
    curator.train("one", DecisionTreeClassifier(max_depth=2), **given, replace=True)
    assert "max_depth=2" in curator.model("one").asked.kind


def test_a_student_reads_missing_numbers_as_it_was_taught():
    random = np.random.default_rng(5)
    ages = random.integers(18, 90, ROWS).astype(float)
    ages[::7] = np.nan
    with ht.Curator({"age": ages, "smoker": ages < 40}, **OPEN | {"reserve": 0.9, "cap": "privacy", "bounds": None}) as held:
        held.train("one", DecisionTreeClassifier(max_depth=2), target="smoker", features=["age"], parts=20)
        student = held.distill("one", {"age": [20.0, 30.0, 50.0, 60.0]}, LogisticRegression(), epsilon=0.01)
        assert list(student.predict({"age": [np.nan]})) == list(student.predict({"age": [0.0]}))


def test_a_missing_library_is_a_missing_extra(curator, monkeypatch):
    table = curator.table("smoker")
    for name in ("pandas", "polars", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for use, extra in ((table.to_pandas, "frames"), (table.to_polars, "frames"), (table.plot, "plots")):
        with pytest.raises(ht.MissingExtra, match=rf"pip install 'holdtrue\[{extra}\]'"):
            use()


def test_a_key_of_another_verb_is_refused_in_one_way(curator):
    curator.ask("smoker", key="monday")
    for use in (
        lambda: curator.learn(ht.Stumps(bounds={"age": (0, 100)}, steps=5), target="smoker", key="monday"),
        lambda: curator.variance("age", low=0, high=100, key="monday"),
        lambda: curator.table("smoker", key="monday"),
    ):
        with pytest.raises(ht.UsedKey, match="was used for another request"):
            use()


def test_labels_and_predictions_that_do_not_fit_are_refused_with_the_number_that_does(curator):
    curator.train("one", DecisionTreeClassifier(max_depth=1), target="smoker", features=["age"], parts=20)
    points, spent = {"age": list(range(18, 90))}, curator.budget.spent
    fitting = curator.predictions_left("one", epsilon=0.02)
    assert 0 < fitting < 72
    with pytest.raises(ht.BudgetExceeded, match=f"72 labels; at this price {fitting} fit: labels={fitting}, or groups="):
        curator.distill("one", points, LogisticRegression(), epsilon=0.02)
    with pytest.raises(ht.BudgetExceeded, match=f"72 predictions; at this price {fitting} fit: ask for fewer"):
        curator.predict("one", points, epsilon=0.02)
    assert curator.budget.spent == spent
    assert curator.distill("one", points, LogisticRegression(), labels=fitting, epsilon=0.02).labels == fitting
