"""Accounting that looks at the votes: published formula, and a type that no ledger takes."""

import copy
import math

import numpy as np
import pytest
from scipy import special

from holdtrue import events
from holdtrue.accounting.filters import GaussianFilter
from holdtrue.ensembles.responding import NoisyMax, Screen
from holdtrue.errors import InvalidParameter, NotPrivate, RequestError
from laws import generator
from reproductions.data_dependent import _ORDERS, _bound_doubt, _rdp_of_points, vote_report

ORDERS = [*np.arange(2, 100.75, 0.5), *np.geomspace(100, 500, 100)]


@pytest.fixture
def votes(request):
    """Votes of 250 members that mostly agree."""
    rng = generator(request)
    shares = rng.dirichlet(np.full(10, 0.04), 60) * 0.95 + 0.005
    return np.array([rng.multinomial(250, share) for share in shares])


def bound(order, log_q, width):
    """Return the published bound for one point and one order, term by term."""
    base = order / width**2
    if log_q == -math.inf:
        return 0.0
    large = -log_q
    m2 = width * math.sqrt(large)
    m1 = m2 + 1
    e1, e2 = m1 / width**2, m2 / width**2
    if not (m2 > 1 and order < m1 and large > e2):
        return base
    if log_q > (m2 - 1) * e2 - m2 * (math.log(m1 / (m1 - 1)) + math.log(m2 / (m2 - 1))):
        return base
    stay = math.log1p(-math.exp(log_q))
    log_a = stay - math.log1p(-math.exp((log_q + e2) * (1 - 1 / m2)))
    log_b = e1 + large / (m1 - 1)
    both = np.logaddexp(stay + (order - 1) * log_a, log_q + (order - 1) * log_b)
    return min(base, both / (order - 1))


def run(votes, threshold, first, second):
    """Return the data-dependent and independent RDP of a run in expectation, at every order, by a plain loop."""
    dependent, independent = np.zeros(len(ORDERS)), np.zeros(len(ORDERS))
    for counts in votes:
        top = counts.max()
        p = special.ndtr((top - threshold) / first)
        log_q = special.log_ndtr(-abs(top - threshold) / first)
        others = np.delete(counts, counts.argmax())
        wrong = special.logsumexp(special.log_ndtr((others - top) / (math.sqrt(2) * second)))
        doubt = min(wrong, math.log1p(-1 / len(counts)))
        for at, order in enumerate(ORDERS):
            dependent[at] += bound(order, log_q, math.sqrt(2) * first) + p * bound(order, doubt, second)
            independent[at] += order / (2 * first**2) + p * order / second**2
    return dependent, independent


def classic(renyi, delta):
    return min(r + math.log(1 / delta) / (a - 1) for a, r in zip(ORDERS, renyi, strict=True))


def improved(renyi, delta):
    pairs = zip(ORDERS, renyi, strict=True)
    return min(r + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1) for a, r in pairs)


def test_the_report_is_the_published_formula(votes):
    report = vote_report(votes, screen=Screen(200, sigma=150), response=NoisyMax(40), delta=1e-5)
    dependent, independent = run(votes, 200, 150, 40)
    assert report.dependent.classic == pytest.approx(classic(dependent, 1e-5), rel=1e-9)
    assert report.dependent.improved == pytest.approx(improved(dependent, 1e-5), rel=1e-9)
    assert report.independent.classic == pytest.approx(classic(independent, 1e-5), rel=1e-9)
    assert report.independent.improved == pytest.approx(improved(independent, 1e-5), rel=1e-9)
    assert report.dependent.improved < report.dependent.classic
    assert report.dependent.improved < report.independent.improved


def test_every_condition_of_the_bound_is_kept():
    """Point by point and order by order, where the theorem applies and where it does not."""
    log_q = np.array([-math.inf, *-np.geomspace(1e-3, 1e4, 60)])
    for width in (1.5, 3.0, 10.0, 40.0, 212.0):
        expected = [[bound(order, one, width) for order in ORDERS] for one in log_q]
        assert _rdp_of_points(log_q, width) == pytest.approx(np.array(expected), rel=1e-9, abs=1e-15)


def test_the_bound_holds_for_unanimous_votes_by_enumeration():
    """Two labels, 60 against 0 and 59 against 1: the exact divergence of the answers is below the point's bound."""
    sigma = 12.0
    p = special.ndtr(np.array([60, 58]) / (math.sqrt(2) * sigma))
    said = _rdp_of_points(_bound_doubt(np.array([[60.0, 0.0]]), sigma), sigma)[0]
    for at in range(0, _ORDERS.size, 7):
        a = _ORDERS[at]
        for left, right in ((p[0], p[1]), (p[1], p[0])):
            terms = [a * math.log(x) + (1 - a) * math.log(y) for x, y in ((left, right), (1 - left, 1 - right))]
            assert np.logaddexp(*terms) / (a - 1) <= said[at] + 1e-15
    assert (said < _ORDERS / sigma**2).any()


def test_answered_points_are_counted_where_they_are_known(votes):
    answered = np.arange(60) % 3 == 0
    screen, response = Screen(200, sigma=150), NoisyMax(40)
    report = vote_report(votes, screen=screen, response=response, delta=1e-5, answered=answered)
    assert report.answers == 20
    everything = vote_report(votes, response=response, delta=1e-5)
    assert everything.answers == 60
    assert everything.dependent.improved <= everything.independent.improved


def test_pooled_votes_count_as_votes_of_one_point(votes):
    once = vote_report(votes, screen=Screen(200, sigma=150), response=NoisyMax(40), delta=1e-5)
    pooled = vote_report(3 * votes, screen=Screen(600, sigma=450, points=3), response=NoisyMax(120, points=3), delta=1e-5)
    assert pooled.dependent.improved == pytest.approx(once.dependent.improved, rel=1e-12)


def test_a_report_cannot_be_charged_stored_or_shown(votes):
    report = vote_report(votes, response=NoisyMax(40), delta=1e-5)
    with pytest.raises(NotPrivate):
        _ = report.event
    with pytest.raises(RequestError):
        GaussianFilter.of(1).charge(0, event=report)
    with pytest.raises(InvalidParameter):
        events.Composed((report,))
    with pytest.raises(InvalidParameter):
        events.Repeated(report, 2)
    with pytest.raises(TypeError):
        copy.copy(report)
    for figure in (report.dependent.improved, report.independent.classic, report.answers):
        assert f"{figure:.3f}"[:4] not in repr(report) + str(report.dependent)


def test_wrong_arguments_are_refused(votes):
    with pytest.raises(InvalidParameter):
        vote_report(votes, response=NoisyMax(40), delta=0)
    with pytest.raises(InvalidParameter):
        vote_report(votes, response=NoisyMax(40), delta=1e-5, answered=[True])
