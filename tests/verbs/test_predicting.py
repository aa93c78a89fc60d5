"""PREDICT through the curator: nothing leaves uncharged, a point asked again is free, a student asks no more."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from holdtrue import events
from holdtrue.curator import Curator
from holdtrue.errors import (
    BudgetExceeded,
    InsufficientSamples,
    InvalidParameter,
    NotCertified,
    RefusedError,
    ReleaseError,
    UnknownColumn,
    UnknownName,
)

ROWS = 4000
SURE = {"age": 95.0, "bmi": 35.0}


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(5)
    age, bmi = random.uniform(0, 100, ROWS), random.normal(27, 5, ROWS)
    grade = np.where(age < 30, "low", np.where(age < 60, "mid", "high"))
    return pd.DataFrame({"age": age, "bmi": bmi, "sick": age > 50, "grade": grade, "risk": age / 100})


def opened(people, **terms):
    return Curator(people, **({"epsilon": 8.0, "delta": 1e-6, "iid": True} | terms))


def trained(people, **terms):
    curator = opened(people, **terms)
    curator.train("sick", LogisticRegression(), target="sick", features=["age", "bmi"], parts=80)
    return curator


def test_training_costs_and_tells_nothing(people):
    curator = trained(people)
    assert curator.budget.spent == 0
    assert curator.history == []


def test_a_prediction_is_charged_as_soft_majority(people):
    """E4: the event is bounded-range at epsilon, for one prediction and for each of many."""
    curator = trained(people)
    one = curator.predict("sick", SURE, epsilon=0.5)
    assert one.label is True
    assert one.certificate.event == events.BoundedRange(0.5)
    many = curator.predict("sick", {"age": [90.0, 5.0, 90.0], "bmi": [30.0, 30.0, 30.0]}, epsilon=0.5)
    assert [answer.label for answer in many] == [True, False, True]
    assert many[0].certificate.event == events.Repeated(events.BoundedRange(0.5), 2)
    assert curator.budget.spent == pytest.approx(3 * one.certificate.cost)


def test_a_price_that_is_remembered_is_that_of_the_request_and_of_the_model(people):
    """What is made once for each epsilon never stands in for another epsilon, for what is refused, or for another model."""
    curator = trained(people, epsilon=40.0)
    ages = iter(range(100))

    def event(**given):
        return curator.predict("sick", {"age": next(ages), "bmi": 27.0}, **given).certificate.event

    for _ in range(2):
        assert event(epsilon=1) == event(epsilon=1.0) == events.BoundedRange(1)
        assert event(epsilon=0.5) == events.BoundedRange(0.5)
        assert isinstance(event(epsilon=None, mu=0.5, method="noisy-max"), events.GaussianNoise)
        assert event(epsilon=0.5, method="noisy-max") == events.Pure(0.5)
        for refused in (True, float("nan"), -1, [1], "one"):
            with pytest.raises(InvalidParameter):
                event(epsilon=refused)
    model = curator.model("sick")
    curator.train("sick", LogisticRegression(), target="sick", features=["age"], parts=80, replace=True)
    assert curator.predict("sick", {"age": 95.0}, epsilon=0.5).label is True
    assert curator.model("sick").offers.keys() != model.offers.keys()


def test_p5_a_point_asked_before_has_its_stored_label_for_nothing(people, tmp_path):
    with trained(people, ledger=tmp_path / "x.ledger") as curator:
        first = curator.predict("sick", {"age": 50.0, "bmi": 27.0}, epsilon=0.01)
        for given in ({"epsilon": 0.01}, {"epsilon": 0.005}, {}) * 7:
            again = curator.predict("sick", {"age": 50.0, "bmi": 27.0}, **given)
            assert (again.label, again.repeated) == (first.label, True)
        assert curator.budget.spent == first.certificate.cost
    with Curator(people, ledger=tmp_path / "x.ledger") as reopened:
        assert reopened.predict("sick", {"age": 50.0, "bmi": 27.0}).label == first.label
        assert reopened.predict("sick", SURE, epsilon=0.5).label is True


def _ask_twice(curator, name, **given):
    """Return a prediction that is new, and is given again for nothing."""
    found, again = (curator.predict(name, {"age": 50.0, "bmi": 27.0}, **given) for _ in range(2))
    assert (found.repeated, again.repeated, again.label) == (False, True, found.label)
    return found


def test_p5_less_noise_or_another_rule_is_another_request_with_a_charge_of_its_own(people, tmp_path):
    """What was answered with more noise never stands in for less; every fresh draw is in the ledger's total."""
    point, costs = {"age": 50.0, "bmi": 27.0}, []
    path = tmp_path / "x.ledger"
    with trained(people, ledger=path, bounds={"risk": (0, 1)}) as curator:
        curator.train("risk", LinearRegression(), target="risk", features=["age", "bmi"], parts=80)
        for name, asked in (
            ("sick", [{"epsilon": 0.1}, {"epsilon": 0.5}, {"epsilon": 0.5, "method": "agnostic"}]),
            ("sick", [{"epsilon": 0.1, "method": "noisy-max"}, {"mu": 0.1, "method": "noisy-max"}, {"epsilon": 0.7}]),
            ("risk", [{"mu": 0.1}, {"mu": 0.2}, {"epsilon": 0.1}, {"epsilon": 0.4}]),
        ):
            costs += [_ask_twice(curator, name, **given).certificate.cost for given in asked]
        labels = {epsilon: curator.predict("sick", point, epsilon=epsilon) for epsilon in (0.1, 0.3, 0.5, 0.6, None)}
        assert [labels[epsilon].certificate.event.epsilon for epsilon in labels] == [0.1, 0.5, 0.5, 0.7, 0.1]
        assert curator.predict("sick", point, epsilon=Fraction(1, 10)).repeated
        assert curator.budget.spent == pytest.approx(sum(costs))
        groups = [curator.budget.spent]
        for epsilon in (0.02, 0.01, None, 0.04, 0.02):
            curator.distill("sick", people[:40], LogisticRegression(), groups=3, epsilon=epsilon)
            groups.append(curator.budget.spent)
        assert (np.diff(groups) > 0).tolist() == [True, False, False, True, False]
    with Curator(people, ledger=path) as reopened:
        assert all(reopened.predict("sick", point, epsilon=epsilon) == labels[epsilon] for epsilon in labels)


def test_a_screen_goes_before_each_answer_that_is_new(people):
    curator = trained(people, epsilon=20.0)
    curator.predict("sick", SURE, epsilon=0.1)
    verbs = []
    for epsilon in (0.1, 0.3, 0.3):
        assert curator.predict("sick", {"age": [95.0, 94.0], "bmi": [35.0, 35.0]}, epsilon=epsilon, screen=0.5)[0].label
        verbs.append([line.verb for line in curator.history][sum(map(len, verbs)) + 1 :])
    assert verbs == [["screen", "predict"], ["screen", "predict"], []]
    assert [line.responses[0].certificate.event for line in curator.history][-1].times == 2


def test_another_model_of_the_name_is_not_answered_for_by_the_first(people):
    curator = trained(people)
    curator.predict("sick", SURE, epsilon=0.5)
    curator.train("sick", LogisticRegression(C=0.5), target="age < 50", features=["age", "bmi"], parts=80, replace=True)
    fresh = curator.predict("sick", SURE, epsilon=0.5)
    assert not fresh.repeated
    assert fresh.label is False


def test_labels_of_many_kinds_and_numbers(people):
    curator = opened(people)
    curator.train("grade", DecisionTreeClassifier(max_depth=3), target="grade", labels=["low", "mid", "high"], parts=80)
    assert curator.predict("grade", {"age": 10.0, "bmi": 27.0, "risk": 0.1, "sick": False}, epsilon=1.0).label == "low"
    curator.train("near", KNeighborsClassifier(), target="sick", features=["age"], parts=80)
    assert curator.predict("near", {"age": 90.0}, epsilon=1.0).label is True
    curator.train("risk", LinearRegression(), target="risk", features=["age"], bounds={"risk": (0, 1)}, parts=200)
    number = curator.predict("risk", {"age": 50.0}, epsilon=0.5)
    assert isinstance(number.label, float)
    assert 0.2 < number.label < 0.8


@pytest.mark.parametrize(
    ("method", "labels"), [("soft-majority", {True}), ("agnostic", {True, False}), ("noisy-max", {True})]
)
def test_every_rule_answers(people, method, labels):
    """The agnostic table errs about once in two hundred where all members agree, which is what it promises."""
    assert trained(people).predict("sick", SURE, epsilon=1.0, method=method).label in labels


def test_a_screen_is_charged_for_every_point_and_the_answer_for_clear_ones(people):
    curator = trained(people)
    clear = curator.predict("sick", SURE, epsilon=0.5, screen=0.2)
    assert clear.label is True
    assert [line.verb for line in curator.history] == ["screen", "predict"]
    unclear = curator.predict("sick", {"age": 50.0, "bmi": 27.0}, epsilon=0.5, screen=1.0)
    screens = [line for line in curator.history if line.verb == "screen"]
    assert len(screens) == 2
    if unclear.label is None:
        assert len(curator.history) == 3
        again = curator.predict("sick", {"age": 50.0, "bmi": 27.0}, epsilon=0.5, screen=1.0)
        assert again.label is None
        assert len(curator.history) == 3


def test_a_student_is_paid_for_once(people):
    """E17: what a student says after it was taught costs nothing."""
    curator = trained(people)
    public = pd.DataFrame({"age": np.linspace(1, 99, 60), "bmi": np.full(60, 27.0)})
    student = curator.distill("sick", public, LogisticRegression(), labels=30, epsilon=0.3)
    spent = curator.budget.spent
    said = student.predict(people)
    assert curator.budget.spent == spent
    assert (said == people.sick).mean() > 0.7
    assert student.labels == 30
    curator.distill("sick", public, LogisticRegression(), labels=30, epsilon=0.3)
    assert curator.budget.spent == spent


def test_groups_of_public_points_buy_one_label_each(people):
    """E4 with pooled votes: a member's votes over a group, scaled by its size, count as one."""
    curator = trained(people)
    public = pd.DataFrame({"age": np.linspace(1, 99, 200), "bmi": np.full(200, 27.0)})
    student = curator.distill("sick", public, DecisionTreeClassifier(max_depth=3), groups=8, epsilon=0.5)
    (line,) = curator.history
    assert len(line.responses) == 8
    assert line.responses[0].certificate.event == events.Repeated(events.BoundedRange(0.5), 8)
    assert (student.predict(people) == people.sick).mean() > 0.8
    spent = curator.budget.spent
    curator.distill("sick", public, DecisionTreeClassifier(max_depth=3), groups=8, epsilon=0.5)
    assert curator.budget.spent == spent


def test_e1_beyond_the_budget_nothing_is_drawn_and_nothing_changes(people):
    curator = trained(people, epsilon=0.5)
    left = curator.predictions_left(epsilon=0.1)
    ages = np.linspace(0, 100, left)
    curator.predict("sick", {"age": ages, "bmi": np.full(left, 27.0)}, epsilon=0.1)
    before = (curator.budget.spent, len(curator.history))
    with pytest.raises(BudgetExceeded):
        curator.predict("sick", {"age": [-1.0, -2.0], "bmi": [27.0, 27.0]}, epsilon=0.1)
    assert (curator.budget.spent, len(curator.history)) == before
    assert curator.predict("sick", {"age": ages[0], "bmi": 27.0}).repeated


def test_p3_the_charge_is_in_the_ledger_before_members_vote(people):
    curator = trained(people)
    model = curator._models.find_model("sick")
    seen = []

    class Late:
        def votes(self, rows):
            seen.append(curator.pipeline.ledger.spent)
            return model.ensemble.votes(rows)

    curator._models._held["sick"] = replace(model, ensemble=Late())
    found = curator.predict("sick", SURE, epsilon=0.5)
    assert seen == [round(found.certificate.cost * 10**15)]


def test_p8_a_failure_while_voting_costs_and_tells_nothing(people):
    curator = trained(people)
    model = curator._models.find_model("sick")

    class Failing:
        def votes(self, rows):
            message = f"canary {rows}"
            raise ValueError(message)

    curator._models._held["sick"] = replace(model, ensemble=Failing())
    with pytest.raises(ReleaseError) as caught:
        curator.predict("sick", SURE, epsilon=0.5)
    assert "canary" not in str(caught.value)
    assert curator.budget.spent > 0


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        ({"target": "sick", "parts": ROWS + 1}, InsufficientSamples, "parts"),
        ({"target": "grade"}, NotCertified, "labels"),
        ({"target": "age", "features": ["bmi"]}, NotCertified, "bounds"),
        ({"target": "agee"}, UnknownColumn, "age"),
        ({"target": "grade", "labels": ["low", "mid", "low"]}, InvalidParameter, "each label once"),
        (
            {"target": "grade", "labels": list(map(str, range(ROWS + 1)))},
            InvalidParameter,
            "as many labels as there are rows",
        ),
        ({"target": "sick", "features": ["grade"]}, InvalidParameter, "values of grade are not public"),
        ({"target": "sick", "estimator": object()}, InvalidParameter, "estimator"),
        ({"target": "sick", "name": "../x"}, InvalidParameter, "letters"),
        ({"target": "bmi / 50"}, InvalidParameter, "yes-or-no"),
    ],
)
def test_what_cannot_be_trained_is_refused(people, model, error, match):
    facts = {"name": "m", "estimator": LogisticRegression(), "parts": 20} | model
    curator = opened(people)
    with pytest.raises(error, match=match):
        curator.train(facts.pop("name"), facts.pop("estimator"), **facts)
    assert curator.budget.spent == 0


def test_what_cannot_be_predicted_is_refused_before_the_charge(people, tmp_path):
    curator = trained(people)
    with pytest.raises(UnknownName, match="trained: sick"):
        curator.predict("sik", SURE)
    with trained(people, ledger=tmp_path / "x.ledger"):
        pass
    with Curator(people, ledger=tmp_path / "x.ledger") as again, pytest.raises(UnknownName, match="trained: sick"):
        again.predict("sik", SURE)
    with pytest.raises(InvalidParameter, match="bmi"):
        curator.predict("sick", {"age": 5.0}, epsilon=0.1)
    with pytest.raises(InvalidParameter, match="epsilon"):
        curator.predict("sick", SURE, epsilon=0)
    with pytest.raises(InvalidParameter, match="method"):
        curator.predict("sick", SURE, epsilon=0.1, method="loud")
    with pytest.raises(InvalidParameter, match="give a smaller epsilon or mu"):
        curator.predict("sick", SURE, epsilon=1e9)
    assert curator.budget.spent == 0


def test_a_plan_without_a_reserve_says_so_whatever_the_epsilon(people):
    """Dividing the cap among the questions leaves a few units, which pay for nothing."""
    curator = trained(people, queries=20, reserve=0)
    for ask in (
        lambda: curator.predict("sick", SURE, epsilon=0.1),
        lambda: curator.predict("sick", SURE),
        lambda: curator.select(["age > 5", "age > 9"], epsilon=1e-6),
    ):
        with pytest.raises(RefusedError, match=r"no reserve for verbs other than ask.*reserve=0.25"):
            ask()
    assert curator.budget.spent == 0
    assert not trained(people, reserve=0).predict("sick", SURE, epsilon=0.1).repeated  # an open-ended ledger has one budget
