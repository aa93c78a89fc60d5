"""Programs over atoms: ends that hold whatever the solver says, and are the best where it is right (U7.2)."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from holdtrue.bounds.deduction import Multipliers, Program, frechet_ends
from holdtrue.bounds.transfer import interval, transfer_ends

SOURCE = np.random.default_rng(11)


def make_case(rows, atoms, *, whole=True):
    """Return rows of values, a target, a measure, and boxes that hold for it."""
    values = (SOURCE.random((rows, atoms)) < SOURCE.random((rows, 1))).astype(float)
    if not whole:
        values *= SOURCE.random((rows, 1))
    measure = SOURCE.dirichlet(np.full(atoms, 0.3))
    noise = SOURCE.random(rows) * 0.1
    means = values @ measure
    return (
        values[1:],
        values[0],
        measure,
        np.maximum(0, means - noise)[1:].tolist(),
        np.minimum(1, means + noise)[1:].tolist(),
    )


@pytest.mark.parametrize("whole", [True, False])
def test_u7_the_ends_hold_and_are_those_of_an_independent_solver(whole):
    for _ in range(25):
        values, target, measure, low, high = make_case(5, 12, whole=whole)
        program = Program(target, values)
        chosen = program.solve(low, high)
        ends = program.find_ends(chosen, low, high)
        assert ends[0] - 1e-12 <= target @ measure <= ends[1] + 1e-12
        bounds = {"A_ub": np.vstack([values, -values]), "b_ub": [*high, *(-each for each in low)]}
        for sign, end in ((1, ends[0]), (-1, ends[1])):
            best = linprog(sign * target, **bounds, A_eq=np.ones((1, 12)), b_eq=[1.0], bounds=(0, 1))
            assert end == pytest.approx(sign * best.fun, abs=2e-5)


def test_a_wrong_solver_makes_ends_wider_and_never_wrong():
    for _ in range(50):
        values, target, measure, low, high = make_case(6, 10)
        program = Program(target, values)
        chosen = program.solve(low, high)
        wrong = Multipliers(*(np.round(SOURCE.normal(0, 2, len(values)) * 2**24) for _ in range(2)), 2.0**24)
        ends, wider = program.find_ends(chosen, low, high), program.find_ends(wrong, low, high)
        assert wider[0] - 1e-12 <= target @ measure <= wider[1] + 1e-12
        assert wider[0] <= ends[0] + 1e-6
        assert wider[1] >= ends[1] - 1e-6


def test_the_certificate_is_exact_in_rationals():
    values, target, _, low, high = make_case(6, 10)
    program = Program(target, values)
    chosen = program.solve(low, high)
    y = [Fraction(each) / 2**24 for each in chosen.lower.tolist()]
    reduced = min(
        Fraction(target[atom]) - sum(factor * Fraction(row[atom]) for factor, row in zip(y, values, strict=True))
        for atom in range(10)
    )
    boxes = sum(each * Fraction(low[at] if each > 0 else high[at]) for at, each in enumerate(y))
    exact = max(reduced + boxes, 0)
    found = Fraction(program.find_ends(chosen, low, high)[0])
    assert found <= exact
    assert exact - found < Fraction(1, 2**50)


def test_boxes_that_no_measure_fits_are_told():
    values = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert Program(np.array([1.0, 0.0]), values).solve([0.8, 0.8], [0.9, 0.9]) is None


def test_without_rows_nothing_but_the_range_follows():
    program = Program(np.array([0.0, 1.0]), np.zeros((0, 2)))
    assert program.find_ends(program.solve([], []), [], []) == (0.0, 1.0)


def test_u7_frechet_ends_are_those_of_all_joint_laws():
    for a, b in itertools.product([0.1, 0.4, 0.7, 0.95], repeat=2):
        values = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], dtype=float)
        for every, target in ((True, [0, 0, 0, 1]), (False, [0, 1, 1, 1])):
            program = Program(np.array(target, dtype=float), values)
            best = program.find_ends(program.solve([a, b], [a, b]), [a, b], [a, b])
            assert frechet_ends([(a, a), (b, b)], every=every) == pytest.approx(best, abs=1e-6)


def test_the_transfer_theorem_on_a_box_is_that_of_an_answer():
    found = transfer_ends((0.25, 0.35), epsilon=0.2, slacks=(0.01, 0.01))
    assert found == pytest.approx(interval(0.3, noise=0.05, epsilon=0.2, slack=0.01), abs=1e-12)
    wider = transfer_ends((0.25, 0.35), epsilon=0.2, slacks=(0.02, 0.01))
    assert wider[0] < found[0]
    assert wider[1] == found[1]
