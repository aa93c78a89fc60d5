"""ASK: the mean of a query over the rows, with noise, and an interval for the population (T5, T6, T6b, T7)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from holdtrue import events
from holdtrue.codec import encode
from holdtrue.errors import InsufficientSamples, InvalidParameter, NotCertified, UnsupportedQuery
from holdtrue.events import Event, NoCost, Repeated
from holdtrue.exact import array_of, read_list
from holdtrue.mechanisms import Gaussian, Laplace
from holdtrue.mechanisms.base import AdditiveMechanism
from holdtrue.planning.methods import SIDES
from holdtrue.planning.plans import AnyPlan, Plan, find_intervals
from holdtrue.queries.cards import HIGHEST, Card
from holdtrue.queries.parser import parse
from holdtrue.queries.scalars import bounds_of
from holdtrue.queries.syntax_tree import Boolean, Field, Query
from holdtrue.records import Answer, Certificate, Interval, Response
from holdtrue.verbs import Answered, Curation, Job, Planned, Release, Standing, plan_single

__all__ = ["NOT_INDEPENDENT", "QuestionRule", "cached_parser", "part_of", "part_of_values", "read_texts", "refuse_own_units"]

NOT_INDEPENDENT = "the rows were not declared independent draws from a population (iid=True)"
_NO_THEOREM = "the plan's theorem covers queries, not per-row numbers; plan by the transfer theorem"
_TEXTS = 4096
_BY_POSITION = "transfer theorem, by position (T5, T6b)"
_JOINT = "transfer theorem, one beta for noise and gap, by position (S1, T6b)"


def part_of(query: Query) -> str:
    """Return the name under which the answer to a query is found again."""
    return f"ask {query.digest}"


def part_of_values(name: str) -> str:
    """Return what the answer to per-row numbers is found again by: a public name, never a function of the numbers."""
    return f"values {name}"


def refuse_own_units(query: Query, card: Card) -> None:
    """Refuse a number that leaves [0, 1] by the declared bounds of its columns: it would be clamped, and say nothing.

    Failure: UnsupportedQuery with the way out. A number of columns without bounds is clamped, as its preview says.
    """
    declared = {name: card.named[name].bounds for name in query.columns if name in card.named}
    known = {name: bounds for name, bounds in declared.items() if bounds is not None}
    if isinstance(query.tree, Boolean) or len(known) < len(query.columns):
        return
    found = bounds_of(query.tree, known)
    if (found.low >= 0 and found.high <= 1) or not -HIGHEST < found.low <= found.high < HIGHEST:
        return
    if not query.columns:
        message = f"a question is a condition or a number from 0 to 1; {query.text} is neither"
        raise UnsupportedQuery(message)
    runs = f"a question is a number from 0 to 1, and by its bounds {query.text} is from {found.low:.6g} to {found.high:.6g}"
    own = f"mean({query.columns[0]}) answers in its own units"
    way_out = own if isinstance(query.tree, Field) else f"{own}, or clamp it: LEAST(1, GREATEST(0, {query.text}))"
    message = f"{runs}; {way_out}"
    raise UnsupportedQuery(message)


def cached_parser(card: Card) -> Callable[[str], Query]:
    """Return a parser that remembers what it read last."""
    known = lru_cache(_TEXTS)(lambda words: parse(words, card))
    return lambda words: known(words) if type(words) is str else parse(words, card)


@dataclass(frozen=True, slots=True, eq=False)
class QuestionRule:
    """How every question of one curator is answered, as fixed by the plan and the number of rows."""

    plan: AnyPlan
    rows: int
    mechanism: AdditiveMechanism
    card: Card

    @classmethod
    def from_plan(cls, plan: AnyPlan, *, card: Card) -> "QuestionRule":
        """Return the rule for this many rows: the plan's deviation, on the integer sum in units of 2^-bits.

        With more rows than the plan needs, the same deviation of the mean is more noise on the sum, and costs less than
        planned. A plan for groups of r rows is for rows / r of them: the deviation of their mean is r times the noise on the
        sum of rows, so that r rows together move it by what the plan pays for.
        """
        rows = card.rows
        if rows < plan.rows * plan.group:
            message = f"the plan needs {plan.rows * plan.group:,} rows; there are {rows:,}"
            raise InsufficientSamples(message, required=plan.rows * plan.group)
        unit = 1 << plan.bits
        match plan.event:
            case events.GaussianNoise():
                return cls(plan, rows, Gaussian(sigma=Fraction(plan.sigma) * rows * unit, sensitivity=unit), card)
            case events.DiscreteLaplace(epsilon=epsilon):
                return cls(plan, rows, Laplace(epsilon=epsilon / plan.group, sensitivity=unit), card)
            case _:
                message = f"the method {plan.method} is not private; open the curator with a plan by another method"
                raise NotCertified(message)

    def plan_queries(self, texts: Sequence[str], parse: Callable[[str], Query], answered: Answered) -> Planned:
        """Plan questions in text: those that were not answered before are released together."""
        return self.plan_parsed([parse(text) for text in texts], answered)

    def plan_parsed(self, queries: Sequence[Query], answered: Answered) -> Planned:
        """Plan questions that were read already."""
        parts = tuple([part_of(query) for query in queries])
        fresh = {part: query for part, query in zip(parts, queries, strict=True) if not answered.has(part)}
        request = encode({"queries": [query.text for query in queries], "verb": "ask"})
        for query in fresh.values():
            if not query.boolean:
                refuse_own_units(query, self.card)
        if self.plan.side == "both" and not all(query.columns for query in fresh.values()):
            from holdtrue.verbs.deducing import plan_constants  # it is built on this module

            return plan_constants(self, queries, request, answered)
        return Planned(parts, self.release_queries(list(fresh.values())), request)

    def ask_values(
        self, curation: Curation, values: object, *, known_as: str, key: str | None, analyst: str | None
    ) -> Answer:
        """Return the mean of private per-row numbers, one for each row; ``known_as`` is their public name."""
        numbers = _clamp_values(values, rows=self.rows)
        measure = partial(curation.engine.sum_values, numbers, bits=self.plan.bits)
        plan = partial(plan_single, self.release_values(known_as), measure=lambda: [measure()])
        (found,) = curation.run(Job(plan, key, analyst))
        return found  # type: ignore[return-value]  # the response to a question

    def release_queries(self, queries: Sequence[Query]) -> Release:
        """Return the release of answers to several different queries, charged and measured together."""
        parts = tuple(part_of(query) for query in queries)
        return self._make_release(parts, {"queries": [query.text for query in queries]}, tuple(queries), by_position=False)

    def release_values(self, name: str) -> Release:
        """Return the release of the mean of per-row numbers, which the ledger knows by a public name only."""
        return self._make_release((part_of_values(name),), {"values": name}, (), by_position=True)

    def _make_release(
        self, parts: tuple[str, ...], request: dict[str, object], queries: tuple[Query, ...], *, by_position: bool
    ) -> Release:
        def respond(drawn: Sequence[int], certificate: Certificate, standing: Standing) -> list[Response]:
            first = standing.draws - len(parts) + 1
            return [
                self._make_answer(value, certificate, first + place, standing.spent, by_position=by_position)
                for place, value in enumerate(drawn)
            ]

        return Release(
            verb="ask",
            request=request,
            parts=parts,
            event=_repeat_event(self.mechanism.event, len(parts)),
            cost=self.plan.cost * len(parts),
            draws=len(parts),
            queries=queries,
            draw=lambda sums: [self.mechanism.release(value) for value in sums],
            respond=respond,
        )

    def _make_answer(self, drawn: int, certificate: Certificate, draw: int, spent: int, *, by_position: bool) -> Answer:
        """Return the answer of a noisy sum: its mean, clipped to [0, 1], and intervals for the rows and the population."""
        plan, grid = self.plan, self.rows << self.plan.bits
        value = min(max(drawn, 0), grid) / grid
        rows, ends = find_intervals(plan, value, draw=draw, spent=spent, by_position=by_position)
        sure = 1 - plan.beta
        sample = Interval(*rows, sure, "sample")
        if ends is None:
            reason = _NO_THEOREM if plan.iid else NOT_INDEPENDENT
            return Answer(value, None, sample, certificate.with_theorem(None) if by_position else certificate, reason=reason)
        proven = certificate.with_theorem(_name_theorem(plan)) if by_position else certificate
        return Answer(value, Interval(*ends, sure, "population"), sample, proven)


def _name_theorem(plan: AnyPlan) -> str:
    """Return the theorem of an answer about per-row numbers."""
    if not isinstance(plan, Plan):
        return _BY_POSITION
    theorem = _JOINT if plan.transfer is not None and plan.transfer.overshoot else _BY_POSITION
    return theorem if plan.side == "both" else f"{theorem}, {SIDES[plan.side]}s only (S6)"


def _repeat_event(event: Event, times: int) -> Event:
    match times:
        case 0:
            return NoCost()
        case 1:
            return event
        case _:
            return Repeated(event, times)


def read_texts(queries: object) -> tuple[str, ...]:
    """Return one question or several as texts."""
    expected = "a question in text, or a list of them"
    several = [queries] if isinstance(queries, str) else read_list("queries", queries, expected=expected)
    texts = tuple([text for text in several if isinstance(text, str)])
    if len(texts) < len(several):
        raise InvalidParameter("queries", type(queries).__name__, expected)
    return texts


def _clamp_values(values: object, *, rows: int) -> npt.NDArray[np.float64]:
    """Return per-row numbers in [0, 1] by a rule that never fails on a value: clamped, and 0 where not a number."""
    expected, numbers = "an array of numbers, one for each row", None
    with suppress(Exception):  # values are private, and so is what NumPy says of them
        numbers = array_of("values", values, expected=expected).astype(np.float64)
    if numbers is None:
        raise InvalidParameter("values", type(values).__name__, expected)
    if numbers.shape != (rows,):
        raise InvalidParameter.saying("values", f"values has shape {numbers.shape}; expected {rows} numbers, one per row")
    return np.clip(np.nan_to_num(numbers, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
