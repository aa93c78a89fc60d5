"""SELECT: the candidate that most rows speak for, chosen privately (B3, B5, P5)."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from holdtrue.accounting.filters import Filter
from holdtrue.bounds.prediction import epsilon_each
from holdtrue.bounds.selection import selection_shortfall
from holdtrue.codec import digest_of
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.exact import UNIT, Number, positive
from holdtrue.mechanisms import Exponential, PermuteAndFlip
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Choice, Response
from holdtrue.verbs import Measured, Release, Standing

__all__ = ["epsilon_of_use", "select"]


def epsilon_of_use(plan: AnyPlan) -> Fraction:
    """Return the epsilon that an equal share of the plan's reserve pays for; RefusedError where nothing was reserved."""
    if plan.use_units < 1:
        message = "this plan keeps no reserve for verbs other than ask; plan with reserve=0.25, say"
        raise RefusedError(message)
    total = plan.use_units * UNIT
    match plan.ledger:
        case "gdp":
            return Fraction(epsilon_each(1, mu=math.sqrt(total) * (1 - 2.0**-50)))
        case "zcdp":
            return Fraction(epsilon_each(1, rho=total))
        case _:
            return total


def select(
    candidates: Mapping[str, Query | int], *, plan: AnyPlan, limit: Filter, epsilon: Number | None, scored: str = ""
) -> Release:
    """Return the release of one choice among queries, scored by their sums, or among whole scores that one row moves by one.

    ``scored`` is a public name of the scores where they were given as numbers: the ledger never has the numbers themselves,
    nor anything that depends on them.
    The exponential mechanism on a GDP or zCDP ledger, permute-and-flip on a pure one, which is where it costs less (B3).
    """
    if not candidates:
        raise InvalidParameter("candidates", dict(candidates), "one candidate or more")
    names = list(candidates)
    queries = tuple(candidate for candidate in candidates.values() if isinstance(candidate, Query))
    if queries and len(queries) != len(names):
        raise InvalidParameter("candidates", "queries and numbers mixed", "all queries, or all whole scores")
    unit = 1 << plan.bits if queries else 1
    privacy = epsilon_of_use(plan) if epsilon is None else positive("epsilon", epsilon)
    kind = PermuteAndFlip if plan.ledger == "pure" else Exponential
    mechanism = kind(epsilon=privacy, sensitivity=unit)
    shortfall = selection_shortfall(len(names), epsilon=privacy, beta=plan.beta) if len(names) > 1 else 0.0
    scores = [candidate for candidate in candidates.values() if not isinstance(candidate, Query)]

    def draw(sums: Measured) -> Sequence[int]:
        return [int(mechanism.release(list(sums) if queries else scores))]

    def respond(drawn: Sequence[int], certificate: Certificate, _: Standing) -> list[Response]:
        return [Choice(names[drawn[0]], drawn[0], shortfall, certificate)]

    request: dict[str, object] = {"epsilon": str(privacy), "names": names}
    request |= {"queries": [query.text for query in queries]} if queries else {"scores": scored}
    return Release(
        verb="select",
        request=request,
        parts=(f"select {digest_of(request)}",),
        event=mechanism.event,
        cost=limit.cost(mechanism.event),
        draws=0,
        queries=queries,
        draw=draw,
        respond=respond,
    )
