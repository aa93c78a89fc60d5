"""Stability of learners and the price of noise on their predictions (E7-E10, E13-E16)."""

import math

import numpy as np
import pytest
from scipy import special

from holdtrue.bounds import prediction, stability
from holdtrue.errors import InsufficientSamples, InvalidParameter, NotCertified, PreconditionError
from laws import generator


@pytest.fixture
def rng(request):
    return generator(request)


def unit_rows(rng, n, d):
    rows = rng.normal(size=(n, d))
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]


def gradient(w, rows, labels, strength):
    """Return the gradient of the mean logistic loss with (strength / 2)|w|^2."""
    return -(rows * (labels * special.expit(-labels * (rows @ w)))[:, None]).mean(axis=0) + strength * w


def newton(rows, labels, strength, steps=60):
    """Return the minimiser of the regularised mean logistic loss, by damped Newton steps."""
    w = np.zeros(rows.shape[1])
    for _ in range(steps):
        p = special.expit(rows @ w)
        hessian = (rows * (p * (1 - p))[:, None]).T @ rows / len(labels) + strength * np.eye(w.size)
        move = np.linalg.solve(hessian, gradient(w, rows, labels, strength))
        w = w - move / (1 + np.linalg.norm(move))
    return w


def neighbours(rng, n, d):
    rows, labels = unit_rows(rng, n, d), rng.choice([-1.0, 1.0], n)
    if rng.random() < 0.4:
        rows[:] = rows[0] / np.linalg.norm(rows[0])
        labels[:] = 1
    others, flipped = rows.copy(), labels.copy()
    i = rng.integers(n)
    flipped[i] = -labels[i]
    if rng.random() < 0.5:
        others[i] = unit_rows(rng, 1, d)
    return (rows, labels), (others, flipped)


def descend(rows, labels, *, step, steps, radius):
    """Return the last point and the mean of w_1, ..., w_T of projected gradient descent from 0."""
    w, total = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for _ in range(steps):
        w = project(w - step * gradient(w, rows, labels, 0.0), radius)
        total += w
    return w, total / steps


def one_pass(rows, labels, *, step, radius):
    """Return the last point and the mean of the points before each step."""
    w, total = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for x, y in zip(rows, labels, strict=True):
        total += w
        w = project(w + step * x * y * special.expit(-y * (x @ w)), radius)
    return w, total / len(labels)


def project(w, radius):
    length = np.linalg.norm(w)
    return w * min(1.0, radius / length) if length else w


# E7 - E10


def test_e7_predictions_move_no_more_than_certified(rng):
    n, strength = 15, 0.5
    gamma = stability.erm_stability(rows=n, strength=strength, loss_lipschitz=1)
    at = unit_rows(rng, 100, 3)
    for _ in range(1000):
        here, there = neighbours(rng, n, 3)
        moved = newton(*here, strength, steps=25) - newton(*there, strength, steps=25)
        assert np.abs(at @ moved).max() <= gamma * (1 + 1e-9)


@pytest.mark.parametrize(("gamma", "epsilon"), [(0.01, 0.5), (0.2, 2.0)])
def test_e8_predictions_of_neighbours_have_densities_within_e_to_the_epsilon(gamma, epsilon):
    scale = stability.laplace_noise(gamma, epsilon=epsilon).scale
    at = np.linspace(-5, 5, 1001) * scale
    apart = np.abs(np.abs(at - gamma) - np.abs(at)).max()
    assert apart / scale <= epsilon
    assert apart / (0.9 * scale) > epsilon  # a tenth less noise is not enough


@pytest.mark.parametrize("smoothness", [0.25, 0.5, 1, 2])
def test_e9_smooth_losses_rise_by_smoothness_times_gamma_squared(rng, smoothness):
    noise = stability.laplace_noise(1, epsilon=1)
    drawn = rng.laplace(0, noise.scale, 4 * 10**6)
    assert noise.smooth_excess(smoothness) == pytest.approx(smoothness, rel=1e-9)
    assert np.mean(smoothness / 2 * drawn**2) == pytest.approx(noise.smooth_excess(smoothness), rel=5e-3)


def test_e9_lipschitz_losses_and_gaussian_noise(rng):
    laplace, normal = stability.laplace_noise(0.5, epsilon=2), stability.gaussian_noise(0.5, mu=2)
    assert laplace.lipschitz_excess(3) == pytest.approx(3 * 0.25, rel=1e-9)
    assert normal.lipschitz_excess(3) == pytest.approx(3 * 0.25 * math.sqrt(2 / math.pi), rel=1e-9)
    assert normal.smooth_excess(3) == pytest.approx(3 * 0.25**2 / 2, rel=1e-9)
    drawn = rng.normal(0, normal.scale, 4 * 10**6)
    assert 3 * np.abs(drawn).mean() == pytest.approx(normal.lipschitz_excess(3), rel=5e-3)
    assert 3 * np.abs(rng.laplace(0, laplace.scale, 4 * 10**6)).mean() == pytest.approx(
        laplace.lipschitz_excess(3), rel=5e-3
    )


def test_e10_averages_are_stabler_and_no_worse(rng):
    # The mean of each part is 1 / n-stable for values in [0, 1]; the mean of r such means is 1 / (r n)-stable.
    parts, size = 5, 8
    gamma = stability.averaged_stability(1 / size, parts=parts)
    for _ in range(1000):
        values = rng.random((parts, size))
        other = values.copy()
        other[rng.integers(parts), rng.integers(size)] = rng.random()
        means, moved = values.mean(axis=1), other.mean(axis=1)
        assert abs(means.mean() - moved.mean()) <= gamma * (1 + 1e-9)
        truth = rng.random()
        for loss in (np.square, np.abs, np.exp):
            assert loss(means.mean() - truth) <= loss(means - truth).mean() + 1e-12
    assert stability.averaging_failure(0.01, parts=parts) == pytest.approx(0.05)
    assert stability.averaging_failure(0.5, parts=parts) == 1


def test_e10_fewer_rows_than_parts():
    with pytest.raises(InsufficientSamples) as caught:
        prediction.rows_of_a_part(3, parts=4)
    assert caught.value.required == 4


# E13


def test_e13_linear_losses_attain_the_constant():
    n, strength = 20, 0.3
    values = np.ones(n)
    other = values.copy()
    other[0] = -1
    moved = abs(values.mean() - other.mean()) / strength
    assert moved == pytest.approx(stability.erm_stability(rows=n, strength=strength, loss_lipschitz=1), rel=1e-9)


def test_e13_logistic_pairs_stay_within(rng):
    worst = 0.0
    for _ in range(200):
        n, d, strength = int(rng.integers(5, 40)), int(rng.integers(1, 5)), 10 ** rng.uniform(-2, 0.5)
        here, there = neighbours(rng, n, d)
        limit = stability.erm_stability(rows=n, strength=strength, loss_lipschitz=1)
        worst = max(worst, np.linalg.norm(newton(*here, strength) - newton(*there, strength)) / limit)
    assert 0.3 < worst <= 1


def test_e13_constants_multiply():
    parameters = {"rows": 1000, "strength": 0.1, "loss_lipschitz": 2, "predictor_lipschitz": 3}
    assert stability.erm_stability(**parameters) == pytest.approx(2 * 6 / 100, rel=1e-9)
    assert stability.erm_stability(**parameters, gradient_gap=5) == pytest.approx(5 / 100, rel=1e-9)
    assert stability.strongly_convex_excess(**parameters, epsilon=0.5) == pytest.approx(2 * 36 / 100 * 3, rel=1e-9)
    assert stability.strongly_convex_excess(rows=1000, strength=0.1, loss_lipschitz=1, epsilon=0.5) == pytest.approx(0.06)


def test_e13_one_release_serves_every_prediction(rng):
    sigma = stability.output_sigma(0.02, mu=1)
    x = unit_rows(rng, 1, 5)[0]
    x /= np.linalg.norm(x)
    noise = (rng.normal(0, sigma, (4 * 10**5, 5)) @ x).std()
    assert noise == pytest.approx(0.02, rel=1e-2)
    assert stability.output_sigma(0.02, mu=2, grid=0.001, dimension=9) == pytest.approx(0.023 / 2, rel=1e-9)


@pytest.mark.parametrize("name", ["strength", "loss_lipschitz", "predictor_lipschitz"])
@pytest.mark.parametrize("value", [None, 0, -1.0])
def test_e13_missing_constants_are_not_certified(name, value):
    parameters = {"rows": 10, "strength": 1, "loss_lipschitz": 1, "predictor_lipschitz": 1} | {name: value}
    with pytest.raises(NotCertified, match=name):
        stability.erm_stability(**parameters)


def test_e7_stability_that_nobody_proved_is_refused():
    with pytest.raises(NotCertified, match="gamma"):
        stability.laplace_noise(None, epsilon=1)
    with pytest.raises(InvalidParameter, match="gamma"):
        stability.laplace_noise(True, epsilon=1)


# E14


def test_e14_strength_is_the_best():
    rows, epsilon = 1000, 0.5
    found = stability.regularised(rows=rows, epsilon=epsilon, radius=1, loss_lipschitz=1)
    a = (1 + 1 / epsilon) / rows
    strengths = np.geomspace(1e-4, 10, 200_001)
    totals = 2 * a / strengths + strengths / 2
    assert found.excess == pytest.approx(totals.min(), rel=1e-4)
    assert found.excess == pytest.approx(0.10954, abs=1e-5)
    assert found.strength == pytest.approx(strengths[totals.argmin()], rel=1e-4)
    assert found.gamma == pytest.approx(
        stability.erm_stability(rows=rows, strength=found.strength, loss_lipschitz=1), rel=1e-9
    )


def test_e14_radius_must_be_certified():
    with pytest.raises(NotCertified, match="radius"):
        stability.regularised(rows=10, epsilon=1, radius=0, loss_lipschitz=1)
    with pytest.raises(InvalidParameter, match="rows"):
        stability.regularised(rows=0, epsilon=1, radius=1, loss_lipschitz=1)


# E15


def test_e15_gradient_bounds_the_distance_on_a_hundred_problems(rng):
    for _ in range(100):
        n, strength = int(rng.integers(5, 40)), 10 ** rng.uniform(-2, 0)
        (rows, labels), _ = neighbours(rng, n, 3)
        exact = newton(rows, labels, strength)
        w = rng.normal(size=3)
        assert np.linalg.norm(w - exact) <= np.linalg.norm(gradient(w, rows, labels, strength)) / strength + 1e-9


def test_e15_descent_ends_within_its_distance(rng):
    for steps in (0, 3, 30, 200):
        (rows, labels), _ = neighbours(rng, 30, 3)
        w = np.zeros(3)
        for _ in range(steps):
            w = w - gradient(w, rows, labels, 0.05) / 0.3
        distance = stability.descent_distance(steps=steps, strength=0.05, smoothness=0.25, lipschitz=1)
        assert np.linalg.norm(w - newton(rows, labels, 0.05)) <= distance


def test_e15_distance_counts_twice():
    assert stability.inexact_stability(0.1, distance=0.02) == pytest.approx(0.14)
    assert stability.suboptimal_distance(0.02, strength=0.04) == pytest.approx(1.0)
    with pytest.raises(NotCertified, match="stability"):
        stability.inexact_stability(None, distance=0)


# E16


def test_e16_descent_is_as_stable_as_stated(rng):
    worst = mean = 0.0
    for _ in range(200):
        n, steps = int(rng.integers(5, 40)), int(rng.integers(1, 40))
        step, radius = rng.uniform(0.1, 8.0), float(rng.choice([0.5, 2, 100]))
        here, there = neighbours(rng, n, 3)
        parameters = {"rows": n, "steps": steps, "step": step, "lipschitz": 1, "smoothness": 0.25}
        last, average = descend(*here, step=step, steps=steps, radius=radius)
        other, moved = descend(*there, step=step, steps=steps, radius=radius)
        worst = max(worst, np.linalg.norm(last - other) / stability.descent_stability(**parameters))
        mean = max(mean, np.linalg.norm(average - moved) / stability.descent_stability(**parameters, averaged=True))
    assert 0.3 < worst <= 1
    assert 0.3 < mean <= 1


def test_e16_one_pass_is_as_stable_as_stated(rng):
    worst = 0.0
    for _ in range(300):
        step = rng.uniform(0.1, 8.0)
        here, there = neighbours(rng, int(rng.integers(2, 40)), 3)
        limit = stability.one_pass_stability(step=step, lipschitz=1, smoothness=0.25)
        for a, b in zip(one_pass(*here, step=step, radius=5), one_pass(*there, step=step, radius=5), strict=True):
            worst = max(worst, np.linalg.norm(a - b) / limit)
    assert 0.3 < worst <= 1


def test_e16_strongly_convex_descent_is_stable_for_every_number_of_steps(rng):
    strength, n = 0.1, 20
    limit = stability.erm_stability(rows=n, strength=strength, loss_lipschitz=1)
    here, there = neighbours(rng, n, 3)
    w, v = np.zeros(3), np.zeros(3)
    for _ in range(300):
        w = w - gradient(w, *here, strength) / (0.25 + strength)
        v = v - gradient(v, *there, strength) / (0.25 + strength)
        assert np.linalg.norm(w - v) <= limit


def test_e16_constants_at_a_thousand_rows():
    rows = 1000
    travel = math.sqrt(rows) / 2
    found = stability.descent_excess(rows=rows, epsilon=1, travel=travel, radius=1, lipschitz=1, loss_smoothness=1)
    assert found == pytest.approx(2 / math.sqrt(rows) + 1 / rows, rel=1e-9)
    assert found - 1 / rows == pytest.approx(0.06325, abs=1e-5)
    step = 1 / (2 * math.sqrt(rows))
    assert stability.one_pass_excess(rows=rows, step=step, lipschitz=1, smoothness=1, radius=1) == pytest.approx(
        0.03953, abs=1e-5
    )
    assert stability.one_pass_stability(step=step, lipschitz=1, smoothness=1) == pytest.approx(0.03162, abs=1e-5)


def test_e16_longer_steps_are_refused():
    with pytest.raises(PreconditionError, match="step <= 2 / smoothness; got 9, and 8 would do"):
        stability.descent_stability(rows=10, steps=3, step=9, lipschitz=1, smoothness=0.25)
    with pytest.raises(PreconditionError, match="2 / smoothness"):
        stability.one_pass_excess(rows=10, step=9, lipschitz=1, smoothness=0.25, radius=1)


# V6.2, V6.3


@pytest.mark.parametrize(("rows", "expected"), [(10**4, 0.0354), (10**6, 0.0112)])
def test_v6_2_epsilon_that_costs_as_much_as_sampling(rows, expected):
    constants = {"radius": 1, "lipschitz": 1, "loss_smoothness": 0.25}
    found = stability.free_descent_epsilon(rows=rows, **constants)
    assert found == pytest.approx(expected, abs=5e-5)
    travel = math.sqrt(rows) / 2
    total = stability.descent_excess(rows=rows, epsilon=found, travel=travel, **constants)
    assert total == pytest.approx(2 * 2 / math.sqrt(rows), rel=1e-9), "the noise costs as much as sampling"
    half = stability.descent_excess(rows=rows, epsilon=found / 2, travel=travel, **constants)
    assert half > 1.5 * total, "half of it does not"
    with pytest.raises(NotCertified):
        stability.free_descent_epsilon(rows=rows, **(constants | {"loss_smoothness": None}))


def test_v6_3_error_of_a_uniformly_stable_learner():
    assert stability.stable_error_gap(rows=10**4, stability=1e-4, beta=0.05) == pytest.approx(0.0368, abs=5e-5)


def test_v6_3_bound_holds_for_a_stable_learner_and_not_for_a_lookup(rng):
    """The mean of n bits is 1/n-stable; a table of its rows is not, and breaks the bound."""
    rows, beta, runs = 50, 0.05, 4000
    limit = stability.stable_error_gap(rows=rows, stability=1 / rows, beta=beta)
    bits = rng.random((runs, rows)) < 0.3
    mean = bits.mean(axis=1)
    # The loss |mean - z|: of the rows against the population's.
    seen = np.abs(mean[:, None] - bits).mean(axis=1)
    expected = 0.3 * (1 - mean) + 0.7 * mean
    assert np.mean(expected - seen > limit) <= beta
    assert limit < 1, "a lookup of the rows, whose gap is 1, would break it"


@pytest.mark.parametrize("rows", [10, 1000])
def test_v6_3_stable_in_total_variation_is_not_enough(rng, rows):
    """The lookup with probability tau: its gap is 1 with probability tau for every number of rows, and 0 otherwise."""
    tau, runs = 0.05, 20_000
    looked_up = rng.random(runs) < tau
    fresh, sample = rng.random(runs), rng.random((rows,))
    error_of_rows = np.where(looked_up, 0.0, 1.0)  # the label of every row is 1
    error = np.where(looked_up & np.isin(fresh, sample), 0.0, 1.0)
    gap = error - error_of_rows
    exact = stability.lookup_gap(tau=tau, gap=1)
    assert exact == tau
    assert abs(np.mean(gap >= 1) - exact) <= 5 * math.sqrt(tau * (1 - tau) / runs)
    assert gap.mean() <= tau + 5 * math.sqrt(tau * (1 - tau) / runs), "in expectation it holds, by tau"


def test_v6_3_blocks_of_rows_need_a_term_in_delta_over_epsilon():
    epsilon, delta = 0.05, 0.01
    assert 1 - (1 - delta) ** round(1 / epsilon) == pytest.approx(0.182, abs=5e-4)
