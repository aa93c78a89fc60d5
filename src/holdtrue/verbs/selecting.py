"""SELECT: the candidate that the most rows satisfy, chosen privately (B3, B5, N5)."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial

from holdtrue.accounting.filters import Filter
from holdtrue.bounds.prediction import epsilon_each
from holdtrue.bounds.selection import selection_shortfall
from holdtrue.codec import digest_of
from holdtrue.errors import InvalidParameter, RefusedError
from holdtrue.exact import UNIT, Number, integer, positive, read_list
from holdtrue.mechanisms import Exponential, PermuteAndFlip
from holdtrue.planning.plans import AnyPlan
from holdtrue.queries.syntax_tree import Query
from holdtrue.records import Certificate, Choice, Response
from holdtrue.verbs import Curation, Job, Measured, Release, Standing, plan_single

__all__ = ["choose", "epsilon_of_use", "select"]

_CANDIDATES = "queries or whole scores by name, or a list of queries"


def epsilon_of_use(plan: AnyPlan, *, picks: int = 1) -> Fraction:
    """Return the epsilon of each of this many picks, all of which an equal share of the plan's reserve pays for.

    Failure: RefusedError where nothing was reserved.
    """
    if plan.use_units < 1:
        message = "this plan has no reserve for verbs other than ask; plan with, for example, reserve=0.25"
        raise RefusedError(message)
    total = plan.use_units * UNIT
    match plan.ledger:
        case "gdp":
            return Fraction(epsilon_each(picks, mu=math.sqrt(total) / plan.group * (1 - 2.0**-50)))
        case "zcdp":
            return Fraction(epsilon_each(picks, rho=total / plan.group**2))
        case _:
            return total / (picks * plan.group)


def choose(  # noqa: PLR0913 - one request, and who makes it
    curation: Curation,
    candidates: Mapping[str, str] | Mapping[str, int] | Sequence[str],
    *,
    epsilon: Number | None,
    name: str | None,
    known_as: str,
    key: str | None,
    analyst: str | None,
) -> Choice:
    """Return the candidate that the most rows satisfy; ``known_as`` is the public name of whole scores, which are private.

    Failure: InvalidParameter for candidates that are neither queries nor whole scores, and for a name of queries, which are
    known by their text.
    """
    listing = candidates if isinstance(candidates, Mapping) else read_list("candidates", candidates, expected=_CANDIDATES)
    named = dict(listing) if isinstance(listing, Mapping) else {str(text): text for text in listing}
    prepared: dict[str, Query | int] = {
        str(label): curation.parse(value) if isinstance(value, str) else integer("candidates", value)
        for label, value in named.items()
    }
    scores = any(isinstance(value, int) for value in prepared.values())
    if name is not None and not scores:
        raise InvalidParameter.saying("name", "leave out name: queries are known by their text")
    release = select(prepared, plan=curation.plan, limit=curation.limit, epsilon=epsilon, scored=known_as if scores else "")
    (found,) = curation.run(Job(partial(plan_single, release), key, analyst))
    return found  # type: ignore[return-value]  # the response to a selection


def select(
    candidates: Mapping[str, Query | int], *, plan: AnyPlan, limit: Filter, epsilon: Number | None, scored: str = ""
) -> Release:
    """Return the release of one choice among queries, scored by their sums, or among whole scores that one row moves by one.

    ``scored`` is a public name of the scores where they were given as numbers: the ledger never has the numbers themselves,
    nor anything that depends on them.
    The exponential mechanism on a GDP or zCDP ledger, permute-and-flip on a pure one, which is where it costs less (B3).
    """
    if not candidates:
        raise InvalidParameter.saying("candidates", "give at least one candidate")
    names = list(candidates)
    queries = tuple(candidate for candidate in candidates.values() if isinstance(candidate, Query))
    if queries and len(queries) != len(names):
        raise InvalidParameter.saying("candidates", "candidates must be all queries or all whole scores")
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
