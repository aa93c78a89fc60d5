"""Predictions by vote and response tables (E1, E4-E6, E11)."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

import holdtrue as ht
from holdtrue.accounting import closed_forms, event_privacy
from holdtrue.bounds import agnostic_prediction, learning, prediction
from holdtrue.errors import InsufficientSamples, InvalidParameter, PreconditionError
from holdtrue.testing import drawing_from
from laws import generator


@pytest.fixture
def rng(request):
    return generator(request)


def worst_loss(labels, votes, rate):
    """Return the largest log-ratio over all votes and one vote moved, by enumeration."""
    worst = 0.0
    for head in itertools.product(range(votes + 1), repeat=labels - 1):
        if sum(head) > votes:
            continue
        counts = np.array([*head, votes - sum(head)], dtype=float)
        law = rate * counts - special.logsumexp(rate * counts)
        for a, b in itertools.permutations(range(labels), 2):
            if counts[a]:
                moved = counts.copy()
                moved[a] -= 1
                moved[b] += 1
                worst = max(worst, np.abs(law - rate * moved + special.logsumexp(rate * moved)).max())
    return worst


# E4


@pytest.mark.parametrize(("labels", "votes"), [(2, 20), (2, 1), (3, 20), (3, 5), (4, 10), (5, 10)])
def test_e4_half_epsilon_a_vote_is_epsilon_dp_by_enumeration(labels, votes):
    worst = worst_loss(labels, votes, 0.5)
    assert worst <= 1 + 1e-12
    if votes >= 10:
        assert worst >= 0.97 * prediction.soft_majority_loss(votes, rate=0.5)


@pytest.mark.parametrize(("labels", "votes", "loss"), [(2, 20, 0.9999), (3, 20, 0.9999), (5, 10, 0.9762)])
def test_e4_exact_losses(labels, votes, loss):
    assert worst_loss(labels, votes, 0.5) == pytest.approx(loss, abs=1e-4)


@pytest.mark.parametrize(("labels", "votes"), [(2, 25), (3, 20), (5, 10)])
def test_e4_epsilon_a_vote_is_flagged(labels, votes):
    assert worst_loss(labels, votes, 1.0) >= 1.95


@pytest.mark.parametrize("rate", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("votes", [1, 2, 5, 25, 101])
def test_e4_closed_form_is_the_enumerated_loss(votes, rate):
    assert prediction.soft_majority_loss(votes, rate=rate) == pytest.approx(worst_loss(2, votes, rate), rel=1e-9)


def test_e4_law_of_the_votes():
    law = prediction.vote_probabilities([3, 0, 1], epsilon=2)
    assert law == pytest.approx(special.softmax([3, 0, 1]), rel=1e-12)
    assert prediction.vote_probabilities([15, 10], epsilon=0.5)[0] == pytest.approx(special.expit(0.5 * 5 / 2), rel=1e-12)


def test_e4_sharp_rate_of_one_prediction():
    rate = prediction.sharp_rate(5, epsilon=1)
    assert rate == pytest.approx(0.5563, abs=1e-4)
    assert worst_loss(2, 5, rate) <= 1


def test_e4_audit_of_the_mechanism_next_to_a_unanimous_vote(bits):
    # Counts (r, 0) and (r - 1, 1), label 2: the ratio that soft majority attains.
    draws, parts, epsilon = 10**6, 7, 1.0
    mechanism = drawing_from(ht.Exponential(epsilon=epsilon), bits)
    hits = [
        int(np.sum(mechanism.release(np.broadcast_to(np.array(counts), (draws, 2)).copy()) == 1))
        for counts in ([parts, 0], [parts - 1, 1])
    ]
    upper = float(stats.beta.ppf(1 - 1e-6, hits[0] + 1, draws - hits[0]))
    lower = float(stats.beta.ppf(1e-6, hits[1], draws - hits[1] + 1))
    # The exact loss is 0.95; two limits at one in a million take about 0.045 off it, give or take 0.005.
    assert 0.85 * epsilon < math.log(lower / upper) <= epsilon


@pytest.mark.parametrize("counts", [[3], [0, 0], [1, -1], [1, True]])
def test_e4_bad_votes(counts):
    with pytest.raises(InvalidParameter, match="counts"):
        prediction.vote_probabilities(counts, epsilon=1)


def test_e4_fewer_rows_than_parts():
    with pytest.raises(InsufficientSamples) as caught:
        prediction.rows_of_a_part(9, parts=10)
    assert caught.value.required == 10
    assert prediction.rows_of_a_part(29, parts=10) == 2


# E5


def worst_error(parts, epsilon, mean):
    """Return the largest E g(j) over all laws of j with this mean: some two values of j attain it."""
    j = np.arange(parts + 1.0)
    g = special.expit(-epsilon * (parts - 2 * j) / 2)
    low, high = np.meshgrid(j[j <= mean], j[j >= mean], indexing="ij")
    share = np.where(high > low, (mean - low) / np.where(high > low, high - low, 1), 0.0)
    return float((g[low.astype(int)] * (1 - share) + g[high.astype(int)] * share).max())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 24, 61])
def test_e5_envelope_is_the_linear_programme(parts, epsilon):
    for a in np.linspace(0, 1, 41):
        expected = worst_error(parts, epsilon, a * parts)
        assert prediction.soft_majority_error(parts, epsilon=epsilon, base_error=a) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.45, 0.6, 0.9])
@pytest.mark.parametrize("parts", [1, 2, 5, 24, 200])
def test_e5_largest_base_error_is_allowed_and_no_more(parts, alpha):
    a = prediction.largest_base_error(parts, epsilon=0.7, alpha=alpha)
    if a == 0:
        assert prediction.soft_majority_error(parts, epsilon=0.7, base_error=0) >= alpha * (1 - 1e-9)
        return
    assert prediction.soft_majority_error(parts, epsilon=0.7, base_error=a) <= alpha
    if a < 1:
        assert prediction.soft_majority_error(parts, epsilon=0.7, base_error=min(1, a * 1.001)) > alpha


SEED = {
    (0.2, 0.1): 0.07250,
    (0.2, 1.0): 0.07218,
    (0.1, 0.1): 0.03773,
    (0.1, 1.0): 0.03797,
    (0.05, 0.1): 0.01944,
    (0.05, 1.0): 0.01949,
    (0.01, 0.1): 0.00408,
    (0.01, 1.0): 0.00408,
}


@pytest.mark.parametrize(("alpha", "epsilon"), SEED)
def test_e5_theorem_1_errs_less_than_alpha_and_by_how_much(alpha, epsilon):
    found = prediction.seed_partition(
        alpha=alpha, beta=0.05, epsilon=epsilon, base_rows=lambda a, b: math.ceil(math.log(1 / b) / a)
    )
    assert found.parts == math.ceil(6 * math.log(4 / alpha) / epsilon)
    assert found.base_error == pytest.approx(alpha / 4)
    error = prediction.soft_majority_error(found.parts, epsilon=epsilon, base_error=found.base_error)
    assert error == pytest.approx(SEED[alpha, epsilon], abs=1e-5)
    assert error <= alpha


BEST = {
    (0.2, 0.1): (48, 0.1277, 9.58),
    (0.2, 0.5): (10, 0.1326, 9.55),
    (0.2, 1.0): (5, 0.1339, 9.64),
    (0.1, 0.1): (69, 0.0631, 8.12),
    (0.1, 0.5): (14, 0.0640, 8.24),
    (0.1, 1.0): (7, 0.0640, 8.42),
    (0.05, 0.1): (88, 0.0315, 7.53),
    (0.05, 0.5): (18, 0.0322, 7.60),
    (0.05, 1.0): (9, 0.0322, 7.74),
    (0.01, 0.1): (127, 0.00618, 7.00),
    (0.01, 0.5): (25, 0.00608, 7.00),
    (0.01, 1.0): (13, 0.00638, 7.06),
}


@pytest.mark.parametrize(("alpha", "epsilon"), BEST)
def test_e5_best_cut_for_rows_in_inverse_proportion_to_error(alpha, epsilon):
    parts, _, saving = BEST[alpha, epsilon]

    def base(a, _):
        return math.ceil(10**6 / a)

    found = prediction.realizable_partition(alpha=alpha, beta=0.05, epsilon=epsilon, base_rows=base)
    assert abs(found.parts - parts) <= 1
    assert worst_error(found.parts, epsilon, found.base_error * found.parts) <= alpha * (1 + 1e-12)
    seed = prediction.seed_partition(alpha=alpha, beta=0.05, epsilon=epsilon, base_rows=base)
    assert seed.rows / found.rows == pytest.approx(saving, rel=5e-3)


def test_e5_base_error_at_a_tenth():
    assert prediction.largest_base_error(7, epsilon=1, alpha=0.1) == pytest.approx(0.064, abs=5e-4)
    assert prediction.largest_base_error(69, epsilon=0.1, alpha=0.1) == pytest.approx(0.06309, abs=1e-5)


def test_e5_base_sizes():
    assert prediction.finite_base_rows(1000, alpha=0.1, beta=0.05) == math.ceil(math.log(20_000) / 0.1)
    expected = max(40 * math.log2(40), 800 * math.log2(130))
    assert prediction.dimension_base_rows(10, alpha=0.1, beta=0.05) == math.ceil(expected)
    assert learning.learning_rows(100, alpha=0.1, beta=0.05) == 1147
    assert prediction.uniform_base_rows(100, alpha=0.1, beta=0.05) == math.ceil(2 * math.log(4000) / 0.01)


def test_e5_realizable_vote_errs_less_than_alpha_in_simulation(rng):
    # Thresholds on 0..99, truth at 50; each part's predictor is the rightmost threshold that fits it.
    alpha, beta, epsilon, runs = 0.1, 0.05, 1.0, 300
    found = prediction.realizable_partition(
        alpha=alpha, beta=beta, epsilon=epsilon, base_rows=lambda a, b: prediction.finite_base_rows(100, alpha=a, beta=b)
    )
    grid = np.arange(100)
    failures = 0
    for _ in range(runs):
        points = rng.integers(0, 100, (found.parts, found.part_rows))
        cut = np.where(points >= 50, points, 100).min(axis=1)
        votes = (grid >= cut[:, None]).sum(axis=0)
        one = special.expit(epsilon * (2 * votes - found.parts) / 2)
        failures += np.where(grid >= 50, 1 - one, one).mean() > alpha
    limit = 0.0 if failures == 0 else float(stats.beta.ppf(1e-6, failures, runs - failures + 1))
    assert limit <= beta


def test_e5_predictions_share_a_budget():
    each = prediction.epsilon_each(100, mu=1)
    assert each == pytest.approx(2 * special.logit(special.ndtr(1 / 20)), rel=1e-9)
    assert closed_forms.bounded_range_mu(each) * 10 <= 1
    assert prediction.epsilon_each(100, rho=0.5) == pytest.approx(math.sqrt(8 * 0.5 / 100))
    with pytest.raises(InvalidParameter, match="rho in its place"):
        prediction.epsilon_each(100, mu=1, rho=1)


# E6


def test_e6_repaired_step_holds_for_all_epsilon():
    worst = 1.0
    for epsilon in np.geomspace(1e-3, 20, 60):
        for points in (2, 5, 50, 1000):
            rows = math.floor(points / (8 * epsilon))
            worst = min(worst, prediction.least_error(rows=rows, points=points, epsilon=float(epsilon)))
    assert worst >= 0.4466
    assert worst == pytest.approx(0.4467, abs=1e-4)


def test_e6_constant_twelve_would_do_at_a_quarter():
    assert prediction.least_error(rows=333_333, points=1000, epsilon=0.001) == pytest.approx(0.3527, abs=1e-4)


def test_e6_lower_bound_and_its_preconditions():
    assert prediction.prediction_lower_bound(100, alpha=0.25, epsilon=0.125) == 101
    assert prediction.prediction_lower_bound(101, alpha=0.125, epsilon=0.125) == 201
    with pytest.raises(PreconditionError, match="alpha <= 1/4"):
        prediction.prediction_lower_bound(10, alpha=0.3, epsilon=1)
    with pytest.raises(PreconditionError, match="VC dimension"):
        prediction.prediction_lower_bound(1, alpha=0.1, epsilon=1)


# E11


def least_tau(parts, epsilon, limit):
    """Return the smallest tau by building the table entry by entry, forwards, and bisecting."""
    low, high = 0.0, 0.5
    for _ in range(40):
        tau = (low + high) / 2
        p, fits = tau, True
        for c in range(1, parts + 1):
            if limit == "log-odds":
                most = special.expit(special.logit(p) + epsilon)
            else:
                most = min(math.exp(epsilon) * p, 1 - math.exp(-epsilon) * (1 - p))
            p = min(c / parts + tau, most, 1 - 1e-16)
            if p < c / parts - tau - 1e-13:
                fits = False
                break
        low, high = (low, tau) if fits else (tau, high)
    return high


@pytest.mark.parametrize("limit", ["log-odds", "ratio"])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 12, 25])
def test_e11_tau_is_the_least_by_search(parts, epsilon, limit):
    tau = agnostic_prediction.response_tau(parts, epsilon=epsilon, limit=limit)
    assert tau == pytest.approx(least_tau(parts, epsilon, limit), rel=1e-6)


@pytest.mark.parametrize("limit", ["log-odds", "ratio"])
@pytest.mark.parametrize(
    ("parts", "epsilon"), [(1, 1.0), (2, 0.1), (3, 1.0), (20, 0.5), (101, 0.2), (400, 0.1), (40, 30.0), (5, 1e-6)]
)
def test_e11_tables_are_private_and_close(parts, epsilon, limit):
    table = agnostic_prediction.response_table(parts, epsilon=epsilon, limit=limit)
    p = table.probabilities
    assert max(abs(value - Fraction(c, parts)) for c, value in enumerate(p)) <= table.tau + 1e-9
    assert all(p[c] + p[parts - c] == 1 for c in range(parts + 1))
    steps = list(itertools.pairwise(p))
    assert all(a <= b for a, b in steps)
    if limit == "log-odds":
        assert max(math.log(b * (1 - a) / (a * (1 - b))) for a, b in steps) <= epsilon + 1e-14
        assert event_privacy.mu(table.event) == closed_forms.bounded_range_mu(epsilon)
    else:
        assert max(math.log(max(b / a, (1 - a) / (1 - b))) for a, b in steps) <= epsilon + 1e-14
        assert event_privacy.mu(table.event) == closed_forms.pure_mu(epsilon)


@pytest.mark.parametrize(
    ("parts", "epsilon", "limit", "tau"),
    [
        (100, 0.2, "log-odds", 0.0143),
        (20, 0.5, "log-odds", 0.0296),
        (400, 0.1, "log-odds", 0.0071),
        (40, 1.0, "log-odds", 0.0068),
        (3, 1.0, "log-odds", 0.1824),
        (3, 1.0, "ratio", 0.0989),
        (1, 1.0, "ratio", special.expit(-1.0)),
    ],
)
def test_e11_values_of_tau(parts, epsilon, limit, tau):
    assert agnostic_prediction.response_tau(parts, epsilon=epsilon, limit=limit) == pytest.approx(tau, abs=5.1e-5)


def test_e11_tau_reaches_its_limit():
    assert agnostic_prediction.response_tau(10**6, epsilon=1e-2) * 10**4 == pytest.approx(0.2785, abs=5e-4)


@pytest.mark.parametrize(("parts", "epsilon"), [(3, 1.0), (20, 0.5), (100, 0.2), (5, 0.1)])
def test_e11_laplace_bias_is_exact_below_half_its_scale_and_above_the_ratio_table(parts, epsilon):
    scale = 1 / (parts * epsilon)
    noise = np.linspace(-40, 40, 800_001) * scale
    density = np.exp(-np.abs(noise) / scale) / (2 * scale)
    for share in (0.0, 0.2, 0.5, 1.0):
        mean = np.trapezoid(np.clip(share + noise, 0, 1) * density, noise)
        assert agnostic_prediction.clipped_laplace_bias(parts, epsilon=epsilon, share=share) == pytest.approx(
            mean - share, abs=1e-6
        )
    worst = agnostic_prediction.clipped_laplace_bias(parts, epsilon=epsilon, share=0)
    assert agnostic_prediction.response_tau(parts, epsilon=epsilon, limit="ratio") <= worst <= scale / 2


def test_e11_partitions_keep_excess_and_failure():
    alpha, beta, epsilon = 0.1, 0.05, 0.5
    asked = []

    def base(a, b):
        asked.append((a, b))
        return math.ceil(math.log(1 / b) / a**2)

    for cut, parts in ((agnostic_prediction.laplace_partition, 20), (agnostic_prediction.seed_agnostic_partition, 40)):
        found = cut(alpha=alpha, beta=beta, epsilon=epsilon, base_rows=base)
        assert found.parts == parts
        assert asked[-1] == (pytest.approx(alpha / 2), pytest.approx(beta / parts))
        assert found.base_error + agnostic_prediction.clipped_laplace_bias(parts, epsilon=epsilon, share=0) <= alpha
    best = agnostic_prediction.agnostic_partition(alpha=alpha, beta=beta, epsilon=epsilon, base_rows=base)
    assert best.base_error + agnostic_prediction.response_tau(best.parts, epsilon=epsilon) <= alpha
    assert (
        best.rows < agnostic_prediction.laplace_partition(alpha=alpha, beta=beta, epsilon=epsilon, base_rows=base).rows / 2
    )


def test_e11_large_alpha_times_epsilon_takes_one_part():
    found = agnostic_prediction.laplace_partition(alpha=0.9, beta=0.05, epsilon=4, base_rows=lambda _a, _b: 10)
    assert found.parts == 1
    with pytest.raises(InvalidParameter, match="limit"):
        agnostic_prediction.response_tau(3, epsilon=1, limit="odds")


# V6.1


@pytest.mark.parametrize(
    ("alpha", "dimension", "rows"), [(0.1, 5, 14_181), (0.2, 5, 3_058), (0.1, 1, 4_614), (0.1, 20, 44_573)]
)
def test_v6_1_rows_of_a_class_of_a_dimension(alpha, dimension, rows):
    assert prediction.agnostic_dimension_rows(dimension, alpha=alpha, beta=0.05) == rows
    assert prediction.dimension_excess(rows, dimension=dimension, beta=0.05) <= alpha
    assert prediction.dimension_excess(rows - 1, dimension=dimension, beta=0.05) > alpha
    with pytest.raises(InsufficientSamples):
        prediction.dimension_excess(dimension, dimension=dimension + 1, beta=0.05)


def test_v6_1_thresholds_with_noisy_labels_never_miss(request):
    """Exact minimisers of thresholds on a line, labels wrong three times in ten: none of 2,000 is beyond the bound."""
    source, rows, misses, near = generator(request), 400, 0, 0
    limit = prediction.dimension_excess(rows, dimension=1, beta=0.05)
    for _ in range(2000):
        x = np.sort(source.random(rows))
        labels = (x > 0.5) ^ (source.random(rows) < 0.3)
        errors = np.concatenate([[0], np.cumsum(np.where(labels, 1, -1))]) + (~labels).sum()
        place = int(errors.argmin())
        excess = 0.4 * abs((x[place - 1] if place else 0.0) - 0.5)
        misses += excess > limit
        near += excess > limit / 20
    assert misses == 0
    assert near > 0, "a bound twenty times smaller is refuted"
