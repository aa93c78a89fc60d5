"""Statistics of pairs of rows, which are not means of rows: variance and covariance (U5)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from holdtrue.bounds.low_sensitivity import low_sensitivity_gap, low_sensitivity_interval
from holdtrue.codec import digest_of, encode
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.events import NoCost, Repeated
from holdtrue.exact import ROUNDING, amount
from holdtrue.planning.plans import Plan, refuse_one_side
from holdtrue.queries.sql_words import quote_name
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Interval, Response, Statistic
from holdtrue.requests import Covariance, Variance
from holdtrue.verbs import Answered, Curation, Job, Measured, Planned, Release, Standing
from holdtrue.verbs.asking import NOT_INDEPENDENT, QuestionRule
from holdtrue.verbs.means import read_bounds

__all__ = ["StatisticPrice", "StatisticRequest", "StatisticTask", "find_statistic", "preview_statistic", "read_statistic"]

StatisticRequest: TypeAlias = Variance | Covariance
Ends: TypeAlias = tuple[float, float]

_FINE = 20  # values are counted on a grid of 2^20 steps, so that products of two are whole numbers of 40 bits
_NEAR = 2.0**-18  # more than rounding two values to that grid, and arithmetic in doubles, changes a square or a product
_PAIRS = "transfer theorem for statistics that one row moves little (U5)"
_JOINT_PAIRS = "transfer theorem for statistics that one row moves little, one beta for noise and gap (S1, U5)"
_NO_THEOREM = "the plan's theorem covers means of rows, not statistics of pairs; plan by the transfer theorem"


@dataclass(frozen=True, slots=True, eq=False)
class StatisticTask:
    """One statistic, read and checked against the card: what is measured, and how far one row can move it.

    Law: ``reckon`` makes a whole number T of exact sums, and replacing a row moves T by at most ``change``, D. Released is
    floor(2^bits T / D), which one row moves by at most 2^bits, as it does a plain sum: floor(x + n) = floor(x) + n for whole
    n. The statistic is c T / (D rows) with c the ``sensitivity``, so that a plain answer's noise times c is its noise. In
    own units it is ``offset`` + ``scale`` times that; ``span`` is where it can be before, and ``rounding`` what counting on
    a grid changes. ``by_rows`` says that it is a mean of rows after all, whose interval is T6's.
    """

    measure: str
    subject: str
    target: str
    queries: tuple[Query, ...]
    reckon: Callable[[Sequence[int]], int]
    change: int
    sensitivity: float
    span: Ends
    scale: float = 1.0
    offset: float = 0.0
    rounding: float = _NEAR
    by_rows: bool = False

    @property
    def part(self) -> str:
        """Return what the statistic is found again by: its queries and its units."""
        known = [query.digest for query in self.queries]
        return f"{self.measure} {digest_of({'queries': known, 'units': [repr(self.scale), repr(self.offset)]})}"

    @property
    def words(self) -> str:
        """Return what it is, and of what."""
        return f"{self.measure} of {self.subject}"

    def measure_rows(self, sums: Sequence[int], *, bits: int) -> int:
        """Return the whole number that noise is added to, from the sums of the queries in units of 2^-40."""
        return (self.reckon(sums) << bits) // self.change

    def to_own_units(self, ends: Ends) -> Ends:
        """Return ends in own units, outward by more than any rounding."""
        slack = self.scale * self.rounding + (abs(self.scale) + abs(self.offset)) * 2.0**-50
        low, high = (self.offset + self.scale * min(max(end, self.span[0]), self.span[1]) for end in ends)
        least, most = (self.offset + self.scale * end for end in self.span)
        return max(least, low - slack), min(most, high + slack)

    def make_response(self, drawn: int, rule: QuestionRule, certificate: Certificate, *, draw: int, spent: int) -> Statistic:
        """Say what a noisy number says: the statistic in its own units, and intervals for these rows and for the target."""
        plan, c = rule.plan, self.sensitivity
        value = min(max(c * drawn / (rule.rows << plan.bits), self.span[0]), self.span[1])
        near = c * plan.sample_alpha_at(draw) * ROUNDING
        rows = Interval(*self.to_own_units((value - near, value + near)), 1 - plan.beta, "sample")
        ends = self._find_ends(value, rule, draw=draw, spent=spent)
        theorem = certificate.theorem if self.by_rows else _name_theorem(rule)
        return Statistic(
            measure=self.measure,
            subject=self.subject,
            value=self.offset + self.scale * value,
            interval=None if ends is None else Interval(*self.to_own_units(ends), 1 - plan.beta, "population"),
            sample_interval=rows,
            sensitivity=c * self.scale,
            target=self.target,
            certificate=certificate.with_theorem(None if ends is None else theorem),
            reason=None if ends is not None else _NO_THEOREM if plan.iid else NOT_INDEPENDENT,
        )

    def _find_ends(self, value: float, rule: QuestionRule, *, draw: int, spent: int) -> Ends | None:
        if self.by_rows:
            return rule.plan.interval(value, draw=draw, spent=spent)
        terms = rule.plan.transfer_terms(draw=draw, spent=spent)
        if terms is None:
            return None
        noise, epsilon, slack = terms
        frozen = {"noise": noise, "epsilon": epsilon, "slack": slack}
        return low_sensitivity_interval(value, sensitivity=self.sensitivity, span=self.span, **frozen)

    def find_alphas(self, rule: QuestionRule, *, draw: int, spent: int) -> tuple[float | None, float]:
        """Return the half-widths in own units for the target and for these rows, before anything is asked."""
        plan, wide = rule.plan, self.sensitivity * self.scale
        terms = plan.transfer_terms(draw=draw, spent=spent)
        near = wide * plan.sample_alpha_at(draw) + self.scale * self.rounding
        if terms is None:
            return None, near
        return wide * (terms[0] + low_sensitivity_gap(*terms[1:])) + self.scale * self.rounding, near


class StatisticPrice(Struct, frozen=True):
    """What a statistic would cost, and how wide it would be: questions of the plan, cost, and half-widths of its parts.

    ``alphas`` are for the population, None where no theorem speaks of it; ``sensitivities`` are c times the unit of each.
    """

    text: str
    questions: int
    cost: float
    left: float
    sensitivities: tuple[float, ...]
    alphas: tuple[float, ...] | None
    sample_alphas: tuple[float, ...]

    def __str__(self) -> str:
        several = f"{self.questions} questions" if self.questions > 1 else "one question"
        wide = ", ".join(f"{alpha:.4g}" for alpha in self.alphas or self.sample_alphas)
        moved = ", ".join(f"{each:.4g}" for each in self.sensitivities)
        who = "population" if self.alphas else "these rows"
        parts = "its parts " if self.questions > 1 else ""
        return (
            f"{self.text}\n  {who}: {parts}within {wide}; one row moves {parts or 'it '}by at most {moved} / rows\n"
            f"  costs {self.cost:.3g}, the price of {several}; {self.left:.3g} left"
        )


def find_statistic(
    curation: Curation, rule: QuestionRule, request: StatisticRequest, *, key: str | None, analyst: str | None
) -> Statistic:
    """Return a statistic; nothing is charged before every name and every bound was checked."""
    tasks = read_statistic(curation, request)
    plan = partial(_plan_tasks, curation, rule, tasks, request)
    found = curation.run(Job(plan, key, analyst))
    return found[0]  # type: ignore[return-value]  # the response to a statistic


def preview_statistic(
    curation: Curation, rule: QuestionRule, request: StatisticRequest, *, standing: Standing, left: int
) -> StatisticPrice:
    """Return the most that a statistic can cost, and how wide its parts would be. Free; no row is read."""
    tasks, plan = read_statistic(curation, request), curation.plan
    found = [
        task.find_alphas(rule, draw=standing.draws + place, spent=standing.spent + place * plan.cost)
        for place, task in enumerate(tasks, start=1)
    ]
    known = tuple(each for each, _ in found if each is not None)
    return StatisticPrice(
        text=f"{_verb_of(request)} of {tasks[0].subject}",
        questions=len(tasks),
        cost=amount(plan.cost * len(tasks)),
        left=amount(left),
        sensitivities=tuple(task.sensitivity * task.scale for task in tasks),
        alphas=known or None,
        sample_alphas=tuple(near for _, near in found),
    )


def _verb_of(request: StatisticRequest) -> str:
    return str(request.__struct_config__.tag)


def _name_theorem(rule: QuestionRule) -> str:
    plan = rule.plan
    joint = isinstance(plan, Plan) and plan.transfer is not None and plan.transfer.overshoot
    return _JOINT_PAIRS if joint else _PAIRS


def _plan_tasks(
    curation: Curation, rule: QuestionRule, tasks: Sequence[StatisticTask], request: StatisticRequest, answered: Answered
) -> Planned:
    """Plan statistics: those that were not answered before are released together."""
    fresh = list({task.part: task for task in tasks if not answered.has(task.part)}.values())
    release = _make_release(rule, fresh, verb=_verb_of(request))
    parts = tuple(task.part for task in tasks)
    written = encode({"verb": _verb_of(request), "parts": list(parts)})
    return Planned(parts, release, written, partial(_measure_tasks, curation, fresh))


def _make_release(rule: QuestionRule, tasks: Sequence[StatisticTask], *, verb: str) -> Release:
    """Return the release of statistics at a plain question's price each, by a plain question's mechanism."""
    number, event = len(tasks), rule.mechanism.event

    def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        first = standing.draws - number + 1
        return [
            task.make_response(value, rule, certificate, draw=first + place, spent=standing.spent)
            for place, (task, value) in enumerate(zip(tasks, drawn, strict=True))
        ]

    return Release(
        verb=verb,
        request={"statistics": [task.subject if task.measure == verb else task.words for task in tasks]},
        parts=tuple(task.part for task in tasks),
        event=NoCost() if not number else event if number == 1 else Repeated(event, number),
        cost=rule.plan.cost * number,
        draws=number,
        queries=(),
        draw=lambda measured: [int(rule.mechanism.release(int(value))) for value in measured],
        respond=respond,
    )


def _measure_tasks(curation: Curation, tasks: Sequence[StatisticTask]) -> Measured:
    """Return what noise is added to for each task; the sums of all queries come from one pass."""
    queries = list({query.digest: query for task in tasks for query in task.queries}.values())
    found = curation.engine.sums(queries, bits=2 * _FINE, progress=curation.progress) if queries else []
    sums = {query.digest: total for query, total in zip(queries, found, strict=True)}
    bits = curation.plan.bits
    return [task.measure_rows([sums[query.digest] for query in task.queries], bits=bits) for task in tasks]


def read_statistic(curation: Curation, request: StatisticRequest) -> list[StatisticTask]:
    """Return what a request measures, read and checked against the card before anything is charged.

    Failure: InvalidParameter for columns that hold no numbers and bounds that make no range; UnknownColumn;
    InsufficientSamples for a single row; NotCertified where the plan promises one end of every interval only.
    """
    refuse_one_side(curation.plan, "statistics of pairs have")
    if curation.card.rows < len(("one", "other")):
        message = "statistics of pairs need two rows or more"
        raise InsufficientSamples(message, required=2)
    match request:
        case Variance(column=column, low=low, high=high):
            return [_read_variance(curation, _read_column(curation, column, read_bounds(low, high)))]
        case Covariance(first=first, second=second, bounds=bounds):
            return [_read_covariance(curation, *_read_two(curation, first, second, bounds))]
        case _:
            raise InvalidParameter("request", type(request).__name__, "a request for a statistic, such as Variance")


@dataclass(frozen=True, slots=True)
class _GridColumn:
    """A column whose values are counted between two public ends, in 2^20 steps."""

    name: str
    low: float
    high: float

    @property
    def width(self) -> float:
        """Return how far apart the ends are."""
        return float(Fraction(self.high) - Fraction(self.low))

    @property
    def steps(self) -> str:
        """Return the text of a value's step, a whole number from 0 to 2^20: outside as the nearer end, missing as 0."""
        scaled = f"({quote_name(self.name)} - ({self.low!r})) / {self.width!r}"
        # GREATEST passes over NULL: it has to come first, so that a missing value is 0 and not 1.
        return f"CAST(LEAST(GREATEST({scaled}, 0.0), 1.0) * {1 << _FINE}.0 + 0.5 AS INTEGER)"

    @property
    def words(self) -> str:
        """Return the column and its ends in words."""
        return f"{self.name} from {self.low:,.10g} to {self.high:,.10g}"


def _read_column(curation: Curation, name: str, bounds: Ends) -> _GridColumn:
    kind = curation.card.column(name).type
    if kind not in ("integer", "real"):
        raise InvalidParameter("column", name, f"a column of numbers; it is {kind}")
    return _GridColumn(name, *bounds)


def _read_two(
    curation: Curation, first: str, second: str, bounds: Mapping[str, tuple[float, float]] | None
) -> tuple[_GridColumn, _GridColumn]:
    """Return two different columns with the bounds that were given for them, or those on the card."""
    known = {curation.card.column(name).name: None for name in (first, second)}
    if len(known) == 1:
        raise InvalidParameter("second", second, "another column than the first")
    given: object = {} if bounds is None else bounds
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name in known for name in given):
        raise InvalidParameter.without_value("bounds", f"bounds by column, of {' and '.join(known)}")
    one, other = (_read_column(curation, name, _find_bounds(curation, name, given)) for name in known)
    return one, other


def _find_bounds(curation: Curation, name: str, bounds: Mapping[str, object]) -> Ends:
    found = bounds.get(name, curation.card.column(name).bounds)
    if not isinstance(found, (tuple, list)) or len(found) != len(("low", "high")):
        raise InvalidParameter.saying("bounds", f"give public bounds of {name}: bounds={{{name!r}: (low, high)}}")
    return read_bounds(*found)


def _multiply(curation: Curation, one: _GridColumn, other: _GridColumn) -> tuple[Query, ...]:
    """Return queries whose sums are those of two columns' steps and of their products, all whole multiples of 2^-40."""
    whole = f"{1 << _FINE}.0"
    texts = (f"{one.steps} / {whole}", f"{other.steps} / {whole}", f"({one.steps} * {other.steps}) / {1 << 2 * _FINE}.0")
    return tuple(curation.parse(text) for text in texts)


def _add_products(sums: Sequence[int], *, rows: int) -> int:
    """Return the sum over pairs i < j of (x_i - x_j)(y_i - y_j) from the sums of x, y and x y: rows sum(xy) - sum(x) sum(y).

    Sums are in units of 2^-40, and x and y themselves are whole multiples of 2^-20.
    """
    first, second, product = sums[0] >> _FINE, sums[1] >> _FINE, sums[2]
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
        change=(rows - 1) << 2 * _FINE,
        sensitivity=1.0,
        span=(0.0 if same else -most, most),
        scale=one.width * other.width,
    )


def _read_variance(curation: Curation, column: _GridColumn) -> StatisticTask:
    return _read_covariance(curation, column, column)
