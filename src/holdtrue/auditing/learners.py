"""Whether one row moves a learner's predictions further than is claimed: neighbours at random and by climbing (E7, V5)."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from holdtrue.auditing.findings import Finding
from holdtrue.entropy import Bits
from holdtrue.errors import InvalidParameter
from holdtrue.exact import Number, count, positive, rational
from holdtrue.kernels import Floats
from holdtrue.silence import silence

__all__ = ["audit_learner"]

_RANDOM: Final = 1_000
_CLIMBS: Final = 100
_STEPS: Final = 20
_POINTS: Final = 8
_SLACK: Final = 1 + 1e-9


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
