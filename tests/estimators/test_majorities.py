"""SoftMajorityClassifier: scikit-learn's own checks, what each answer costs, and what it never costs twice (E4)."""

import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from holdtrue import events
from holdtrue.ensembles import train
from holdtrue.errors import BudgetExceeded, InsufficientSamples, InvalidParameter, RefusedError
from holdtrue.estimators import EXPECTED_FAILED_CHECKS, Handle, SoftMajorityClassifier, StableClassifier
from holdtrue.ledgers import verify
from holdtrue.testing import drawing_from
from laws import LEVEL, chi_square_of_counts, generator

EXPECTED_SKIPS = {"check_pipeline_consistency", "check_array_api_input"}


@pytest.fixture
def rows(request):
    random = generator(request)
    points = random.normal(0, 3, (400, 3))
    return points, np.where(points[:, 1] + random.normal(0, 1, 400) > 1, "yes", "no")


class Spy:
    """Votes of a fixed split, and what the ledger held when they were counted."""

    def __init__(self, fitted, votes):
        self.domain = fitted.ensemble_.domain
        self.handle = fitted.handle_
        self.fixed = votes
        self.asked = []

    def votes(self, points):
        self.asked.append((len(points), None if self.handle is None else self.handle.charges))
        return np.tile(self.fixed, (len(points), 1))


def test_scikit_learns_own_checks_pass():
    """All of them; some do not apply, to estimators that draw (three parts of one label each, say, are a tie)."""
    told = check_estimator(
        SoftMajorityClassifier(parts=3, epsilon=20),
        on_fail=None,
        on_skip=None,
        expected_failed_checks=EXPECTED_FAILED_CHECKS,
    )
    assert [check["check_name"] for check in told if check["status"] == "failed"] == []
    assert {check["check_name"] for check in told if check["status"] == "skipped"} <= EXPECTED_SKIPS
    tags = SoftMajorityClassifier().__sklearn_tags__()
    assert tags.non_deterministic
    assert tags.classifier_tags.multi_class
    assert not tags.classifier_tags.poor_score
    assert not tags.no_validation


def test_the_call_of_the_design_works(rows):
    fitted = SoftMajorityClassifier(LogisticRegression(), epsilon=2.0, parts=100).fit(*rows)
    assert fitted.epsilon_per_prediction_ == 2.0
    assert fitted.event_ == events.BoundedRange(2)
    assert fitted.score(*rows) > 0.75
    assert not hasattr(fitted, "predict_proba")


@pytest.mark.parametrize(
    "estimator", [None, DecisionTreeClassifier(max_depth=3), make_pipeline(StandardScaler(), LogisticRegression())]
)
def test_any_estimator_and_any_number_of_labels_will_do(request, estimator):
    random = generator(request)
    labels = np.arange(600) % 4
    points = np.eye(4)[labels] * 8 + random.normal(0, 1, (600, 4))
    order = random.permutation(600)
    fitted = SoftMajorityClassifier(estimator, epsilon=5, parts=10).fit(points[order], labels[order])
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    assert fitted.score(points, labels) > 0.9


@pytest.mark.parametrize("right", [True, False])
def test_labels_are_drawn_by_the_soft_majority(rows, bits, right):
    """The law is e^(epsilon votes / 2), and e^(epsilon votes) is told from it."""
    fitted = SoftMajorityClassifier(epsilon=1, parts=3, classes=["a", "b", "c"]).fit(
        rows[0], np.take(["a", "b", "c"], np.arange(400) % 3)
    )
    votes = np.array([2, 1, 0])
    fitted.ensemble_ = Spy(fitted, votes)
    fitted._rule = drawing_from(fitted._rule, bits)
    said = fitted.predict(np.column_stack([np.arange(9000.0)] * 3))
    counts = [int((said == name).sum()) for name in "abc"]
    value = chi_square_of_counts(counts, special.softmax(votes * (0.5 if right else 1.0)))
    assert (value > LEVEL) is right


def test_a_fit_costs_nothing_and_new_points_are_charged_before_their_votes_are_counted(rows):
    handle = Handle(epsilon=100, delta=1e-6)
    fitted = SoftMajorityClassifier(epsilon=0.1, parts=20, ledger=handle).fit(*rows)
    assert handle.charges == 0
    spy = fitted.ensemble_ = Spy(fitted, [15, 5])
    fitted.predict(rows[0][:30])
    assert spy.asked == [(30, 1)]
    once = SoftMajorityClassifier(epsilon=0.1, parts=20, ledger=Handle(epsilon=100)).fit(*rows)
    once.predict(rows[0][:30])
    assert once.handle_.spent == pytest.approx(3.0)


def test_equal_points_and_points_asked_before_share_one_answer_and_one_charge(rows):
    handle = Handle(epsilon=100)
    fitted = SoftMajorityClassifier(epsilon=Fraction(1, 2), parts=20, ledger=handle).fit(*rows)
    first = fitted.predict(np.repeat(rows[0][:5], 4, axis=0))
    assert handle.spent == 2.5
    assert all(len(set(first[place : place + 4])) == 1 for place in range(0, 20, 4))
    again = fitted.predict(rows[0][:6])
    assert handle.spent == 3.0
    assert again[:5].tolist() == first[::4].tolist()
    fitted.predict(-0.0 * rows[0][:1])
    fitted.predict(0.0 * rows[0][:1])
    assert handle.spent == 3.5
    assert handle.charges == 3


def test_points_that_bounds_make_equal_are_one_point(rows):
    handle = Handle(epsilon=100)
    fitted = SoftMajorityClassifier(epsilon=1, parts=20, bounds=(-4, 4), ledger=handle).fit(*rows)
    fitted.predict([[5.0, 0.0, 0.0], [9.0, 0.0, 0.0], [4.0, -0.0, 0.0]])
    assert handle.spent == 1


def test_a_fit_on_a_ledger_forgets_what_another_answered(rows):
    handle = Handle(epsilon=100)
    fitted = SoftMajorityClassifier(epsilon=1, parts=20, ledger=handle)
    for spent in (3, 6):
        fitted.fit(*rows).predict(rows[0][:3])
        assert handle.spent == spent


def test_equal_fits_draw_afresh(rows):
    """Were an equal fit to repeat its answers, two fits would show whether their rows are equal."""
    split = SoftMajorityClassifier(epsilon=1e-6, parts=20)  # a fair coin for every point
    first, second = (clone(split).fit(*rows).predict(rows[0]).tolist() for _ in range(2))
    assert first != second


def test_over_budget_neither_ledger_nor_estimator_change(rows):
    handle = Handle(epsilon=1)
    fitted = SoftMajorityClassifier(epsilon=Fraction(1, 10), parts=20, ledger=handle).fit(*rows)
    said = fitted.predict(rows[0][:8])
    before = (handle.spent, handle.charges, dict(fitted.released_))
    spy = fitted.ensemble_ = Spy(fitted, [15, 5])
    with pytest.raises(BudgetExceeded):
        fitted.predict(rows[0][:11])
    assert (handle.spent, handle.charges, fitted.released_) == before
    assert spy.asked == []
    assert fitted.predict(rows[0][:8]).tolist() == said.tolist()
    fitted.predict(rows[0][:10])
    assert handle.left == 0


def test_a_refused_fit_leaves_the_earlier_one(rows):
    fitted = SoftMajorityClassifier(epsilon=1, parts=20).fit(*rows)
    before = dict(vars(fitted))
    with pytest.raises(InsufficientSamples):
        fitted.fit(rows[0][:7, :2], rows[1][:7])
    assert vars(fitted) == before


def test_copies_of_an_estimator_charge_one_ledger_and_bring_their_answers(rows, tmp_path):
    handle = Handle(tmp_path / "predictions.ledger", epsilon=50, delta=1e-6)
    fitted = SoftMajorityClassifier(epsilon=0.1, parts=20, ledger=handle).fit(*rows)
    said = fitted.predict(rows[0][:5])
    copied = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - written a moment ago
    assert copied.predict(rows[0][:5]).tolist() == said.tolist()
    assert handle.charges == 1
    copied.predict(rows[0][5:9])
    clone(fitted).fit(*rows).predict(rows[0][:5])
    assert handle.charges == 3
    alone = SoftMajorityClassifier(parts=20, ledger=Handle(epsilon=1)).fit(*rows)
    with pytest.raises(RefusedError, match="path"):
        pickle.dumps(alone)


def test_searches_in_other_processes_charge_the_same_ledger(rows, tmp_path):
    """One that pays for every point, and one that pays for every fit."""
    place = tmp_path / "predictions.ledger"
    handle = Handle(place, epsilon=200)
    learner = SoftMajorityClassifier(epsilon=Fraction(1, 8), parts=10, ledger=str(place))
    search = GridSearchCV(learner, {"parts": [5, 10]}, cv=2, n_jobs=2)
    search.fit(*rows)
    assert handle.charges == 4
    assert handle.spent == 2 * 400 / 8
    assert verify(place).charges == 4
    fits = Handle(tmp_path / "fits.ledger", epsilon=5, delta=1e-6)
    cross_val_score(StableClassifier(mu=Fraction(1, 4), bounds=(-9, 9), ledger=fits), *rows, cv=2, n_jobs=2)
    assert fits.charges == 2
    assert fits.spent == 2 / 16


def test_cross_validation_over_budget_stops(rows):
    handle = Handle(epsilon=15)
    with pytest.raises(BudgetExceeded):
        cross_val_score(SoftMajorityClassifier(epsilon=0.1, parts=10, ledger=handle), *rows, cv=4, error_score="raise")
    assert handle.charges == 1


def test_threads_never_overspend(rows):
    handle = Handle(epsilon=1)
    fitted = SoftMajorityClassifier(epsilon=Fraction(1, 10), parts=20, ledger=handle).fit(*rows)
    done = []

    def ask(place):
        try:
            fitted.predict(rows[0][place : place + 1])
            done.append(True)
        except BudgetExceeded:
            done.append(False)

    workers = [threading.Thread(target=ask, args=(place,)) for place in range(14)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(done) == 10
    assert handle.left == 0


def test_public_classes_take_every_label(rows):
    """A label that is not in the list counts as the first, as a row's own affair: nothing is raised for it."""
    points, labels = rows
    odd = labels.copy()
    odd[0] = "??"
    fitted = SoftMajorityClassifier(epsilon=1, parts=20, classes=["no", "yes"]).fit(points, odd)
    assert fitted.classes_.tolist() == ["no", "yes"]
    codes = np.where(odd == "yes", 1, 0)
    expected = train(LogisticRegression(), points, codes, parts=20, labels=[0, 1]).votes(points)
    assert (fitted.ensemble_.votes(points) == expected).all()
    assert SoftMajorityClassifier(parts=20, classes=["no", "yes"]).fit(points, np.full(400, "no")).classes_.size == 2


def test_one_row_changes_one_vote_at_every_point(rows):
    points, labels = rows
    settings = {"epsilon": 1, "parts": 10, "classes": ["no", "yes"]}
    votes = SoftMajorityClassifier(**settings).fit(points, labels).ensemble_.votes(points)
    moved = points.copy()
    moved[123] = [1e6, -1e6, 1e6]
    changed = labels.copy()
    changed[123] = "yes"
    others = SoftMajorityClassifier(**settings).fit(moved, changed).ensemble_.votes(points)
    assert np.abs(votes - others).max() <= 1


def test_e4_with_public_keys_one_row_of_a_sorted_table_changes_one_vote():
    """The control: by position, in rows that are sorted again, the same replaced row changes many."""
    place = np.arange(800)
    part, block = place % 20, place // 20
    x, y = place[:, None] + 1.0, np.where((block < 19) | (block > 20), part % 2 == 0, block % 2 == 0).astype(int)
    other_x, other_y = x.copy(), y.copy()
    other_x[0], other_y[0] = x[400] + 0.5, 0
    votes = {}
    for keyed in (True, False):
        found = []
        for some_x, some_y in ((x, y), (other_x, other_y)):
            order = np.argsort(some_x[:, 0], kind="stable")
            learner = SoftMajorityClassifier(DummyClassifier(strategy="most_frequent"), parts=20, classes=[0, 1])
            learner.fit(some_x[order], some_y[order], keys=place[order] if keyed else None)
            found.append(learner.ensemble_.votes(np.zeros((1, 1))))
        votes[keyed] = np.abs(found[0] - found[1]).max()
    assert votes[True] <= 1
    assert votes[False] == 10


def test_what_is_wrong_is_said_before_anything_is_charged(rows):
    handle = Handle(epsilon=1)
    points, labels = rows
    for wrong in ({"epsilon": 0}, {"epsilon": True}, {"parts": 0}, {"jobs": 0}, {"bounds": (1, 0)}, {"classes": ["yes"]}):
        with pytest.raises(InvalidParameter):
            SoftMajorityClassifier(**{"ledger": handle} | wrong).fit(points, labels)
    with pytest.raises(InvalidParameter):
        SoftMajorityClassifier(object(), ledger=handle).fit(points, labels)
    with pytest.raises(InsufficientSamples) as told:
        SoftMajorityClassifier(parts=401, ledger=handle).fit(points, labels)
    assert told.value.required == 401
    with pytest.raises(ValueError, match="1 class"):
        SoftMajorityClassifier(ledger=handle).fit(points, np.ones(400, dtype=int))
    fitted = SoftMajorityClassifier(ledger=handle).fit(points, labels)
    with pytest.raises(ValueError, match="features"):
        fitted.predict(points[:, :2])
    assert handle.charges == 0
