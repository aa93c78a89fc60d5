"""How far two discrete laws are apart: total variation, hockey-stick and max-divergences (A1, A3, A4, E2).

A law is an array of probabilities; two laws are compared outcome by outcome, so they have the same shape. These are
measurements of the arrays as given, in floats: a few units in the last place on either side.
"""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, probability, rational

Probabilities: TypeAlias = "npt.NDArray[Any] | list[float] | tuple[float, ...]"
_Floats: TypeAlias = npt.NDArray[np.float64]

# How far from one a sum of rounded probabilities may be.
_TOLERANCE = 1e-9


def total_variation(p: Probabilities, q: Probabilities) -> float:
    """Return the largest |P(E) - Q(E)| over events E: half the sum of |p - q| (A1).

    A mechanism is tau-TV-stable if this is at most tau for the output laws of any two neighbours.
    """
    first, second = _read_pair(p, q)
    return float(np.abs(first - second).sum()) / 2


def hockey_stick(p: Probabilities, q: Probabilities, *, epsilon: Number) -> float:
    """Return the largest P(E) - e^epsilon Q(E) over events E: the delta of P against Q at epsilon (A4).

    A mechanism is (epsilon, delta)-DP if and only if this is at most delta for both orders of any two neighbours. At
    epsilon = 0 it is the total variation. Epsilon may be below 0.
    """
    first, second = _read_pair(p, q)
    factor = math.exp(float(rational("epsilon", epsilon)))
    return float(np.maximum(first - factor * second, 0.0).sum())


def max_divergence(p: Probabilities, q: Probabilities) -> float:
    """Return the largest |ln(P(E) / Q(E))| over events that one of the two laws can produce (A3).

    Infinite where the supports differ. Events that neither can produce are skipped: the lecture's definition leaves
    0 / 0 open, without which no two laws with a common impossible event would have a distance.
    """
    first, second = _read_pair(p, q)
    possible = (first > 0) | (second > 0)
    with np.errstate(divide="ignore"):
        ratios = np.log(first[possible]) - np.log(second[possible])
    return float(np.abs(ratios).max())


def approximate_max_divergence(p: Probabilities, q: Probabilities, *, delta: Number) -> float:
    """Return the largest ln((P(E) - delta) / Q(E)) over events E with P(E) > delta (E2).

    It is the smallest real epsilon at which ``hockey_stick`` is at most delta, so a mechanism is (epsilon, delta)-DP if
    and only if this is at most epsilon for both orders of any two neighbours. Infinite where P puts more than delta on
    outcomes that Q cannot produce. The report this comes from names the slack beta in the definition's title and delta
    in its formula: it is the delta of (epsilon, delta)-DP, not a failure probability.
    """
    first, second = _read_pair(p, q)
    slack = float(probability("delta", delta, zero=True))
    possible = (first > 0) | (second > 0)
    first, second = first[possible], second[possible]
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(second) - np.log(first), kind="stable")
    # The best event of any size collects outcomes by falling likelihood ratio (Neyman and Pearson).
    mass, other = np.cumsum(first[order]) - slack, np.cumsum(second[order])
    if bool(np.any((mass > 0) & (other == 0))):
        return math.inf
    enough = mass > 0
    return float(np.log(mass[enough] / other[enough]).max())


def _read_pair(p: Probabilities, q: Probabilities) -> tuple[_Floats, _Floats]:
    first, second = _read_law("p", p), _read_law("q", q)
    if first.shape != second.shape:
        raise InvalidParameter.without_value("q", f"of the shape of p, {first.shape}, not {second.shape}")
    return first.ravel(), second.ravel()


def _read_law(name: str, values: Probabilities) -> _Floats:
    expected = "probabilities: finite, 0 or above, with sum 1"
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidParameter(name, values, expected) from None
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise InvalidParameter(name, values, expected)
    floats: _Floats = array.astype(np.float64)
    if not bool(np.all(np.isfinite(floats) & (floats >= 0))) or abs(float(floats.sum()) - 1) > _TOLERANCE:
        raise InvalidParameter(name, values, expected)
    return floats
