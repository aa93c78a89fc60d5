"""V3.1: the curve of two purses, against exact laws, the best adaptive play and the theory's table."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from holdtrue import events
from holdtrue.accounting import purses
from holdtrue.accounting.closed_forms import bounded_range_rho, gaussian_delta
from holdtrue.accounting.conversions import gaussian_mu
from holdtrue.accounting.filters import CountedFilter, RhoPurse
from holdtrue.accounting.purses import Purse, concentrated_mixture, counted_mixture, purse_of
from holdtrue.bounds.transfer import gaussian_shift, purse_shift
from holdtrue.errors import InvalidParameter

TENTH = Fraction(1, 10)
EPSILON, DELTA = 4.0, 1e-6
SHARES = (0, 0.1, 0.25, 0.5, 0.75, 0.9)
CASES = [(0.3, 20, 0.1), (0.5, 50, 0.1), (0.6, 100, 0.05), (0.2, 5, 0.5)]


def count_predictions(currency, share):
    mu = gaussian_mu(EPSILON, delta=DELTA) * math.sqrt(share)
    return purses.most_draws(currency, each=TENTH, mu=mu, epsilon=EPSILON, delta=DELTA)


def test_v3_1_predictions_in_each_currency():
    assert [count_predictions(currency, 0) for currency in ("mu", "rho", "draws")] == [178, 248, 272]


@pytest.mark.parametrize(
    ("currency", "expected"), [("mu", (178, 160, 134, 89, 44, 17)), ("rho", (248, 221, 181, 115, 52, 17))]
)
def test_v3_1_table_of_mixed_shares(currency, expected):
    for share, number in zip(SHARES, expected, strict=True):
        assert abs(count_predictions(currency, share) - number) <= 1, share


def test_v3_1_table_of_mixed_shares_counted_in_draws():
    """One recursion serves all shares: delta passes at one less than each number, and is too much at two more."""
    mu = gaussian_mu(EPSILON, delta=DELTA)
    expected = dict(zip(SHARES, (272, 245, 204, 135, 67, 26), strict=True))
    for number, curve in enumerate(purses._follow_draws(0.1, 274, highest=EPSILON + 4, steps=64), start=1):
        for share, most in expected.items():
            if number in (most - 1, most + 2):
                fits = purses._mix_with_normal(*curve, mu * math.sqrt(share), EPSILON) <= DELTA
                assert fits == (number < most), (share, number)


@pytest.mark.parametrize("draws", [60, 120, 272])
def test_v3_1_few_questions_beside_counted_draws_cost_little(draws):
    """However narrow the normal law is beside the cells of the curve of draws, none of its mass is counted as 1."""
    alone = purses.counted_mixture(0.1, draws, 0.0, EPSILON)
    for mu in (1e-20, 1e-6, 1e-4, 1e-3):
        assert alone * (1 - 1e-9) <= purses.counted_mixture(0.1, draws, mu, EPSILON) <= 2 * alone
    opened = purses.purse_of("draws", predictions=draws, epsilon=TENTH)
    assert purses.largest_mu(opened, epsilon=EPSILON, delta=DELTA) > 0.03


def exact_delta(mu, draws, range_, at):
    """Return delta of normal noise beside draws that each have the two losses range/2 and -range/2."""
    likely = math.exp(range_) - math.exp(range_ / 2)
    ups = np.arange(draws + 1)
    losses = (2 * ups - draws) * range_ / 2
    masses = stats.binom.pmf(ups, draws, likely / math.expm1(range_))
    return float(sum(mass * hockey_stick(at - loss, mu) for mass, loss in zip(masses, losses, strict=True)))


def hockey_stick(at, mu):
    return stats.norm.cdf(mu / 2 - at / mu) - math.exp(at + stats.norm.logcdf(-mu / 2 - at / mu))


@pytest.mark.parametrize("at", [0.5, 1, 2, 3])
@pytest.mark.parametrize(("mu", "draws", "range_"), CASES)
def test_v3_1_exact_laws_are_never_above_the_curves(mu, draws, range_, at):
    exact = exact_delta(mu, draws, range_, at)
    rho = draws * bounded_range_rho(range_)
    assert exact <= counted_mixture(range_, draws, mu, at) <= concentrated_mixture(rho, mu, at) * 1.05
    assert exact <= concentrated_mixture(rho, mu, at)
    assert exact > gaussian_delta(mu, at), "a curve that leaves the second purse out is refuted"


def play_best(epsilon, mu, range_, draws, *, units=3, grid=16):
    """Return the best interleaving, chosen by what was seen, of draws and of normal steps, on a lattice of losses."""
    h, step = range_ / grid, mu / math.sqrt(units)
    points = np.arange(math.floor((epsilon - 8) / h), math.ceil((epsilon + 8) / h) + 1) * h
    reach = int(8 * step / h) + 1
    offsets = np.arange(-reach, reach + 1) * h
    edges = [stats.norm.cdf((offsets + side * h / 2 - step * step / 2) / step) for side in (1, -1)]

    def add_noise(values):
        padded = np.pad(values, reach, mode="edge")
        return np.convolve(padded, edges[0] - edges[1], "valid")

    def draw(values):
        found = np.zeros_like(values)
        for place in range(grid + 1):
            share = (math.exp(range_) - math.exp(place * h)) / math.expm1(range_)
            lower = np.concatenate([np.full(place, values[0]), values[: values.size - place]])
            upper = np.concatenate([values[grid - place :], np.full(grid - place, values[-1])])
            found = np.maximum(found, share * lower + (1 - share) * upper)
        return found

    best = {}
    for unit in range(units + 1):
        for number in range(draws + 1):
            options = [np.maximum(0, -np.expm1(np.minimum(points, 0)))]
            options += [add_noise(best[unit - 1, number])] if unit else []
            options += [draw(best[unit, number - 1])] if number else []
            best[unit, number] = np.max(options, axis=0)
    place = round((epsilon - points[0]) / h)
    return best[units, draws][place], points[place]


@pytest.mark.parametrize("at", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("mu", "range_", "draws"), [(0.5, 0.4, 4), (0.8, 0.3, 6), (0.3, 0.8, 3)])
def test_v3_1_best_adaptive_play_is_never_above_the_curves(mu, range_, draws, at):
    best, at = play_best(at, mu, range_, draws)
    counted = counted_mixture(range_, draws, mu, at)
    assert best <= counted <= best * 1.06, "proved from above, and nearly attained"
    assert counted <= concentrated_mixture(draws * bounded_range_rho(range_), mu, at)
    assert best > counted_mixture(range_, draws - 1, mu, at), "one draw less is refuted"


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("at", [0.0, 0.5, 2.0])
def test_v3_1_without_a_second_purse_it_is_the_normal_curve(mu, at):
    empty = Purse("rho", 0, 1, TENTH)
    assert empty.delta(mu, at) == pytest.approx(gaussian_delta(mu, at), abs=1e-9)
    near = concentrated_mixture(1e-9, mu, at)
    assert gaussian_delta(mu, at) <= near <= gaussian_delta(mu, at) * 1.01 + 1e-9


@pytest.mark.parametrize(("rho", "mu", "at"), [(0.1, 0.5, 4.0), (0.3, 0.2, 2.0), (0.02, 0.8, 3.0)])
def test_v3_1_finer_cells_change_delta_by_less_than_a_thousandth(rho, mu, at):
    coarse, fine = (concentrated_mixture(rho, mu, at, cells=cells) for cells in (400, 800))
    assert fine <= coarse <= fine * 1.001


def test_v3_1_two_purses_are_never_above_one_currency_in_rho():
    for rho, mu, at in ((0.1, 0.5, 2.0), (0.01, 1.0, 1.0), (0.5, 0.1, 4.0)):
        assert concentrated_mixture(rho, mu, at) <= concentrated_mixture(rho + mu * mu / 2, 0.0, at)


@pytest.mark.parametrize(("rho", "expected"), [(0.002, 0.0849), (0.005, 0.1041)])
def test_v3_1_gap_of_the_transfer_theorem(rho, expected):
    purse = Purse("rho", round(rho * 10**15), 1, TENTH)
    assert expected * 0.99 <= purse_shift(purse, 0.1, beta=0.04).gamma <= expected + 5e-5
    assert gaussian_shift(0.1, beta=0.04).gamma == pytest.approx(0.0666, abs=1e-4)


def test_v3_1_curves_fall_with_epsilon_and_rise_with_either_purse():
    counted, mixed = [counted_mixture(0.2, 10, 0.3, at) for at in (0, 0.5, 1, 2)], []
    mixed = [concentrated_mixture(0.05, 0.3, at) for at in (0, 0.5, 1, 2)]
    assert all(later < earlier for found in (counted, mixed) for earlier, later in pairwise(found))
    assert counted_mixture(0.2, 10, 0.3, 1) < min(counted_mixture(0.2, 11, 0.3, 1), counted_mixture(0.2, 10, 0.31, 1))


def test_a_counted_purse_takes_draws_of_its_own_range_only():
    limit = CountedFilter(5 * 10**15, 1, TENTH)
    draw = 10**15
    assert limit.cost(events.BoundedRange(TENTH)) == limit.cost(events.BoundedRange(TENTH / 7)) == draw, "a full draw"
    assert limit.cost(events.Repeated(events.BoundedRange(TENTH), 3)) == 3 * draw
    assert limit.cost(events.Pure(TENTH / 2)) == limit.cost(events.DiscreteLaplace(TENTH / 2, 3)) == draw
    assert limit.cost(events.NoCost()) == 0
    for unlike in (events.BoundedRange(TENTH * 2), events.Pure(TENTH), events.GaussianNoise(TENTH)):
        with pytest.raises(InvalidParameter, match="counts draws of epsilon"):
            limit.cost(unlike)
    with pytest.raises(InvalidParameter, match=r"range of 0\.2"):
        CountedFilter(5 * 10**15, 2, TENTH).cost(events.BoundedRange(TENTH))
    assert limit.epsilon(1e-6) < 0.5
    assert limit.tv == counted_mixture(0.1, 5, 0, 0)


def test_a_purse_in_rho_takes_events_with_a_rho_only():
    limit = RhoPurse(10**14)
    assert limit.cost(events.DiscreteGaussian(10)) == 5 * 10**12
    with pytest.raises(InvalidParameter, match="Approximate has none"):
        limit.cost(events.Approximate(1, 0.01))


def test_more_draws_than_can_be_counted_are_refused():
    with pytest.raises(InvalidParameter, match="currency='rho'"):
        purse_of("draws", predictions=10**6, epsilon=TENTH)
    assert purse_of("rho", predictions=10**6, epsilon=TENTH).cap > 1000
