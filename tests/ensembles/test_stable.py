"""Stable learners: certified constants, fixed steps, float error, and what is published (E7-E9, E13-E16)."""

import math
from fractions import Fraction

import numpy as np
import pytest

from holdtrue import events
from holdtrue.ensembles import losses, stable
from holdtrue.ensembles.losses import Features, Labels, hinge, huber, logistic, squared
from holdtrue.ensembles.stable import NoisyPrediction, OutputPerturbation, fit_stable, output_perturbation, predict_privately
from holdtrue.errors import InvalidParameter, NotCertified, PreconditionError
from holdtrue.testing import SeededBits, drawing_from
from laws import generator


@pytest.fixture
def rng(request):
    return generator(request)


def neighbours(rng, n, d, *, numbers=False):
    """Return two datasets that differ in one row, often of the kind that moves a fit most."""
    rows, y = rng.uniform(-1.3, 1.3, (n, d)), rng.choice([0.0, 1.0], n)
    if numbers:
        y = rng.uniform(-1.2, 1.2, n)
    if rng.random() < 0.4:
        rows[:], y[:] = np.sign(rows[0]), 1.0
    other, others = rows.copy(), y.copy()
    i = rng.integers(n)
    others[i] = -1.0 if numbers else 1 - y[i]
    if rng.random() < 0.5:
        other[i] = rng.uniform(-3, 3, d)
    if rng.random() < 0.2:
        other[i, 0] = math.nan
    return (rows, y), (other, others)


def settings(rng):
    """Return the public settings of a random learner."""
    name = rng.choice(["logistic", "hinge", "huber", "squared", "corner", "one-pass", "free", "ridge", "found"])
    common = {"bounds": (-1, 1), "intercept": bool(rng.integers(2))}
    if rng.random() < 0.5:
        common["norm"] = float(rng.uniform(0.3, 1.5))
    strength, steps = float(10 ** rng.uniform(-1.5, 0.5)), int(rng.integers(1, 40))
    regularised = {"strength": strength, "steps": steps}
    return (
        common
        | {
            "logistic": {"loss": logistic()} | regularised,
            "hinge": {"loss": hinge(0.5), "radius": 2} | regularised,
            "huber": {"loss": huber(0.5), "label_bounds": (-1, 1)} | regularised,
            "squared": {"loss": squared(), "label_bounds": (-1, 1), "radius": float(rng.uniform(0.5, 3))} | regularised,
            "corner": {"loss": hinge(), "method": "subgradients"} | regularised,
            "one-pass": {"loss": logistic(), "method": "one-pass", "radius": 2},
            "ridge": {"loss": squared(), "label_bounds": (-1, 1), "strength": strength},
            "found": {"loss": [logistic(), hinge(0.5)][int(rng.integers(2))], "strength": strength},
            "free": {"loss": logistic(), "radius": 1.5, "steps": steps, "step": float(rng.uniform(0.01, 2))},
        }[name]
    )


def test_e13_e15_e16_neighbours_stay_within_the_certified_stability_on_random_problems(rng):
    worst = 0.0
    for _ in range(200):
        chosen = settings(rng)
        here, there = neighbours(rng, int(rng.integers(2, 30)), int(rng.integers(1, 5)), numbers="label_bounds" in chosen)
        left, right = fit_stable(*here, **chosen), fit_stable(*there, **chosen)
        assert left.stability == right.stability
        worst = max(worst, np.linalg.norm(left.private_weights - right.private_weights) / left.stability)
    assert 0.2 < worst <= 1


def test_e13_the_tight_example_is_attained():
    """A linear loss, one column, labels all the same and one turned round: 2 L / (strength n) to 1e-9."""
    line = losses.Loss("line", 1.0, 1e-12, lambda _, y: -y, margins=True)
    n, strength = 20, 0.3
    rows, y = np.ones((n, 1)), np.ones(n)
    other = y.copy()
    other[3] = 0
    chosen = {"loss": line, "bounds": (0, 1), "intercept": False, "strength": strength, "steps": 400}
    left, right = fit_stable(rows, y, **chosen), fit_stable(rows, other, **chosen)
    moved = float(abs(left.private_weights - right.private_weights)[0])
    assert moved == pytest.approx(2 / (strength * n), rel=1e-9)
    assert moved <= left.stability <= moved * (1 + 1e-9)


def test_a_constant_of_half_the_size_is_caught():
    """The same example against the stability of a strength twice as large."""
    line = losses.Loss("line", 1.0, 1e-12, lambda _, y: -y, margins=True)
    rows, y, other = np.ones((20, 1)), np.ones(20), np.ones(20)
    other[3] = 0
    chosen = {"loss": line, "bounds": (0, 1), "intercept": False, "strength": 0.3, "steps": 400}
    moved = abs(fit_stable(rows, y, **chosen).private_weights - fit_stable(rows, other, **chosen).private_weights)[0]
    assert moved > fit_stable(rows, y, **(chosen | {"strength": 0.6})).stability


def test_e7_predictions_move_by_gamma_at_most(rng):
    chosen = {"loss": logistic(), "bounds": (-1, 1), "strength": 0.2, "steps": 50}
    for _ in range(100):
        here, there = neighbours(rng, 12, 3)
        left, right = fit_stable(*here, **chosen), fit_stable(*there, **chosen)
        at = left.features.scale_rows(rng.uniform(-5, 5, (50, 3)))
        assert np.abs(at @ (left.private_weights - right.private_weights)).max() <= left.gamma


@pytest.mark.parametrize("loss", [logistic(), hinge(0.4), huber(0.7), squared()], ids=lambda loss: loss.name)
def test_e15_fixed_steps_end_within_the_certified_distance_of_the_minimiser(rng, loss):
    for _ in range(4):
        rows, y = neighbours(rng, 25, 3, numbers=not loss.margins)[0]
        chosen = {"loss": loss, "bounds": (-1, 1), "strength": 0.5, "radius": 4}
        if not loss.margins:
            chosen["label_bounds"] = (-1, 1)
        exact = fit_stable(rows, y, **chosen, steps=1500)
        for steps in (1, 5, 40):
            rough = fit_stable(rows, y, **chosen, steps=steps)
            away = np.linalg.norm(rough.private_weights - exact.private_weights)
            assert away <= rough.distance * (1 + 1e-9) + 2 * exact.distance + 1e-12
            assert rough.stability == pytest.approx(exact.stability, rel=1e-9)


@pytest.mark.parametrize("loss", [logistic(), hinge(0.4), huber(0.2), squared()], ids=lambda loss: loss.name)
def test_e15_newton_steps_and_the_descent_behind_them_end_within_one_distance(rng, loss, monkeypatch):
    """From some of the rows, from all of them, and by gradient steps where neither arrives: the same public distance."""
    monkeypatch.setattr(losses, "_PILOT", 20)
    chosen = {"loss": loss, "bounds": (-1, 1), "strength": 0.02, "label_bounds": None if loss.margins else (-1, 1)}
    for rows, y in (neighbours(rng, 90, 3, numbers=not loss.margins)[0] for _ in range(4)):
        found = fit_stable(rows, y, **chosen)
        monkeypatch.setattr(losses, "_MOST_NEWTONS", 0)
        slow = fit_stable(rows, y, **chosen)
        monkeypatch.undo()
        assert (slow.stability, slow.distance) == (found.stability, found.distance)
        assert 0 < np.linalg.norm(slow.private_weights - found.private_weights) <= 2 * found.distance
        assert np.linalg.norm(found.private_weights) <= found.reach


def test_e15_subgradients_end_within_their_certified_distance_and_pay_for_it(rng):
    rows, y = neighbours(rng, 25, 2)[0]
    chosen = {"loss": hinge(), "bounds": (-1, 1), "strength": 0.5, "method": "subgradients"}
    best = fit_stable(rows, y, **chosen, steps=10_000).private_weights
    for steps in (10, 100, 1000):
        fit = fit_stable(rows, y, **chosen, steps=steps)
        assert np.linalg.norm(fit.private_weights - best) <= fit.distance
        slope = fit.features.lipschitz
        assert fit.stability >= 2 * slope / (0.5 * 25) + 2 * fit.distance


@pytest.mark.parametrize("loss", [logistic(), hinge(0.4), hinge(), huber(0.7), squared()], ids=lambda loss: loss.name)
def test_constants_of_losses_hold(rng, loss):
    certified = loss.bound_slope(3.0)
    p = np.sort(rng.uniform(-3, 3, 4000))
    y = rng.choice([-1.0, 1.0], 1) if loss.margins else rng.uniform(-1, 1, 1)
    slopes = certified.slope(p, np.repeat(y, p.size))
    assert np.abs(slopes).max() <= certified.lipschitz * (1 + 2.0**-48)
    assert (np.diff(slopes) >= -1e-15).all()
    if certified.smoothness is not None:
        assert (np.diff(slopes) <= certified.smoothness * np.diff(p) + 1e-14).all()


def exactly(problem, step, steps):
    """Return gradient steps of the squared loss in rational arithmetic."""
    rows = [[Fraction(v) for v in row] for row in problem.rows.tolist()]
    labels = [Fraction(v) for v in problem.labels.tolist()]
    w = [Fraction(0)] * len(rows[0])
    for _ in range(steps):
        slopes = [sum(a * b for a, b in zip(x, w, strict=True)) - y for x, y in zip(rows, labels, strict=True)]
        pulls = [sum(s * x[j] for s, x in zip(slopes, rows, strict=True)) / len(rows) for j in range(len(w))]
        w = [v - Fraction(step) * (g + Fraction(problem.strength) * v) for v, g in zip(w, pulls, strict=True)]
        w = [Fraction(round(v * 2**200), 2**200) for v in w]
    return w


def test_e15_computed_weights_are_within_the_stated_error_of_exact_arithmetic(rng):
    for _ in range(10):
        n, d = int(rng.integers(2, 12)), int(rng.integers(1, 4))
        given, labels = rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, n)
        problem = losses.Problem(given, labels, squared().bound_slope(2), math.sqrt(d), 0.3, None, 10.0)
        step = 1 / (d + 0.3)
        solved = losses.run_descent(problem, step=step, steps=25)
        pairs = zip(solved.weights.tolist(), exactly(problem, step, 25), strict=True)
        assert np.linalg.norm([float(Fraction(here) - there) for here, there in pairs]) <= solved.error
        assert solved.error < 1e-9


def test_rows_are_within_their_certified_length_whatever_they_hold(rng):
    raw = rng.choice([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.3, 7.0], (4000, 4))
    for norm, intercept in ((None, True), (None, False), (0.7, True), (0.7, False), (3.0, False)):
        features = Features([(0, 1), (-5, 5), (1e-300, 1e300), (3, 4)], columns=4, norm=norm, intercept=intercept)
        rows = features.scale_rows(raw)
        assert np.isfinite(rows).all()
        longest = max(sum(Fraction(v) ** 2 for v in row) for row in rows[:500].tolist())
        assert longest <= Fraction(features.lipschitz) ** 2
        assert rows.shape == (4000, features.dimension)


def test_features_and_labels_go_by_public_bounds():
    features = Features((0, 10), columns=2, intercept=True)
    assert features.scale_rows([[5, math.nan], [99, 2.5]]).tolist() == [[0, -1, 1], [1, -0.5, 1]]
    assert Labels(None).read([0, 1, math.nan, -3, 2], rows=5).tolist() == [-1, 1, -1, -1, 1]
    ages = Labels((0, 120))
    assert ages.read([60, 999, math.nan], rows=3).tolist() == [0, 1, -1]
    assert ages.write(np.array([0.0, 5.0, -5.0])).tolist() == [60, 120, 0]


def data(rng, n=2000):
    rows = rng.uniform(-1, 1, (n, 3))
    return rows, (rows @ [2, -1, 0.5] + rng.logistic(size=n) * 0.3 > 0).astype(float)


def test_e13_output_perturbation_adds_the_noise_it_says(rng, bits):
    rows, y = data(rng)
    fit = fit_stable(rows, y, loss=logistic(), bounds=(-1, 1), strength=0.05)
    mechanism = drawing_from(OutputPerturbation(0.5), bits)
    noise = np.array([mechanism.release(fit).weights - fit.private_weights for _ in range(2000)])
    model = mechanism.release(fit)
    expected = stable.bounds_of.output_sigma(fit.stability, mu=0.5)
    assert expected <= model.deviation <= expected * (1 + 3e-3)
    assert noise.std() == pytest.approx(model.deviation, rel=0.05)
    assert np.abs(noise.mean(axis=0)).max() < 6 * model.deviation / math.sqrt(2000)
    x = fit.features.scale_rows(rows[:1])[0]
    assert (noise @ x).std() == pytest.approx(np.linalg.norm(x) * model.deviation, rel=0.08)
    assert OutputPerturbation(0.5).event == events.GaussianNoise(0.5)
    assert isinstance(drawing_from(mechanism, SeededBits("any")).event, events.NonPrivate)


def test_e13_whole_numbers_on_the_grid_move_by_the_sensitivity_at_most(rng):
    chosen = {"loss": logistic(), "bounds": (-1, 1), "strength": 0.2, "steps": 50}
    for _ in range(100):
        here, there = neighbours(rng, 12, 3)
        left, right = fit_stable(*here, **chosen), fit_stable(*there, **chosen)
        grid = stable._choose_grid(left.stability / 2)
        assert grid * 1024 <= left.stability / 2 < grid * 2048
        moved = np.array(
            stable._on_grid(left.private_weights, grid) - stable._on_grid(right.private_weights, grid), dtype=float
        )
        width = stable.bounds_of.output_sigma(left.stability, mu=1, grid=grid, dimension=4)
        assert np.linalg.norm(moved) <= math.ceil(width / grid)


def test_published_models_predict_without_limit_and_well(rng):
    rows, y = data(rng, 20_000)
    fit = fit_stable(rows, y, loss=logistic(), bounds=(-1, 1), strength=0.01, steps=300)
    model = output_perturbation(fit, mu=0.5)
    truth = (rows @ [2, -1, 0.5] > 0).astype(float)
    assert (model.predict(rows) == truth).mean() > 0.95
    assert (model.predict(rows) == (model.scores(rows) > 0)).all()


def test_ridge_predicts_numbers_within_their_bounds(rng):
    rows = rng.uniform(0, 10, (40_000, 2))
    y = 3 * rows[:, 0] - rows[:, 1] + 20
    chosen = {"bounds": (0, 10), "label_bounds": (0, 60), "strength": 0.02, "radius": 1.5, "steps": 200}
    fit = fit_stable(rows, y, loss=squared(), **chosen)
    model = output_perturbation(fit, mu=1.0)
    assert np.abs(model.predict(rows) - y).mean() < 5
    assert model.predict([[1e9, -1e9]]).max() <= 60


def test_e8_noisy_predictions_have_laplace_noise_of_scale_gamma_over_epsilon(rng, bits):
    rows, y = data(rng)
    fit = fit_stable(rows, y - 0.5, loss=huber(), label_bounds=(-50, 50), bounds=(-1, 1), strength=0.5, steps=60)
    rule = NoisyPrediction(fit, epsilon=2.0)
    scale = float(rule.noise.scale) * rule.grid
    assert fit.gamma / 2 <= scale <= fit.gamma / 2 * (1 + 4e-3)
    assert rule.event == events.DiscreteLaplace(2, rule.noise.sensitivity)
    answers = drawing_from(rule, bits).release(np.tile(rows[:1], (20_000, 1)))
    centre = fit.labels.write(fit.features.scale_rows(rows[:1]) @ fit.private_weights)[0]
    assert np.abs(answers - centre).mean() == pytest.approx(50 * scale, rel=0.05)
    assert predict_privately(fit, rows[:4], epsilon=2.0).shape == (4,)


def test_e14_output_strength_is_the_best(rng):
    rows, mu, radius, slope = 5000, 0.4, 3.0, 1.7
    best = stable.output_strength(rows, mu=mu, radius=radius, lipschitz=slope)

    def excess(strength):
        return 2 * slope**2 / (strength * rows) * (1 + math.sqrt(2 / math.pi) / mu) + strength * radius**2 / 2

    assert excess(best) <= min(excess(best * factor) for factor in rng.uniform(0.3, 3, 100)) * (1 + 1e-12)


def test_fits_are_one_deterministic_function_of_the_rows(rng):
    rows, y = data(rng, 300)
    for chosen in (
        {"loss": logistic(), "strength": 0.1},
        {"loss": logistic(), "radius": 2, "method": "one-pass"},
        {"loss": hinge(), "strength": 0.1, "steps": 200, "method": "subgradients"},
    ):
        first, again = (fit_stable(rows, y, bounds=(-1, 1), **chosen) for _ in range(2))
        assert (first.private_weights == again.private_weights).all()


def test_e16_one_pass_learns(rng):
    rows, y = data(rng, 5000)
    fit = fit_stable(rows, y, loss=logistic(), bounds=(-1, 1), radius=3, method="one-pass", intercept=False)
    assert ((rows @ fit.private_weights > 0) == (y > 0)).mean() > 0.85
    assert fit.stability == pytest.approx(3 / math.sqrt(5000), rel=1e-6)


def test_private_weights_are_not_shown(rng):
    rows, y = data(rng, 50)
    fit = fit_stable(rows, y, loss=logistic(), bounds=(-1, 1), strength=0.1)
    assert "weights" not in repr(fit)
    assert f"{fit.private_weights[0]:.4f}" not in repr(fit)


@pytest.mark.parametrize(
    "chosen",
    [
        {"loss": logistic()},
        {"loss": logistic(), "strength": 0},
        {"loss": logistic(), "strength": -1},
        {"loss": squared(), "strength": 0.1, "label_bounds": (0, 1), "steps": 5},
        {"loss": squared(), "strength": 0.1, "radius": 2},
        {"loss": hinge(), "strength": 0.1},
        {"loss": hinge(), "radius": 1, "method": "subgradients"},
        {"loss": hinge(), "radius": 1, "method": "one-pass"},
        {"loss": losses.Loss("home-made", None, 1.0, lambda p, y: p - y, margins=True), "strength": 1},
        {"loss": logistic(), "strength": 1, "norm": 0},
    ],
)
def test_uncertified_constants_are_refused(chosen):
    with pytest.raises(NotCertified):
        fit_stable(np.zeros((4, 2)), np.zeros(4), bounds=(0, 1), **chosen)


@pytest.mark.parametrize(
    "change",
    [
        {"bounds": (1, 1)},
        {"bounds": [(0, 1)]},
        {"bounds": (0, math.inf)},
        {"method": "newton"},
        {"steps": 0},
        {"X": np.zeros((0, 2))},
        {"y": np.zeros(3)},
        {"method": "one-pass", "radius": 1},
    ],
)
def test_wrong_arguments_are_refused(change):
    arguments = {"X": np.zeros((4, 2)), "y": np.zeros(4), "loss": logistic(), "bounds": (0, 1), "strength": 1} | change
    with pytest.raises(InvalidParameter):
        fit_stable(arguments.pop("X"), arguments.pop("y"), **arguments)


def test_e16_a_step_that_expands_is_refused():
    with pytest.raises(PreconditionError):
        fit_stable(np.zeros((4, 2)), np.zeros(4), loss=logistic(), bounds=(0, 1), radius=1, step=100, method="one-pass")


def test_odd_rows_never_raise(rng):
    rows = rng.choice([math.nan, math.inf, -math.inf, 1e308, 0.5], (40, 2))
    y = rng.choice([math.nan, math.inf, 1.0, 0.0], 40)
    for chosen in (
        {"loss": logistic(), "strength": 0.1},
        {"loss": huber(), "strength": 0.1, "label_bounds": (0, 1)},
        {"loss": logistic(), "radius": 1, "method": "one-pass"},
        {"loss": hinge(), "strength": 0.1, "method": "subgradients", "steps": 20},
    ):
        fit = fit_stable(rows, y, bounds=(0, 1), **chosen)
        assert np.isfinite(fit.private_weights).all()
        assert np.linalg.norm(fit.private_weights) <= fit.reach * (1 + 1e-9)


def test_seeded_bits_promise_nothing(rng):
    rows, y = data(rng, 50)
    fit = fit_stable(rows, y, loss=logistic(), bounds=(-1, 1), strength=0.1)
    assert isinstance(drawing_from(NoisyPrediction(fit, epsilon=1), SeededBits("any")).event, events.NonPrivate)
