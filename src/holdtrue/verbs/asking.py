"""ASK: the mean of a query over the rows, with noise, and an interval for the population (T5, T6, T6b)."""

from collections.abc import Sequence
from fractions import Fraction

from holdtrue import events
from holdtrue.errors import InsufficientSamples, NotCertified
from holdtrue.events import Event, NoCost, Repeated
from holdtrue.mechanisms import Gaussian, Laplace
from holdtrue.mechanisms.base import AdditiveMechanism
from holdtrue.planning import Plan
from holdtrue.queries.trees import Query
from holdtrue.records import Answer, Certificate, Interval, Record
from holdtrue.verbs import Release

__all__ = ["NOT_INDEPENDENT", "ask", "ask_values", "mechanism_of", "part_of", "part_of_values"]

NOT_INDEPENDENT = "the rows were not declared independent draws from a population (iid=True)"


def mechanism_of(plan: Plan, rows: int) -> AdditiveMechanism:
    """Return the noise of one answer over so many rows: the plan's deviation, on the integer sum in units of 2^-bits.

    With more rows than the plan needs, the same deviation of the mean is more noise on the sum, and costs less than planned.
    """
    if rows < plan.rows:
        message = f"the plan needs {plan.rows:,} rows; there are {rows:,}"
        raise InsufficientSamples(message, required=plan.rows)
    unit = 1 << plan.bits
    match plan.event:
        case events.Gaussian():
            return Gaussian(sigma=Fraction(plan.sigma) * rows * unit, sensitivity=unit)
        case events.DiscreteLaplace(epsilon=epsilon):
            return Laplace(epsilon=epsilon, sensitivity=unit)
        case _:
            message = f"the method {plan.method} keeps no privacy: a curator answers by one that does"
            raise NotCertified(message)


def part_of(query: Query) -> str:
    """Return the name under which the answer to a query is found again."""
    return f"ask {query.digest}"


def part_of_values(name: str) -> str:
    """Return the name under which the answer to per-row numbers is found again."""
    return f"values {name}"


def ask(queries: Sequence[Query], *, plan: Plan, mechanism: AdditiveMechanism, rows: int) -> Release:
    """Return the release of answers to several different queries, charged and measured together."""
    return _release(
        parts=tuple(part_of(query) for query in queries),
        request={"queries": [query.text for query in queries]},
        queries=tuple(queries),
        plan=plan,
        mechanism=mechanism,
        rows=rows,
        by_position=False,
    )


def ask_values(name: str, *, plan: Plan, mechanism: AdditiveMechanism, rows: int) -> Release:
    """Return the release of the mean of per-row numbers, which the ledger knows by a keyed name only."""
    return _release(
        parts=(part_of_values(name),),
        request={"values": name},
        queries=(),
        plan=plan,
        mechanism=mechanism,
        rows=rows,
        by_position=True,
    )


def _release(  # noqa: PLR0913 - what makes one release of answers
    *,
    parts: tuple[str, ...],
    request: dict[str, object],
    queries: tuple[Query, ...],
    plan: Plan,
    mechanism: AdditiveMechanism,
    rows: int,
    by_position: bool,
) -> Release:
    grid = rows << plan.bits

    def respond(drawn: Sequence[int], certificate: Certificate) -> list[Record]:
        return [_answer(value, grid, plan, certificate, by_position=by_position) for value in drawn]

    return Release(
        verb="ask",
        request=request,
        parts=parts,
        event=_times(mechanism.event, len(parts)),
        cost=plan.cost * len(parts),
        draws=len(parts),
        queries=queries,
        draw=lambda sums: [mechanism.release(value) for value in sums],
        respond=respond,
    )


def _times(event: Event, times: int) -> Event:
    match times:
        case 0:
            return NoCost()
        case 1:
            return event
        case _:
            return Repeated(event, times)


def _answer(drawn: int, grid: int, plan: Plan, certificate: Certificate, *, by_position: bool) -> Answer:
    """Say what a noisy sum says: its mean, clipped to [0, 1], and what it proves about the rows and the population."""
    value = min(max(drawn, 0), grid) / grid
    sample = Interval(max(0.0, value - plan.sample_alpha), min(1.0, value + plan.sample_alpha), 1 - plan.beta, "sample")
    ends = plan.interval(value, by_position=by_position)
    if ends is None:
        return Answer(value, None, sample, certificate, reason=NOT_INDEPENDENT)
    return Answer(value, Interval(*ends, 1 - plan.beta, "population"), sample, certificate)
