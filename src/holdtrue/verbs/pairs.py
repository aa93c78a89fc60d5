"""Statistics that are not means of rows: variance, covariance, differences of pairs, and ratios of means (U4, U5)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from holdtrue.bounds.low_sensitivity import correlation_in_box, gini_in_box, r_squared_in_box
from holdtrue.bounds.transfer import ratio_in_box
from holdtrue.entropy import SYSTEM
from holdtrue.errors import InsufficientSamples, InvalidParameter, NotCertified
from holdtrue.exact import ROUNDING, Number, amount, count
from holdtrue.planning.plans import refuse_one_side
from holdtrue.queries.canonical import to_query
from holdtrue.queries.checking import conjoin
from holdtrue.queries.pairs import parse_kernel
from holdtrue.queries.parser import find_column
from holdtrue.queries.scalars import MOST_ROWS, range_of
from holdtrue.queries.syntax_tree import Boolean, Query
from holdtrue.records import Statistic
from holdtrue.requests import Auc, Correlation, Covariance, Gini, Pairs, Ratio, RSquared, Variance
from holdtrue.verbs import Curation, Job, Standing
from holdtrue.verbs.asking import QuestionRule
from holdtrue.verbs.means import read_bounds
from holdtrue.verbs.statistic_tasks import FINE, Ends, StatisticPrice, StatisticRecipe, StatisticTask, plan_tasks

__all__ = ["StatisticRequest", "find_statistic", "preview_statistic", "read_statistic"]

StatisticRequest: TypeAlias = Variance | Covariance | Correlation | RSquared | Gini | Auc | Pairs | Ratio

_STEPS = 1 << 10  # differences of two values are counted on a grid of this many steps
_LARGEST = 1e100
_NO_PAIRS = (
    "any expression in two rows needs rows that this process can bring together, and Spark's are elsewhere; "
    "ask for variance, covariance, correlation, gini or auc, which need sums only"
)


def find_statistic(
    curation: Curation, rule: QuestionRule, request: StatisticRequest, *, key: str | None, analyst: str | None
) -> Statistic:
    """Return a statistic; nothing is charged before every name and every bound was checked."""
    recipe = read_statistic(curation, request)
    plan = partial(plan_tasks, curation, rule, recipe.tasks, _verb_of(request))
    return recipe.combine(curation.run(Job(plan, key, analyst)))


def preview_statistic(
    curation: Curation, rule: QuestionRule, request: StatisticRequest, *, standing: Standing, left: int
) -> StatisticPrice:
    """Return the most that a statistic can cost, and how wide its parts would be. Free; no row is read."""
    recipe, plan = read_statistic(curation, request), curation.plan
    tasks = recipe.tasks
    found = [
        task.find_alphas(rule, draw=standing.draws + place, spent=standing.spent + place * plan.cost)
        for place, task in enumerate(tasks, start=1)
    ]
    known = tuple(each for each, _ in found if each is not None)
    return StatisticPrice(
        text=f"{_verb_of(request)} of {recipe.subject or tasks[0].subject}",
        questions=len(tasks),
        cost=amount(plan.cost * len(tasks)),
        left=amount(left),
        sensitivities=tuple(task.sensitivity * task.scale for task in tasks),
        alphas=known or None,
        sample_alphas=tuple(near for _, near in found),
        unit=curation.card.unit or UNSET,
    )


def _verb_of(request: StatisticRequest) -> str:
    return str(request.__struct_config__.tag)


def read_statistic(curation: Curation, request: StatisticRequest) -> StatisticRecipe:
    """Return what a request measures, read and checked against the card before anything is charged.

    Failure: InvalidParameter for columns that hold no numbers and bounds that make no range; UnknownColumn;
    InsufficientSamples for a single row; NotCertified where the plan promises one end of every interval only, and for an
    expression in two rows on rows that are not in reach.
    """
    refuse_one_side(curation.plan, "statistics of pairs have")
    if curation.card.rows < len(("one", "other")):
        message = "statistics of pairs need two rows or more"
        raise InsufficientSamples(message, required=2)
    match request:
        case Ratio():
            return _read_ratio(curation, request)
        case Variance(column=column, low=low, high=high):
            return StatisticRecipe((_read_variance(curation, _read_column(curation, column, read_bounds(low, high))),))
        case Correlation(first=first, second=second, bounds=bounds):
            return _read_correlation(curation, *_read_two(curation, first, second, bounds))
        case RSquared(prediction=first, target=second, low=low, high=high):
            ends = read_bounds(low, high)
            return _read_r_squared(curation, *(_read_column(curation, name, ends) for name in (first, second)))
        case Auc(score=score, label=label, low=low, high=high):
            return _read_auc(curation, score, label, low, high)
        case Covariance(first=first, second=second, bounds=bounds):
            return StatisticRecipe((_read_covariance(curation, *_read_two(curation, first, second, bounds)),))
        case Gini(column=column, low=low, high=high):
            return _read_gini(curation, _read_column(curation, column, read_bounds(low, high)))
        case Pairs(kernel=kernel, low=low, high=high):
            return StatisticRecipe((_read_pairs(curation, kernel, read_bounds(low, high)),))
        case _:
            raise InvalidParameter("request", type(request).__name__, "a request for a statistic, such as Variance")


@dataclass(frozen=True, slots=True)
class _GridColumn:
    """A column, or a number that an aggregate gives of each unit, counted between two public ends in 2^20 steps.

    ``text`` is how queries write it.
    """

    name: str
    text: str
    low: float
    high: float

    @property
    def width(self) -> float:
        """Return how far apart the ends are."""
        return float(Fraction(self.high) - Fraction(self.low))

    @property
    def steps(self) -> str:
        """Return the text of a value's step, a whole number from 0 to 2^20: outside as the nearer end, missing as 0."""
        scaled = f"({self.text} - ({self.low!r})) / {self.width!r}"
        # GREATEST passes over NULL: it has to come first, so that a missing value is 0 and not 1.
        return f"CAST(LEAST(GREATEST({scaled}, 0.0), 1.0) * {1 << FINE}.0 + 0.5 AS INTEGER)"

    @property
    def words(self) -> str:
        """Return the column and its ends in words."""
        return f"{self.name} from {self.low:,.10g} to {self.high:,.10g}"


def _read_column(curation: Curation, name: str, bounds: Ends) -> _GridColumn:
    """Return a column between two public ends; refuse those whose squares floats do not hold."""
    low, high = bounds
    for parameter, end in (("low", low), ("high", high)):
        if abs(end) > _LARGEST:
            raise InvalidParameter(parameter, end, f"between {-_LARGEST:g} and {_LARGEST:g}, since values are multiplied")
    if high - low < 1 / _LARGEST:
        raise InvalidParameter("high", high, f"at least {1 / _LARGEST:g} above low, since values are multiplied")
    return _GridColumn(name, _read_number(curation, "column", name), low, high)


def _read_number(curation: Curation, parameter: str, name: str) -> str:
    """Return how queries write a column of numbers, or a number that an aggregate gives of each unit."""
    kind, text = find_column(name, curation.card)
    if kind not in ("integer", "real"):
        raise InvalidParameter(parameter, name, f"a column of numbers; it is {kind}")
    return text


def _read_two(
    curation: Curation, first: str, second: str, bounds: Mapping[str, tuple[float, float]] | None
) -> tuple[_GridColumn, _GridColumn]:
    """Return two different columns with the bounds that were given for them, or those on the card."""
    known = {name: find_column(name, curation.card)[1] for name in (first, second)}
    if len(set(known.values())) == 1:
        raise InvalidParameter("second", second, "another column than the first")
    given: object = {} if bounds is None else bounds
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name in known for name in given):
        raise InvalidParameter.without_value("bounds", f"bounds by column, of {' and '.join(known)}")
    one, other = (_read_column(curation, name, _find_bounds(curation, name, given)) for name in known)
    return one, other


def _find_bounds(curation: Curation, name: str, bounds: Mapping[str, object]) -> Ends:
    card = curation.card
    found = bounds.get(name, card.column(name).bounds if name in card else None)
    if not isinstance(found, (tuple, list)) or len(found) != len(("low", "high")):
        raise InvalidParameter.saying("bounds", f"give public bounds of {name}: bounds={{{name!r}: (low, high)}}")
    return read_bounds(*found)


def _multiply(curation: Curation, one: _GridColumn, other: _GridColumn) -> tuple[Query, ...]:
    """Return queries whose sums are those of two columns' steps and of their products, all whole multiples of 2^-40."""
    whole = f"{1 << FINE}.0"
    texts = (f"{one.steps} / {whole}", f"{other.steps} / {whole}", f"({one.steps} * {other.steps}) / {1 << 2 * FINE}.0")
    return tuple(curation.parse(text) for text in texts)


def _add_products(sums: Sequence[int], *, rows: int) -> int:
    """Return the sum over pairs i < j of (x_i - x_j)(y_i - y_j) from the sums of x, y and x y: rows sum(xy) - sum(x) sum(y).

    Sums are in units of 2^-40, and x and y themselves are whole multiples of 2^-20.
    """
    first, second, product = sums[0] >> FINE, sums[1] >> FINE, sums[2]
    return rows * product - first * second


def _read_covariance(curation: Curation, one: _GridColumn, other: _GridColumn) -> StatisticTask:
    """Return the covariance of two columns; of one column with itself, its variance.

    Law: for one row against another, (x - x')(y - y') with all four in [0, 1] spans at most 1 as (x, y) moves: it is largest
    and least at corners, where its values on the two diagonals add up to one probability law's. So with x and y on a grid of
    2^20 steps, replacing a row moves the sum over pairs by at most 2^40 (rows - 1), and c = 1.
    """
    rows, same = curation.card.rows, one == other
    most = rows / (4 * (rows - 1)) * ROUNDING
    return StatisticTask(
        measure="variance" if same else "covariance",
        subject=one.words if same else f"{one.words} and {other.words}",
        target=f"the {'variance' if same else 'covariance'} in the population",
        queries=_multiply(curation, one, other),
        reckon=partial(_add_products, rows=rows),
        change=(rows - 1) << 2 * FINE,
        sensitivity=1.0,
        span=(0.0 if same else -most, most),
        scale=one.width * other.width,
    )


def _read_variance(curation: Curation, column: _GridColumn) -> StatisticTask:
    return _read_covariance(curation, column, column)


def _read_correlation(curation: Curation, one: _GridColumn, other: _GridColumn) -> StatisticRecipe:
    tasks = _read_covariance(curation, one, other), _read_variance(curation, one), _read_variance(curation, other)
    subject = f"{one.words} and {other.words}"
    return StatisticRecipe(tasks, subject, "correlation", correlation_in_box, denominators=(1, 2))


def _read_r_squared(curation: Curation, prediction: _GridColumn, target: _GridColumn) -> StatisticRecipe:
    """Return what a column explains of another: from the mean squared error, a plain question, and the variance."""
    if prediction == target:
        raise InvalidParameter("target", target.name, "another column than the prediction")
    off = f"({prediction.steps} - {target.steps})"
    error = StatisticTask(
        measure="mean squared error",
        subject=f"{prediction.name} for {target.words}",
        target="the mean squared error in the population",
        queries=(curation.parse(f"({off} * {off}) / {1 << 2 * FINE}.0"),),
        reckon=lambda sums: sums[0],
        change=1 << 2 * FINE,
        sensitivity=1.0,
        span=(0.0, 1.0),
        scale=target.width**2,
        by_rows=True,
    )
    tasks = error, _read_variance(curation, target)
    return StatisticRecipe(tasks, error.subject, "explained variance", r_squared_in_box, denominators=(1,))


def _read_auc(curation: Curation, score: str, label: str, low: Number | None, high: Number | None) -> StatisticRecipe:
    """Return the AUC of a score: pairs of unlike labels that it orders rightly, over those and the wrongly ordered ones.

    Law: a tie within one of 1,024 steps counts half on either side. A pair counts 0, 1 or 2 halves, so replacing a row moves
    the sum over pairs by at most 2 (rows - 1): D is that, and c = 2, for the right and for the wrong pairs; both together
    are two releases of one plain question each.
    """
    card, rows = curation.card, curation.card.rows
    known = (card.column(score).bounds if score in card else None) or (0.0, 1.0)
    ends = read_bounds(known[0] if low is None else low, known[1] if high is None else high)
    column, asked = _read_column(curation, score, ends), curation.parse(label)
    if not asked.boolean:
        raise InvalidParameter("label", label, "a yes-or-no column or question, such as income > 50000")
    steps = [curation.parse(text) for text in _list_thresholds(column)]
    queries = (asked, *steps, *(to_query(conjoin([asked.tree, step.tree])) for step in steps))  # type: ignore[list-item]  # conditions
    tasks = [
        StatisticTask(
            measure=f"pairs ordered {'rightly' if right else 'wrongly'}",
            subject=f"{column.words} for {asked.text}",
            target="that share of two independent rows of the population",
            queries=queries,
            reckon=partial(_add_ordered, rows=rows, right=right),
            change=2 * (rows - 1),
            sensitivity=2.0,
            span=(0.0, rows / (2 * (rows - 1)) * ROUNDING),
        )
        for right in (True, False)
    ]
    return StatisticRecipe(tuple(tasks), tasks[0].subject, "auc", ratio_in_box)


def _add_ordered(sums: Sequence[int], *, rows: int, right: bool) -> int:
    """Return twice the number of pairs of unlike labels that are ordered rightly (or wrongly), each tie counting once.

    Sums are of the label, of scores at or above each step, and of both.
    """
    counts = [total >> 2 * FINE for total in sums]
    reached = np.array([rows, *counts[1 : 1 + _STEPS], 0], dtype=object)
    labelled = np.array([counts[0], *counts[1 + _STEPS :], 0], dtype=object)
    yes, no = -np.diff(labelled), -np.diff(reached - labelled)
    below = np.cumsum(no) - no if right else no.sum() - np.cumsum(no)
    return int((yes * (2 * below + no)).sum())


def _read_mean(curation: Curation, column: _GridColumn) -> StatisticTask:
    """Return the mean of a column, a plain question in the column's own units."""
    return StatisticTask(
        measure="mean",
        subject=column.words,
        target="the mean in the population",
        queries=(curation.parse(f"{column.steps} / {1 << FINE}.0"),),
        reckon=lambda sums: sums[0] >> FINE,
        change=1 << FINE,
        sensitivity=1.0,
        span=(0.0, 1.0),
        scale=column.width,
        offset=column.low,
        limits=(column.low, column.high),
        by_rows=True,
    )


def _read_ratio(curation: Curation, request: Ratio) -> StatisticRecipe:
    """Return a ratio of two sums over rows that units own, each unit counting at most ``cap`` times (U4).

    Law: with n the denominator, w = min(n, cap) / cap and y the unit's own ratio as a share of [low, high], the parts are
    the means of w y and of w (1 - y), two plain questions; their sum is the mean of w, and E[w y] / E[w] is in the box of
    their intervals (U2.2). All values of a unit count in y: nothing is dropped.
    """
    low, high = read_bounds(request.low, request.high)
    cap = count("cap", request.cap, least=1, most=MOST_ROWS)
    part, whole = (_read_number(curation, name, getattr(request, name)) for name in ("numerator", "denominator"))
    width, unit = float(Fraction(high) - Fraction(low)), curation.card.unit or "row"
    weight = f"LEAST(GREATEST({whole}, 0.0), {cap}.0) / {cap}.0"
    share = f"LEAST(GREATEST(({part} / {whole} - ({low!r})) / {width!r}, 0.0), 1.0)"
    queries = curation.parse(f"({weight}) * {share}"), curation.parse(weight)
    subject = f"{request.numerator} / {request.denominator}, counting at most {cap:,} for each {unit}"
    tasks = [
        StatisticTask(
            measure=measure,
            subject=subject,
            target=f"its mean over each {unit} of the population",
            queries=queries,
            reckon=reckon,
            change=1 << 2 * FINE,
            sensitivity=1.0,
            span=(0.0, 1.0),
            scale=float(cap),
            rounding=2.0**-36,
            by_rows=True,
        )
        for measure, reckon in (("part", itemgetter(0)), ("rest", lambda sums: sums[1] - sums[0]))
    ]
    return StatisticRecipe(tuple(tasks), subject, "ratio", partial(_find_ratio, bounds=(low, high)))


def _find_ratio(part: Ends, rest: Ends, *, bounds: Ends) -> Ends:
    """Return what a ratio can be in the box of its parts, in own units and outward by more than any rounding."""
    low, high = bounds
    slack = (high - low) * 2.0**-34 + (abs(low) + abs(high)) * 2.0**-50
    least, most = (low + (high - low) * end for end in ratio_in_box(part, rest))
    return max(low, least - slack), min(high, most + slack)


def _list_thresholds(column: _GridColumn) -> list[str]:
    """Return the questions whether a value has reached each of 1,024 steps above the lower end; no for a missing one."""
    low, width = Fraction(column.low), Fraction(column.high) - Fraction(column.low)
    points = (float(low + width * Fraction(step, _STEPS)) for step in range(1, _STEPS + 1))
    return [f"{column.text} >= {point!r}" for point in points]


def _read_difference(curation: Curation, column: _GridColumn) -> StatisticTask:
    """Return the mean of |x - y| over pairs of rows, from how many rows reach each step: sum over steps of n (rows - n).

    Law: with n rows at or above a step, n (rows - n) pairs have it between them; and a value's steps are a whole number from
    0 to 1,024. Replacing a row changes its difference from each of the others by at most 1,024 steps: D = 1,024 (rows - 1),
    and c = 2. Steps are rounded down, so a difference is off by less than one of them.
    """
    rows = curation.card.rows

    def add_differences(sums: Sequence[int]) -> int:
        reached = [total >> 2 * FINE for total in sums]
        return sum(number * (rows - number) for number in reached)

    return StatisticTask(
        measure="mean difference",
        subject=column.words,
        target="the mean difference of two rows of the population",
        queries=tuple(curation.parse(text) for text in _list_thresholds(column)),
        reckon=add_differences,
        change=_STEPS * (rows - 1),
        sensitivity=2.0,
        span=(0.0, rows / (2 * (rows - 1)) * ROUNDING),
        scale=column.width,
        rounding=(1 + 2.0**-6) / _STEPS,
    )


def _read_gini(curation: Curation, column: _GridColumn) -> StatisticRecipe:
    if column.low < 0:
        raise InvalidParameter("low", column.low, "0 or above: a Gini coefficient is of values that are not negative")
    tasks = _read_difference(curation, column), _read_mean(curation, column)
    return StatisticRecipe(tasks, column.words, "gini coefficient", gini_in_box, denominators=(1,))


def _read_pairs(curation: Curation, kernel: str, bounds: Ends) -> StatisticTask:
    """Return the mean of an expression over pairs of rows that are neighbours in an order drawn at random.

    Law: each row is in two pairs, once as a and once as b, and the expression, clamped to [0, 1] per pair, spans at most
    what interval arithmetic finds of it: D is twice that, and c twice its share of [low, high]. The order is uniform and
    drawn newly, so that nothing rests on how rows are stored: for two tables that differ in one row there is an order of the
    one for every order of the other that differs in that row's place only, and a mixture of alike pairs of laws is no
    farther apart than they are. Given the order, it is one fixed statistic of the rows, and U5 holds.
    """
    query = parse_kernel(kernel, curation.card)
    low, high = bounds
    if query.boolean and bounds != (0.0, 1.0):
        raise InvalidParameter.saying("low", "leave out low and high: a yes-or-no expression counts 0 or 1")
    if not curation.engine.pairs:
        raise NotCertified(_NO_PAIRS)
    width, words = float(Fraction(high) - Fraction(low)), query.text
    if not query.boolean:
        query = parse_kernel(f"(({kernel}) - ({low!r})) / {width!r}", curation.card)
    most = _find_most(query)
    if most == 0:
        raise InvalidParameter.without_value("kernel", "an expression that is above low for some pairs")
    engine, rows, progress = curation.engine, curation.card.rows, curation.progress
    return StatisticTask(
        measure="mean over pairs",
        subject=f"{words} from {low:,.10g} to {high:,.10g}",
        target="the mean over two independent rows of the population",
        queries=(query,),
        reckon=lambda sums: sums[0],
        change=2 * most,
        sensitivity=2 * most / (1 << 2 * FINE),
        span=(0.0, most / (1 << 2 * FINE)),
        scale=width,
        offset=low,
        count=lambda: [engine.sum_pairs(query, _shuffle_rows(rows), bits=2 * FINE, progress=progress)],
    )


def _find_most(query: Query) -> int:
    """Return the most that an expression can be, in units of 2^-40; the least is 0, which a missing value counts."""
    tree = query.tree
    high = 1.0 if isinstance(tree, Boolean) else min(max(float(range_of(tree).high), 0.0), 1.0)
    return math.floor(Fraction(high) * (2 << 2 * FINE) + 1) // 2


def _shuffle_rows(rows: int) -> npt.NDArray[np.int64]:
    """Return all positions in an order that is uniform over all: that of random words, drawn again until all differ."""
    while True:
        words = SYSTEM.words(rows)
        order = np.argsort(words)
        if np.all(np.diff(words[order]) > 0):
            return order.astype(np.int64)
