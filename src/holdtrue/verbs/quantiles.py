"""QUANTILE: where a column's values reach a level, with an interval for the population (U3).

By a search of plain questions, or by a curve: the shares up to every point of the grid in one release.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdtrue.bounds.transfer import interval
from holdtrue.codec import digest_of, encode
from holdtrue.errors import BudgetExceeded, HoldtrueError, InsufficientSamples, InvalidParameter
from holdtrue.events import Repeated
from holdtrue.exact import Number as AnyNumber
from holdtrue.exact import amount, positive, text_among
from holdtrue.mechanisms import Exponential, Gaussian, PermuteAndFlip
from holdtrue.planning.plans import AnyPlan, OpenPlan, refuse_one_side
from holdtrue.planning.quantiles import (
    MOST_PICKED,
    CurvePrice,
    PickPrice,
    QuantileEnds,
    QuantileGrid,
    QuantilePrice,
    ShareReading,
    bisect_levels,
    choose_method,
    factorise,
    find_quantile_ends,
    place_curve,
    price_curve,
    price_picks,
    price_search,
    read_grid,
    read_levels,
    score_ranks,
)
from holdtrue.queries.cards import Card
from holdtrue.queries.cells import Restriction
from holdtrue.queries.checking import make_comparison
from holdtrue.queries.dates import LIMITS, Point
from holdtrue.queries.parser import find_column, parse
from holdtrue.queries.syntax_tree import Field, Number, Query
from holdtrue.records import Answer, Certificate, Quantiles, Response
from holdtrue.verbs import Answered, Curation, Job, Measured, Planned, Release, Standing, plan_single
from holdtrue.verbs.asking import NOT_INDEPENDENT, QuestionRule, part_of
from holdtrue.verbs.selecting import epsilon_of_use

__all__ = [
    "METHODS",
    "QuantileSearch",
    "QuantileTask",
    "find_by_curve",
    "find_by_picks",
    "make_curve",
    "plan_curve",
    "plan_picks",
    "read_task",
]

METHODS = ("search", "curve", "exponential", "point")
_PICKED = ("exponential", "point")
_BY_ITSELF = "exponential mechanism and transfer theorem, for this response by itself (U3.3, S2)"
_NEAR = 10  # a search stops where answers differ by less than this fraction of alpha
_WHERE = -1  # the place of the question about the condition, below all thresholds
_MOST_LOOKED_UP = 512  # points of a grid of which all that were answered before are looked up at the end


@dataclass(frozen=True, slots=True, eq=False)
class QuantileTask:
    """A request for quantiles, read and checked against the card: nothing was charged for it yet.

    ``written`` is the column as queries write it.
    """

    column: str
    levels: tuple[float, ...]
    grid: QuantileGrid
    where: str | None
    method: str
    epsilon: Fraction | None = None
    written: str = ""

    def write_threshold(self, place: int) -> str:
        """Return the question whether a row's value is at or below the point at a place."""
        return _write_threshold(self.written, self.grid, place, self.where)

    @property
    def subject(self) -> dict[str, object]:
        """Return what is looked at, in words that are public: the column, the grid and the condition."""
        grid = [self.grid.find_point(0), self.grid.find_point(self.grid.last), self.grid.points]
        return {"column": self.column, "grid": grid, "where": self.where}

    def encode_request(self) -> str:
        """Return the request as canonical JSON, which a key is bound to."""
        asked = {"levels": list(self.levels), "method": self.method, "verb": "quantile"}
        asked |= {} if self.epsilon is None else {"epsilon": str(self.epsilon)}
        return encode(self.subject | asked)

    @property
    def cells(self) -> int:
        """Return how many sums a curve has: one per point, without the last where it includes every row."""
        return self.grid.last + (self.where is not None)

    def preview(self, curation: Curation, *, left: int) -> QuantilePrice:
        """Return the most that these quantiles can cost; ``left`` is how many questions the budget pays for."""
        if self.method == "curve":
            price = price_curve(curation.plan, self.cells, rows=curation.card.rows)
            return QuantilePrice("curve", self.grid.points, price.questions, amount(price.cost), left)
        if self.method in _PICKED:
            cost = amount(plan_picks(curation, self).cost)
            return QuantilePrice(self.method, self.grid.points, 0, cost, left)
        return price_search(curation.plan, self.grid, len(self.levels), filtered=self.where is not None, left=left)


def read_task(  # noqa: PLR0913 - one request
    curation: Curation,
    column: str,
    levels: AnyNumber | Sequence[AnyNumber],
    *,
    low: Point,
    high: Point,
    step: AnyNumber = 1,
    where: str | None = None,
    method: str | None = None,
    epsilon: AnyNumber | None = None,
) -> QuantileTask:
    """Read a request for quantiles, and check it against the card before anything is charged.

    Failure: InvalidParameter for a column that holds no numbers or dates, a level outside (0, 1), ends or a step that make
    no grid, a condition that is none, and a method that is not offered; UnknownColumn; NotCertified where the plan promises
    one end of every interval only, since a quantile has two.
    """
    refuse_one_side(curation.plan, "quantiles have")
    kind, written = find_column(column, curation.card)
    if kind not in ("integer", "real", *LIMITS):
        raise InvalidParameter("column", column, f"a column of numbers or of dates; it is {kind}")
    grid = read_grid(low, high, step, kind if kind in LIMITS else "number")
    wanted, filtered = read_levels(levels), where is not None
    plan, rows = curation.plan, curation.card.rows
    if method is not None:
        chosen = text_among("method", method, METHODS)
    elif plan.ledger == "pure" and not filtered and (epsilon is not None or _prefers_picks(plan, grid, wanted, rows)):
        chosen = "exponential"
    else:
        chosen = choose_method(plan, grid, len(wanted), filtered=filtered, rows=rows)
    privacy = None
    if chosen in _PICKED:
        privacy = _default_epsilon(plan, wanted, chosen) if epsilon is None else positive("epsilon", epsilon)
    elif epsilon is not None:
        raise InvalidParameter.saying("epsilon", "leave out epsilon: a search and a curve cost what the plan's questions do")
    if chosen in _PICKED and filtered:
        raise InvalidParameter.saying("where", f"method='{chosen}' looks at all rows; use method='search' with where")
    task = QuantileTask(column, wanted, grid, where, chosen, privacy, written)
    if chosen == "curve":
        price_curve(plan, task.cells, rows=rows)
    if where is not None and not curation.parse(where).boolean:
        raise InvalidParameter.without_value("where", "a yes-or-no condition")
    make_thresholds(curation.card, column, grid, where)(0)
    return task


def _write_threshold(column: str, grid: QuantileGrid, place: int, where: str | None) -> str:
    text = f"{column} <= {grid.write_point(place)}"
    return text if where is None else f"({where}) AND {text}"


def make_thresholds(card: Card, column: str, grid: QuantileGrid, where: str | None) -> Callable[[int], Query]:
    """Return what makes the query of the threshold at a place: the one that its text parses to, without parsing it."""
    if column not in card:  # of units, an expression of their rows
        written = find_column(column, card)[1]
        return lambda place: parse(_write_threshold(written, grid, place, where), card)
    field = Field(column, card.column(column).type)
    restricted = Restriction(None if where is None else parse(where, card), column, field.type)

    # A real is compared with a real in any case.
    find = grid.find_number if field.type == "real" else grid.find_constant
    kind = field.type if field.type in LIMITS else "integer"

    def make(place: int) -> Query:
        return restricted.join(make_comparison("<=", field, Number(find(place), kind)))

    return make


@lru_cache(2)
def _list_thresholds(card: Card, column: str, grid: QuantileGrid, where: str | None) -> tuple[Query, ...]:
    """Return the queries of all thresholds but the last, and keep them: they are public, and many."""
    return tuple(map(make_thresholds(card, column, grid, where), range(grid.last)))


@dataclass(eq=False)
class QuantileSearch:
    """A search for quantiles: a program of plain questions, each charged, cached and answered once as any other (U3.1).

    Law: the searches for both ends of each level share their answers. The ends hold by every threshold that was answered,
    whatever the order and whoever chose it, at once with all other answers. A budget that runs out ends the search, and what
    is known by then is told. Under a ``key`` every question has a key of its own, so a search that a crash ended goes on
    when it is sent again, and pays for nothing twice.
    """

    curation: Curation
    rule: QuestionRule
    task: QuantileTask
    key: str | None
    analyst: str | None
    known: dict[int, ShareReading] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    paid: set[int] = field(default_factory=set)
    refusal: BudgetExceeded | None = None
    queries: dict[int, Query] = field(default_factory=dict)

    def run(self) -> Quantiles:
        """Return the quantiles; BudgetExceeded where the budget pays for nothing and nothing was answered before."""
        self._bind_key()
        if self.task.where is not None:
            self.queries[_WHERE] = self.curation.parse(self.task.where)
            self._ask_places([_WHERE, (self.task.grid.last - 1) // 2])  # every search begins in the middle
        if self.refusal is None:
            near = self.curation.plan.alpha / _NEAR
            found: dict[str, Any] = {"whole": self._whole, "last": self.task.grid.last, "near": near}
            bisect_levels(self.known, self.task.levels, self._ask_places, **found)
            self._look_up_known()
        if self.refusal is not None and not self.known and not self.paid:
            raise self.refusal
        return self._make_record()

    @cached_property
    def _make_threshold(self) -> Callable[[int], Query]:
        return make_thresholds(self.curation.card, self.task.column, self.task.grid, self.task.where)

    @property
    def _whole(self) -> ShareReading:
        """Return the share of rows that are looked at; nothing is known of it before it is asked."""
        if self.task.where is None:
            return ShareReading(1.0, 1.0, 1.0, 1.0, 1.0)
        answer = self.answers.get(_WHERE)
        return ShareReading(1.0, 0.0, 1.0, 0.0, 1.0) if answer is None else _to_reading(answer)

    def _bind_key(self) -> None:
        """Bind the key to this very request, for nothing: UsedKey where it names another one."""
        if self.key is not None:
            release = replace(self.rule.release_queries([]), verb="quantile", request=self.task.subject)
            written = self.task.encode_request()
            self.curation.run(Job(lambda _: Planned((), release, written, list), self.key, self.analyst))

    def _look_up_known(self) -> None:
        """Take in what else was answered about a short grid, as far as this analyst may see it: ends may move closer.

        It comes after the search, whose path must not depend on it: the same request again is to cost nothing.
        """
        if self.task.grid.points > _MOST_LOOKED_UP:
            return
        self._make_queries(range(self.task.grid.last))
        parts = {place: part_of(query) for place, query in self.queries.items() if place != _WHERE}
        with self.curation.lock_index() as index:
            seen = [
                place
                for place, part in parts.items()
                if index.has(part) and (self.analyst is None or index.find_payer(part) == self.analyst)
            ]
        self._ask_places(seen)

    def _make_queries(self, places: Iterable[int]) -> None:
        make = self._make_threshold
        self.queries |= {place: make(place) for place in places if place not in self.queries}

    def _ask_places(self, places: Sequence[int]) -> None:
        """Ask about thresholds, all in one batch; those that the budget does not pay for stay unknown."""
        self._make_queries(places)
        self._ask_all(places)
        answered = [place for place in places if place in self.answers and place != _WHERE]
        self.known |= {place: _to_reading(self.answers[place]) for place in answered}

    def _ask_all(self, places: Sequence[int]) -> None:
        """Ask questions as requests of their own, in one batch; what was answered before is read from the ledger.

        Under a key it is read first: a request would bind a key to it, for an entry of its own.
        """
        answered: dict[int, Response | None] = {}
        if self.key is not None:
            with self.curation.lock_index() as index:
                answered = {place: index.answer(part_of(self.queries[place])) for place in places}
        for place, answer in answered.items():
            if isinstance(answer, Answer):
                self._take_answer(place, answer, own=self._was_paid(place))
        fresh = [place for place in places if place not in self.answers]
        jobs = [Job(partial(self._plan_question, place), self._key_of(place), self.analyst) for place in fresh]
        for place, outcome in zip(fresh, self.curation.run_all(jobs), strict=True):
            if isinstance(outcome, BudgetExceeded):
                self.refusal = outcome
            elif isinstance(outcome, HoldtrueError):
                raise outcome
            elif isinstance(outcome[0], Answer):
                self._take_answer(place, outcome[0], own=not outcome[0].repeated)

    def _plan_question(self, place: int, answered: Answered) -> Planned:
        return self.rule.plan_parsed((self.queries[place],), answered)

    def _key_of(self, place: int) -> str | None:
        """Return the key of one question of this request."""
        if self.key is None:
            return None
        text = self.task.where if place == _WHERE else self.task.write_threshold(place)
        return f"quantile {digest_of({'key': self.key, 'question': text})}"

    def _was_paid(self, place: int) -> bool:
        key = self._key_of(place)
        return key is not None and self.curation.has_used(key)

    def _take_answer(self, place: int, answer: Answer, *, own: bool) -> None:
        self.answers[place] = answer
        if own:
            self.paid.add(place)

    def _make_record(self) -> Quantiles:
        """Say what the answers prove of each level, in the column's own units."""
        task = self.task
        ends = [find_quantile_ends(self.known, level, whole=self._whole, last=task.grid.last) for level in task.levels]
        newest = max(self.answers.values(), key=lambda answer: answer.certificate.entry)
        places = sorted(self.known)
        made = _place_ends(task, self.curation.plan, ends, certain=newest.interval is not None)
        return Quantiles(
            **made,
            thresholds=tuple(task.grid.find_point(place) for place in places),
            shares=tuple(self.known[place].value for place in places),
            asks=len(self.paid),
            cost=sum(self.answers[place].certificate.cost for place in self.paid),
            certificate=newest.certificate,
            complete=self.refusal is None,
            reason=newest.reason,
            repeated=not self.paid,
        )


def plan_curve(curation: Curation, task: QuantileTask) -> Release:
    """Return the release of the shares of the rows at or below every point of a grid: one charge, one vector of noise.

    Law (U1.3, U3.2): the vector is a fixed linear map of the counts of disjoint cells, and one replaced row moves it by at
    most its sensitivity in Euclidean length. All sums of first cells are declared with the release, so quantiles of any
    level, also of one that is chosen afterwards, follow from it for nothing.
    """
    plan, rows = curation.plan, curation.card.rows
    thresholds = _list_thresholds(curation.card, task.column, task.grid, task.where)
    queries = thresholds if task.where is None else (*thresholds, curation.parse(task.where))
    price, root, unit = price_curve(plan, task.cells, rows=rows), factorise(task.cells), 1 << plan.bits
    mechanism = Gaussian(sigma=Fraction(price.sigma) * rows * root.sensitivity, sensitivity=root.sensitivity)

    def draw(sums: Measured) -> Sequence[int]:
        reached = [int(value) // unit for value in sums]  # rows that meet a condition, each counted in units of 2^-bits
        cells = [high - low for low, high in pairwise([0, *reached])]
        return [int(value) for value in mechanism.release(root.transform(cells))]

    def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
        whole = rows * root.unit
        shares = tuple(min(max(total, 0), whole) / whole for total in root.recover(drawn))
        place = (standing.draws, standing.spent)
        return [make_curve(task, plan, shares, rows=rows, certificate=certificate, place=place)]

    return Release(
        verb="quantile",
        request=task.subject,
        parts=(f"curve {digest_of({'thresholds': [query.digest for query in queries]})}",),
        event=mechanism.event,
        cost=price.cost,
        draws=price.draws,
        queries=queries,
        draw=draw,
        respond=respond,
    )


def make_curve(  # noqa: PLR0913 - the public parts of one curve
    task: QuantileTask,
    plan: AnyPlan,
    shares: Sequence[float],
    *,
    rows: int,
    certificate: Certificate,
    place: tuple[int, int] | UnsetType,
) -> Quantiles:
    """Say what the shares up to every point prove of each level; ``place`` is the draw of the curve, and what was spent."""
    price = price_curve(plan, task.cells, rows=rows)
    if place is not UNSET:
        price = place_curve(plan, task.cells, price, draw=place[0], spent=place[1])
    known = {at: _read_share(plan, share, price) for at, share in enumerate(shares)}
    whole = known.pop(task.grid.last, ShareReading(1.0, 1.0, 1.0, 1.0, 1.0))
    ends = [find_quantile_ends(known, level, whole=whole, last=task.grid.last) for level in task.levels]
    made = _place_ends(task, plan, ends, certain=plan.iid)
    return Quantiles(
        **made,
        thresholds=tuple(map(task.grid.find_point, range(task.cells))),
        shares=tuple(shares),
        asks=price.questions,
        cost=amount(price.cost),
        certificate=certificate,
        reason=None if plan.iid else NOT_INDEPENDENT,
        place=place if isinstance(plan, OpenPlan) else UNSET,
    )


def find_by_curve(curation: Curation, task: QuantileTask, *, key: str | None, analyst: str | None) -> Quantiles:
    """Return quantiles from a curve, which is released unless it was before; whichever levels it was released for."""
    release = plan_curve(curation, task)
    (found,) = curation.run(Job(partial(plan_single, release, request=task.encode_request()), key, analyst))
    released: Quantiles = found  # type: ignore[assignment]  # the response to this release
    held: dict[str, Any] = {"certificate": released.certificate, "place": released.place}
    made = make_curve(task, curation.plan, released.shares, rows=curation.card.rows, **held)
    return replace(made, asks=0, cost=0.0, repeated=True) if released.repeated else made


def plan_picks(curation: Curation, task: QuantileTask) -> Release:
    """Return the release of the ends of quantiles, or of one point for each, picked by the exponential mechanism (U3.3).

    Its epsilon is that of all picks together; a ledger charges each by its own measure (T2b). A point of a pure ledger is
    picked by permute-and-flip, which has the same bound and is nearer in the mean (B3, S2). Failure: InsufficientSamples
    where every interval would be the whole grid.
    """
    plan, rows, unit, ends = curation.plan, curation.card.rows, 1 << curation.plan.bits, task.method == "exponential"
    epsilon = task.epsilon or _default_epsilon(plan, task.levels, task.method)
    price = price_picks(plan, task.grid, task.levels, rows=rows, epsilon=epsilon, ends=ends)
    if not price.picks:
        message = (
            f"with epsilon {float(price.epsilon):.3g} for each end, intervals are from low to high; give a larger epsilon"
        )
        raise InsufficientSamples(message, required=None)
    queries = _list_thresholds(curation.card, task.column, task.grid, None)
    kind = PermuteAndFlip if plan.ledger == "pure" and not ends else Exponential
    mechanism = kind(epsilon=price.epsilon, sensitivity=1)
    asked = {"levels": list(task.levels), "epsilon": str(task.epsilon)} | ({} if ends else {"method": task.method})

    def draw(sums: Measured) -> Sequence[int]:
        reached = [*(int(value) // unit for value in sums), rows]
        wanted = [rank for pair in price.ranks for rank in pair if rank is not None]
        return [int(mechanism.release(score_ranks(reached, rank))) for rank in wanted]

    def respond(drawn: Sequence[int], certificate: Certificate, _: Standing) -> list[Response]:
        return [(_read_picks if ends else _read_points)(task, plan, price, drawn, certificate)]

    event = Repeated(mechanism.event, price.picks)
    return Release(
        verb="quantile",
        request=task.subject | asked,
        parts=(f"picks {digest_of(asked | {'thresholds': [query.digest for query in queries]})}",),
        event=event,
        cost=curation.limit.cost(event),
        draws=0,
        queries=queries,
        draw=draw,
        respond=respond,
    )


def _read_picks(
    task: QuantileTask, plan: AnyPlan, price: PickPrice, drawn: Sequence[int], certificate: Certificate
) -> Quantiles:
    """Say what the picks prove of each level; the point answer is in the middle between them."""
    picked, ends = iter(drawn), []
    for lower, upper in price.ranks:
        first = 0 if lower is None else next(picked)
        last = task.grid.last if upper is None else next(picked)
        low, high = sorted((first, last))
        ends.append(QuantileEnds((low + high) // 2, low, high, low, high))
    return Quantiles(
        **_place_ends(task, plan, ends, certain=plan.iid),
        thresholds=(),
        shares=(),
        asks=0,
        cost=certificate.cost,
        certificate=certificate.with_theorem(_BY_ITSELF if plan.iid else None),
        reason=None if plan.iid else NOT_INDEPENDENT,
    )


def _read_points(
    task: QuantileTask, plan: AnyPlan, price: PickPrice, drawn: Sequence[int], certificate: Certificate
) -> Quantiles:
    """Say what single picks prove: of each one's own level, and nothing of where the quantile is."""
    last = task.grid.last
    whose = "in the population" if plan.iid else "in these rows"
    level = f"the level of a value {whose} is within {price.within:.3g} of the one asked for"
    return Quantiles(
        **_place_ends(task, plan, [QuantileEnds(place, 0, last, 0, last) for place in drawn], certain=False),
        thresholds=(),
        shares=(),
        asks=0,
        cost=certificate.cost,
        certificate=certificate.with_theorem(_BY_ITSELF if plan.iid else None),
        reason=f"one pick has no interval: {level}; use method='exponential' or 'search' for an interval",
    )


def find_by_picks(curation: Curation, task: QuantileTask, *, key: str | None, analyst: str | None) -> Quantiles:
    """Return quantiles whose ends, or values, are picked by the exponential mechanism, once."""
    release = plan_picks(curation, task)
    (found,) = curation.run(Job(partial(plan_single, release, request=task.encode_request()), key, analyst))
    return found  # type: ignore[return-value]  # the response to this release


def _default_epsilon(plan: AnyPlan, levels: Sequence[float], method: str) -> Fraction:
    """Return the epsilon of all picks together, two for each level or one, that a share of the reserve pays for."""
    picks = len(levels) * (1 if method == "point" else 2)
    return picks * epsilon_of_use(plan, picks=picks)


def _prefers_picks(plan: AnyPlan, grid: QuantileGrid, levels: Sequence[float], rows: int) -> bool:
    """Return whether a share of a pure ledger's reserve pays for picks that tell something of both ends of every level."""
    if grid.points > MOST_PICKED or plan.use_units < 1:
        return False
    return price_picks(plan, grid, levels, rows=rows, epsilon=epsilon_of_use(plan)).picks == 2 * len(levels)


def _place_ends(task: QuantileTask, plan: AnyPlan, ends: Sequence[QuantileEnds], *, certain: bool) -> dict[str, Any]:
    """Return what a response says of each level, in the column's own units."""
    point = task.grid.find_point
    return {
        "column": task.column,
        "levels": task.levels,
        "values": tuple(point(each.value) for each in ends),
        "low": tuple(point(each.low) for each in ends) if certain else None,
        "high": tuple(point(each.high) for each in ends) if certain else None,
        "sample_low": tuple(point(each.sample_low) for each in ends),
        "sample_high": tuple(point(each.sample_high) for each in ends),
        "confidence": 1 - plan.beta,
        "where": task.where,
        "method": task.method,
    }


def _read_share(plan: AnyPlan, share: float, price: CurvePrice) -> ShareReading:
    rows = max(0.0, share - price.sample_box), min(1.0, share + price.sample_box)
    if price.terms is None:
        return ShareReading(share, *(plan.interval(share, draw=1, spent=0) or rows), *rows)
    noise, epsilon, slack = price.terms
    return ShareReading(share, *interval(share, noise=noise, epsilon=epsilon, slack=slack), *rows)


def _to_reading(answer: Answer) -> ShareReading:
    rows = answer.sample_interval
    ends = answer.interval or rows
    return ShareReading(answer.value, ends.low, ends.high, rows.low, rows.high)
