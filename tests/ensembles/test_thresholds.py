"""Answers by constrained errors: the law, its privacy by brute force, thresholds and other classes (T13)."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from holdtrue import events
from holdtrue.bounds.agnostic_prediction import constrained_errors
from holdtrue.ensembles.responding import Constrained
from holdtrue.errors import InvalidParameter
from holdtrue.testing import drawing_from
from laws import LEVEL, chi_square_of_counts, generator


@pytest.fixture
def rng(request):
    return generator(request)


def test_t13_answers_one_with_the_sigmoid_of_half_the_difference(bits):
    rule = drawing_from(Constrained(0.7), bits)
    said = rule.answer(np.full(40_000, 6), np.full(40_000, 4))
    p = special.expit(0.7 * (6 - 4) / 2)
    assert chi_square_of_counts([said.sum(), said.size - said.sum()], [p, 1 - p]) > LEVEL
    double = special.expit(0.7 * (6 - 4))
    assert chi_square_of_counts([said.sum(), said.size - said.sum()], [double, 1 - double]) < LEVEL


def test_t13_a_tolerance_divides_by_two_and_twice_itself():
    assert Constrained(1).rate * 2 == 1
    assert Constrained(1, tolerance=3).rate * 8 == 1
    assert Constrained(1, tolerance=3).event == events.BoundedRange(1)


def constrained_minima(errors, labels):
    """E_0 and E_1 at a point, from every hypothesis's errors on the rows and its label there; None where none is."""
    chosen = [errors[labels != 1], errors[labels == 1]]
    return tuple(int(group.min()) if group.size else None for group in chosen)


def all_datasets(points, n):
    return itertools.product(itertools.product(range(points), (0, 1)), repeat=n)


def loss_between(rate, here, there):
    return max(abs(special.log_expit(s * rate * here) - special.log_expit(s * rate * there)) for s in (-1, 1))


def test_t13_one_answer_is_epsilon_dp_over_all_neighbouring_rows(rng):
    """Every class of hypotheses on three points, all datasets of three rows: the largest log-ratio is at most epsilon."""
    functions = np.array(list(itertools.product((0, 1), repeat=3)))
    rate = float(Constrained(1.0).rate)
    worst = 0.0
    for _ in range(12):
        chosen = functions[rng.permutation(8)[: rng.integers(2, 9)]]
        table = {}
        for rows in all_datasets(3, 3):
            errors = sum((chosen[:, x] != y).astype(int) for x, y in rows)
            table[rows] = [constrained_minima(errors, chosen[:, x]) for x in range(3)]
        for rows, values in table.items():
            for row in itertools.product(range(3), (0, 1)):
                for (zero, one), (zero2, one2) in zip(values, table[(row, *rows[1:])], strict=True):
                    assert (zero is None) == (zero2 is None)
                    assert (one is None) == (one2 is None)
                    if zero is None or one is None:
                        continue
                    assert max(abs(zero - zero2), abs(one - one2)) <= 1
                    worst = max(worst, loss_between(rate, zero - one, zero2 - one2))
    assert 0.5 < worst <= 1 + 1e-12


def test_t13_a_label_that_the_class_cannot_give_is_not_answered():
    rule = Constrained(0.01)
    assert [rule.answer(None, 7) for _ in range(50)] == [1] * 50
    assert [rule.answer(3, None) for _ in range(50)] == [0] * 50
    with pytest.raises(InvalidParameter):
        rule.answer(None, None)


def test_t13_constrained_minima_agree_with_those_of_thresholds(rng):
    cuts = np.arange(-1, 12)
    for _ in range(50):
        rows, labels = rng.integers(0, 10, 15), rng.integers(0, 2, 15)
        errors = np.array([((rows >= cut) != labels).sum() for cut in cuts])
        for x in range(10):
            zero, one = constrained_errors(rows, labels, at=[x])
            assert constrained_minima(errors, (x >= cuts).astype(int)) == (zero[0], one[0])


def test_t13_answers_by_thresholds_follow_the_rows(rng, bits):
    rows = rng.uniform(0, 1, 400)
    labels = (rows >= 0.3).astype(int)
    rule = drawing_from(Constrained(1.0), bits)
    answers = rule.answer(*constrained_errors(rows, labels, at=np.array([0.05, 0.2, 0.4, 0.9]).repeat(100)))
    assert answers.reshape(4, 100).mean(axis=1) == pytest.approx([0, 0, 1, 1], abs=0.06)


def test_t13_expected_errors_exceed_the_best_by_the_bound_at_most(rng):
    for _ in range(100):
        n, epsilon = int(rng.integers(1, 60)), float(rng.choice([0.2, 1.0, 3.0]))
        rows, labels = rng.integers(0, 30, n), rng.integers(0, 2, n)
        zero, one = constrained_errors(rows, labels, at=rows)
        chance = special.expit(float(Constrained(epsilon).rate) * (zero - one))
        expected = np.where(labels == 1, 1 - chance, chance).sum()
        assert expected - min(zero.min(), one.min()) <= 4 * math.log(2) / epsilon + 1e-9
        order = np.argsort(rows, kind="stable")
        assert (np.diff(chance[order]) >= -1e-12).all()


def test_t13_other_classes_have_no_such_bound():
    """All functions on 200 points, one row on each: as many errors above the best as coins would nearly make."""
    zero, one = np.zeros(200, dtype=int), np.ones(200, dtype=int)
    chance = special.expit(float(Constrained(1.0).rate) * (zero - one))
    assert chance.sum() > 4 * math.log(2) * 20


@pytest.mark.parametrize(
    "call",
    [
        lambda: Constrained(0),
        lambda: Constrained(1, tolerance=-1),
        lambda: Constrained(1).answer(np.array([0.5]), np.array([1])),
    ],
)
def test_wrong_arguments_are_refused(call):
    with pytest.raises(InvalidParameter):
        call()
