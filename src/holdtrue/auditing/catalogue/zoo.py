"""The audit zoo: sound and unsound mechanisms of the literature, from their definitions.

DP-Sniper (Bichsel, Steffen, Bogunovic and Vechev, S&P 2021) audited these, after StatDP (Ding et al., CCS 2018) and Lyu, Su
and Li (VLDB 2017). Inputs are vectors of query results. An "above" is 1 (or the value that is released), a "below" NaN where
values are released and 0 otherwise, and what is not asked any more -1 (minus infinity beside released values).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from holdtrue.auditing.catalogue.mechanism import AuditedMechanism, draw_exponential, draw_laplace, draw_uniform
from holdtrue.auditing.search.confidence_bounds import Floats
from holdtrue.entropy import Bits

__all__ = ["ZOO", "float_laplace", "make_pair", "noisy_max", "svt_law"]

_Law: TypeAlias = Callable[[Any, int, Bits], Floats]
_BITS_ON = ((0, 11, 18), (3, 10, 13))


def make_pair(number: int, size: int) -> tuple[Floats, Floats]:
    """Return one of the eight pairs of query results: 1 and 2 move one entry, the others all of them by one at most."""
    places = np.arange(size)
    moved, half = places == 0, places < size // 2
    others = {
        1: np.where(moved, 0.0, 1.0),
        2: np.where(moved, 2.0, 1.0),
        3: np.where(moved, 2.0, 0.0),
        4: np.where(moved, 0.0, 2.0),
        5: np.where(half, 2.0, 0.0),
        6: np.full(size, 2.0),
        7: np.zeros(size),
        8: np.where(half, 0.0, 1.0),
    }
    return 1 - others[8] if number == 8 else np.ones(size), others[number]  # noqa: PLR2004 - the pair that moves both


def _add_laplace(data: Floats, count: int, bits: Bits, *, scale: float, times: int = 1) -> Floats:
    return np.add(np.repeat(data, times), draw_laplace(scale, (count, times * data.size), bits))


def _prefix_sums(data: Floats, count: int, bits: Bits) -> Floats:
    return _add_laplace(data, count, bits, scale=10).cumsum(axis=1)


def _truncated_geometric(data: Floats, count: int, bits: Bits) -> Floats:
    # P(j) = (8/9)^|j| / 17 by inversion of a uniform, for a float mechanism of others: 53 bits are plenty for 6 outcomes.
    steps = np.arange(-60, 61)
    cumulated = np.cumsum((8 / 9) ** np.abs(steps) / 17)
    noise = steps[np.minimum(np.searchsorted(cumulated, draw_uniform(count, bits)), steps.size - 1)]
    found: Floats = np.clip(data[0] + noise, 0, 5)
    return found


def noisy_max(  # noqa: PLR0913 - the parameters of the family
    data: Floats, count: int, bits: Bits, *, one_sided: bool, value: bool, scale: float = 20
) -> Floats:
    """Return which of the noisy values is largest, or that value itself."""
    noisy = data + (draw_exponential if one_sided else draw_laplace)(scale, (count, data.size), bits)
    found: Floats = noisy.max(axis=1) if value else noisy.argmax(axis=1).astype(np.float64)
    return found


def _above_threshold(  # noqa: PLR0913 - the parameters of the family
    data: Floats,
    count: int,
    bits: Bits,
    *,
    threshold: float,
    threshold_scale: float,
    value_scale: float,
    most: int | None,
    release: str = "nothing",
) -> Floats:
    """Return the answers of an above-threshold variant; ``most`` aboves end the run."""
    limit = threshold + draw_laplace(threshold_scale, (count, 1), bits)
    noise = draw_laplace(value_scale, (count, data.size), bits) if value_scale else np.zeros((count, data.size))
    noisy = data + noise
    above = noisy >= limit
    over = np.zeros_like(above) if most is None else np.cumsum(above, axis=1) - above >= most
    match release:
        case "nothing":
            return np.where(over, -1.0, above.astype(np.float64))
        case "value":
            return np.where(over, -np.inf, np.where(above, noisy, np.nan))
        case _:
            fresh = data + draw_laplace(60, (count, data.size), bits)
            return np.where(over, -np.inf, np.where(above, fresh, 0.0))


def _draw_rappor(value: int, count: int, bits: Bits, *, on: float, off: float) -> Floats:
    chance = np.where(np.isin(np.arange(20), _BITS_ON[value]), on, off)
    return (draw_uniform((count, 20), bits) < chance).astype(np.float64)


def float_laplace(data: float, count: int, bits: Bits, *, scale: float = 10.0) -> Floats:
    """Return data + Lap(scale) in double precision, by the textbook's inversion of a uniform."""
    centred = draw_uniform(count, bits) - 0.5
    return np.asarray(data - scale * np.sign(centred) * np.log1p(-2 * np.abs(centred)))


def _snap_laplace(data: float, count: int, bits: Bits) -> Floats:
    sign = np.where(bits.words(count) & np.uint64(1), 1.0, -1.0)
    scale = 10 * (1 + 100 * 2.0**-49)
    noisy = data + scale * sign * np.log(1 - draw_uniform(count, bits))
    return np.clip(np.round(noisy / 16) * 16, -100, 100)


def svt_law(
    threshold_scale: float, value_scale: float, most: int | None, *, threshold: float = 1, release: str = "nothing"
) -> _Law:
    """Return the law of an above-threshold variant."""
    scales: dict[str, Any] = {"threshold_scale": threshold_scale, "value_scale": value_scale}
    return partial(_above_threshold, threshold=threshold, **scales, most=most, release=release)


def _run_parallel(data: Floats, count: int, bits: Bits) -> Floats:
    laws = svt_law(20, 40, 2, release="value"), svt_law(40, 40 / 3, 2)
    return np.column_stack([law(data, count, bits) for law in laws])


_MANY = make_pair(5, 10)
_Row: TypeAlias = tuple[str, _Law, tuple[Any, Any], tuple[float | None, float, float | None]]
# The published table, in its order: a mechanism, a pair, and the truth, what was found, and the ceiling, where known.
_TABLE: tuple[_Row, ...] = (
    ("Laplace", partial(_add_laplace, scale=10), make_pair(1, 1), (0.1, 0.0976, 0.0959)),
    ("TruncatedGeometric", _truncated_geometric, (np.array([2.0]), np.array([1.0])), (math.log(9 / 8), 0.1156, 0.1139)),
    ("NoisyHist1", partial(_add_laplace, scale=10), make_pair(1, 5), (0.1, 0.0978, 0.0959)),
    ("NoisyHist2", partial(_add_laplace, scale=0.1), make_pair(1, 5), (10.0, 4.602, 9.59)),
    ("RNM1", partial(noisy_max, one_sided=False, value=False), make_pair(4, 5), (0.0946, 0.0925, 0.0865)),
    ("RNM2", partial(noisy_max, one_sided=True, value=False), make_pair(4, 5), (0.1, 0.0979, 0.0924)),
    ("RNM3", partial(noisy_max, one_sided=False, value=True), make_pair(6, 5), (0.25, 0.2488, 0.2268)),
    ("RNM4", partial(noisy_max, one_sided=True, value=True), make_pair(6, 5), (math.inf, 0.3534, 0.947)),
    ("SVT1", svt_law(20, 40, 1, threshold=0.5), _MANY, (0.0885, 0.0858, 0.0621)),
    # The threshold is drawn again after an above; with one above the run ends there.
    ("SVT2", svt_law(20, 40, 1), _MANY, (0.0882, 0.0859, 0.0620)),
    ("SVT3", svt_law(20, 20, 1, release="value"), _MANY, (None, 0.1822, 0.171)),
    ("SVT4", svt_law(40, 40 / 3, 1), _MANY, (0.1725, 0.1696, 0.1416)),
    ("SVT5", svt_law(20, 0, None), _MANY, (math.inf, 1.761, 9.48)),
    ("SVT6", svt_law(20, 20, None), _MANY, (0.420, 0.2720, 0.2725)),
    ("Rappor", partial(_draw_rappor, on=0.5125, off=0.4875), (1, 0), (0.3001, 0.3008, 0.2688)),
    ("OneTimeRappor", partial(_draw_rappor, on=0.525, off=0.475), (1, 0), (0.6005, 0.5999, 0.5688)),
    ("LaplaceParallel", partial(_add_laplace, scale=200, times=20), make_pair(1, 1), (0.1, 0.0350, 0.029)),
    ("SVT34Parallel", _run_parallel, _MANY, (None, 0.2616, None)),
    ("PrefixSum", _prefix_sums, make_pair(7, 10), (1.0, 0.5774, 0.844)),
    ("NumericalSVT", svt_law(30, 120, 2, release="fresh"), make_pair(6, 10), (None, 0.0345, None)),
    ("FloatLaplace", float_laplace, (0.0, 1.0), (math.inf, 0.2521, 8.96)),
    ("SnappedLaplace", _snap_laplace, (0.0, 1.0), (None, 0.0979, 0.0925)),
)
_CLAIMED = {
    "TruncatedGeometric": math.log(9 / 8),
    "Rappor": 0.4,
    "OneTimeRappor": 0.8,
    "SVT34Parallel": 0.2,
    "PrefixSum": 1.0,
}
_WRONG = {
    "NoisyHist2": "the scale is epsilon where it must be 1 / epsilon",
    "RNM3": "the largest noisy value is released, not only whose it is",
    "RNM4": "the largest value is released under one-sided noise, below which no value can fall",
    "SVT3": "the threshold's noise is fresh, but an above releases the very value that was compared",
    "SVT4": "the threshold's noise is fresh, but values get too little noise for both ways they can move",
    "SVT5": "values get no noise, and no above ends the run",
    "SVT6": "no above ends the run",
    "SVT34Parallel": "two broken above-threshold variants on one input",
    "FloatLaplace": "floating-point noise lies on a lattice that depends on what it was added to",
}
_LEAST = {"RNM3": 10**6, "SVT3": 4 * 10**6, "SVT4": 2 * 10**6, "SVT6": 2 * 10**6, "SVT34Parallel": 10**7}

ZOO: tuple[AuditedMechanism, ...] = tuple(
    AuditedMechanism(
        "published zoo",
        name,
        law,
        data,
        _CLAIMED.get(name, 0.1),
        _WRONG.get(name, ""),
        truth=truth,
        reference=reference,
        ceiling=ceiling,
        least=_LEAST.get(name, 10**5),
    )
    for name, law, data, (truth, reference, ceiling) in _TABLE
)
"""Names in it that are sound must never be flagged; the others always."""
