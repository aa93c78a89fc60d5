"""Functions of features: waves of length 1, polynomials of length 1 at most; the loss that is continued linearly (V5)."""

import numpy as np
import pytest

import holdtrue as ht
from holdtrue.codec import convert, plain
from holdtrue.ensembles.feature_maps import apply_basis, count_functions
from holdtrue.ensembles.losses import Features, squared_clipped
from holdtrue.ensembles.stable import fit_stable
from holdtrue.requests import Fit
from laws import generator

WILD = [np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0]


@pytest.fixture
def rng(request):
    return generator(request)


def test_v5_waves_are_one_long_whatever_the_rows_hold(rng):
    rows = np.vstack([rng.normal(scale=9, size=(500, 6)), rng.choice(WILD, size=(100, 6))])
    features = Features((-2, 2), columns=6, basis=ht.Fourier(37, 3.0, 11))
    mapped = features.scale_rows(rows)
    assert mapped.shape == (600, 74) == (600, features.dimension)
    assert np.abs(np.linalg.norm(mapped, axis=1) - 1).max() < 1e-12
    assert features.lipschitz == pytest.approx(1, abs=1e-12)


def test_v5_waves_are_those_of_their_seed_and_of_no_row(rng):
    rows = rng.uniform(-1, 1, (50, 3))
    given = [ht.Fourier(8, 1.0, 5), ht.Fourier(8, 1.0, 5), ht.Fourier(8, 1.0, 6)]
    first, again, other = (apply_basis(basis, rows, norm=2.0) for basis in given)
    assert (first == again).all()
    assert np.abs(first - other).max() > 0.1
    assert (apply_basis(given[0], rows[:9], norm=2.0) == first[:9]).all()


def test_v5_products_of_waves_near_the_gaussian_kernel(rng):
    """E cos(W(x - z)) = e^(-scale^2 |x - z|^2 / 2), within five deviations of 4,000 pairs."""
    rows = rng.uniform(-1, 1, (20, 2))
    mapped = apply_basis(ht.Fourier(4_000, 1.5, 2), rows, norm=2.0)
    kernel = np.exp(-1.125 * ((rows[:, None] - rows) ** 2).sum(axis=2))
    assert np.abs(mapped @ mapped.T - kernel).max() < 5 / np.sqrt(4_000)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_v5_polynomials_are_at_most_one_long_and_have_the_kernel_of_their_degree(rng, degree):
    features = Features((-2, 2), columns=4, norm=1.5, basis=ht.Polynomial(degree))
    rows = np.vstack([rng.normal(scale=9, size=(300, 4)), rng.choice(WILD, size=(60, 4))])
    mapped = features.scale_rows(rows)
    assert mapped.shape[1] == count_functions(ht.Polynomial(degree), 4)
    lengths = np.linalg.norm(mapped, axis=1)
    assert 0.9 < lengths.max() <= 1 + 1e-12
    scaled = Features((-2, 2), columns=4, norm=1.5, intercept=False).scale_rows(rows)
    assert np.abs(mapped @ mapped.T - ((1 + scaled @ scaled.T) / 3.25) ** degree).max() < 1e-12


@pytest.mark.parametrize("basis", [ht.Fourier(16, 1.0, 3), ht.Polynomial(2)], ids=str)
def test_v5_weights_of_neighbours_are_within_their_stability(rng, basis):
    """200 pairs; half of them differ in the row that moves weights most."""
    worst = 0.0
    for number in range(200):
        rows, labels = rng.uniform(-2, 2, (30, 3)), rng.choice([0.0, 1.0], 30)
        if number % 2:
            rows[:], labels[:] = rows[0], 1.0
        others, turned = rows.copy(), labels.copy()
        turned[0] = 1 - labels[0]
        others[0] = rows[0] if number % 2 else rng.uniform(-2, 2, 3)
        given = {"loss": squared_clipped(), "bounds": (-2, 2), "strength": 0.3, "basis": basis, "label_bounds": (0, 1)}
        left, right = fit_stable(rows, labels, **given), fit_stable(others, turned, **given)
        worst = max(worst, np.linalg.norm(left.private_weights - right.private_weights) / left.stability)
    assert 0.1 < worst <= 1


def test_v5_the_clipped_square_is_convex_and_the_square_of_a_clipped_prediction_is_not():
    loss, p = squared_clipped(1), np.linspace(-4, 4, 801)
    for y in (-1.0, 0.3, 1.0):
        slopes = loss.slope(p, np.full_like(p, y))
        assert (np.diff(slopes) >= -1e-15).all()
        assert np.abs(slopes).max() <= loss.lipschitz
        assert np.diff(slopes).max() <= loss.smoothness * np.diff(p).max() * (1 + 1e-9)
        inside = np.abs(p) <= 1
        assert slopes[inside] == pytest.approx(p[inside] - y)
        planted = np.where(inside, p - y, 0.0)  # the slope of (clip(p) - y)^2 / 2
        assert (np.diff(planted) < -0.1).any()


def test_a_basis_travels_as_it_is():
    for basis in (ht.Fourier(64, 2.0, 7), ht.Polynomial(3)):
        document = {"name": "m", "kind": "ridge", "target": "y", "basis": plain(basis)}
        assert convert(document, Fit).basis == basis


@pytest.mark.parametrize(
    "make",
    [
        lambda: ht.Fourier(0, 1.0, 1),
        lambda: ht.Fourier(8, 0.0, 1),
        lambda: ht.Fourier(8, float("nan"), 1),
        lambda: ht.Fourier(8, 1.0, -1),
        lambda: ht.Fourier(8, 1.0, "rows"),
        lambda: ht.Fourier(True, 1.0, 1),
        lambda: ht.Polynomial(0),
        lambda: ht.Polynomial(17),
        lambda: count_functions(ht.Polynomial(16), 30),
    ],
)
def test_a_basis_that_is_none_is_refused(make):
    with pytest.raises(ht.InvalidParameter):
        make()
