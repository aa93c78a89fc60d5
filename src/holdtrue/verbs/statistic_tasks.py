"""Statistics that one row moves little: how they are priced, measured as whole numbers, released and told (U5)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from msgspec import UNSET, Struct, UnsetType

from holdtrue.bounds.low_sensitivity import low_sensitivity_gap, low_sensitivity_interval
from holdtrue.codec import digest_of, encode
from holdtrue.events import NoCost, Repeated
from holdtrue.exact import ROUNDING
from holdtrue.planning.plans import Plan
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Interval, Response, Statistic
from holdtrue.verbs import Answered, Curation, Measured, Planned, Release, Standing, expect_kind
from holdtrue.verbs.asking import NOT_INDEPENDENT, QuestionRule

__all__ = ["FINE", "Ends", "StatisticPrice", "StatisticRecipe", "StatisticTask", "measure_tasks", "plan_tasks"]

Ends: TypeAlias = tuple[float, float]

FINE = 20
"""Values are counted on a grid of 2^20 steps, so that products of two are whole numbers of 40 bits."""

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
    own units it is ``offset`` + ``scale`` times that; ``span`` is where it can be before, ``limits`` after it where rounding
    would move them, and ``rounding`` what counting on a grid changes. ``by_rows`` says that it is a mean of rows after all,
    whose interval is T6's. ``count`` has rows measured where sums of queries do not, and ``known_as`` names what the queries
    do not.
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
    limits: Ends | None = None
    rounding: float = _NEAR
    by_rows: bool = False
    count: Callable[[], Sequence[int]] | None = None
    known_as: str = ""

    @property
    def part(self) -> str:
        """Return what the statistic is found again by: its queries and its units."""
        identity: dict[str, object] = {"queries": [query.digest for query in self.queries], "known_as": self.known_as}
        return f"{self.measure} {digest_of(identity | {'units': [repr(self.scale), repr(self.offset)]})}"

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
        least, most = self.limits or (self.offset + self.scale * end for end in self.span)
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

    ``alphas`` are for the population, None where no theorem speaks of it; ``sensitivities`` are c times the unit of each,
    by how much one row moves it, or one ``unit``.
    """

    text: str
    questions: int
    cost: float
    left: float
    sensitivities: tuple[float, ...]
    alphas: tuple[float, ...] | None
    sample_alphas: tuple[float, ...]
    unit: str | UnsetType = UNSET

    def __str__(self) -> str:
        several = f"{self.questions} questions" if self.questions > 1 else "one question"
        wide = ", ".join(f"{alpha:.4g}" for alpha in self.alphas or self.sample_alphas)
        moved = ", ".join(f"{each:.4g}" for each in self.sensitivities)
        one, all_rows = (self.unit, "units") if self.unit else ("row", "rows")
        who = "population" if self.alphas else f"these {all_rows}"
        parts = "its parts " if self.questions > 1 else ""
        return (
            f"{self.text}\n  {who}: {parts}within {wide}; one {one} moves {parts or 'it '}by at most {moved} / {all_rows}\n"
            f"  costs {self.cost:.3g}, the price of {several}; {self.left:.3g} left"
        )


def _name_theorem(rule: QuestionRule) -> str:
    plan = rule.plan
    joint = isinstance(plan, Plan) and plan.transfer is not None and plan.transfer.overshoot
    return _JOINT_PAIRS if joint else _PAIRS


def plan_tasks(
    curation: Curation, rule: QuestionRule, tasks: Sequence[StatisticTask], verb: str, answered: Answered
) -> Planned:
    """Plan statistics: those that were not answered before are released together."""
    fresh = list({task.part: task for task in tasks if not answered.has(task.part)}.values())
    release = _make_release(rule, fresh, verb=verb)
    parts = tuple(task.part for task in tasks)
    written = encode({"verb": verb, "parts": list(parts)})
    return Planned(parts, release, written, partial(measure_tasks, curation, fresh))


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


def measure_tasks(curation: Curation, tasks: Sequence[StatisticTask]) -> Measured:
    """Return what noise is added to for each task; the sums of all queries come from one pass."""
    queries = list({query.digest: query for task in tasks if task.count is None for query in task.queries}.values())
    found = curation.engine.sums(queries, bits=2 * FINE, progress=curation.progress) if queries else []
    sums = {query.digest: total for query, total in zip(queries, found, strict=True)}
    return [
        task.measure_rows(
            [sums[query.digest] for query in task.queries] if task.count is None else task.count(),
            bits=curation.plan.bits,
        )
        for task in tasks
    ]


@dataclass(frozen=True, slots=True, eq=False)
class StatisticRecipe:
    """What a request measures, and what is said of it: of a single statistic itself, of several a ratio of them.

    ``find_ends`` maps a box of intervals for the parts to the ends of what the ratio can be in it, which hold at once with
    them (U2.2). Where a denominator may be 0, an end is as far as it can be, and the reason says so.
    """

    tasks: tuple[StatisticTask, ...]
    subject: str = ""
    measure: str = ""
    find_ends: Callable[..., Ends] | None = None
    denominators: tuple[int, ...] = ()

    def combine(self, found: Sequence[Response]) -> Statistic:
        """Return the response: the only part, or the ratio that follows from all parts for nothing."""
        parts = [expect_kind(each, Statistic) for each in found]
        if self.find_ends is None:
            return parts[0]
        known = [part.interval for part in parts if part.interval is not None]
        sure, newest = parts[0].sample_interval.confidence, max(parts, key=lambda part: part.certificate.entry).certificate
        ends = self.find_ends(*((each.low, each.high) for each in known)) if len(known) == len(parts) else None
        low, high = self.find_ends(*((part.value, part.value) for part in parts))
        rows = self.find_ends(*((part.sample_interval.low, part.sample_interval.high) for part in parts))
        is_open = ends is not None and any(known[place].low <= 0 for place in self.denominators)
        reason = next((part.reason for part in parts if part.reason is not None), None)
        return Statistic(
            measure=self.measure,
            subject=self.subject,
            value=(low + high) / 2,
            interval=None if ends is None else Interval(*ends, sure, "population"),
            sample_interval=Interval(*rows, sure, "sample"),
            sensitivity=None,
            target=f"the {self.measure} in the population",
            certificate=newest.with_theorem(None if ends is None else parts[0].certificate.theorem),
            parts=tuple(parts),
            reason="the denominator may be 0, so an end is open" if is_open else reason,
            repeated=all(part.repeated for part in parts),
        )
