"""ThresholdClassifier: scikit-learn's own checks, exact minima over every class, and what each answer costs (T13)."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from holdtrue import events
from holdtrue.bounds.agnostic_prediction import threshold_excess, threshold_probabilities
from holdtrue.errors import BudgetExceeded, InvalidParameter
from holdtrue.estimators import EXPECTED_FAILED_CHECKS, Handle, ThresholdClassifier
from holdtrue.hypotheses import Hypotheses, Stumps, Thresholds
from holdtrue.ledgers import verify
from holdtrue.testing import drawing_from
from laws import LEVEL, chi_square_of_counts, generator

EXPECTED_SKIPS = {"check_pipeline_consistency", "check_array_api_input"}


@pytest.fixture
def rows(request):
    random = generator(request)
    points = random.normal(0, 3, (300, 2))
    return points, np.where(points[:, 1] + random.normal(0, 1, 300) > 1, "yes", "no")


def brute_minima(points, labels, at, *, columns, signs):
    """Return E_0 and E_1 at a point, by trying every threshold on every line."""
    least = [math.inf, math.inf]
    for column in columns:
        for sign in signs:
            values = sign * points[:, column]
            for cut in [-math.inf, *values, *np.nextafter(values, math.inf), sign * at[column], math.inf]:
                for edge in (cut, np.nextafter(cut, math.inf)):
                    given = int(sign * at[column] >= edge)
                    least[given] = min(least[given], int(((values >= edge) != labels).sum()))
    return least


def test_scikit_learns_own_checks_pass():
    told = check_estimator(
        ThresholdClassifier(epsilon=20), on_fail=None, on_skip=None, expected_failed_checks=EXPECTED_FAILED_CHECKS
    )
    assert [check["check_name"] for check in told if check["status"] == "failed"] == []
    assert {check["check_name"] for check in told if check["status"] == "skipped"} <= EXPECTED_SKIPS
    tags = ThresholdClassifier().__sklearn_tags__()
    assert tags.non_deterministic
    assert not tags.classifier_tags.multi_class
    assert not tags.classifier_tags.poor_score


@pytest.mark.parametrize(
    ("settings", "columns", "signs"),
    [
        ({"column": 0, "direction": "up"}, [0], [1]),
        ({"column": 1, "direction": "down"}, [1], [-1]),
        ({"column": 1}, [1], [1, -1]),
        ({}, [0, 1], [1, -1]),
    ],
)
def test_minima_over_lines_are_exact(request, settings, columns, signs):
    random = generator(request)
    points = random.integers(-4, 5, (25, 2)).astype(float)
    labels = random.integers(0, 2, 25)
    fitted = ThresholdClassifier(epsilon=1, **settings).fit(points, labels)
    asked = np.vstack([points[:8], random.normal(0, 3, (8, 2)), [[99.0, -99.0]]])
    expected = [brute_minima(points, labels, at, columns=columns, signs=signs) for at in asked]
    assert np.column_stack(fitted._class.find_minima(asked)).tolist() == expected


def test_one_row_moves_each_minimum_by_one_at_most(request):
    """Sensitivity 1 for each label is all that privacy needs: for all stumps as for thresholds (T13)."""
    random = generator(request)
    asked = random.normal(0, 3, (20, 2))
    for hypotheses in (None, Stumps(bounds=(-4, 4), steps=9)):
        for _ in range(60):
            points, labels = random.integers(-3, 4, (12, 2)).astype(float), random.integers(0, 2, 12)
            learner = ThresholdClassifier(hypotheses, epsilon=1, classes=[0, 1])
            one = np.array(clone(learner).fit(points, labels)._class.find_minima(asked))
            points[5], labels[5] = random.integers(-3, 4, 2), 1 - labels[5]
            other = np.array(clone(learner).fit(points, labels)._class.find_minima(asked))
            assert np.abs(one - other).max() <= 1


@pytest.mark.parametrize("right", [True, False])
def test_labels_are_drawn_by_the_sigmoid_of_half_the_difference(request, bits, right):
    """The law of T13, and the one with twice the weight is told from it."""
    random = generator(request)
    line = np.arange(40.0)[:, None]
    labels = (line[:, 0] + random.normal(0, 12, 40) > 20).astype(int)
    fitted = ThresholdClassifier(epsilon=0.5, column=0, direction="up").fit(line, labels)
    fitted._rule = drawing_from(fitted._rule, bits)
    asked = np.repeat([[15.5]], 6000, axis=0)
    said = fitted._draw_labels(fitted._class.find_minima(asked)).mean()
    chance = float(threshold_probabilities(line[:, 0], labels, at=[15.5], epsilon=0.5 if right else 1.0)[0])
    assert 0.05 < chance < 0.95
    assert chance != 0.5
    counts = [round(6000 * (1 - said)), round(6000 * said)]
    assert (chi_square_of_counts(counts, [1 - chance, chance]) > LEVEL) is right


def test_the_bound_is_given_for_thresholds_on_one_column_in_one_direction_only(rows):
    points, labels = rows
    plain = ThresholdClassifier(epsilon=1, column=1, direction="up").fit(points, labels)
    assert plain.sample_excess_ == threshold_excess(300, epsilon=1)
    assert plain.sample_excess_ <= 4 * math.log(2) / 300 * 1.001
    assert ThresholdClassifier(epsilon=1, direction="up").fit(points[:, 1:], labels).sample_excess_ is not None
    for wider in ({}, {"column": 1}, {"direction": "up"}, {"hypotheses": Stumps(bounds=(-9, 9), steps=9)}):
        assert ThresholdClassifier(epsilon=1, **wider).fit(points, labels).sample_excess_ is None


def test_errors_on_the_rows_keep_the_bound(request):
    random = generator(request)
    line = random.normal(0, 1, (200, 1))
    labels = (line[:, 0] + random.normal(0, 0.5, 200) > 0).astype(int)
    fitted = ThresholdClassifier(epsilon=0.2, column=0, direction="up").fit(line, labels)
    zero, one = fitted._class.find_minima(line)
    chances = threshold_probabilities(line[:, 0], labels, at=line[:, 0], epsilon=0.2)
    errors = np.where(labels == 1, 1 - chances, chances).mean()
    assert errors - min(zero.min(), one.min()) / 200 <= fitted.sample_excess_


def test_a_finite_class_answers_by_its_own_minima(request):
    random = generator(request)
    points = random.uniform(0, 10, (30, 1))
    labels = (points[:, 0] > 4).astype(int)
    hypotheses = Thresholds(0, 10, steps=11)
    fitted = ThresholdClassifier(hypotheses, epsilon=30).fit(points, labels)
    asked = np.array([[2.0], [9.0], [4.0]])
    errors = hypotheses.error_counts(points, labels == 1)
    given = np.array([hypotheses.evaluate(asked, index) for index in range(11)])
    expected = [tuple(int(errors[given[:, place] == label].min()) for label in (0, 1)) for place in range(3)]
    assert list(zip(*(side.tolist() for side in fitted._class.find_minima(asked)), strict=True)) == expected
    assert fitted.predict([[0.5], [9.5]]).tolist() == [0, 1]


def test_a_label_that_no_hypothesis_gives_is_never_answered(rows):
    points, labels = rows
    always = Hypotheses([lambda points: np.ones(len(points)), lambda points: points[:, 0] > -100])
    fitted = ThresholdClassifier(always, epsilon=0.01).fit(points, np.where(labels == "yes", 0, 1))
    assert set(fitted.predict(points).tolist()) == {1}
    never = Hypotheses([lambda points: np.zeros(len(points))])
    assert set(ThresholdClassifier(never, epsilon=0.01).fit(points, labels).predict(points)) == {"no"}


def test_a_column_that_separates_is_found_without_being_named(rows):
    points = np.column_stack([rows[0][:, 0], -rows[0][:, 1]])
    assert ThresholdClassifier(epsilon=4).fit(points, rows[1]).score(points, rows[1]) > 0.7


def test_a_fit_costs_nothing_and_points_are_charged_once_before_they_are_looked_up(rows):
    handle = Handle(epsilon=100)
    fitted = ThresholdClassifier(epsilon=Fraction(1, 4), ledger=handle).fit(*rows)
    assert (handle.charges, fitted.epsilon_per_prediction_, fitted.event_) == (0, 0.25, events.BoundedRange(0.25))
    seen = []
    minima = fitted._class.find_minima
    fitted._class.find_minima = lambda points: seen.append((len(points), handle.charges)) or minima(points)
    said = fitted.predict(np.vstack([rows[0][:4], rows[0][:4]]))
    assert seen == [(4, 1)]
    assert handle.spent == 1
    assert said[:4].tolist() == said[4:].tolist()
    assert fitted.predict(rows[0][:4]).tolist() == said[:4].tolist()
    assert handle.spent == 1


def test_over_budget_neither_ledger_nor_estimator_change(rows):
    handle = Handle(epsilon=1)
    fitted = ThresholdClassifier(epsilon=Fraction(1, 4), ledger=handle).fit(*rows)
    before = dict(vars(fitted))
    with pytest.raises(BudgetExceeded):
        fitted.predict(rows[0][:5])
    assert vars(fitted) == before
    assert (handle.spent, fitted.released_) == (0, {})
    assert fitted.predict(rows[0][:4]).shape == (4,)
    assert handle.left == 0


def test_copies_charge_one_ledger(rows, tmp_path):
    place = tmp_path / "predictions.ledger"
    handle = Handle(place, epsilon=50)
    learner = ThresholdClassifier(epsilon=Fraction(1, 16), ledger=handle)
    cross_val_score(learner, *rows, cv=2)
    assert handle.spent == 300 / 16
    fitted = pickle.loads(pickle.dumps(learner.fit(*rows)))  # noqa: S301 - written a moment ago
    fitted.predict(rows[0][:16])
    clone(learner).fit(*rows).predict(rows[0][:16])
    assert handle.spent == 300 / 16 + 2
    assert verify(place).charges == 4


def test_equal_fits_draw_afresh(rows):
    """Were an equal fit to repeat its answers, two fits would show whether their rows are equal."""
    learner = ThresholdClassifier(epsilon=1e-9)  # a fair coin for every point
    first, second = (clone(learner).fit(*rows).predict(rows[0]).tolist() for _ in range(2))
    assert first != second


def test_brought_code_is_a_class_too(rows):
    coins = Hypotheses([lambda points: points[:, 0] > 0])
    assert ThresholdClassifier(coins).fit(*rows).predict(rows[0]).shape == (300,)


def test_what_is_wrong_is_said_before_anything_is_charged(rows):
    handle = Handle(epsilon=1)
    points, labels = rows
    for wrong in (
        {"epsilon": 0},
        {"column": 2},
        {"column": -1},
        {"column": True},
        {"direction": "sideways"},
        {"hypotheses": "stumps"},
        {"hypotheses": Thresholds(0, 1, steps=5)},
        {"classes": ["yes"]},
    ):
        with pytest.raises(InvalidParameter):
            ThresholdClassifier(**{"ledger": handle} | wrong).fit(points, labels)
    with pytest.raises(ValueError, match="binary"):
        ThresholdClassifier(ledger=handle).fit(points, np.arange(300) % 3)
    with pytest.raises(ValueError, match="1 class"):
        ThresholdClassifier(ledger=handle).fit(points, np.ones(300, dtype=int))
    assert handle.charges == 0
