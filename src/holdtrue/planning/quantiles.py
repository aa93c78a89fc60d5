"""Quantiles: the public grid, how a search for them narrows, and what it may cost (U3)."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Number as AnyNumber
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from holdtrue import events
from holdtrue.bounds.accuracy import gaussian_overshoot, gaussian_quantile
from holdtrue.bounds.selection import selection_shortfall
from holdtrue.bounds.transfer import shift
from holdtrue.errors import InvalidParameter, NotCertified
from holdtrue.exact import ROUNDING, UNIT, amount, probability, rational, read_list, units_down
from holdtrue.planning.methods import least_sigma
from holdtrue.planning.plans import AnyPlan, OpenPlan, Plan, refuse_one_side
from holdtrue.planning.tables import find_boxes
from holdtrue.queries.dates import DAY, LIMITS, is_date, read_moment, write_constant, write_point, write_value

__all__ = [
    "MOST_CELLS",
    "MOST_PICKED",
    "Bisection",
    "CurvePrice",
    "Factorisation",
    "PickPrice",
    "QuantileEnds",
    "QuantileGrid",
    "QuantilePrice",
    "ShareReading",
    "bisect_levels",
    "choose_method",
    "count_most_asks",
    "factorise",
    "find_quantile_ends",
    "place_curve",
    "price_curve",
    "price_picks",
    "price_search",
    "read_grid",
    "read_levels",
    "rebuild_grid",
    "score_ranks",
]

MOST_CELLS = 1 << 12
"""The most cells of a curve: up to this many, the largest change by one row is computed exactly."""

MOST_PICKED = 1 << 14
"""The most points that the exponential mechanism chooses among; each is counted."""

_MOST_POINTS = 1 << 32
_MOST_LEVELS = 100
_MOST_ROWS = 1 << 29  # so that a released number has at most 54 bits, and no sum of products more than 63
_NOISE = 5  # times as much as is near: what noise may part two answers by, half of alpha where near is a tenth of it
_CLEAR = 10  # times as much: answers that differ by alpha differ by more than noise
_HALF = 27
_MANY_LEVELS = 4
_SHORT_GRID = 1 << 10


@dataclass(frozen=True, slots=True)
class QuantileGrid:
    """Public points low, low + step, …, high. A value counts as the first point that is not below it, or as high.

    Of dates they are days since 1970-01-01, of timestamps microseconds, as ``kind`` says.
    """

    low: Fraction
    step: Fraction
    points: int
    kind: str = "number"

    @property
    def last(self) -> int:
        """Return the place of high, where every value is counted: it is never asked."""
        return self.points - 1

    def find_number(self, place: int) -> float:
        """Return the point at a place as a number: of a date whole days, of a timestamp microseconds since 1970-01-01."""
        if self.low.denominator == self.step.denominator == 1:
            whole = self.low.numerator + place * self.step.numerator
            return whole if self.kind in LIMITS else float(whole)
        return float(self.low + place * self.step)

    def find_point(self, place: int) -> float | str:
        """Return the point at a place as responses hold it: a number, or a date or timestamp as text."""
        number = self.find_number(place)
        return write_value(int(number), self.kind) if self.kind in LIMITS else number

    def write_point(self, place: int) -> str:
        """Return the point at a place as a constant of the query language."""
        constant = self.find_constant(place)
        return write_constant(int(constant), self.kind) if self.kind in LIMITS else repr(constant)

    def find_constant(self, place: int) -> int | float:
        """Return the point at a place as queries hold it: as a whole number where it is one."""
        point = self.find_number(place)
        return point if isinstance(point, int) or not point.is_integer() or abs(point) >= 2**53 else int(point)


def read_grid(low: object, high: object, step: object, kind: str = "number") -> QuantileGrid:
    """Return the grid between two public ends, of a column of numbers, or of dates or timestamps with a step in days.

    Failure: InvalidParameter for ends that are none, low not below high, a step that does not fit a whole number of
    times, more than 2^32 points, and points so near to each other that doubles cannot tell them apart.
    """
    first, last, width = _read_end("low", low, kind), _read_end("high", high, kind), _read_step(step, kind)
    if first >= last:
        raise InvalidParameter("low", write_point(low), "below high")
    if width <= 0:
        raise InvalidParameter("step", step, "a finite number above 0")
    steps = (last - first) / width
    if steps.denominator != 1:
        raise InvalidParameter("step", step, "a step that leads from low to high in a whole number of steps")
    if steps >= _MOST_POINTS:
        raise InvalidParameter("step", step, f"so wide that there are at most {_MOST_POINTS:,} points")
    grid = QuantileGrid(first, width, int(steps) + 1, kind)
    ends = [grid.find_number(place) for place in (0, 1, grid.last - 1, grid.last)]
    if not (ends[0] < ends[1] and ends[2] < ends[3]):
        raise InvalidParameter("step", step, "so wide that doubles can tell its points apart")
    return grid


def rebuild_grid(low: float | str, high: float | str, points: int) -> QuantileGrid:
    """Return the grid with these ends and this many points, as a ledger keeps it."""
    kind = "number" if not isinstance(low, str) else "date" if is_date(low) else "timestamp"
    first, last = _read_end("low", low, kind), _read_end("high", high, kind)
    return QuantileGrid(first, (last - first) / (points - 1), points, kind)


def _read_end(name: str, value: object, kind: str) -> Fraction:
    """Return a number, a date in days or a timestamp in microseconds since 1970-01-01."""
    if kind not in LIMITS:
        return _to_decimal(rational(name, value))
    moment = read_moment(value)
    if moment is None or (kind == "date" and moment % DAY):
        words = "a date such as 2026-01-31" if kind == "date" else "a date or timestamp such as 2026-01-31 10:30:00"
        raise InvalidParameter(name, write_point(value), f"{words}, since the column holds {kind}s")
    return Fraction(moment // DAY if kind == "date" else moment)


def _read_step(step: object, kind: str) -> Fraction:
    """Return a step of numbers, or one that is in days: of dates in days, of timestamps in microseconds."""
    days = rational("step", step)
    if kind not in LIMITS:
        return _to_decimal(days) if isinstance(step, (float, np.floating)) else days
    if kind == "date" and days.denominator == 1:
        return days
    micros = round(days * DAY)  # a float is the double next to a part of a day
    if kind == "date" or float(Fraction(micros, DAY)) != float(days):
        whole = "a whole number of days" if kind == "date" else "a number of days, such as 1, or 1/24 for an hour"
        raise InvalidParameter("step", step, whole)
    return Fraction(micros)


def _to_decimal(value: Fraction) -> Fraction:
    """Return what the digits of the nearest double say: 0.1 is a tenth, not the double next to it."""
    return Fraction(repr(float(value)))


def read_levels(levels: object) -> tuple[float, ...]:
    """Return one level or several, different ones, each in (0, 1)."""
    several = [levels] if isinstance(levels, (AnyNumber, Decimal)) else read_list("levels", levels, expected=_LEVELS)
    found = tuple(float(probability("levels", level)) for level in several)
    if not 1 <= len(found) <= _MOST_LEVELS or len(set(found)) < len(found) or not all(0 < level < 1 for level in found):
        raise InvalidParameter("levels", list(found), _LEVELS)
    return found


_LEVELS = f"a number in (0, 1), or up to {_MOST_LEVELS} different ones"


def count_most_asks(grid: QuantileGrid, levels: int, *, filtered: bool) -> int:
    """Return the most questions a search can take: two bisections for each level, and one for the condition (U3.1).

    >>> count_most_asks(read_grid(0, 65_535, 1), 1, filtered=False)
    32
    """
    return min(2 * levels * grid.last.bit_length(), grid.last) + filtered


class QuantilePrice(Struct, frozen=True):
    """What quantiles would cost, before anything is charged: the method, the most questions, and their cost.

    ``points`` is the size of the grid; ``left`` is how many questions the budget still pays for.
    """

    method: str
    points: int
    asks: int
    cost: float
    left: int

    def __str__(self) -> str:
        most = f"at most {self.asks:,} questions, {self.cost:.3g}"
        return f"{self.method} over {self.points:,} points: {most}; {self.left:,} left"


def price_search(plan: AnyPlan, grid: QuantileGrid, levels: int, *, filtered: bool, left: int) -> QuantilePrice:
    """Return the most that a search can cost."""
    most = count_most_asks(grid, levels, filtered=filtered)
    return QuantilePrice("search", grid.points, most, amount(plan.cost * most), left)


class ShareReading(NamedTuple):
    """What is known of the share of rows at or below a point: the answer, and two intervals for it.

    ``low`` and ``high`` are for the population, or for the rows again where no theorem speaks of a population.
    """

    value: float
    low: float
    high: float
    sample_low: float
    sample_high: float


class QuantileEnds(NamedTuple):
    """Places on the grid: where the answers cross a level, and between which the quantile lies."""

    value: int
    low: int
    high: int
    sample_low: int
    sample_high: int


class Bisection(NamedTuple):
    """The search for one end of a quantile: what it seeks is above the place ``low``, and at or below ``high`` (U3.1).

    The lower end is after the highest place whose share is surely below the level; ``upper`` seeks the lowest place whose
    share surely reaches it. A wrong turn, which noise may cause, costs width and never validity.

    Both ends of a level start as one: ``together``, they ask about the same middles, and each pays for half a question. Once
    an answer parts them each goes on by itself, straight to where the answers around say that its end is; to a middle where
    ``left``, in halves of a question, pays for nothing else.

    Invariant: where it goes and when it stops follow from the answers on its own ``path`` alone. So the same search takes
    the same path whatever else was asked in between, alone or beside other levels, and costs nothing the second time.
    Invariant: middles from here on take no more than ``left``, so both ends together take 2 log2(points) questions at most.
    """

    level: float
    upper: bool
    low: int
    high: int
    path: tuple[int, ...] = ()
    left: int = 0
    together: bool = True

    @classmethod
    def begin(cls, level: float, *, upper: bool, last: int) -> "Bisection":
        """Return the search over a whole grid."""
        return cls(level, upper, -1, last, left=2 * last.bit_length())

    def find_place(self, known: Mapping[int, ShareReading], *, whole: ShareReading, last: int, near: float) -> int | None:
        """Return which place to ask about next; None once the search is over.

        It is over when no place is left between, or when the answers at both ends differ by less than ``near``, or the one
        that is sure of its side is so by no more. So it is when answers differ by no more than their noise may, and the path
        around them says that shares rise by less than ``near`` here: further answers would tell noise apart from noise. Each
        costs a little width, never validity.
        """
        if self.high - self.low <= 1:
            return None
        readings = {-1: _NOTHING, last: whole} | {place: known[place] for place in self.path}
        answers = {place: reading.value for place, reading in readings.items()}
        apart = abs(answers[self.high] - answers[self.low])
        if apart < near:
            return None
        if apart < _NOISE * near and self._estimate_rise(answers, least=_CLEAR * near) < near:
            return None
        if self.together:
            return (self.low + self.high) // 2
        return self._interpolate(readings[self.low], readings[self.high], whole, near)

    def _interpolate(self, below: ShareReading, above: ShareReading, whole: ShareReading, near: float) -> int | None:
        """Return the place where a line between two readings is sure of its side by half of ``near``, if ``left`` allows it.

        None where the reading that is sure already is so by no more than ``near``, so that less is to be gained.
        """
        start, end = (below.low, above.low) if self.upper else (below.high, above.high)
        turn = self.level * (whole.high if self.upper else whole.low)
        if (end - turn if self.upper else turn - start) <= near:
            return None
        wanted = turn + near / 2 if self.upper else turn - near / 2
        place = round(self.low + (wanted - start) * (self.high - self.low) / (end - start))
        longest = 1 << (self.left // 2 - 1)  # stretches of this many places are still paid for after this question
        return min(max(place, self.low + 1, self.high - longest), self.high - 1, self.low + longest)

    def _estimate_rise(self, answers: Mapping[int, float], *, least: float) -> float:
        """Return how much shares rise between both ends, by the slope between the nearest places that differ clearly."""
        below = sorted((place for place in answers if place <= self.low), reverse=True)
        above = sorted(place for place in answers if place >= self.high)
        low, high = below.pop(0), above.pop(0)
        while answers[high] - answers[low] < least and (below or above):
            if not above or (below and self.low - below[0] <= above[0] - self.high):
                low = below.pop(0)
            else:
                high = above.pop(0)
        return (answers[high] - answers[low]) * (self.high - self.low) / (high - low)

    def narrow(self, place: int, reading: ShareReading, whole: ShareReading) -> "Bisection":
        """Return the search after the answer about a place."""
        may_be_short, is_short = reading.low < self.level * whole.high, reading.high < self.level * whole.low
        low, high = (place, self.high) if (may_be_short if self.upper else is_short) else (self.low, place)
        left, together = self.left - (1 if self.together else 2), self.together and may_be_short == is_short
        return Bisection(self.level, self.upper, low, high, (*self.path, place), left, together)


_NOTHING = ShareReading(0.0, 0.0, 0.0, 0.0, 0.0)  # of the place below all


def bisect_levels(  # noqa: PLR0913 - what one search needs
    known: Mapping[int, ShareReading],
    levels: Sequence[float],
    ask: Callable[[Sequence[int]], None],
    *,
    whole: ShareReading,
    last: int,
    near: float,
) -> None:
    """Search for both ends of each level: ``ask`` adds to ``known`` what it learns about places, all of them at once.

    The searches share what is known; no level takes more than 2 log2(points) places. Ends where all searches are over, or
    where ``ask`` has left out a place. ``whole`` is the share of rows that are looked at, against which levels are
    measured; everybody's is 1.
    """
    searches = [Bisection.begin(level, upper=upper, last=last) for level in levels for upper in (False, True)]
    while searches:
        places = [each.find_place(known, whole=whole, last=last, near=near) for each in searches]
        wanted = sorted({place for place in places if place is not None and place not in known})
        ask(wanted)
        if any(place not in known for place in wanted):
            return
        pairs = zip(searches, places, strict=True)
        searches = [each.narrow(place, known[place], whole) for each, place in pairs if place is not None]


def find_quantile_ends(known: Mapping[int, ShareReading], level: float, *, whole: ShareReading, last: int) -> QuantileEnds:
    """Return between which places a quantile lies, by all thresholds that are known, however they were chosen (U3.1).

    Law: on the event that all intervals of answers cover, the share below ``low`` is below the level and the share up to
    ``high`` reaches it. Off that event the two may cross; then they are told in order.
    """
    low, high = sorted((_find_low(known, level, whole), _find_high(known, level, whole, last)))
    rows = {place: _to_sample(reading) for place, reading in known.items()}
    near, far = sorted((_find_low(rows, level, _to_sample(whole)), _find_high(rows, level, _to_sample(whole), last)))
    return QuantileEnds(min(max(_find_crossing(known, level, whole, last), low), high), low, high, near, far)


def _to_sample(reading: ShareReading) -> ShareReading:
    """Return a reading whose ends are those for the rows."""
    return reading._replace(low=reading.sample_low, high=reading.sample_high)


def _find_low(known: Mapping[int, ShareReading], level: float, whole: ShareReading) -> int:
    """Return the place after the highest one whose share is surely below the level; 0 where there is none."""
    return 1 + max((place for place, reading in known.items() if reading.high < level * whole.low), default=-1)


def _find_high(known: Mapping[int, ShareReading], level: float, whole: ShareReading, last: int) -> int:
    """Return the lowest place whose share surely reaches the level; the last one where there is none."""
    return min((place for place, reading in known.items() if reading.low >= level * whole.high), default=last)


def _find_crossing(known: Mapping[int, ShareReading], level: float, whole: ShareReading, last: int) -> int:
    """Return where the answers cross a level: between two known places, as if they rose on a straight line."""
    target, before = level * whole.value, (-1, 0.0)
    for place, share in [*((place, known[place].value) for place in sorted(known)), (last, whole.value)]:
        if share >= target and place > before[0]:
            risen = (target - before[1]) / (share - before[1]) if share > before[1] else 1.0
            return min(place, max(before[0] + 1, before[0] + math.ceil(risen * (place - before[0]))))
        before = (place, share)
    return last


@dataclass(frozen=True, slots=True, eq=False)
class Factorisation:
    """Sums of the first cells, all at once, by the square root of the matrix of ones below the diagonal (U3.2).

    ``coefficients`` are whole numbers a_0, a_1, …: the release is the vector of sum_r a_(s-r) h_r over the counts h of
    cells, with noise, and applying the same coefficients to it again gives sums of the first cells, in units of ``unit``.
    ``sensitivity`` is at least the Euclidean length by which one replaced row moves the vector, the exact maximum over pairs
    of cells and over rows in no cell; ``deviations`` are those of the noise of each sum, where that of one count with the
    same privacy is 1; ``bias`` is what rounding the coefficients may move a share by.
    """

    coefficients: npt.NDArray[np.int64]
    sensitivity: int
    deviations: npt.NDArray[np.float64]
    unit: int
    bias: float

    def transform(self, counts: Sequence[int]) -> list[int]:
        """Return the vector to be released from the counts of cells; it is exact."""
        return [int(value) for value in np.convolve(self.coefficients, np.asarray(counts, dtype=np.int64))[: len(counts)]]

    def recover(self, drawn: Sequence[int]) -> list[int]:
        """Return the sums of the first cells, times ``unit``, from a released vector; it is exact."""
        numbers = [(value >> _HALF, value & ((1 << _HALF) - 1)) for value in drawn]
        high, low = (
            np.convolve(self.coefficients, np.array(part, dtype=np.int64))[: len(drawn)]
            for part in zip(*numbers, strict=True)
        )
        return [(int(above) << _HALF) + int(below) for above, below in zip(high, low, strict=True)]


@lru_cache(8)
def factorise(cells: int) -> Factorisation:
    """Return the factorisation for this many cells: a_k is the nearest whole number to 2^24 C(2k, k) / 4^k."""
    exact, rounded = 1 << 60, []
    for k in range(1, cells + 1):
        rounded.append((exact + (1 << 35)) >> 36)
        exact = exact * (2 * k - 1) // (2 * k)
    a = np.array(rounded, dtype=np.int64)
    squares = np.cumsum(a * a)
    largest = int(squares[-1])  # a row that comes from outside all cells
    for lag in range(1, cells):  # columns i and i + lag, for every i at once
        shared = np.cumsum(a[:-lag] * a[lag:])
        largest = max(largest, int((squares[lag:] + squares[:-lag] - 2 * shared).max()))
    sensitivity, unit = math.isqrt(largest - 1) + 1, 1 << 48
    bias = float(np.abs(np.convolve(a, a)[:cells] - unit).max()) / unit
    return Factorisation(a, sensitivity, sensitivity * np.sqrt(squares.astype(np.float64)) / unit, unit, bias)


@dataclass(frozen=True, slots=True)
class CurvePrice:
    """What all shares of a grid at once cost: whole questions, units, the deviation of one count, the box for these rows.

    ``draws`` is how many of the plan's draws it counts as. ``terms`` are the box, the epsilon and the slack of one share for
    the population on an open-ended plan, once the curve has its place there.
    """

    questions: int
    cost: int
    sigma: float
    sample_box: float
    draws: int
    terms: tuple[float, float, float] | None = None


@lru_cache(64)
def price_curve(plan: AnyPlan, cells: int, *, rows: int) -> CurvePrice:
    """Return the fewest whole questions that pay for the sums of the first cells, each within the plan's alpha (U1.3, S1).

    Every sum is declared before the draw and books its own overshoot, so the mean of what all of them exceed the plan's box
    by stays within the release's share of the plan's overshoot. On an open-ended plan the curve takes one place in the order
    of draws, and each sum has at most the box that a question has in the first one; :func:`place_curve` has its boxes.
    Failure: NotCertified where noise is not normal, for a plan that splits beta over a set number of questions, and for more
    than 2^29 rows; InvalidParameter for more cells than the exact sensitivity is computed for.
    """
    refuse_one_side(plan, "quantiles have")
    split = isinstance(plan, Plan) and plan.transfer is not None and not plan.transfer.overshoot
    if split or not isinstance(plan.event, events.GaussianNoise) or rows > _MOST_ROWS:
        message = "a curve needs normal noise and a plan with one beta for noise and gap; use method='search'"
        raise NotCertified(message)
    if cells > MOST_CELLS:
        raise InvalidParameter.saying("step", f"a curve has at most {MOST_CELLS:,} points; use method='search'")
    low, high = 0, 1
    while not _is_curve_sharp(plan, cells, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_curve_sharp(plan, cells, middle) else (middle, high)
    return _take_questions(plan, cells, high)


def place_curve(plan: AnyPlan, cells: int, price: CurvePrice, *, draw: int, spent: int) -> CurvePrice:
    """Return a price with the boxes that the curve has in its place: all draws and units up to it, its own included.

    On a plan for a set number of questions these are the same for all. On an open-ended one they are C of all sums at that
    place's share of beta, times the deviation of the last sum, which is the largest, and the level of what was spent
    (U1.3 i, T7).
    """
    if not isinstance(plan, OpenPlan):
        return price
    largest = price.sigma * float(factorise(cells).deviations[-1])
    near, terms = find_boxes(plan, largest, cells, _find_rounding(plan, cells), draw=draw, spent=spent)
    return replace(price, sample_box=near, terms=terms)


def _is_curve_sharp(plan: AnyPlan, cells: int, questions: int) -> bool:
    price = _take_questions(plan, cells, questions)
    if isinstance(plan, OpenPlan):
        first, alone = place_curve(plan, cells, price, draw=1, spent=plan.cost), plan.transfer_terms(draw=1, spent=plan.cost)
        near = first.sample_box <= plan.sample_alpha_at(1)
        return near and (first.terms is None or alone is None or first.terms[0] <= alone[0])
    if plan.transfer is None:
        return price.sample_box <= plan.sample_alpha
    box = plan.transfer.noise / ROUNDING - _find_rounding(plan, cells)
    deviations: list[float] = (price.sigma * factorise(cells).deviations).tolist()
    overshoot = sum(each * gaussian_overshoot(box / each) for each in deviations) * ROUNDING
    return overshoot <= plan.transfer.overshoot * min(1.0, questions / plan.queries)


def _take_questions(plan: AnyPlan, cells: int, questions: int) -> CurvePrice:
    weight = 1 if plan.ledger == "gdp" else 2  # mu squared is twice rho
    sigma = least_sigma(plan.rows, Fraction(questions * plan.cost * weight) * UNIT)
    # Noise is fresh for each release, so that what all of them keep multiplies: (1 - beta)^(questions/k) for this one.
    failure = -math.expm1(math.log1p(-plan.beta) * min(1.0, questions / plan.queries))
    largest = sigma * float(factorise(cells).deviations[-1])
    box = (largest * gaussian_quantile(cells, beta=failure) + _find_rounding(plan, cells)) * ROUNDING
    return CurvePrice(questions, questions * plan.cost, sigma, box, 1 if isinstance(plan, OpenPlan) else questions)


def _find_rounding(plan: AnyPlan, cells: int) -> float:
    """Return what rounding adds: half a unit of noise for each coefficient of a sum, and the coefficients' own rounding."""
    found = factorise(cells)
    return float(found.coefficients.sum()) / 2 / found.unit / plan.rows + found.bias


class PickPrice(NamedTuple):
    """The picks of the exponential mechanism that give the ends of quantiles: each one's epsilon, and its rank (U3.3).

    ``ranks`` has for each level how many rows the lower and the upper pick should have at or below them; None where the end
    of the grid is the end of the interval, without a pick. ``within`` is how far the level of a pick may be from the one
    that was aimed at, with the plan's confidence.
    """

    epsilon: Fraction
    ranks: tuple[tuple[int | None, int | None], ...]
    within: float

    @property
    def picks(self) -> int:
        """Return how many picks there are."""
        return sum(rank is not None for pair in self.ranks for rank in pair)


def price_picks(  # noqa: PLR0913 - one request
    plan: AnyPlan, grid: QuantileGrid, levels: Sequence[float], *, rows: int, epsilon: Fraction, ends: bool = True
) -> PickPrice:
    """Return the picks for these levels, which share an epsilon and the plan's beta.

    Law (U3.3, S2): a pick for rank r has, w.p. 1 - p (p its share of beta), at most r + B rows below it and at least r - B
    up to it, B = (2/epsilon) ln(points/p), and so has the population in shares, up to the gap: tanh(cap/4) of a pure ledger,
    and of others tanh(e/4) + delta(e)/p at the level of the cap, with the same p for both. The lower pick aims so far below
    the level that fewer than it are below the pick, the upper one as far above. Without ``ends`` there is one pick for each
    level, which aims at the level itself and has twice the epsilon: so many rows are below it and up to it, and no interval
    for the quantile follows.
    Failure: NotCertified without a ledger; InvalidParameter for more points than are counted at once.
    """
    if plan.ledger is None:
        message = "the exponential mechanism needs a plan with privacy; use method='search'"
        raise NotCertified(message)
    if grid.points > MOST_PICKED:
        raise InvalidParameter.saying(
            "step", f"the exponential mechanism takes at most {MOST_PICKED:,} points; use method='search'"
        )
    # Whole units, so that all picks together cost no more than epsilon.
    picks = (1 + ends) * len(levels)
    each = units_down(epsilon / picks) * UNIT
    if not each:
        raise InvalidParameter("epsilon", float(epsilon), "at least 1e-15 for each pick")
    gap, share = 0.0, plan.beta / picks
    if plan.iid and plan.ledger == "pure":
        gap = shift(plan.cap_units * UNIT)
    elif plan.iid:
        gap, share = plan.joint_gap(share, spent=plan.cap_units)
    shortfall = selection_shortfall(grid.points, epsilon=each, beta=share)
    width = (shortfall + gap * rows) * ROUNDING
    ranks: list[tuple[int | None, int | None]] = []
    for level in levels:
        if not ends:
            ranks.append((math.ceil(level * rows), None))
            continue
        lower, upper = math.ceil(level * rows - width) - 1, math.ceil(level * rows + width)
        ranks.append((lower if lower >= 0 else None, upper if upper <= rows else None))
    # The rank that is aimed at is rounded up, by less than a row.
    return PickPrice(each, tuple(ranks), min(1.0, (width + 1) / rows * ROUNDING))


def score_ranks(reached: Sequence[int], rank: int) -> npt.NDArray[np.int64]:
    """Return how well each point fits a rank: 0 at best, and at some point; one replaced row moves it by 1 at most (U3.3).

    ``reached`` has the number of rows at or below each point, the last of them all rows.
    """
    up_to = np.asarray(reached, dtype=np.int64)
    below = np.concatenate([[0], up_to[:-1]])
    scores: npt.NDArray[np.int64] = -np.maximum(0, np.maximum(below - rank, rank - up_to))
    return scores


def choose_method(plan: AnyPlan, grid: QuantileGrid, levels: int, *, filtered: bool, rows: int) -> str:
    """Return the method of U3's regimes: a search for few levels, a curve for many, where it has one and costs no more."""
    many = levels >= _MANY_LEVELS or (levels > 1 and grid.points <= _SHORT_GRID)
    cells = grid.last + filtered
    if not many or cells > MOST_CELLS:
        return "search"
    with suppress(NotCertified):
        if price_curve(plan, cells, rows=rows).questions <= count_most_asks(grid, levels, filtered=filtered):
            return "curve"
    return "search"
