"""What answering by noisy votes cost on these very votes: a report for the custodian, never for a ledger.

The votes of an ensemble that agrees nearly always give little away: the noise hardly ever changes the answer. Renyi
accounting that looks at the votes (Papernot, Song, Mironov, Raghunathan, Talwar and Erlingsson, ICLR 2018) says how
little. But the number is itself a function of the rows: shown to an analyst it is one more release, without any noise; and
a ledger that stopped by it would tell the analyst by stopping. So what is charged is always the event of the rule,
whatever the votes, and this is for whoever may see the rows anyway.
"""

import math
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from holdtrue.ensembles.responding import NoisyMax, Screen, vote_matrix
from holdtrue.errors import InvalidParameter, NotPrivate
from holdtrue.exact import Number, probability
from holdtrue.mechanisms.base import Array

__all__ = ["CustodianReport", "Figure", "vote_report"]

_Floats = npt.NDArray[np.float64]

_ORDERS: _Floats = np.concatenate([np.arange(2, 100.5 + 0.25, 0.5), np.geomspace(100, 500, 100)])


@dataclass(frozen=True, slots=True)
class Figure:
    """An epsilon at the report's delta, by the RDP conversion used in 2018 and by today's tighter one."""

    classic: float
    classic_order: float
    improved: float
    improved_order: float

    def __repr__(self) -> str:
        return "Figure(<computed from the rows>)"


@dataclass(frozen=True, slots=True)
class CustodianReport:
    """What a run of screened noisy votes costs: on these votes, and whatever the votes.

    ``dependent`` and ``answers`` are computed from the rows without noise, and ``independent`` from ``answers``: releasing
    any of them is a leak. So this is no event and no record: a ledger cannot be charged with it, it has no JSON, it cannot
    be stored or sent as an object, and its text shows no number.
    """

    rows: int
    delta: float
    answers: float
    dependent: Figure
    independent: Figure

    @property
    def event(self) -> NoReturn:
        """Refuse: a figure that depends on the rows cannot be charged."""
        message = "a custodian's report depends on the rows; charge the event of the rule itself"
        raise NotPrivate(message)

    def __repr__(self) -> str:
        return f"CustodianReport({self.rows} rows at delta={self.delta:g}; its figures depend on the rows: not for release)"

    def __reduce__(self) -> NoReturn:
        message = "a custodian's report cannot be stored or sent: its figures depend on the rows"
        raise TypeError(message)


def vote_report(
    votes: Array, *, response: NoisyMax, delta: Number, screen: Screen | None = None, answered: Array | None = None
) -> CustodianReport:
    """Return what answering these points cost, or will cost in expectation where ``answered`` is left out.

    RDP at order a adds up over points: that of the screen, and that of the answer where there was one, or times the
    probability of one. Each is the smaller of the data-independent a / s^2 and the bound of Theorem 6 there, for a
    mechanism that gives its most likely outcome except with probability q. The noise is taken as continuous; the grid
    moves q by less than 2^-16 / sigma.
    """
    counts = vote_matrix(votes).astype(np.float64)
    slack = float(probability("delta", delta))
    chances, screening = _cost_screens(counts, screen)
    if answered is not None:
        flags = np.asarray(answered)
        if flags.shape != chances.shape or flags.dtype != np.bool_:
            raise InvalidParameter.saying("answered", f"answered has shape {flags.shape}; expected one boolean per point")
        chances = flags.astype(np.float64)
    spread = float(response.sigma) / response.points
    answering = chances @ _rdp_of_points(_bound_doubt(counts, float(response.sigma)), spread)
    free = chances.size * _plain_rdp(None if screen is None else _rdp_width(screen)) + chances.sum() * _plain_rdp(spread)
    return CustodianReport(
        rows=chances.size,
        delta=slack,
        answers=float(chances.sum()),
        dependent=_to_epsilon(screening + answering, slack),
        independent=_to_epsilon(free, slack),
    )


def _rdp_width(screen: Screen) -> float:
    """Return s with RDP a / s^2: the screen's counts move by one under deviation sigma, and RDP is a / (2 sigma^2)."""
    return math.sqrt(2) * float(screen.sigma) / screen.points


def _cost_screens(counts: _Floats, screen: Screen | None) -> tuple[_Floats, _Floats]:
    """Return the probability that each point is answered, and the RDP of all screens."""
    from scipy import special

    if screen is None:
        return np.ones(len(counts)), np.zeros(_ORDERS.size)
    distance = (counts.max(axis=1) - float(screen.threshold)) / float(screen.sigma)
    return special.ndtr(distance), _rdp_of_points(special.log_ndtr(-np.abs(distance)), _rdp_width(screen)).sum(axis=0)


def _bound_doubt(counts: _Floats, sigma: float) -> _Floats:
    """Return ln q, where q bounds the probability that noise makes another label than the first of the largest win."""
    from scipy import special

    best = counts.argmax(axis=1)
    gaps = counts.max(axis=1, keepdims=True) - counts
    tails: _Floats = special.log_ndtr(-gaps / (math.sqrt(2) * sigma))
    tails[np.arange(len(counts)), best] = -np.inf
    doubt: _Floats = special.logsumexp(tails, axis=1)
    return np.minimum(doubt, math.log1p(-1 / counts.shape[1]))


def _plain_rdp(width: float | None) -> _Floats:
    return np.zeros(_ORDERS.size) if width is None else _ORDERS / width**2


def _rdp_of_points(log_q: _Floats, width: float) -> _Floats:
    """Return the RDP of every point at every order, given ln q of its unlikely outcomes and s with RDP a / s^2.

    The theorem's two orders m1 and m2 = m1 - 1 = s sqrt(-ln q) are those that make its bound nearly the best; where its
    conditions fail, or it says more than a / s^2, the latter stands.
    """
    base = np.broadcast_to(_plain_rdp(width), (log_q.size, _ORDERS.size))
    order = _ORDERS[None, :]
    log_q = np.maximum(log_q, -1e300)[:, None]
    with np.errstate(all="ignore"):
        m2 = width * np.sqrt(-log_q)
        m1 = m2 + 1
        e1, e2 = m1 / width**2, m2 / width**2
        limit = (m2 - 1) * e2 - m2 * (np.log(m1 / (m1 - 1)) + np.log(m2 / (m2 - 1)))
        valid = (m2 > 1) & (order < m1) & (-log_q > e2) & (log_q <= limit)
        stay = np.log1p(-np.exp(log_q))
        log_a = stay - np.log1p(-np.exp((log_q + e2) * (1 - 1 / m2)))
        log_b = e1 - log_q / (m1 - 1)
        bound = np.logaddexp(stay + (order - 1) * log_a, log_q + (order - 1) * log_b) / (order - 1)
    return np.where(valid & (bound < base), np.maximum(bound, 0.0), base)


def _to_epsilon(renyi: _Floats, delta: float) -> Figure:
    a = _ORDERS
    classic = renyi - math.log(delta) / (a - 1)
    improved = renyi + np.log((a - 1) / a) - (math.log(delta) + np.log(a)) / (a - 1)
    old, new = int(classic.argmin()), int(improved.argmin())
    return Figure(float(classic[old]), float(a[old]), float(improved[new]), float(a[new]))
