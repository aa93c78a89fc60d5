"""Tools for statistical tests: exact tails in floats, and a chi-square test that rejects at one in a billion."""

import zlib

import numpy as np
from scipy import special, stats

LEVEL = 1e-9


def generator(request):
    """Return NumPy's generator seeded by the name of a test: for inputs, never for noise."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


def geometric_cdf(scale):
    return lambda k: np.where(k < 0, 0.0, -np.expm1(-(np.floor(k) + 1) / scale))


def laplace_cdf(scale):
    q = np.exp(-1 / scale)
    return lambda z: np.where(z < 0, np.exp(np.minimum(z, 0) / scale) / (1 + q), 1 - np.exp(-(z + 1) / scale) / (1 + q))


def gaussian_cdf(scale):
    return lambda z: special.ndtr((z + 0.5) / scale)


def chi_square(draws, cdf):
    """Return the p-value of draws against a distribution function on the whole numbers, in cells of 200 draws or more."""
    low, high = int(draws.min()), int(draws.max())
    edges = np.unique(np.round(np.quantile(draws, np.linspace(0, 1, 65))).astype(np.int64))
    edges = edges[(edges > low) & (edges < high)]
    probabilities = np.diff(np.concatenate([[0.0], cdf(edges.astype(float)), [1.0]]))
    counts = np.diff(np.concatenate([[0], np.searchsorted(np.sort(draws), edges, side="right"), [draws.size]]))
    kept = probabilities * draws.size >= 20
    expected = np.append(probabilities[kept], probabilities[~kept].sum()) * draws.size
    observed = np.append(counts[kept], counts[~kept].sum())
    solid = expected > 1
    statistic = float((((observed - expected) ** 2)[solid] / expected[solid]).sum())
    return float(stats.chi2.sf(statistic, int(solid.sum()) - 1))


def chi_square_of_counts(counts, probabilities):
    """Return the p-value of counts against probabilities."""
    expected = np.asarray(probabilities) * np.sum(counts)
    return float(stats.chi2.sf(float((((np.asarray(counts) - expected) ** 2) / expected).sum()), len(expected) - 1))
