"""Audits of privacy and stability: lower bounds on epsilon and total variation, from outputs on two neighbours (A1, A4, E3).

An event on which the two sides differ is searched for on some of the outputs and counted on others: nothing that the search
does can make a bound wrong, only weak. For a learner, whether one row moves its predictions further than is claimed is
searched for among neighbours at random and by climbing (E7, V5).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdtrue.accounting.divergences import Probabilities, approximate_max_divergence
from holdtrue.auditing.findings import Finding, check_enough
from holdtrue.auditing.search.confidence_bounds import BoundRule, Distance, Pooled, Separate
from holdtrue.auditing.search.events import Parts, Trial, largest_provable, prove_bound
from holdtrue.auditing.search.outputs import MOST_SAMPLES, Run, measure_width
from holdtrue.entropy import SYSTEM, Bits
from holdtrue.errors import InvalidParameter, PreconditionError
from holdtrue.exact import Number, count, nonnegative, positive, probability, rational
from holdtrue.kernels import Floats
from holdtrue.silence import silence

__all__ = ["audit_law", "audit_privacy", "audit_stability", "group_claim"]

_LEAST_LEARNED = 8
_LARGEST_EXPONENT = 700.0
_MATRIX = 2
_RANDOM = 1_000
_CLIMBS = 100
_STEPS = 20
_POINTS = 8
_SLACK = 1 + 1e-9


def audit_privacy(  # noqa: PLR0913 - what is claimed, and how hard to try
    run: Run,
    left: object,
    right: object,
    *,
    epsilon: Number,
    delta: Number = 0.0,
    samples: int = 10**6,
    confidence: Number = 0.95,
    rows: int = 1,
    search: Number = 0.4,
    bits: Bits = SYSTEM,
) -> Finding:
    """Look for an event that a mechanism's claim of (epsilon, delta)-DP forbids.

    Law: the finding's lower bound is above the smallest epsilon that is true of this pair at this delta, in either order,
    with probability at most 1 - confidence. The event is searched for on a share ``search`` of the samples and counted on
    the others, which are drawn only once it is fixed; after some of these it may give way to one that looks better by
    then, and the counts of both are put together as in an adaptive trial. Needs: ``run(data, count)`` returns ``count``
    outputs, each from the same law and independent of the others and of earlier calls: numbers, vectors, labels, strings
    or tuples. ``left`` and ``right`` are neighbours, which is checked where they are tables; with ``rows=k`` they differ
    in up to k rows, and the claim is that of a group, (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)) (E3). Fails:
    with :class:`~holdtrue.errors.InsufficientSamples` where not even outputs that always differ could prove a violation.

    >>> import holdtrue as ht
    >>> from holdtrue.auditing import audit_privacy
    >>> half = ht.Laplace(epsilon=2)  # sold as epsilon = 1
    >>> audit_privacy(lambda x, n: half.release([x] * n), 0, 1, epsilon=1, samples=20_000).violated
    True
    """
    sure = float(probability("confidence", confidence))
    claimed, slack = group_claim(epsilon, delta, rows=rows)
    _check_neighbours(left, right, rows=rows)
    rules = [Separate(slack, 1 - sure), Pooled(slack, 1 - sure)]
    parts = _divide_samples(run, left, samples, search, rules, claimed=claimed, alpha=1 - sure)
    bound, event = prove_bound(Trial(run, left, right, parts, rules, 1 - sure), bits=bits)
    return Finding.of("epsilon", claimed, bound, sure, samples, event, delta=slack)


def audit_stability(  # noqa: PLR0913 - what is claimed, and how hard to try
    run: Run | Any,  # noqa: ANN401 - or a learner
    left: object = None,
    right: object = None,
    *,
    tv: Number | None = None,
    gamma: Number | None = None,
    bounds: Any = (0, 1),  # noqa: ANN401 - a pair, or one for each column
    outputs: tuple[Number, Number] = (0, 1),
    table: int = 20,
    samples: int = 10**6,
    confidence: Number = 0.95,
    rows: int = 1,
    search: Number = 0.4,
    bits: Bits = SYSTEM,
) -> Finding:
    """Look for an event whose probability moves by more than ``tv`` between two neighbours; or for a larger ``gamma``.

    With ``gamma`` the first argument is a learner with ``fit`` and ``predict``, of which it is claimed that one row moves no
    prediction by more: tables of ``table`` rows within ``bounds`` and ``outputs`` that differ in one row are tried, 1,000
    at random and 100 by hill climbing (V5). What is found is exact, so that it can refute; it never proves.

    Law: the lower bound is above the true total variation of this pair with probability at most 1 - confidence. Needs and
    fails as :func:`~holdtrue.auditing.audit_privacy`; with ``rows=k`` the claim is k tv, by the triangle inequality.
    """
    if gamma is not None:
        if tv is not None or left is not None or right is not None:
            raise InvalidParameter.saying("gamma", "gamma takes a learner alone: leave out tv and the two tables")
        return audit_learner(run, gamma=gamma, bounds=bounds, outputs=outputs, rows=table, bits=bits)
    sure = float(probability("confidence", confidence))
    claimed = min(1.0, count("rows", rows) * float(probability("tv", tv, zero=True, one=True)))
    _check_neighbours(left, right, rows=rows)
    rules = [Distance(1 - sure)]
    parts = _divide_samples(run, left, samples, search, rules, claimed=claimed, alpha=1 - sure)
    bound, event = prove_bound(Trial(run, left, right, parts, rules, 1 - sure), bits=bits)
    return Finding.of("total variation", claimed, bound, sure, samples, event, what="the total variation")


def _divide_samples(  # noqa: PLR0913 - what is run, how hard to try, and what is claimed
    run: Run, left: object, samples: int, search: Number, rules: Sequence[BoundRule], *, claimed: float, alpha: float
) -> Parts:
    """Divide the samples; refuse numbers of them from which no violation could be proved with the confidence asked for."""
    share, width = float(probability("search", search)), measure_width(run, left)

    def enough(number: int) -> bool:
        parts = Parts.of(number, share)
        return parts.learning >= _LEAST_LEARNED and largest_provable(parts, rules, alpha=alpha) > claimed

    count("samples", samples, most=MOST_SAMPLES)
    if rules[0].relative or claimed < 1:  # no total variation is above 1
        check_enough(samples, enough, of="samples on each side", show=f"a violation of {claimed:g} with this confidence")
    return Parts.of(samples, share, width=width)


def group_claim(epsilon: Number, delta: Number, *, rows: int) -> tuple[float, float]:
    """Return what (epsilon, delta)-DP claims about data that differ in ``rows`` rows (E3)."""
    single, slack = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta, zero=True))
    number = count("rows", rows, most=MOST_SAMPLES)
    if number == 1 or slack == 0:
        return number * single, slack
    factor = float(number)
    if single:
        factor = math.expm1(number * single) / math.expm1(single) if number * single < _LARGEST_EXPONENT else math.inf
    if slack * factor >= 1:
        raise InvalidParameter(
            "rows", rows, f"smaller: for so large a group delta is {slack * factor:.3g}, which claims nothing"
        )
    return number * single, slack * factor


def audit_law(left: Probabilities, right: Probabilities, *, epsilon: Number, delta: Number = 0.0, rows: int = 1) -> Finding:
    """Return the exact epsilon at delta of two laws given as probabilities, outcome by outcome, in the worse order (E2).

    The bound is the truth of this pair, not an estimate: its confidence is 1. Needs: laws over the same outcomes.
    """
    claimed, slack = group_claim(epsilon, delta, rows=rows)
    orders = [approximate_max_divergence(*laws, delta=slack) for laws in ((left, right), (right, left))]
    # Sums of probabilities are rounded: a violation has to be larger than that.
    bound = max(0.0, max(orders) * (1 - 2.0**-40) - 2.0**-40)
    event = f"the outcomes of largest likelihood ratio; likelier on the {'left' if orders[0] >= orders[1] else 'right'}"
    return Finding.of("epsilon", claimed, bound, 1.0, 0, event, delta=slack)


def _check_neighbours(left: object, right: object, *, rows: int) -> None:
    """Refuse two tables unless they differ in at least one row and at most ``rows`` rows (0.1).

    Anything else (a number, a vector of query results, an object of the caller) is accepted as it is.
    """
    first, second = _read_table(left), _read_table(right)
    if first is None or second is None:
        return
    if len(first) != len(second):
        message = (
            f"left has {len(first):,} rows and right has {len(second):,}: neighbours have the same number "
            f"and differ in one row; to leave a row out, put a row of zeros in its place"
        )
        raise PreconditionError(message)
    number = sum(not _is_same(*pair) for pair in zip(first, second, strict=True))
    if not 1 <= number <= rows:
        allowed = "exactly one row" if rows == 1 else f"1 to {rows} rows"
        way = f"; for a group audit pass rows={number}" if number > rows else "; equal data cannot be told apart"
        message = f"left and right differ in {number:,} rows, and must differ in {allowed}{way}"
        raise PreconditionError(message)


def _is_same(first: object, second: object) -> bool:
    """Return whether two values are equal, whatever is nested in them; NaN is like NaN."""
    if isinstance(first, (np.ndarray, list, tuple)) and isinstance(second, (np.ndarray, list, tuple)):
        return len(first) == len(second) and all(map(_is_same, first, second))
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(_is_same(first[key], second[key]) for key in first)
    return bool(first == second) or (first != first and second != second)  # noqa: PLR0124 - true for NaN only


def _read_table(data: object) -> Sequence[Any] | None:
    """Return the rows of a matrix, a data frame, records, or a list of tuples or mappings; None for anything else."""
    if isinstance(data, (list, tuple)):
        return data if data and all(isinstance(row, (tuple, list, Mapping)) for row in data) else None
    if not isinstance(data, np.ndarray) and hasattr(data, "columns") and len(getattr(data, "shape", ())) == _MATRIX:
        data = np.asarray(data, dtype=object)
    if isinstance(data, np.ndarray) and (data.ndim == _MATRIX or data.dtype.names):
        rows: list[Any] = data.tolist()
        return rows
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _NeighbourPair:
    """A table, what is put in the place of its first row, and points at which both fits are asked."""

    rows: Floats
    goals: Floats
    row: Floats
    goal: float
    points: Floats


def audit_learner(  # noqa: PLR0913 - what is claimed, and of which tables
    learner: Any,  # noqa: ANN401 - somebody's own object
    *,
    gamma: Number,
    bounds: Any,  # noqa: ANN401 - a pair, or one for each column
    outputs: tuple[Number, Number],
    rows: int,
    bits: Bits,
) -> Finding:
    """Return the largest move of a prediction that was found, as a lower bound that is certain, beside the claim."""
    claimed = float(positive("gamma", gamma))
    if not callable(getattr(learner, "fit", None)) or not callable(getattr(learner, "predict", None)):
        raise InvalidParameter("run", type(learner).__name__, "a learner with fit and predict")
    pairs = [bounds] if np.ndim(bounds) == 1 else list(bounds)
    low, high = (np.array([float(rational("bounds", pair[end])) for pair in pairs]) for end in (0, 1))
    ends = float(rational("outputs", outputs[0])), float(rational("outputs", outputs[1]))
    number = count("table", rows, least=2)
    drawn = _Draws(bits, low, high, ends)
    with silence(), np.errstate(all="ignore"):
        tried = [(_measure_move(learner, pair, ends), pair) for pair in (drawn.make_pair(number) for _ in range(_RANDOM))]
        tried.sort(key=lambda found: -found[0])
        # The most promising of the random ones are climbed from.
        largest = max([tried[0][0], *(_climb(learner, found, drawn, ends) for found in tried[:_CLIMBS])])
    notes = (("tables", f"{_RANDOM:,} pairs at random, {_CLIMBS} of them climbed, of {number} rows"),)
    told = "the prediction of two tables that differ in one row"
    found = largest if largest > claimed * _SLACK else min(largest, claimed)
    return Finding.of("gamma", claimed, found, 1.0, _RANDOM, told, notes=notes, what="how far one row moves a prediction")


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """Tables within bounds; half of all cells are at one of the ends, where learners move most."""

    bits: Bits
    low: Floats
    high: Floats
    ends: tuple[float, float]

    def make_pair(self, rows: int) -> _NeighbourPair:
        cells, goals = self.draw_cells(rows + 1 + _POINTS), self.draw_goals(rows + 1)
        return _NeighbourPair(cells[:rows], goals[:rows], cells[rows], float(goals[rows]), cells[rows + 1 :])

    def draw_cells(self, rows: int) -> Floats:
        return self.low + (self.high - self.low) * self._draw_shares((rows, len(self.low)))

    def draw_goals(self, rows: int) -> Floats:
        low, high = self.ends
        return low + (high - low) * self._draw_shares((rows,))

    def _draw_shares(self, shape: tuple[int, ...]) -> Floats:
        words = self.bits.words(int(np.prod(shape))).astype(np.uint64)
        shares = (words >> np.uint64(12)).astype(np.float64) * 2.0**-52
        at_end = (words & np.uint64(1)).astype(bool)
        return np.where(at_end, np.rint(shares), shares).reshape(shape)


def _measure_move(learner: Any, pair: _NeighbourPair, ends: tuple[float, float]) -> float:  # noqa: ANN401
    """Return the largest difference of both fits' predictions at the points and at the rows that were exchanged."""
    others, goals = pair.rows.copy(), pair.goals.copy()
    others[0], goals[0] = pair.row, pair.goal
    points = np.vstack([pair.points, pair.rows[:1], pair.row[None, :]])
    said = [_predict_all(learner, table, goal, points) for table, goal in ((pair.rows, pair.goals), (others, goals))]
    first, second = (np.clip(np.nan_to_num(each, nan=ends[0]), *ends) for each in said)
    return float(np.max(np.abs(first - second)))


def _predict_all(learner: Any, rows: Floats, goals: Floats, points: Floats) -> Floats:  # noqa: ANN401
    from sklearn.base import clone

    fresh = clone(learner, safe=False)
    return np.asarray(fresh.fit(rows, goals).predict(points), dtype=np.float64)


def _climb(learner: Any, start: tuple[float, _NeighbourPair], drawn: _Draws, ends: tuple[float, float]) -> float:  # noqa: ANN401
    """Return the largest move on a path that changes one row at a time, and keeps what moves more."""
    best, pair = start
    for step in range(_STEPS):
        rows, goals = pair.rows.copy(), pair.goals.copy()
        place = step % len(rows)
        rows[place], goals[place] = drawn.draw_cells(1)[0], drawn.draw_goals(1)[0]
        other = _NeighbourPair(rows, goals, pair.row, pair.goal, pair.points)
        found = _measure_move(learner, other, ends)
        if found > best:
            best, pair = found, other
    return best
